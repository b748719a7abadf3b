import ArgumentParser
import Varve
import VarveInspection

/// Prints the rows of a collection without the type of its objects.
struct ObjectsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "objects",
    abstract: "Show the rows of a collection.",
    discussion: """
      The command prints one line for each row, with tabs between: key, row id, version of the format, object, \
      metadata. A minus sign stands for a missing version or missing metadata. Objects are JSON, whatever their \
      coder; those of the coder raw are text, with control characters escaped. --json prints what load --collection \
      reads, with the row's id.

      Keys are written as they are printed: "a", 42, 2026-02-03T04:05:06Z, 0xc0ffee, nil, ("a", 42). Keys of strings \
      need no quotation marks. Of compound keys, --from, --to and --prefix take the first parts; of keys of strings, \
      --prefix takes text.

      With --index the rows come in the order of an index, and --from, --to and --prefix are values of it. A row with \
      several values comes once for each.

      A row that is damaged is reported on standard error, and the exit status is 1. It is also 1 if the key of --key \
      does not exist.

      Example: varve objects /data/example.varve books --prefix 'Moby' --limit 10
      Example: varve objects /data/example.varve books --index year --from 1990 --reverse
      """
  )

  @OptionGroup var database: DatabaseArgument
  @Argument(help: "The collection.") var collection: String
  @Option(help: "Only the row with this key.") var key: String?
  @Option(help: ArgumentHelp("The rows in the order of this index of the collection.", valueName: "name"))
  var index: String?
  @OptionGroup var range: RangeOptions
  @Option(help: "At most so many rows.") var limit: Int?
  @Flag(help: "From the last key to the first.") var reverse = false
  @Flag(help: "Print keys without their rows.") var keysOnly = false
  @OptionGroup var output: OutputOption

  func validate() throws {
    if let limit, limit < 0 { throw ValidationError("--limit is a count: \(limit) is below 0") }
    guard key == nil || (range.from == nil && range.to == nil && range.prefix == nil) else {
      throw ValidationError("--key names one row: use it without --from, --to and --prefix")
    }
    guard key == nil || index == nil else { throw ValidationError("--key names one row: use it without --index") }
  }

  func run() throws {
    let faults = RowFaults(asJSON: output.json)
    let sink = try ByteSink.standardOutput()
    let isFound = try database.inspecting { inspector in
      let collection = try inspector.collection(collection)
      guard let key else {
        try printRange(inspector, collection, sink, faults)
        return true
      }
      guard let row = try inspector.row(key: try bytes(of: key, collection), in: collection) else { return false }
      if limit != 0 { try print(row, try collection.terms, sink, faults) }
      return true
    }
    try sink.finish()
    guard isFound else {
      StandardError.write(output.json ? "" : "varve: the key is absent\n")
      throw ExitStatus.answerIsNo.asError
    }
    try faults.finish()
  }

  private func bytes(of key: String, _ collection: InspectedCollection) throws -> [UInt8] {
    do {
      return try collection.key(key)
    } catch let error as DatabaseError {
      throw ToolError(.usage, "\(key) is not a key of the collection \"\(collection.name)\": \(error.message)")
    }
  }

  private func printRange(
    _ inspector: DatabaseInspector, _ collection: InspectedCollection, _ sink: ByteSink, _ faults: RowFaults
  ) throws {
    let terms = try collection.terms
    var left = limit ?? Int.max
    guard let name = index else {
      var rows = try inspector.rows(in: collection, range: try range.keys(of: collection), isReverse: reverse)
      while left > 0, let row = try rows.next() {
        try print(row, terms, sink, faults)
        left -= 1
      }
      return
    }
    let index = try inspector.index(name, of: collection.name)
    var rows = try inspector.rows(of: index, range: try range.values(of: index), isReverse: reverse)
    while left > 0, let entry = try rows.next() {
      do { try print(try entry.row(), terms, sink, faults) } catch let error as DatabaseError { faults.report(error) }
      left -= 1
    }
  }

  /// Prints a row. A damaged row counts as a printed one, because `--limit` limits the rows that are read.
  private func print(
    _ row: InspectedRow, _ terms: PortableCollection, _ sink: ByteSink, _ faults: RowFaults
  ) throws {
    do {
      if keysOnly {
        try row.checkKey()
        return try sink.writeLine(output.json ? RowLine.keyLine(row, withText: true).text : row.key.text)
      }
      let contents = try row.contents()
      try sink.writeLine(
        output.json
          ? try RowLine.text(row, contents, of: terms, withID: true)
          : Self.columns(row, contents).joined(separator: "\t"))
    } catch let error as DatabaseError {
      faults.report(error)
    }
  }

  private static func columns(_ row: InspectedRow, _ contents: InspectedContents) -> [String] {
    [
      row.key.text, "\(contents.id)", contents.object.version.map { PrintableText.text($0) } ?? "-",
      text(contents.object), contents.metadata.map(text) ?? "-",
    ]
  }

  private static func text(_ value: InspectedValue) -> String {
    value.json.map(JSONLine.printable) ?? PrintableText.text(value.bytes)
  }
}

import ArgumentParser
import Varve
import VarveInspection

/// Lists, compares and rebuilds the indexes of collections without the program's code.
struct IndexesCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "indexes",
    abstract: "List the indexes of collections, compare them with the rows, rebuild one.",
    discussion: """
      The command prints one line for each index: collection, name, kind, type of its values, whether a value belongs \
      to one row (unique) and whether it keeps the rows beside their keys (direct), how many entries it has, about \
      how many bytes they take, and its state: ready; building; stale (a program wrote that does not define it; it \
      catches up when the program opens the database); collided (it is unique, and rows had the same value when it \
      was built); failed. A record that is damaged is reported on standard error, and the exit status is 1.

      --verify compares the entries of each index with what its rows have emitted when they were written, that with \
      the rows, and the entries of counted indexes with their counts, which repair makes again. It prints one line \
      for each difference, at most --limit of them. If there is one, the exit status is 1. The code of the program is \
      not used, so the command cannot check whether a row would emit the same today.

      --rebuild makes the entries of an index from what the rows have emitted, and writes only what differs. It needs \
      --collection if several collections have an index of that name. If rows have emitted nothing, or the index does \
      not have all rows, only the program can build it, and the command reports this. A block that can't be read is \
      given up by repair, after which the program builds the index again.

      Example: varve indexes /data/example.varve --collection books --json
      Example: varve indexes /data/example.varve --verify
      Example: varve indexes /data/example.varve --collection books --rebuild title
      """
  )

  @OptionGroup var database: DatabaseArgument
  @Option(help: "Only the indexes of this collection.") var collection: String?
  @Flag(help: "Compare the indexes with the rows.") var verify = false
  @Option(help: ArgumentHelp("Make the entries of this index from what the rows have emitted.", valueName: "name"))
  var rebuild: String?
  @Option(help: "With --verify, print at most so many differences; all are counted.") var limit: Int?
  @OptionGroup var output: OutputOption

  func validate() throws {
    guard !verify || rebuild == nil else {
      throw ValidationError("--verify reads and --rebuild writes: use one of them, then the other")
    }
    guard limit == nil || verify else { throw ValidationError("--limit is about differences: use it with --verify") }
    if let limit, limit < 0 { throw ValidationError("--limit is a count: \(limit) is below 0") }
  }

  func run() throws {
    if let rebuild { return try runRebuild(rebuild) }
    try ListingOutput.run(database, output) { listing, inspector in
      let indexes = try inspector.indexes(of: collection) { listing.faults.report($0) }
      if verify { return try printReview(of: indexes, inspector, listing) }
      try listing.write(
        try indexes.map { IndexRow($0, entries: try inspector.entryCount(of: $0)) }, table: IndexRow.table)
      return true
    }
  }

  // MARK: - Verifying

  private func printReview(
    of indexes: [InspectedIndex], _ inspector: DatabaseInspector, _ listing: ListingOutput
  ) throws -> Bool {
    let review = try listing.review { bar in
      try inspector.verify(indexes, limit: limit ?? 100) { bar.show(rows: $0, of: $1) }
    }
    guard let review else { return false }
    for difference in review.differences {
      try listing.write(DifferenceRow(difference), PrintableText.text("\(difference)"))
    }
    let skipped = review.skipped.map { "index \"\($0.name)\" of \($0.collection) is \($0.state)" }
    return try listing.finish(ReviewRow(review), skipped: skipped)
  }

  // MARK: - Rebuilding

  private func runRebuild(_ name: String) throws {
    let result: IndexRebuild.Result
    do {
      var bar = ProgressBar("rebuild", isQuiet: output.json)
      defer { bar.end() }
      result = try IndexRebuild.run(name, of: collection, at: database.path) { bar.show(rows: $0, of: $1) }
    }
    let sink = try ByteSink.standardOutput()
    if output.json {
      try sink.writeJSON(RebuildRow(result))
    } else {
      try sink.writeLine(RebuildRow(result).text)
    }
    try sink.finish()
  }
}

/// An index with its properties and sizes, as the command prints it.
private struct IndexRow: Encodable {
  let collection: String
  let name: String
  let kind: String
  let keyType: String
  let unique: Bool
  let direct: Bool
  let entries: Int
  /// The approximate size of the entries in bytes.
  let bytes: UInt64
  let state: String
  /// Whether another definition of the index is being built.
  let replaced: Bool
  /// The number of rows that had the value of another row. Only set for a collided index.
  var collisions: Int?
  /// Whether it has counts of its entries. Only set if it has.
  var counted: Bool?
  /// The error that ended the build of the index. Only set for a failed index.
  var error: String?

  init(_ index: InspectedIndex, entries: Int) {
    collection = index.collection
    name = index.name
    kind = index.kind
    keyType = index.keyType
    unique = index.isUnique
    direct = index.isDirect
    self.entries = entries
    bytes = index.approximateSize
    state = index.state.description
    replaced = index.isBeingReplaced
    if index.isCounted { counted = true }
    if case .collided(let count) = index.state { collisions = count }
    if case .failed(let message) = index.state { error = message }
  }

  private var stateText: String {
    var text = state
    if let collisions { text += " (\(collisions))" }
    if let error { text += " (\(PrintableText.text(error)))" }
    if counted == true { text += ", counted" }
    return replaced ? text + ", being replaced" : text
  }

  /// Returns the lines of a table for people, with the names of the columns first.
  static func table(_ rows: [IndexRow]) -> [String] {
    guard !rows.isEmpty else { return ["no indexes"] }
    return TextTable.lines(
      [["collection", "name", "kind", "values", "unique", "direct", "entries", "bytes", "state"]]
        + rows.map { row in
          [
            PrintableText.text(row.collection), PrintableText.text(row.name), row.kind,
            row.keyType, row.unique ? "yes" : "no", row.direct ? "yes" : "no", "\(row.entries)",
            SizeText.text(row.bytes), row.stateText,
          ]
        })
  }
}

private struct DifferenceRow: Encodable {
  let kind: String
  let collection: String
  let index: String?
  let key: String?
  let value: String?

  init(_ difference: IndexReview.Difference) {
    kind = difference.kind.rawValue
    collection = difference.collection
    index = difference.index
    key = difference.row?.text
    value = difference.value
  }
}

private struct RebuildRow: Encodable {
  let collection: String
  let index: String
  let added: Int
  let removed: Int
  let corrected: Int
  let removedRows: Int
  let entries: Int

  init(_ result: IndexRebuild.Result) {
    collection = result.collection
    index = result.index
    added = result.added
    removed = result.removed
    corrected = result.corrected
    removedRows = result.removedRows
    entries = result.entryCount
  }

  var text: String {
    var text = "index \"\(index)\" of \(collection): \(Count.text(entries, "entry", plural: "entries")), "
    text += "\(added) added, \(removed) removed"
    if corrected > 0 { text += ", \(corrected) with another content" }
    if removedRows > 0 { text += "; the emitted values of \(removedRows) rows that are not there are gone" }
    return PrintableText.text(text)
  }
}

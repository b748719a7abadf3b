import ArgumentParser
import Varve
import VarveInspection

/// Lists the collections of a database.
struct CollectionsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "collections",
    abstract: "List the collections of a database of objects.",
    discussion: """
      The command prints one line for each collection, also for those without rows: name, id, number of rows, type of \
      the keys, coder, storage, and about how many bytes its rows take. A record that is damaged is reported on \
      standard error, and the exit status is 1.

      Example: varve collections /data/example.varve --json
      """
  )

  @OptionGroup var database: DatabaseArgument
  @OptionGroup var output: OutputOption

  func run() throws {
    let faults = RowFaults(asJSON: output.json)
    let sink = try ByteSink.standardOutput()
    try database.inspecting { inspector in
      let rows = try inspector.collections { faults.report($0) }.map { CollectionRow($0) }
      if output.json {
        for row in rows { try sink.writeJSON(row) }
      } else {
        for line in CollectionRow.table(rows) { try sink.writeLine(line) }
      }
    }
    try sink.finish()
    try faults.finish()
  }
}

/// A collection with its properties and sizes, as the command prints it.
private struct CollectionRow: Encodable {
  let name: String
  let id: UInt32
  let rows: Int
  let keyType: String
  let coder: String
  /// The coder that the collection was created with, or `nil` and absent in JSON if it was not replaced.
  let firstCoder: String?
  /// The storage of the rows: `shared` or `own`.
  let storage: String
  /// The approximate size of the rows in bytes.
  let bytes: UInt64

  init(_ collection: InspectedCollection) {
    name = collection.name
    id = collection.id
    rows = collection.rowCount
    keyType = collection.keyType
    coder = collection.coder?.name ?? "unknown(\(collection.coderNumber))"
    firstCoder = collection.firstCoder?.name
    storage = collection.isOwn ? "own" : "shared"
    bytes = collection.approximateSize
  }

  /// The coder as text for people, escaped because the names of a program's own coders may contain any characters.
  private var coderText: String {
    let names = [coder] + (firstCoder.map { ["first", $0] } ?? [])
    return names.map { PrintableText.text($0) }.joined(separator: " ")
  }

  /// Returns the lines of a table for people, with the names of the columns first.
  static func table(_ rows: [CollectionRow]) -> [String] {
    guard !rows.isEmpty else { return ["no collections"] }
    return TextTable.lines(
      [["name", "id", "rows", "keys", "coder", "storage", "bytes"]]
        + rows.map { row in
          [
            PrintableText.text(row.name), "\(row.id)", "\(row.rows)", row.keyType, row.coderText,
            row.storage,
            SizeText.text(row.bytes),
          ]
        })
  }
}

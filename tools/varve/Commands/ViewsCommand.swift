import ArgumentParser
import Varve
import VarveInspection

/// Lists views, their groups and rows, and compares them with the rows, without the program's code.
struct ViewsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "views",
    abstract: "List views, their groups and rows, compare them with the rows.",
    discussion: """
      Without a name, the command prints one line for each view: name, kind (autoView or manualView), version, type of \
      the groups, how many rows it has, about how many bytes they take, and its state: ready; building; stale (a \
      program wrote that does not define it; it catches up when the program opens the database); failed. A volatile \
      view is in the memory of the program, so nothing of it can be read. A record that is damaged is reported on \
      standard error, and the exit status is 1.

      With a name, it prints one line for each group, with a tab between: group, number of rows. With --group it \
      prints the rows of the group in their order: offset, collection/key, position in the group. Groups and keys are \
      written as objects prints them. If the view has no such group, the exit status is 1.

      --verify compares the places of rows with the entries of groups, both with the rows, and the entries with their \
      counts. It prints one line for each difference, at most --limit of them. If there is one, the exit status is 1. \
      The code of the program is not used: whether a closure would place a row elsewhere is checked by verify of the \
      view in the program. Wrong counts are made again by repair.

      --rebuild marks a view, so that the program makes it again when it opens the database. A manual view is data of \
      the program: its rows stay, and what contradicts itself is put in order.

      Example: varve views /data/example.varve --json
      Example: varve views /data/example.varve byAuthor --group Woolf --offset 100 --limit 10
      Example: varve views /data/example.varve --verify
      """
  )

  @OptionGroup var database: DatabaseArgument
  @Argument(help: "The view.") var name: String?
  @Option(help: "The rows of this group.") var group: String?
  @Option(help: "With --group, begin at this offset in the group.") var offset: Int?
  @Option(help: "With --group or --verify, print at most so many rows or differences.") var limit: Int?
  @Flag(help: "Compare the view, or all views, with the rows.") var verify = false
  @Flag(help: "Let the program make the view again.") var rebuild = false
  @OptionGroup var output: OutputOption

  func validate() throws {
    if let offset, offset < 0 { throw ValidationError("--offset is a number of rows: \(offset) is below 0") }
    if let limit, limit < 0 { throw ValidationError("--limit is a count: \(limit) is below 0") }
    guard group == nil || name != nil else { throw ValidationError("--group is a group of a view: name the view") }
    guard offset == nil || group != nil else { throw ValidationError("--offset is about rows: use it with --group") }
    guard limit == nil || group != nil || verify else {
      throw ValidationError("--limit is about rows or differences: use it with --group or --verify")
    }
    guard [verify, rebuild, group != nil].count(where: \.self) <= 1 else {
      throw ValidationError("use one of --group, --verify and --rebuild")
    }
    guard !rebuild || name != nil else { throw ValidationError("--rebuild makes one view again: name it") }
  }

  func run() throws {
    if rebuild, let name { return try runRebuild(name) }
    try ListingOutput.run(database, output) { listing, inspector in
      if verify { return try printReview(inspector, listing) }
      guard let name else { return try printList(inspector, listing) }
      let view = try inspector.view(name)
      return try group.map { try printRows(of: $0, view, inspector, listing) }
        ?? printGroups(of: view, inspector, listing)
    }
  }

  // MARK: - Listing

  private func printList(_ inspector: DatabaseInspector, _ listing: ListingOutput) throws -> Bool {
    let views = try inspector.views { listing.faults.report($0) }
    try listing.write(try views.map { ViewRow($0, rows: try inspector.rowCount(of: $0)) }, table: ViewRow.table)
    return true
  }

  private func printGroups(
    of view: InspectedView, _ inspector: DatabaseInspector, _ listing: ListingOutput
  ) throws -> Bool {
    try inspector.groups(of: view) {
      listing.faults.report($0)
    } _: { text, _, count in
      try listing.write(GroupRow(group: text, rows: count), "\(text)\t\(count)")
    }
    return true
  }

  private func printRows(
    of group: String, _ view: InspectedView, _ inspector: DatabaseInspector, _ listing: ListingOutput
  ) throws -> Bool {
    let bytes: [UInt8]
    do {
      bytes = try view.group(group)
    } catch let error as DatabaseError {
      throw ToolError(.usage, "\(group) is not a group of view \"\(view.name)\": \(error.message)")
    }
    let visited = try inspector.rows(
      of: view, in: bytes, from: offset ?? 0, limit: limit ?? .max, fault: { listing.faults.report($0) }
    ) { row in
      let row = PlacedRow(row)
      try listing.write(row, row.text)
    }
    if visited == 0 { StandardError.write(output.json ? "" : "varve: the view has no such group\n") }
    return visited > 0
  }

  // MARK: - Verifying

  private func printReview(_ inspector: DatabaseInspector, _ listing: ListingOutput) throws -> Bool {
    let views = try name.map { [try inspector.view($0)] } ?? inspector.views { listing.faults.report($0) }
    let review = try listing.review { bar in
      try inspector.verify(views, limit: limit ?? 100) { bar.show(rows: $0, of: 0) }
    }
    guard let review else { return false }
    for difference in review.differences {
      try listing.write(DifferenceRow(difference), PrintableText.text("\(difference)"))
    }
    let skipped = review.skipped.map { view in
      let state = view.isVolatile ? "in the memory of the program" : "\(view.state)"
      return PrintableText.text("view \"\(view.name)\" is \(state)")
    }
    return try listing.finish(ReviewRow(review), skipped: skipped)
  }

  // MARK: - Rebuilding

  private func runRebuild(_ name: String) throws {
    try ViewRebuild.mark(name, at: database.path)
    let sink = try ByteSink.standardOutput()
    if output.json {
      try sink.writeJSON(["rebuild": name])
    } else {
      try sink.writeLine(
        PrintableText.text("view \"\(name)\" is marked: the program makes it again when it opens the database"))
    }
    try sink.finish()
  }
}

/// A view with its properties and sizes, as the command prints it.
private struct ViewRow: Encodable {
  let name: String
  let kind: String
  let version: String
  /// The type of the groups. Absent if the database does not have it.
  let keyType: String?
  let rows: Int
  /// The approximate size of all that the view keeps, in bytes.
  let bytes: UInt64
  let state: String
  /// Whether another definition of the view is being built.
  let replaced: Bool
  /// Whether the view is in the memory of the program.
  let volatile: Bool
  /// The error that ended the build of the view. Only set for a failed view.
  var error: String?

  init(_ view: InspectedView, rows: Int) {
    name = view.name
    kind = view.kind.rawValue
    version = view.version
    keyType = view.keyType.isEmpty ? nil : view.keyType
    self.rows = rows
    bytes = view.approximateSize
    state = view.state.description
    replaced = view.isBeingReplaced
    volatile = view.isVolatile
    if case .failed(let message) = view.state { error = message }
  }

  private var stateText: String {
    var text = state
    if let error { text += " (\(PrintableText.text(error)))" }
    if volatile { text += ", volatile" }
    return replaced ? text + ", being replaced" : text
  }

  /// Returns the lines of a table for people, with the names of the columns first.
  static func table(_ rows: [ViewRow]) -> [String] {
    guard !rows.isEmpty else { return ["no views"] }
    return TextTable.lines(
      [["name", "kind", "version", "groups", "rows", "bytes", "state"]]
        + rows.map { row in
          [
            PrintableText.text(row.name), row.kind, PrintableText.text(row.version),
            row.keyType.map { PrintableText.text($0) } ?? "-", "\(row.rows)", SizeText.text(row.bytes), row.stateText,
          ]
        })
  }
}

private struct GroupRow: Encodable {
  let group: String
  let rows: Int
}

/// A row of a group.
private struct PlacedRow: Encodable {
  let offset: Int
  let collection: String
  let key: String
  let position: String

  init(_ row: InspectedViewRow) {
    offset = row.offset
    collection = row.key.collection
    key = row.key.text
    position = row.position
  }

  var text: String { "\(offset)\t\(PrintableText.text(collection))/\(key)\t\(position)" }
}

private struct DifferenceRow: Encodable {
  let kind: String
  let view: String
  let collection: String?
  let key: String?
  let text: String

  init(_ difference: ViewReview.Difference) {
    kind = difference.kind.rawValue
    view = difference.view
    collection = difference.row?.collection
    key = difference.row?.text
    text = difference.text
  }
}

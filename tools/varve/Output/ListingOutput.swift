import ArgumentParser
import Varve
import VarveInspection

/// How a command prints what it lists and compares: one line for each, as JSON or for people.
struct ListingOutput {
  let sink: ByteSink
  let asJSON: Bool
  let faults: RowFaults

  /// Runs a command that reads a database. `body` returns whether the answer is good; otherwise the exit status says
  /// that it is not.
  static func run(
    _ database: DatabaseArgument, _ output: OutputOption,
    _ body: (ListingOutput, DatabaseInspector) throws -> Bool
  ) throws {
    let faults = RowFaults(asJSON: output.json)
    let sink = try ByteSink.standardOutput()
    let listing = ListingOutput(sink: sink, asJSON: output.json, faults: faults)
    let isGood = try database.inspecting { inspector in try body(listing, inspector) }
    try sink.finish()
    guard isGood else { throw ExitStatus.answerIsNo.asError }
    try faults.finish()
  }

  /// Writes a row, which people get as a text.
  func write(_ row: some Encodable, _ text: @autoclosure () -> String) throws {
    try asJSON ? sink.writeJSON(row) : sink.writeLine(text())
  }

  /// Writes rows, which people get as a table.
  func write<Row: Encodable>(_ rows: [Row], table: ([Row]) -> [String]) throws {
    if asJSON {
      for row in rows { try sink.writeJSON(row) }
    } else {
      for line in table(rows) { try sink.writeLine(line) }
    }
  }

  /// Returns the result of a comparison, or nil if a block can't be read: that is a finding, not a failure, and is
  /// written.
  func review<Review>(_ compare: (inout ProgressBar) throws -> Review) throws -> Review? {
    do {
      var bar = ProgressBar("verify", isQuiet: asJSON)
      defer { bar.end() }
      return try compare(&bar)
    } catch let error as DatabaseError where error.code == .corruption {
      let row = ErrorRow(error)
      try write(row, "damaged: \(row.text)")
      return nil
    }
  }

  /// Writes the end of a comparison: for people, what was skipped, too. Returns whether there are no differences.
  func finish(_ review: ReviewRow, skipped: [String]) throws -> Bool {
    if !asJSON {
      for text in skipped { try sink.writeLine("not compared: \(text)") }
    }
    try write(review, review.text)
    return review.differences == 0
  }
}

/// The result of a comparison.
struct ReviewRow: Encodable {
  /// The number of indexes, or of views, that were compared: only one of both is set.
  var indexes: Int?
  var views: Int?
  let skipped: Int
  let rows: Int
  let entries: Int
  let differences: Int

  init(_ review: IndexReview) {
    indexes = review.indexes.count
    skipped = review.skipped.count
    rows = review.rowCount
    entries = review.entryCount
    differences = review.differenceCount
  }

  init(_ review: ViewReview) {
    views = review.views.count
    skipped = review.skipped.count
    rows = review.rowCount
    entries = review.entryCount
    differences = review.differenceCount
  }

  var text: String {
    let found = differences == 0 ? "no differences found" : "\(Count.text(differences, "difference")) found"
    let compared = views.map { Count.text($0, "view") } ?? Count.text(indexes ?? 0, "index", plural: "indexes")
    let entries = Count.text(entries, "entry", plural: "entries")
    return "\(found): \(compared), \(Count.text(rows, "row")), \(entries)"
  }
}

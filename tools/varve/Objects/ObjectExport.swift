import Varve
import VarveInspection

/// Writes the rows of a collection as lines to a sink.
struct ObjectExport {
  let inspector: DatabaseInspector
  let collection: InspectedCollection
  let rows: InspectedList<InspectedRow>
  let faults: RowFaults
  private(set) var count: UInt64 = 0

  /// Creates an export of the rows in a range of keys.
  init(_ inspector: DatabaseInspector, _ name: String, _ range: RangeOptions, _ faults: RowFaults) throws {
    self.inspector = inspector
    self.faults = faults
    collection = try inspector.collection(name)
    rows = try inspector.rows(in: collection, range: try range.keys(of: collection))
  }

  /// Writes the rows. Rows that can't be read are reported and left out.
  mutating func run(into sink: ByteSink, progress: (UInt64) -> Void) throws {
    let terms = try collection.terms
    var rows = rows
    while let row = try rows.next() {
      do {
        try sink.writeLine(try RowLine.text(row, try row.contents(), of: terms, withID: false))
      } catch let error as DatabaseError {
        faults.report(error)
        continue
      }
      count += 1
      if count.isMultiple(of: 1024) { progress(count) }
    }
  }
}

extension RangeOptions {
  /// Returns the range as keys of a collection.
  func keys(of collection: InspectedCollection) throws -> StorageRange {
    do {
      let range = try collection.range(from: from, to: to, prefix: prefix)
      if to != nil { try Self.check(range.lower, range.upper, to: to) }
      return range
    } catch let error as DatabaseError {
      throw ToolError(.usage, "no range of keys of the collection \"\(collection.name)\": \(error.message)")
    }
  }

  /// Returns the range as values of an index.
  func values(of index: InspectedIndex) throws -> StorageRange {
    do {
      return try index.range(from: from, to: to, prefix: prefix)
    } catch let error as DatabaseError {
      throw ToolError(.usage, "no range of values: \(error.message)")
    }
  }
}

/// Reports each damaged row with a line on standard error as it is found, and in the end ends with status 1.
final class RowFaults {
  private let asJSON: Bool
  private(set) var count = 0

  init(asJSON: Bool) { self.asJSON = asJSON }

  func report(_ error: any Error) {
    count += 1
    let row = ErrorRow(any: error)
    StandardError.write(asJSON ? JSONText.line(row) + "\n" : "varve: damaged: \(row.text)\n")
  }

  /// Throws the exit status 1 if a damaged row was reported.
  func finish() throws {
    if count > 0 { throw ExitStatus.answerIsNo.asError }
  }
}

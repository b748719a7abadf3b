internal import Varve

/// The result of a comparison that lists the first differences and counts all of them.
protocol DifferenceReview {
  associatedtype Difference

  var differenceCount: Int { get set }
  var differences: [Difference] { get set }
}

extension DifferenceReview {
  /// Counts a difference, and lists it unless there are `limit` already.
  mutating func note(_ difference: @autoclosure () -> Difference, limit: Int) {
    differenceCount += 1
    if differences.count < limit { differences.append(difference()) }
  }
}

/// Counts what a comparison has examined, for its progress.
struct ExaminedCount {
  private var count = 0

  /// Counts one more, and passes the number to `report` now and then.
  mutating func add(_ report: (Int) -> Void) {
    count += 1
    if count % 1_024 == 0 { report(count) }
  }
}

extension DatabaseInspector {
  /// Calls `body` with the records of the extensions in the catalog, in the order of their names. The error of each
  /// record that can't be read is passed to `fault`. Throws what both throw, and `.storage`.
  func forEachRecord(
    fault: (any Error) throws -> Void, _ body: (_ name: String, _ record: ExtensionRecord) throws -> Void
  ) throws {
    var cursor = FamilyCursor(StorageRange(prefix: CatalogKey.extensions), in: catalog, of: snapshot, isReverse: false)
    while let (key, value) = try cursor.next() {
      let name: String
      let record: ExtensionRecord
      do {
        name = try CatalogKey.name(in: key)
        record = try ExtensionRecord(value, name: name)
      } catch {
        try fault(error)
        continue
      }
      try body(name, record)
    }
  }
}

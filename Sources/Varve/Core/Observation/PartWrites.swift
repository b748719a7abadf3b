/// What a transaction writes to parts that are observed: its commit wakes the observers that have read one of these keys.
///
/// A part that is not observed costs each write a look at whether there is one of these. It belongs to its transaction;
/// what it noted goes with the commit.
final class PartWrites {
  private(set) var noted: Noted

  /// `families` are those of the parts that are observed.
  init(_ families: Set<UInt32>) { noted = Noted(families: families) }

  /// What transactions have written.
  struct Noted: Sendable {
    /// The families of which all writes are in it.
    private(set) var families: Set<UInt32>
    /// What was written, by family; also what a savepoint has undone.
    fileprivate(set) var touched: [UInt32: TouchedKeys] = [:]

    fileprivate init(families: Set<UInt32>) { self.families = families }

    /// Of a transaction that has noted nothing.
    static let unknown = Noted(families: [])

    var byteCount: Int { touched.values.reduce(0) { $0 + $1.byteCount } }

    /// Adds those of later transactions.
    mutating func merge(_ later: Noted) {
      families.formIntersection(later.families)
      for (family, ranges) in later.touched { touched[family, default: TouchedKeys()].merge(ranges) }
    }
  }

  func note(_ key: [UInt8], in family: StorageFamily) {
    if noted.families.contains(family.number) { noted.touched[family.number, default: TouchedKeys()].add(key) }
  }

  func note(_ range: StorageRange, in family: StorageFamily) {
    if noted.families.contains(family.number) { noted.touched[family.number, default: TouchedKeys()].add(range) }
  }
}

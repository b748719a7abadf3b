/// The writes of a transaction to observed parts. Its commit wakes the observers that have read one of the written
/// keys.
///
/// A write to a part that is not observed costs only a check whether such an object exists. The object belongs to its
/// transaction, and what it has noted is passed on with the commit.
final class PartWrites {
  private(set) var noted: Noted

  /// Creates an object without writes. `families` are those of the observed parts.
  init(_ families: Set<UInt32>) { noted = Noted(families: families) }

  /// The noted writes of one or several transactions.
  struct Noted: Sendable {
    /// The families for which all writes are included.
    private(set) var families: Set<UInt32>
    /// The written keys and ranges, by family, including those that a savepoint has undone.
    fileprivate(set) var touched: [UInt32: TouchedKeys] = [:]

    fileprivate init(families: Set<UInt32>) { self.families = families }

    /// The value for a transaction that has noted nothing.
    static let unknown = Noted(families: [])

    var byteCount: Int { touched.values.reduce(0) { $0 + $1.byteCount } }

    /// Adds the writes of later transactions.
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

/// Receives what commits without changes of rows have written to parts.
protocol PartWriteListener: AnyObject, Sendable {
  /// Called when such a commit is acknowledged, in the order of the commits. It must return quickly.
  func didWrite(_ parts: PartWrites.Noted, _ version: CommitVersion)
  /// Called when another program has committed something that changes no row.
  func didMove(to version: CommitVersion)
}

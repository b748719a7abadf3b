internal import FutexLocks
internal import Synchronization

/// The families of parts that observers have read. Transactions note what they write to them.
///
/// It is safe to use from any thread. If no part is observed, a transaction pays one atomic load at its beginning.
final class ObservedParts: Sendable {
  private let counts = FutexLock<[UInt32: Int]>([:])
  private let isEmpty = Atomic<Bool>(true)

  /// Returns the object with which a transaction that begins now notes its writes, or `nil` if no part is observed.
  func makeWrites() -> PartWrites? {
    if isEmpty.load(ordering: .acquiring) { return nil }
    return PartWrites(counts.withLock { Set($0.keys) })
  }

  /// Replaces the families that an observer has read before by those that it has read now.
  func replace(_ old: Set<UInt32>, by new: Set<UInt32>) {
    if old == new { return }
    counts.withLock { counts in
      for family in new.subtracting(old) { counts[family, default: 0] += 1 }
      for family in old.subtracting(new) {
        guard let count = counts[family] else { continue }
        counts[family] = count > 1 ? count - 1 : nil
      }
      isEmpty.store(counts.isEmpty, ordering: .releasing)  // partner: `makeWrites`
    }
  }
}

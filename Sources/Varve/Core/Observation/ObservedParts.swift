internal import FutexLocks
internal import Synchronization

/// The families of parts that observers have read: what transactions write to these is noted.
///
/// Safe from any thread. A transaction that begins where nothing of parts is observed pays for one load.
final class ObservedParts: Sendable {
  private let counts = FutexLock<[UInt32: Int]>([:])
  private let isEmpty = Atomic<Bool>(true)

  /// What a transaction that begins now notes; nil: nothing.
  func makeWrites() -> PartWrites? {
    if isEmpty.load(ordering: .acquiring) { return nil }
    return PartWrites(counts.withLock { Set($0.keys) })
  }

  /// An observer has read these, instead of those.
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

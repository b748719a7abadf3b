internal import Synchronization
public import Varve

/// A storage that counts the entries and rows that are read from its snapshots. Safe from any thread.
public final class CountingBackend: ObservedBackend, @unchecked Sendable {
  // Sendable: its state is guarded.
  private let reads = Mutex<[UInt32: Int]>([:])

  /// The number of entries and rows that were read so far.
  public var count: Int { reads.withLock { $0.values.reduce(0, +) } }

  /// The number of entries or rows of a family that were read so far.
  public func read(of family: StorageFamily) -> Int { reads.withLock { $0[family.number] ?? 0 } }

  private func add(_ count: Int, _ family: StorageFamily) {
    reads.withLock { $0[family.number, default: 0] += count }
  }

  /// Counts each key.
  public override func willRead(_ keys: [[UInt8]], in family: StorageFamily) { add(keys.count, family) }

  /// Counts each row of the page.
  public override func didRead(
    _ page: StoragePage, of range: StorageRange, in family: StorageFamily, isReverse: Bool
  ) {
    add(page.count, family)
  }
}

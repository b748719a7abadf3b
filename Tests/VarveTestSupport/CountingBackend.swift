internal import Synchronization
public import Varve

/// A storage that counts the entries and rows that are read from its snapshots. Safe from any thread.
public final class CountingBackend: ObservedBackend, @unchecked Sendable {
  // Sendable: it has only atomic state.
  private let read = Atomic(0)

  /// The number of entries and rows that were read so far.
  public var count: Int { read.load(ordering: .acquiring) }

  /// Counts each key.
  public override func willRead(_ keys: [[UInt8]], in family: StorageFamily) {
    read.add(keys.count, ordering: .acquiringAndReleasing)
  }

  /// Counts each row of the page.
  public override func didRead(
    _ page: StoragePage, of range: StorageRange, in family: StorageFamily, isReverse: Bool
  ) {
    read.add(page.count, ordering: .acquiringAndReleasing)
  }
}

internal import FutexLocks
internal import Synchronization

/// The collections of which observers compare what rows are with what they were: transactions note the rows that they replace.
///
/// Safe from any thread. A transaction that begins where no collection is compared pays for one load.
final class ObservedRows: Sendable {
  private let counts = FutexLock<[String: Int]>([:])
  private let isEmpty = Atomic<Bool>(true)

  /// What a transaction that begins now notes; nil: nothing.
  func makeReplacedRows() -> ReplacedRows? {
    if isEmpty.load(ordering: .acquiring) { return nil }
    return ReplacedRows(in: counts.withLock { Set($0.keys) })
  }

  func add(_ collection: String) {
    counts.withLock { counts in
      counts[collection, default: 0] += 1
      isEmpty.store(false, ordering: .releasing)  // partner: `makeReplacedRows`
    }
  }

  func remove(_ collection: String) {
    counts.withLock { counts in
      guard let count = counts[collection] else { return }
      counts[collection] = count > 1 ? count - 1 : nil
      isEmpty.store(counts.isEmpty, ordering: .releasing)  // partner: `makeReplacedRows`
    }
  }
}

/// The rows that a transaction replaces, as it found them, of collections that are compared.
///
/// It belongs to its transaction; what it noted goes with the commit. A row that the transaction had changed before it came
/// here is not in it: of such a row nothing is known.
final class ReplacedRows {
  private let collections: Set<String>
  /// By the number of the collection and the key in its families.
  private(set) var noted: [UInt32: ByteTable<[UInt8]>] = [:]

  init(in collections: Set<String>) { self.collections = collections }

  func isObserved(_ info: CollectionInfo) -> Bool { collections.contains(info.name) }

  private var byteCount = 0

  /// Notes a row that is about to be changed for the first time. What is beyond the limit is left out.
  func note(_ row: [UInt8], _ key: [UInt8], _ info: CollectionInfo) {
    let size = key.count + row.count
    guard byteCount + size <= ChangeLimits.replacedBytes, noted[info.record.id]?[key] == nil else { return }
    byteCount += size
    noted[info.record.id, default: ByteTable()].set(row, for: key)
  }
}

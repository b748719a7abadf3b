internal import FutexLocks
internal import Synchronization

/// The collections whose rows observers compare with their previous content. Transactions note the rows that they
/// replace in them.
///
/// It is safe to use from any thread. If no collection is compared, a transaction pays one atomic load at its
/// beginning.
final class ObservedRows: Sendable {
  private let counts = FutexLock<[String: Int]>([:])
  private let isEmpty = Atomic<Bool>(true)

  /// Returns the object with which a transaction that begins now notes the rows that it replaces, or `nil` if no
  /// collection is compared.
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

/// The rows that a transaction replaces in compared collections, as the transaction found them.
///
/// It belongs to its transaction, and what it has noted is passed on with the commit. A row that the transaction had
/// changed before this object was made is missing: nothing is known of its previous content.
final class ReplacedRows {
  private let collections: Set<String>
  /// The rows, by the number of the collection and the key in its families.
  private(set) var noted: [UInt32: ByteTable<[UInt8]>] = [:]

  init(in collections: Set<String>) { self.collections = collections }

  func isObserved(_ info: CollectionInfo) -> Bool { collections.contains(info.name) }

  private var byteCount = 0

  /// Notes a row that is about to be changed for the first time. Rows beyond the limit are left out.
  func note(_ row: [UInt8], _ key: [UInt8], _ info: CollectionInfo) {
    let size = key.count + row.count
    guard byteCount + size <= ChangeLimits.replacedBytes, noted[info.record.id]?[key] == nil else { return }
    byteCount += size
    noted[info.record.id, default: ByteTable()].set(row, for: key)
  }
}

import Synchronization
import Varve
import VarveTestSupport

@_spi(Extensions) @testable import VarveTasks

/// A storage some of whose rows can't be read, as if the blocks that have them were damaged. Safe from any thread.
final class DamagedBackend: ObservedBackend, @unchecked Sendable {
  // Sendable: the list is guarded by its mutex.

  /// The error of reads that need a damaged row.
  static let error = DatabaseError(.corruption, "a block is damaged")

  private let damaged = Mutex<[(part: String, range: StorageRange)]>([])

  /// Lets the rows of a range of a part be damaged from now on.
  func damage(_ range: StorageRange, of part: String) { damaged.withLock { $0.append((part, range)) } }
  /// Lets the row of a key of a part be damaged from now on.
  func damage(_ key: [UInt8], of part: String) { damage(StorageRange(lower: key, upper: key + [0]), of: part) }
  /// Lets all rows be readable again.
  func mend() { damaged.withLock { $0 = [] } }

  override func willRead(_ keys: [[UInt8]], in family: StorageFamily) throws { try check(keys, family) }

  override func didRead(
    _ page: StoragePage, of range: StorageRange, in family: StorageFamily, isReverse: Bool
  ) throws {
    try check((0..<page.count).map { page.key($0) }, family)
  }

  private func check(_ keys: [[UInt8]], _ family: StorageFamily) throws {
    let ranges = damaged.withLock { $0 }.filter { family.name.hasSuffix($0.part) }.map(\.range)
    let isDamaged = ranges.contains { range in
      keys.contains { key in
        !QueuedTask.precedes(key, range.lower) && range.upper.map { QueuedTask.precedes(key, $0) } ?? true
      }
    }
    if isDamaged { throw Self.error }
  }
}

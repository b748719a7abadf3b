internal import FutexLocks
internal import Synchronization

/// What a closure has read: by it, commits are found that concern the closure.
struct RecordedReads: Sendable {
  /// The collections that were asked for, also those that were not there.
  var collections: Set<String> = []
  /// Whether all collections were asked for.
  var readsAll = false
  /// The scopes of the extensions that were used.
  var scopes: [CollectionScope] = []
  /// What was read of each family.
  var families: [UInt32: Ranges] = [:]

  struct Ranges: Sendable {
    var keys: Set<[UInt8]> = []
    var ranges: [StorageRange] = []
    /// There were too many: all of it counts.
    var isAll = false

    /// With more than these, all of the family counts.
    static var countMaximum: Int { 1_000 }

    mutating func add(_ key: [UInt8]) {
      keys.insert(key)
      bound()
    }

    mutating func add(_ range: StorageRange) {
      ranges.append(range)
      bound()
    }

    private mutating func bound() {
      guard keys.count + ranges.count > Self.countMaximum else { return }
      isAll = true
      keys = []
      ranges = []
    }

    func contains(_ key: [UInt8]) -> Bool {
      isAll || keys.contains(key)
        || ranges.contains { range in
          !ByteOrder.precedes(key, range.lower) && range.upper.map { ByteOrder.precedes(key, $0) } ?? true
        }
    }

    var isEmpty: Bool { !isAll && keys.isEmpty && ranges.isEmpty }
  }

  /// Whether a commit changes what was read. Extensions' parts count as all rows of their scope.
  func areChanged(by changes: ChangeSet, _ catalog: Catalog) -> Bool {
    if readsAll || changes.isEverythingCleared { return true }
    return changes.collections.contains { name, rows in
      if scopes.contains(where: { $0.contains(name) }) { return true }
      guard collections.contains(name) else { return false }
      guard let info = catalog.collection(name), !rows.isCleared else { return true }
      let read = [info.objects, info.metadata].compactMap { families[$0.number] }
      // It was asked for, and was not there.
      if read.isEmpty { return true }
      return rows.states.pairs.contains { key, _ in
        let key = info.prefix + rows.key(key)
        return read.contains { $0.contains(key) }
      }
    }
  }
}

/// A snapshot that notes what is read of it.
final class RecordingSnapshot: StorageSnapshot {
  private let snapshot: any StorageSnapshot
  private let families = FutexLock<[UInt32: RecordedReads.Ranges]>([:])

  init(_ snapshot: any StorageSnapshot) { self.snapshot = snapshot }

  var version: CommitVersion { snapshot.version }
  var recorded: [UInt32: RecordedReads.Ranges] { families.withLock { $0 } }

  func values(of keys: [[UInt8]], in family: StorageFamily) throws -> [[UInt8]?] {
    families.withLock { for key in keys { $0[family.number, default: .init()].add(key) } }
    return try snapshot.values(of: keys, in: family)
  }

  func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws {
    families.withLock { $0[family.number, default: .init()].add(key) }
    try snapshot.visit(key, in: family, body)
  }

  func page(
    _ range: StorageRange, in family: StorageFamily, isReverse: Bool, keysOnly: Bool, byteLimit: Int, rowLimit: Int
  ) throws -> StoragePage {
    let page = try snapshot.page(
      range, in: family, isReverse: isReverse, keysOnly: keysOnly, byteLimit: byteLimit, rowLimit: rowLimit)
    // What is beyond the page was not read.
    var read = range
    if !page.isLast, page.count > 0 {
      let last = page.key(page.count - 1)
      if isReverse { read.lower = last } else { read.upper = last + [0] }
    }
    families.withLock { [read] in $0[family.number, default: .init()].add(read) }
    return page
  }
}

extension DatabaseCore {
  /// Runs `body` at a snapshot, and notes what it reads.
  func recording<Result>(
    at snapshot: any StorageSnapshot, _ body: (ReadTransaction) throws -> Result
  ) throws -> (Result, RecordedReads) {
    let recording = RecordingSnapshot(snapshot)
    let transaction = ReadTransaction(database: self, snapshot: recording)
    // It notes the collections that are asked for.
    transaction.reads = StorageCheck(recording)
    defer { transaction.end() }
    let result = try ThreadFrame.run(transaction, body)
    var reads = RecordedReads(
      scopes: transaction.everOpened.map(\.registered.traits.scope), families: recording.recorded)
    let prefix = CatalogKey.collections
    for (family, key) in transaction.reads?.keys ?? []
    where family == catalog.families.catalog && key.starts(with: prefix) {
      reads.collections.insert(String(decoding: key.dropFirst(prefix.count), as: UTF8.self))
    }
    reads.readsAll = transaction.reads?.ranges.contains { $0.family == catalog.families.catalog } ?? false
    return (result, reads)
  }
}

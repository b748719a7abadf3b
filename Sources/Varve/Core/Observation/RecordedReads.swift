internal import FutexLocks
internal import Synchronization

/// What a closure has read: by it, commits are found that concern the closure.
struct RecordedReads: Sendable {
  /// The collections that were asked for, also those that were not there.
  var collections: Set<String> = []
  /// Those of them that were not there.
  var missing: Set<String> = []
  /// Whether all collections were asked for.
  var readsAll = false
  /// Whether a part was asked for that is being built: each commit may be the one with which it has all rows.
  let metUnready: Bool
  /// The extensions that were used.
  let extensions: [Used]
  /// What was read of each family.
  let families: [UInt32: TouchedKeys]
  /// Which of these have parts and settings of extensions.
  let partFamilies: Set<UInt32>

  init(_ extensions: [OpenExtension], _ families: [UInt32: TouchedKeys], metUnready: Bool) {
    self.metUnready = metUnready
    self.extensions = extensions.map { Used($0) }
    self.families = families
    partFamilies = Set(self.extensions.flatMap(\.storage).filter { families[$0] != nil })
  }

  /// An extension that was used.
  struct Used: Sendable {
    let registered: RegisteredExtension
    /// Its families then, by part; nil where its parts can't be compared with what commits write to them: another program
    /// writes, or it answers from what it shares.
    let families: [UInt32?]?
    /// Where its settings are.
    let settings: [UInt32]

    init(_ open: OpenExtension) {
      registered = open.registered
      settings = [true, false].compactMap { open.registered.settingsFamily(isPersistent: $0)?.number }
      let isCompared = open.content == nil && open.registered.shared == nil
      families = isCompared ? open.registered.families.map { $0?.number } : nil
    }

    /// All families that it keeps something in.
    var storage: [UInt32] { (families ?? []).compactMap { $0 } + settings }
  }

  /// Whether a commit changes what was read.
  func areChanged(by changes: ChangeSet, _ catalog: Catalog, _ registry: ExtensionRegistry) -> Bool {
    if readsAll || metUnready || changes.isEverythingCleared { return true }
    if let parts = changes.parts, areTouched(by: parts) { return true }
    // Not all that was read was noted, and the transaction may have written to it beside its rows. Of a commit of another
    // program nothing is noted, and what was read of its extensions counts by the rows of their scope.
    if !changes.isFromFeed, !partFamilies.isSubset(of: changes.parts?.families ?? []) { return true }
    let unknown = extensions.filter { !isKnown($0, by: changes.parts, registry) }
    return changes.collections.contains { name, rows in
      if unknown.contains(where: { $0.registered.traits.scope.contains(name) }) { return true }
      guard collections.contains(name) else { return false }
      guard let info = catalog.collection(name), !rows.isCleared else { return true }
      if families[catalog.families.counts.number]?.contains(info.countKey) ?? false { return true }
      let read = [info.objects, info.metadata].compactMap { families[$0.number] }
      if read.isEmpty { return missing.contains(name) }
      return rows.states.pairs.contains { key, _ in
        let key = info.prefix + rows.key(key)
        return read.contains { $0.contains(key) }
      }
    }
  }

  /// Whether a commit that changes no row changes what was read.
  func areChanged(by parts: PartWrites.Noted, _ registry: ExtensionRegistry) -> Bool {
    metUnready || areTouched(by: parts) || !extensions.allSatisfy { isKnown($0, by: parts, registry) }
  }

  /// Whether a commit has written to a part what was read of it.
  private func areTouched(by parts: PartWrites.Noted) -> Bool {
    parts.touched.contains { family, written in families[family]?.intersects(written) ?? false }
  }

  /// Whether what a commit means for what was read of an extension can be seen by the keys that it has written to parts: all
  /// that were read were noted, and are where they were. Where not, its parts count as all rows of its scope.
  private func isKnown(_ used: Used, by parts: PartWrites.Noted?, _ registry: ExtensionRegistry) -> Bool {
    guard let parts, let read = used.families, registry.list[used.registered.name] === used.registered,
      used.registered.families.map({ $0?.number }) == read
    else { return false }
    return used.storage.allSatisfy { families[$0] == nil || parts.families.contains($0) }
  }
}

/// A snapshot that notes what is read of it.
final class RecordingSnapshot: StorageSnapshot {
  private let snapshot: any StorageSnapshot
  private let families = FutexLock<[UInt32: TouchedKeys]>([:])

  init(_ snapshot: any StorageSnapshot) { self.snapshot = snapshot }

  var version: CommitVersion { snapshot.version }
  var recorded: [UInt32: TouchedKeys] { families.withLock { $0 } }

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
    var reads = RecordedReads(transaction.everOpened, recording.recorded, metUnready: transaction.metUnready)
    let prefix = CatalogKey.collections
    for (family, key) in transaction.reads?.keys ?? []
    where family == catalog.families.catalog && key.starts(with: prefix) {
      reads.collections.insert(String(decoding: key.dropFirst(prefix.count), as: UTF8.self))
    }
    reads.missing = reads.collections.filter { catalog.collection($0, at: snapshot.version) == nil }
    reads.readsAll = transaction.reads?.ranges.contains { $0.family == catalog.families.catalog } ?? false
    return (result, reads)
  }
}

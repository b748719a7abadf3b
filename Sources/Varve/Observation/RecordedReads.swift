internal import FutexLocks
internal import Synchronization

/// The reads of a closure, which determine the commits that concern it.
struct RecordedReads: Sendable {
  /// The names of the collections that were looked up, whether they exist or not.
  var collections: Set<String> = []
  /// The names of the looked-up collections that did not exist.
  var missing: Set<String> = []
  /// Whether all collections were enumerated.
  var readsAll = false
  /// Whether a part that is still being built was used: any commit may be the one with which it has all rows.
  let sawUnready: Bool
  /// The extensions that were used.
  let extensions: [Used]
  /// The keys and ranges that were read, by the number of the family.
  let families: [UInt32: TouchedKeys]
  /// The families among these that contain parts and settings of extensions.
  let partFamilies: Set<UInt32>

  init(_ extensions: [OpenExtension], _ families: [UInt32: TouchedKeys], sawUnready: Bool) {
    self.sawUnready = sawUnready
    self.extensions = extensions.map { Used($0) }
    self.families = families
    partFamilies = Set(self.extensions.flatMap(\.storage).filter { families[$0] != nil })
  }

  /// An extension that was used.
  struct Used: Sendable {
    let registered: RegisteredExtension
    /// The families of the extension at that time, by part, or `nil` if its parts can't be compared with what commits
    /// write to them, because another program writes the database or the extension uses its shared state.
    let families: [UInt32?]?
    /// The families of the extension's settings.
    let settings: [UInt32]

    init(_ open: OpenExtension) {
      registered = open.registered
      settings = [true, false].compactMap { open.registered.settingsFamily(isPersistent: $0)?.number }
      let isCompared = open.content == nil && open.registered.shared == nil
      families = isCompared ? open.registered.families.map { $0?.number } : nil
    }

    /// All families in which the extension keeps data.
    var storage: [UInt32] { (families ?? []).compactMap { $0 } + settings }
  }

  /// Returns whether a commit changes what was read.
  func areChanged(by changes: ChangeSet, _ catalog: Catalog, _ registry: ExtensionRegistry) -> Bool {
    if readsAll || sawUnready || changes.isEverythingCleared { return true }
    if let parts = changes.parts, areTouched(by: parts) { return true }
    // If the commit has not noted all writes to the parts that were read, its transaction may have written to them in
    // addition to rows. Commits of another program note nothing; for them, reads of extensions count by the rows of the
    // extensions' scopes.
    if !changes.isFromFeed, !partFamilies.isSubset(of: changes.parts?.families ?? []) { return true }
    let unknown = extensions.filter { !isKnown($0, by: changes.parts, registry) }
    // Besides rows, the commit may have written to the extension alone.
    if unknown.contains(where: { changes.usedExtensions.contains($0.registered.name) }) { return true }
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

  /// Returns whether a commit that changes no row changes what was read.
  func areChanged(by parts: PartWrites.Noted, _ registry: ExtensionRegistry) -> Bool {
    sawUnready || areTouched(by: parts) || !extensions.allSatisfy { isKnown($0, by: parts, registry) }
  }

  /// Returns whether a commit has written to keys that were read from a part.
  private func areTouched(by parts: PartWrites.Noted) -> Bool {
    parts.touched.contains { family, written in families[family]?.intersects(written) ?? false }
  }

  /// Returns whether the effect of a commit on the reads of an extension can be determined by the keys written to its
  /// parts: all families that were read were noted, and are unchanged. Otherwise the extension's reads count as reads
  /// of all rows of its scope.
  private func isKnown(_ used: Used, by parts: PartWrites.Noted?, _ registry: ExtensionRegistry) -> Bool {
    guard let parts, let read = used.families, registry.list[used.registered.name] === used.registered,
      used.registered.families.map({ $0?.number }) == read
    else { return false }
    return used.storage.allSatisfy { families[$0] == nil || parts.families.contains($0) }
  }
}

/// A snapshot that records what is read of it.
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
    // Keys beyond the page were not read.
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
  /// Runs `body` at a snapshot, and records what it reads. The read ends if the calling task is cancelled.
  func recording<Result>(
    at snapshot: any StorageSnapshot, _ body: (ReadTransaction) throws -> Result
  ) throws -> (Result, RecordedReads) {
    let recording = RecordingSnapshot(snapshot)
    let transaction = ReadTransaction(database: self, snapshot: recording, isCancellable: true)
    // The check records the collections that are looked up.
    transaction.reads = StorageCheck(recording)
    defer { transaction.end() }
    let result = try ThreadFrame.run(transaction, body)
    var reads = RecordedReads(transaction.everOpened, recording.recorded, sawUnready: transaction.sawUnready)
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

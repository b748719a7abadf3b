internal import Synchronization

/// A read transaction: one snapshot of the database, readable while the closure that received it runs.
///
/// It belongs to the thread that runs the closure. Using it after the closure returns throws `.transactionEnded`.
public class ReadTransaction {
  let database: DatabaseCore
  let snapshot: any StorageSnapshot
  /// Whether the reads throw `CancellationError` once the task that makes them is cancelled.
  final let isCancellable: Bool
  /// The pending writes of a write transaction, or `nil` in other transactions.
  final let writing: (any StorageWriting)?
  /// The spill that collects an extension's writes, so that nothing is committed, or `nil` in other transactions.
  final let spill: Spill?
  private(set) final var hasEnded = false {
    didSet { forbidUse() }
  }
  /// Whether the transaction can be used, which `check` tests at each operation. It is atomic, because a field of a
  /// class would be checked for exclusive access each time.
  private final let isUsable = Atomic<Bool>(true)
  /// The open extensions, in the order of their first use.
  final var opened: [OpenExtension] = []
  /// The open extensions, including those that an undone savepoint has removed.
  final var everOpened: [OpenExtension] = []
  /// The object cache of the reading connection, and the generation with which the transaction began: the objects of
  /// that generation are those of the transaction's snapshot.
  final var cache: (objects: ObjectCache, generation: UInt64)?
  /// The keys and ranges that were read, for a commit that is checked.
  final var reads: StorageCheck? {
    didSet { notesReads.store(reads != nil, ordering: .relaxed) }
  }
  /// Whether `reads` is set.
  private final let notesReads = Atomic<Bool>(false)
  final var isChecked: Bool { notesReads.load(ordering: .relaxed) }
  /// Whether a part was used that does not have all rows of the snapshot.
  final var sawUnready = false
  /// The keys and ranges of independent parts that were read and written, if nothing else is checked.
  private(set) final var independentUses: StorageCheck?
  /// The collection that was used last, and the edition of the catalog at that time. Most transactions use one
  /// collection.
  private final var last: (info: CollectionInfo, edition: UInt64)?
  /// The collections that were looked up by number, and the edition of the catalog at that time.
  final var numbered: (infos: [UInt32: CollectionInfo], edition: UInt64)?
  /// The trees of runs of counted parts that were looked up, as of the snapshot.
  final var runTrees: [(family: UInt32, tree: RunTree)] = []
  /// The trees of a held snapshot, which are kept as long as it.
  final var heldTrees: RunTreeCache?
  /// The rows that answers have left out, or `nil` if no answer could have left out any.
  final var skippedRowListIfMade: SkippedRowList?
  /// A value for the program's use, which lives as long as the transaction.
  public final var userInfo: Any?

  init(
    database: DatabaseCore, snapshot: any StorageSnapshot, writing: (any StorageWriting)? = nil, spill: Spill? = nil,
    isCancellable: Bool = false
  ) {
    self.spill = spill
    self.database = database
    self.isCancellable = isCancellable
    self.snapshot = isCancellable ? CancellableSnapshot(snapshot, database) : snapshot
    self.writing = writing
  }

  final var isWritable: Bool { writing != nil }

  /// The version of the last commit that the transaction sees.
  public final var version: CommitVersion { snapshot.version }

  /// Ends the transaction, because its closure has returned, or its commit was given to the storage.
  func end() {
    hasEnded = true
    if isCancellable, let snapshot = snapshot as? CancellableSnapshot { snapshot.end() }
    for open in everOpened { open.end() }
    everOpened = []
    opened = []
  }

  /// Throws if the transaction can't be used any more.
  @inline(__always)
  final func check() throws {
    if !isUsable.load(ordering: .relaxed) { throw useError }
  }

  /// The reason why the transaction can't be used any more.
  var useError: DatabaseError { Self.endedError }

  /// Makes `check` throw from now on.
  final func forbidUse() { isUsable.store(false, ordering: .relaxed) }

  static var endedError: DatabaseError {
    DatabaseError(
      .transactionEnded, "the transaction ended with its closure; read what is needed inside, or begin another")
  }

  // MARK: - Extensions

  /// Returns the extension with a name that is in force in this transaction.
  func find(_ name: String) throws -> RegisteredExtension? {
    guard let found = database.extensions.find(name, at: snapshot.version) else { return nil }
    if database.backend.isReadOnly, let fallback = found.fallback {
      do { _ = try found.content(at: snapshot) } catch let error as DatabaseError where error.code == .definitionDiffers
      {
        return fallback
      }
    }
    return found
  }

  /// Returns whether an extension has all rows of this snapshot.
  func isReady(_ registered: RegisteredExtension) -> Bool {
    registered.readySince.map { snapshot.version >= $0 } ?? false
  }

  // MARK: - Bytes

  /// Calls `body` with the value of a key as the transaction sees it. Returns `nil` if there is none.
  final func withValue<Result>(
    of key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Result
  ) throws -> Result? {
    guard let writing else { return try snapshot.withValue(of: key, in: family, body) }
    if isChecked { noteRead(of: key, in: family, writing) }
    return try writing.withValue(of: key, in: family, body)
  }

  /// Notes a read of a key for the check at the commit, unless the transaction itself has written the key: only other
  /// values may be changed by other transactions.
  private final func noteRead(of key: [UInt8], in family: StorageFamily, _ writing: any StorageWriting) {
    if !writing.isScratch(family), !writing.decides(key, in: family) { reads?.keys.append((family, key)) }
  }

  final func noteRead(of range: StorageRange, in family: StorageFamily) {
    if reads == nil || writing?.isScratch(family) == true { return }
    reads?.ranges.append((family, range))
  }

  /// Notes the use of a key of an independent part. The commit throws `.conflict` if the key has changed in the
  /// meantime.
  final func noteIndependent(_ key: [UInt8], in family: StorageFamily) {
    if reads != nil { return noteKey(key, in: family) }
    if independentUses == nil { independentUses = StorageCheck(snapshot) }
    independentUses?.keys.append((family, key))
  }

  /// Notes the use of all keys of a range of an independent part likewise.
  final func noteIndependent(_ range: StorageRange, in family: StorageFamily) {
    if reads != nil { return noteRead(of: range, in: family) }
    if independentUses == nil { independentUses = StorageCheck(snapshot) }
    independentUses?.ranges.append((family, range))
  }

  /// Notes a key that the commit checks if it is checked at all: it throws `.conflict` if the key has changed in the
  /// meantime.
  final func noteKey(_ key: [UInt8], in family: StorageFamily) { reads?.keys.append((family, key)) }

  /// Returns the value of a key as the transaction sees it.
  final func value(of key: [UInt8], in family: StorageFamily) throws -> [UInt8]? {
    guard isWritable else { return try snapshot.value(of: key, in: family) }
    return try withValue(of: key, in: family) { $0.copied }
  }

  /// Returns the value of a key as of an earlier moment of the transaction; `nil` for `source` stands for its
  /// beginning.
  final func value(
    of key: [UInt8], in family: StorageFamily, from source: (any StorageReading)?
  ) throws -> [UInt8]? {
    reads?.keys.append((family, key))
    return try (source ?? snapshot).value(of: key, in: family)
  }

  /// Returns a cursor over the rows of a range as they are now: later writes of the transaction have no effect on it.
  /// With `keysOnly` committed rows have no values in it.
  final func cursor(
    _ range: StorageRange, in family: StorageFamily, isReverse: Bool = false, keysOnly: Bool = false
  ) -> FamilyCursor {
    noteRead(of: range, in: family)
    return FamilyCursor(range, in: family, of: view(of: family), isReverse: isReverse, keysOnly: keysOnly)
  }

  /// Returns the first row of a range, or `nil` if the range is empty.
  final func first(of range: StorageRange, in family: StorageFamily) throws -> (key: [UInt8], value: [UInt8])? {
    noteRead(of: range, in: family)
    if range.isEmpty { return nil }
    var first: (key: [UInt8], value: [UInt8])?
    if let writing {
      try writing.visitFirst(of: range, in: family) { first = ($0.copied, $1.copied) }
    } else {
      try snapshot.visitFirst(of: range, in: family) { first = ($0.copied, $1.copied) }
    }
    return first
  }

  /// Calls `body` with the rows of a range as they are now, in order, until it returns false.
  final func visitRows(
    of range: StorageRange, in family: StorageFamily, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Bool
  ) throws {
    noteRead(of: range, in: family)
    if range.isEmpty { return }
    if let writing {
      try writing.visitRows(of: range, in: family, body)
    } else {
      try snapshot.visitRows(of: range, in: family, body)
    }
  }

  /// Returns a view of a family as the transaction sees it now.
  final func view(of family: StorageFamily) -> any StorageReading { writing?.view(of: family) ?? snapshot }

  // MARK: - Collections

  /// Returns the collection with a name, or `nil` if nothing was ever stored in it.
  final func info(_ collection: String) throws -> CollectionInfo? {
    if let info = try knownInfo(collection) { return info }
    if database.backend.isReadOnly { try database.catalog.requireNoFormer(of: collection, at: version) }
    noteRecord(of: collection)
    return nil
  }

  /// Returns the collection with a name, for callers that make it if there is none. Its absence is not noted as read,
  /// because it does not matter if another transaction makes the collection in the meantime.
  final func knownInfo(_ collection: String) throws -> CollectionInfo? {
    try check()
    let edition = database.catalog.edition
    if let last, last.edition == edition, last.info.name == collection { return last.info }
    guard let info = database.catalog.collection(collection, at: snapshot.version) else { return nil }
    noteRecord(of: collection)
    last = (info, edition)
    return info
  }

  /// Notes that the existence or absence of a collection was read, because another transaction may make or drop it
  /// before the commit.
  final func noteRecord(of collection: String) {
    reads?.keys.append((database.catalog.families.catalog, CatalogKey.collection(collection)))
  }

  /// Returns all collections that exist.
  final func infos() -> [CollectionInfo] {
    reads?.ranges.append((database.catalog.families.catalog, StorageRange(prefix: CatalogKey.collections)))
    return database.catalog.collections(at: snapshot.version)
  }

  /// Returns the number of rows that the transaction has added to a collection, minus the number that it has removed.
  func rowsAdded(to info: CollectionInfo) -> Int { 0 }

  /// Returns the header of a row, without its object.
  final func header(_ key: [UInt8], _ info: CollectionInfo) throws -> RowHeader? {
    try withValue(of: key, in: info.objects) { try RowHeader.read($0).header }
  }
}

@available(*, unavailable)
extension ReadTransaction: Sendable {}

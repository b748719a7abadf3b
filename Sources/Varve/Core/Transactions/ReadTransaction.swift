internal import Synchronization

/// One snapshot of the database, to read, as long as the closure that got it runs.
///
/// It belongs to the thread that runs the closure. Using it after the closure returns throws `.transactionEnded`.
public class ReadTransaction {
  let database: DatabaseCore
  let snapshot: any StorageSnapshot
  /// What a write transaction has written; nil in others.
  final let writing: (any StorageWriting)?
  /// What an extension is given in it is collected here, and nothing is committed; nil in others.
  final let spill: Spill?
  private(set) final var hasEnded = false {
    didSet { forbidUse() }
  }
  /// Whether it can be used: `check` asks at each operation. An atomic, as a field of a class would be checked for
  /// exclusive access each time.
  private final let isUsable = Atomic<Bool>(true)
  /// The extensions that were asked for, in that order.
  final var opened: [OpenExtension] = []
  /// The same, and those that an undone savepoint took away.
  final var everOpened: [OpenExtension] = []
  /// The object cache of the reading connection, and the generation that the transaction began with: its objects are those of the
  /// transaction's snapshot.
  final var cache: (objects: ObjectCache, generation: UInt64)?
  /// What was read, for a commit that is checked.
  final var reads: StorageCheck? {
    didSet { notesReads.store(reads != nil, ordering: .relaxed) }
  }
  /// Whether `reads` is there.
  private final let notesReads = Atomic<Bool>(false)
  final var isChecked: Bool { notesReads.load(ordering: .relaxed) }
  /// Whether a part was asked for that has not all rows of the snapshot.
  final var metUnready = false
  /// What was read and written of independent parts, where nothing else is checked.
  private(set) final var independentUses: StorageCheck?
  /// The collection that was asked for last, and the catalog's edition then: most transactions ask for one.
  private final var last: (info: CollectionInfo, edition: UInt64)?
  /// Those that were asked for by their numbers, and the catalog's edition then.
  final var numbered: (infos: [UInt32: CollectionInfo], edition: UInt64)?
  /// For the program's use, as long as the transaction.
  public final var userInfo: Any?

  init(
    database: DatabaseCore, snapshot: any StorageSnapshot, writing: (any StorageWriting)? = nil, spill: Spill? = nil
  ) {
    self.spill = spill
    self.database = database
    self.snapshot = snapshot
    self.writing = writing
  }

  final var isWritable: Bool { writing != nil }

  /// The last commit that the transaction sees.
  public final var version: CommitVersion { snapshot.version }

  /// The transaction's closure has returned, or its commit was given to the storage.
  func end() {
    hasEnded = true
    for open in everOpened { open.end() }
    everOpened = []
    opened = []
  }

  /// Throws where the transaction can't be used any more.
  @inline(__always)
  final func check() throws {
    if !isUsable.load(ordering: .relaxed) { throw useError }
  }

  /// Why it can't be used any more.
  var useError: DatabaseError { Self.endedError }

  /// From now on `check` throws.
  final func forbidUse() { isUsable.store(false, ordering: .relaxed) }

  static var endedError: DatabaseError {
    DatabaseError(
      .transactionEnded, "the transaction ended with its closure; read what is needed inside, or begin another")
  }

  // MARK: - Extensions

  /// The extension that is in force in this transaction by a name.
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

  /// Whether an extension has all rows of this snapshot.
  func isReady(_ registered: RegisteredExtension) -> Bool {
    registered.readySince.map { snapshot.version >= $0 } ?? false
  }

  // MARK: - Bytes

  /// Calls `body` with the value of a key as the transaction sees it.
  final func withValue<Result>(
    of key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Result
  ) throws -> Result? {
    guard let writing else { return try snapshot.withValue(of: key, in: family, body) }
    if isChecked { noteRead(of: key, in: family, writing) }
    return try writing.withValue(of: key, in: family, body)
  }

  /// What the transaction has not written itself another one may change until the commit.
  private final func noteRead(of key: [UInt8], in family: StorageFamily, _ writing: any StorageWriting) {
    if !writing.leavesOut(family), !writing.decides(key, in: family) { reads?.keys.append((family, key)) }
  }

  private final func noteRead(of range: StorageRange, in family: StorageFamily) {
    if reads == nil || writing?.leavesOut(family) == true { return }
    reads?.ranges.append((family, range))
  }

  /// The commit throws `.conflict` where a key of an independent part, which this uses, has changed meanwhile.
  final func noteIndependent(_ key: [UInt8], in family: StorageFamily) {
    if reads != nil { return noteKey(key, in: family) }
    if independentUses == nil { independentUses = StorageCheck(snapshot) }
    independentUses?.keys.append((family, key))
  }

  /// The same for the keys of a range.
  final func noteIndependent(_ range: StorageRange, in family: StorageFamily) {
    if reads != nil { return noteRead(of: range, in: family) }
    if independentUses == nil { independentUses = StorageCheck(snapshot) }
    independentUses?.ranges.append((family, range))
  }

  /// The commit throws `.conflict` where it is checked and the key has changed meanwhile.
  final func noteKey(_ key: [UInt8], in family: StorageFamily) { reads?.keys.append((family, key)) }

  /// The value of a key as the transaction sees it.
  final func value(of key: [UInt8], in family: StorageFamily) throws -> [UInt8]? {
    guard isWritable else { return try snapshot.value(of: key, in: family) }
    return try withValue(of: key, in: family) { $0.copied }
  }

  /// The value of a key at an earlier moment of the transaction; nil stands for its beginning.
  final func value(
    of key: [UInt8], in family: StorageFamily, from source: (any StorageReading)?
  ) throws -> [UInt8]? {
    reads?.keys.append((family, key))
    return try (source ?? snapshot).value(of: key, in: family)
  }

  /// The rows of a range as they are now: later writes of the transaction don't change the scan.
  /// With `keysOnly` what is committed has no values there.
  final func cursor(
    _ range: StorageRange, in family: StorageFamily, isReverse: Bool = false, keysOnly: Bool = false
  ) -> FamilyCursor {
    noteRead(of: range, in: family)
    return FamilyCursor(range, in: family, of: view(of: family), isReverse: isReverse, keysOnly: keysOnly)
  }

  /// The first row of a range; nil where it is empty.
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

  /// Calls `body` with the rows of a range as they are now, in their order, until it returns false.
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

  /// A family as the transaction sees it now.
  final func view(of family: StorageFamily) -> any StorageReading { writing?.view(of: family) ?? snapshot }

  // MARK: - Collections

  /// The collection with a name; nil where nothing was ever put into it.
  final func info(_ collection: String) throws -> CollectionInfo? {
    if let info = try knownInfo(collection) { return info }
    if database.backend.isReadOnly { try database.catalog.requireNoFormer(of: collection, at: version) }
    noteRecord(of: collection)
    return nil
  }

  /// The same for who makes it where there is none: that someone else does so meanwhile does not matter.
  final func knownInfo(_ collection: String) throws -> CollectionInfo? {
    try check()
    let edition = database.catalog.edition
    if let last, last.edition == edition, last.info.name == collection { return last.info }
    guard let info = database.catalog.collection(collection, at: snapshot.version) else { return nil }
    noteRecord(of: collection)
    last = (info, edition)
    return info
  }

  /// That there is such a collection, or none, was read, too: someone may make or drop it until the commit.
  final func noteRecord(of collection: String) {
    reads?.keys.append((database.catalog.families.catalog, CatalogKey.collection(collection)))
  }

  /// All collections that there are.
  final func infos() -> [CollectionInfo] {
    reads?.ranges.append((database.catalog.families.catalog, StorageRange(prefix: CatalogKey.collections)))
    return database.catalog.collections(at: snapshot.version)
  }

  /// How many rows the transaction has added to a collection, less those that it has removed.
  func rowsAdded(to info: CollectionInfo) -> Int { 0 }

  /// The header of a row, without its object.
  final func header(_ key: [UInt8], _ info: CollectionInfo) throws -> RowHeader? {
    try withValue(of: key, in: info.objects) { try RowHeader.read($0).header }
  }
}

@available(*, unavailable)
extension ReadTransaction: Sendable {}

internal import FutexLocks
internal import Synchronization

/// The handle of an extension: `transaction[handle]` is its part in a transaction. `named` makes it, for the definition of a
/// database, and `Database.register` returns it.
public struct ExtensionHandle<Definition: DatabaseExtension>: Sendable {
  /// The name that it is registered by.
  public let name: String
  /// What it is registered with.
  public let definition: Definition
}

/// An extension that is registered with an open database.
final class RegisteredExtension: Sendable {
  let name: String
  let definition: any DatabaseExtension
  let traits: ExtensionTraits
  /// Nil where its transactions share nothing.
  let shared: SharedState?
  let build = BuildClaim()
  /// Those that were registered first come first.
  let order: UInt64
  /// Whether nothing of what it kept before this session was of use.
  let beganAnew: Bool
  /// Where another program writes, and may not have replaced it yet: what answers until then.
  let fallback: RegisteredExtension?
  private let backend: any StorageBackend
  private let catalogFamily: StorageFamily
  private let state: FutexLock<State>

  private struct State {
    /// By the index of the part.
    var families: [StorageFamily?]
    /// How often families were forgotten that are to be dropped before a build writes to others by their names, and how often
    /// the commits that said so are known to be durable.
    var dropsAsked = 0
    var dropsDurable = 0
    var awaitsDrop: Bool { dropsAsked > dropsDurable }
    var record: ExtensionRecord
    /// The commit since which it can be read.
    var readySince: CommitVersion?
    /// The same of each part; nil for one that has not all rows.
    var partsReadySince: [CommitVersion?]
    var volatileSettings: StorageFamily?
    /// Where another program writes: what was loaded last, and the commit of which it is.
    var content: (version: CommitVersion, content: ExtensionContent)?
    /// Rows given to it so far, of about so many.
    var progress = BuildProgress(rowsDone: 0, rowsTotal: 0)
    /// Receives how far its build is, after each chunk: of the call that has registered it, or continues its build.
    var progressed: (@Sendable (BuildProgress) -> Void)?
    /// The same for calls that wait for the build, by numbers of theirs.
    var waiting: [Int: @Sendable (BuildProgress) -> Void] = [:]
    var lastWaiting = 0
  }

  init(
    name: String, definition: any DatabaseExtension, traits: ExtensionTraits, record: ExtensionRecord, order: UInt64,
    backend: any StorageBackend, catalogFamily: StorageFamily, readySince: CommitVersion?, beganAnew: Bool = false,
    progressed: (@Sendable (BuildProgress) -> Void)? = nil, replacing replaced: RegisteredExtension? = nil,
    fallback: RegisteredExtension? = nil
  ) throws {
    self.fallback = fallback
    self.beganAnew = beganAnew
    self.name = name
    self.definition = definition
    shared = replaced.map { $0.shared } ?? SharedState(definition)
    self.traits = traits
    self.order = order
    self.backend = backend
    self.catalogFamily = catalogFamily
    let stored = try StoredFamilies(of: record, in: backend)
    // The families of parts that were given nothing are dropped before they are written: they may be of another form.
    let families = record.parts.map { $0.watermark == [] ? nil : stored.family(of: $0) }
    state = FutexLock(
      State(
        families: families, record: record, readySince: readySince,
        partsReadySince: record.partsInUse.map { $0 ? readySince ?? .zero : nil },
        volatileSettings: stored.volatileSettings, progressed: progressed))
    if case .failed(let message) = record.state {
      build.refuse(DatabaseError(.extensionFailed, "the build of extension \"\(name)\" has failed: \(message)"))
    }
  }

  /// Zero: the catalog has no record of it.
  var number: UInt32 { record.number }

  // MARK: - Where another program writes

  /// What is on disk at a snapshot, of a database that is only read here. It belongs to the transaction that asks: others
  /// may ask at other snapshots. Throws `.unknownExtension`, `.notReady`, `.extensionMismatch`, and `.definitionDiffers`
  /// where it is not what this definition would keep.
  func content(at snapshot: any StorageSnapshot) throws -> ExtensionContent {
    if let known = state.withLock({ $0.content }), known.version == snapshot.version { return known.content }
    guard let bytes = try snapshot.value(of: CatalogKey.databaseExtension(name), in: catalogFamily) else {
      if !traits.isRecorded { return .unrecorded }
      throw DatabaseError(.unknownExtension, "the database has no extension \"\(name)\", and is read-only")
    }
    let record = try ExtensionRecord(bytes, name: name)
    try require(record)
    let stored = try StoredFamilies(of: record, in: backend)
    // Those of them that are here, and have all rows.
    let inUse = zip(record.parts, record.partsInUse).filter { $1 }.map { $0.0 }
    let parts = traits.parts.map { part in inUse.first { $0.isSame(as: ExtensionRecord.Part(part)) } }
    let families = parts.map { $0.flatMap { stored.family(of: $0) } }
    if zip(families, parts).contains(where: { $0 == nil && $1 != nil }) { try requireInForce(record) }
    // A part that was built again since has a family by the same name, of which the snapshot sees nothing.
    if families.contains(where: { $0.map { snapshot.isOlder(than: $0) } ?? false }) {
      throw DatabaseError(
        .snapshotTooOld, "parts of extension \"\(name)\" were built again meanwhile; begin another transaction")
    }
    let content = ExtensionContent(
      number: record.number, families: families, volatileSettings: stored.volatileSettings,
      readyParts: parts.indices.reduce(into: []) { if parts[$1] != nil { $0.insert(PartSet(part: $1)) } },
      notWhole: record.state == .ready ? nil : notReady(record))
    state.withLock { state in
      // A reader of an older snapshot leaves the newest to those that come.
      if state.content.map({ $0.version < snapshot.version }) ?? true { state.content = (snapshot.version, content) }
    }
    return content
  }

  /// Throws where another definition is in force by now: the families of this one may have been dropped, and are not just
  /// empty.
  private func requireInForce(_ record: ExtensionRecord) throws {
    let newest = try backend.snapshot().value(of: CatalogKey.databaseExtension(name), in: catalogFamily)
    guard let newest, try ExtensionRecord(newest, name: name).generation == record.generation else {
      throw DatabaseError(
        .snapshotTooOld, "the definition of extension \"\(name)\" was replaced meanwhile; begin another transaction")
    }
  }

  private func notReady(_ record: ExtensionRecord) -> DatabaseError {
    let state =
      switch record.state {
      case .failed(let message): "its build has failed: \(message)"
      default: "it is not built"
      }
    return DatabaseError(.notReady, "extension \"\(name)\" is not ready in the program that writes: \(state)")
  }

  private func require(_ record: ExtensionRecord) throws {
    try record.requireKind(traits.kind, name)
    if let part = traits.parts.first(where: \.isVolatile) {
      throw DatabaseError(
        .definitionDiffers,
        "part \"\(part.name)\" of extension \"\(name)\" is volatile: only the program that writes has it, in its memory"
      )
    }
    switch record.state {
    case .building where !record.keepsNoPart && record.partsInUse.contains(true): break
    case .building, .ingesting, .failed: throw notReady(record)
    case .ready: break
    case .stale:
      throw DatabaseError(
        .definitionDiffers,
        "extension \"\(name)\" is stale on disk: the program that writes does not register it, or has not brought it up to date yet"
      )
    }
    let version = record.tags.first ?? ""
    let parts = traits.parts.map { ExtensionRecord.Part($0) }
    func common(_ parts: [ExtensionRecord.Part]) -> [ExtensionRecord.Part] {
      guard let names = traits.configuration.commonParts else { return parts }
      return parts.filter { names.contains($0.name) }.sorted { $0.name < $1.name }
    }
    guard version == traits.configuration.version, record.layout == traits.configuration.layout,
      record.scope == traits.scope.recordText,
      common(record.parts).elementsEqual(common(parts), by: { $0.isSame(as: $1) })
    else {
      throw DatabaseError(
        .definitionDiffers,
        "extension \"\(name)\" is on disk with \(Self.text(version, record.layout, record.scope, record.parts)); this program has "
          + Self.text(traits.configuration.version, traits.configuration.layout, traits.scope.recordText, parts))
    }
  }

  private static func text(
    _ version: String, _ layout: UInt32, _ scope: String, _ parts: [ExtensionRecord.Part]
  ) -> String {
    let parts = parts.map { "\($0.name) \($0.version)" }.joined(separator: ", ")
    let collections = scope.split(separator: "\u{1F}").joined(separator: " ")
    return "version \"\(version)\", layout \(layout), scope \(collections) and parts \(parts)"
  }

  var record: ExtensionRecord { state.withLock { $0.record } }
  var readySince: CommitVersion? { state.withLock { $0.readySince } }
  var progress: BuildProgress { state.withLock { $0.progress } }

  /// `version` is the commit that says so.
  func set(_ record: ExtensionRecord, readySince: CommitVersion?, at version: CommitVersion) {
    state.withLock { state in
      state.record = record
      state.readySince = readySince
      for (index, isInUse) in record.partsInUse.enumerated() {
        state.partsReadySince[index] = isInUse ? state.partsReadySince[index] ?? readySince ?? version : nil
      }
    }
  }

  /// Whether a part has all rows of a commit.
  func isReady(part: Int, at version: CommitVersion) -> Bool {
    readySince(part: part).map { version >= $0 } ?? false
  }

  /// The commit since which a part has all rows.
  func readySince(part: Int) -> CommitVersion? { state.withLock { $0.partsReadySince[part] } }

  /// Where its record stands among those of its name.
  enum RecordRole {
    /// It is in force, and what is built to replace it stays.
    case inForce
    /// It is in force, and nothing is built to replace it.
    case alone
    /// It is built to replace what is in force.
    case shadow
  }

  /// Writes its record, and lets it stand in memory once the commit is applied.
  func save(
    _ record: ExtensionRecord, _ transaction: WriteTransaction, as role: RecordRole = .inForce,
    keepsContent: Bool = false
  ) throws {
    var whole = record
    switch role {
    case .inForce: whole.shadow = try storedRecord(transaction)?.shadow
    case .alone: whole.shadow = nil
    case .shadow:
      guard let stored = try storedRecord(transaction) else {
        throw DatabaseError(.corruption, "the catalog has no record of extension \"\(name)\", which is being replaced")
      }
      whole = stored
      whole.shadow = record.alone
    }
    try transaction.pending.put(CatalogKey.databaseExtension(name), whole.bytes, in: catalogFamily)
    let database = transaction.database
    transaction.onApplied { [self, whole] version in
      database.extensionCatalog.set(whole, for: name)
      let since = (keepsContent ? readySince : nil) ?? version
      set(record.alone, readySince: record.state == .ready ? since : nil, at: version)
      database.extensions.noteChange()
    }
  }

  /// What the catalog has of its name, as a transaction sees it.
  func storedRecord(_ transaction: ReadTransaction) throws -> ExtensionRecord? {
    let bytes = try transaction.value(of: CatalogKey.databaseExtension(name), in: catalogFamily)
    return try bytes.map { try ExtensionRecord($0, name: name) }
  }

  /// Writes what the catalog has of its name once more, for a commit that has to survive a loss of power.
  func rewrite(_ record: ExtensionRecord, _ transaction: WriteTransaction) throws {
    try transaction.pending.put(CatalogKey.databaseExtension(name), record.bytes, in: catalogFamily)
  }

  /// What is shared is that of its parts from now on. With the writer held, and its commit applied.
  func shareReplaced(_ database: DatabaseCore) {
    guard let shared, let snapshot = try? database.backend.snapshot() else { return }
    let transaction = ReadTransaction(database: database, snapshot: snapshot)
    defer { transaction.end() }
    shared.replace(definition, SharedView(self, transaction, nil))
  }

  /// Makes what its transactions share, or moves it on, with the writer held: no commit is made meanwhile.
  func share(_ database: DatabaseCore) throws {
    guard let shared else { return }
    let transaction = ReadTransaction(database: database, snapshot: try database.backend.snapshot())
    defer { transaction.end() }
    try shared.skip(to: SharedView(self, transaction, nil))
  }

  func set(_ progress: BuildProgress) { state.withLock { $0.progress = progress } }

  /// Reports the progress of its build to the last caller of `register`, and to those that wait.
  func reportProgress() {
    let (progressed, waiting, progress) = state.withLock { ($0.progressed, $0.waiting.values, $0.progress) }
    progressed?(progress)
    for progressed in waiting { progressed(progress) }
  }

  /// Reports the progress of its build to another caller too, until `removeWaiting` is called with the number.
  func addWaiting(_ progressed: @escaping @Sendable (BuildProgress) -> Void) -> Int {
    state.withLock { state in
      state.lastWaiting += 1
      state.waiting[state.lastWaiting] = progressed
      return state.lastWaiting
    }
  }

  func removeWaiting(_ number: Int) { state.withLock { _ = $0.waiting.removeValue(forKey: number) } }

  /// Another call continues its build.
  func setProgressed(_ progressed: (@Sendable (BuildProgress) -> Void)?) {
    state.withLock { $0.progressed = progressed }
  }

  // MARK: - Families

  /// Where its parts are, by their places; nil for one that nothing was written to.
  var families: [StorageFamily?] { state.withLock { $0.families } }

  /// The family of a part, made where there is none.
  func makeFamily(_ part: Int) throws -> StorageFamily {
    try state.withLock { state in
      if let family = state.families[part] { return family }
      let definition = traits.parts[part]
      let name = state.record.familyName(state.record.parts[part])
      // One that is to be dropped is still empty: the part continues in it.
      let present = state.awaitsDrop ? try backend.families().first { $0.name == name } : nil
      let family = try present ?? backend.createFamily(name, options: definition.storageOptions)
      state.families[part] = family
      return family
    }
  }

  /// The families of what it kept and does not keep any more, and of the parts that were given nothing. What runs of its
  /// build have belongs to it.
  func deadFamilies() throws -> [StorageFamily] {
    try state.withLock { state in
      let living = state.families.compactMap { $0?.number }
      return try StoredFamilies(of: state.record, in: backend).parts.filter { family in
        !living.contains(family.number) && !state.record.keepsSpill(family.name)
      }
    }
  }

  /// The highest generation of families that its name has or had in this session.
  func lastGeneration() throws -> UInt32 {
    let owners = try backend.families().compactMap { ExtensionRecord.owner(ofFamily: $0.name) }
    return owners.filter { $0.number == number }.map(\.generation).reduce(record.generation, max)
  }

  /// The families of what is made of rows.
  var derivedFamilies: [StorageFamily] {
    zip(families, traits.parts).compactMap { family, part in part.isDerived ? family : nil }
  }

  /// Begins again with parts that were given nothing.
  func forgetFamilies() {
    state.withLock { state in
      for (index, part) in traits.parts.enumerated() where part.isDerived { state.families[index] = nil }
    }
  }

  /// Begins again with some parts that were given nothing. Their build drops the families first.
  func forgetFamilies(of parts: [Int]) {
    state.withLock { state in
      for part in parts { state.families[part] = nil }
      state.dropsAsked += 1
    }
  }

  /// Whether families were forgotten by a commit that may not be durable yet, and are to be dropped.
  var awaitsDrop: Bool { state.withLock { $0.awaitsDrop } }

  /// How often families were forgotten.
  var dropsAsked: Int { state.withLock { $0.dropsAsked } }

  /// The commits that have forgotten families so often are durable: they may be dropped.
  func noteDrops(_ count: Int) { state.withLock { $0.dropsDurable = max($0.dropsDurable, count) } }

  /// Drops families that nothing of it uses any more.
  func drop(_ families: [StorageFamily]) throws { for family in families { try backend.dropFamily(family) } }

  // MARK: - Settings

  /// Its number in a transaction, which may have given it; nil where the catalog has no record of it.
  func knownNumber(in transaction: ReadTransaction) throws -> UInt32? {
    if number > 0 { return number }
    guard transaction.isWritable,
      let bytes = try transaction.value(of: CatalogKey.databaseExtension(name), in: catalogFamily)
    else { return nil }
    return try ExtensionRecord(bytes, name: name).number
  }

  /// The same, given where there is none: one that keeps nothing but settings has a record from then on.
  func number(in transaction: WriteTransaction) throws -> UInt32 {
    if let number = try knownNumber(in: transaction) { return number }
    let stored = try transaction.value(of: CatalogKey.nextExtension, in: catalogFamily)
    var record = record
    record.number = stored.flatMap { BigEndian.number($0) } ?? 1
    try transaction.pending.put(CatalogKey.databaseExtension(name), record.bytes, in: catalogFamily)
    try transaction.pending.put(CatalogKey.nextExtension, BigEndian.bytes(record.number + 1), in: catalogFamily)
    let catalog = transaction.database.extensionCatalog
    transaction.onApplied { [self, record] version in
      catalog.set(record, for: name)
      catalog.noteRegistered(name)
      catalog.noteGiven(record.number)
      set(record, readySince: readySince, at: version)
    }
    return record.number
  }

  func settingKey(_ key: String, number: UInt32) -> [UInt8] { CatalogKey.settings(of: number) + Array(key.utf8) }

  func settingsFamily(isPersistent: Bool) -> StorageFamily? {
    isPersistent ? catalogFamily : state.withLock { $0.volatileSettings }
  }

  /// It takes the settings in memory over from what it has replaced.
  func adoptSettings(of other: RegisteredExtension) {
    guard let family = other.settingsFamily(isPersistent: false) else { return }
    state.withLock { if $0.volatileSettings == nil { $0.volatileSettings = family } }
  }

  func makeSettingsFamily(isPersistent: Bool, number: UInt32) throws -> StorageFamily {
    if isPersistent { return catalogFamily }
    return try state.withLock { state in
      if let family = state.volatileSettings { return family }
      let name = ExtensionRecord.settingsFamily(of: number)
      // A transaction that was rolled back may have made it.
      let known = try backend.families().first { $0.name == name }
      let family = try known ?? backend.createFamily(name, options: StorageFamilyOptions(isVolatile: true))
      state.volatileSettings = family
      return family
    }
  }
}

/// The families of an extension, as the storage has them.
struct StoredFamilies {
  private let record: ExtensionRecord
  private(set) var parts: [StorageFamily] = []
  private(set) var volatileSettings: StorageFamily?

  init(of record: ExtensionRecord, in backend: any StorageBackend) throws {
    self.record = record
    // Zero is not a number: nothing is kept.
    guard record.number > 0 else { return }
    let settings = ExtensionRecord.settingsFamily(of: record.number)
    for family in try backend.families() {
      if family.name == settings {
        volatileSettings = family
      } else if let owner = ExtensionRecord.owner(ofFamily: family.name), owner.number == record.number,
        owner.generation == record.generation
      {
        parts.append(family)
      }
    }
  }

  func family(of part: ExtensionRecord.Part) -> StorageFamily? {
    let name = record.familyName(part)
    return parts.first { $0.name == name }
  }
}

/// What an extension of a database that another program writes has on disk, at one snapshot.
struct ExtensionContent: Sendable {
  /// Nil: the catalog has no record of it.
  let number: UInt32?
  /// By the index of the part.
  let families: [StorageFamily?]
  let volatileSettings: StorageFamily?
  /// The parts that have all rows.
  let readyParts: PartSet
  /// Why the extension can't be used as a whole; nil where it can.
  let notWhole: DatabaseError?

  /// Of one that keeps nothing.
  static let unrecorded = ExtensionContent(
    number: nil, families: [], volatileSettings: nil, readyParts: .all, notWhole: nil)
}

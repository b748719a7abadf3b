internal import FutexLocks
internal import Synchronization

/// The handle of an extension: `transaction[handle]` is the extension's object in a transaction. `named` makes a handle
/// for the definition of a database, and `Database.register` returns one.
public struct ExtensionHandle<Definition: DatabaseExtension>: Sendable {
  /// The name under which the extension is registered.
  public let name: String
  /// The definition with which the extension is registered.
  public let definition: Definition
}

/// An extension that is registered with an open database.
final class RegisteredExtension: Sendable {
  let name: String
  let definition: any DatabaseExtension
  let traits: ExtensionTraits
  /// The shared state, or `nil` if the extension's transactions share nothing.
  let shared: SharedState?
  let build = BuildClaim()
  /// The rank by first registration: lower values come first.
  let order: UInt64
  /// Whether nothing that the extension kept before this session could be used.
  let wasRestarted: Bool
  /// The definition that is used until the program that writes the database has put this one in force, if that is
  /// another program.
  let fallback: RegisteredExtension?
  private let backend: any StorageBackend
  private let catalogFamily: StorageFamily
  private let state: FutexLock<State>

  private struct State {
    /// The families, by the index of the part.
    var families: [StorageFamily?]
    /// The number of times that families were forgotten which have to be dropped before a build writes to new families
    /// of the same names, and the number of these whose commits are known to be durable.
    var dropsAsked = 0
    var dropsDurable = 0
    var awaitsDrop: Bool { dropsAsked > dropsDurable }
    var record: ExtensionRecord
    /// The commit since which the extension can be read.
    var readySince: CommitVersion?
    /// The commit since which each part can be read, or `nil` for a part that does not have all rows.
    var partsReadySince: [CommitVersion?]
    var volatileSettings: StorageFamily?
    /// The content that was loaded last and its commit, if another program writes the database.
    var content: (version: CommitVersion, content: ExtensionContent)?
    /// The number of rows that were passed to the extension so far, and the approximate total.
    var progress = BuildProgress(rowsDone: 0, rowsTotal: 0)
    /// The function that receives the progress of the build after each chunk, set by the call that registered the
    /// extension or continues its build.
    var progressed: (@Sendable (BuildProgress) -> Void)?
    /// The progress functions of calls that wait for the build, by the numbers that `addWaiting` assigns.
    var waiting: [Int: @Sendable (BuildProgress) -> Void] = [:]
    var lastWaiting = 0
  }

  init(
    name: String, definition: any DatabaseExtension, traits: ExtensionTraits, record: ExtensionRecord, order: UInt64,
    backend: any StorageBackend, catalogFamily: StorageFamily, readySince: CommitVersion?, wasRestarted: Bool = false,
    progressed: (@Sendable (BuildProgress) -> Void)? = nil, replacing replaced: RegisteredExtension? = nil,
    fallback: RegisteredExtension? = nil
  ) throws {
    self.fallback = fallback
    self.wasRestarted = wasRestarted
    self.name = name
    self.definition = definition
    shared = replaced.map { $0.shared } ?? SharedState(definition)
    self.traits = traits
    self.order = order
    self.backend = backend
    self.catalogFamily = catalogFamily
    let stored = try StoredFamilies(of: record, in: backend)
    // The families of parts that were given nothing are dropped before they are written, because they may have another
    // form.
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

  /// The extension's number in the catalog, or zero if the catalog has no record of it.
  var number: UInt32 { record.number }

  // MARK: - Where another program writes

  /// Returns what the extension has on disk at a snapshot, in a database that this process only reads.
  ///
  /// The content belongs to the transaction that asks, because others may ask at other snapshots. Throws
  /// `.unknownExtension`, `.notReady`, `.extensionMismatch`, and `.definitionDiffers` if the content is not what this
  /// definition would keep.
  func content(at snapshot: any StorageSnapshot) throws -> ExtensionContent {
    if let known = state.withLock({ $0.content }), known.version == snapshot.version { return known.content }
    guard let bytes = try snapshot.value(of: CatalogKey.databaseExtension(name), in: catalogFamily) else {
      if !traits.isRecorded { return .unrecorded }
      throw DatabaseError(.unknownExtension, "the database has no extension \"\(name)\", and is read-only")
    }
    let record = try ExtensionRecord(bytes, name: name)
    try require(record)
    let stored = try StoredFamilies(of: record, in: backend)
    // Only parts that this definition has and that have all rows can be read.
    let inUse = zip(record.parts, record.partsInUse).filter { $1 }.map { $0.0 }
    let parts = traits.parts.map { part in inUse.first { $0.isSame(as: ExtensionRecord.Part(part)) } }
    let families = parts.map { $0.flatMap { stored.family(of: $0) } }
    if zip(families, parts).contains(where: { $0 == nil && $1 != nil }) { try requireInForce(record) }
    // A part that was built again in the meantime had another family of the same name at the snapshot, or none is left.
    // One that had none at the snapshot was empty: its family is made with its first entry.
    let hasFormer = zip(families, parts).contains { family, part in
      part.map { snapshot.hasFormerFamily(named: record.familyName($0), besides: family) } ?? false
    }
    if hasFormer {
      throw DatabaseError(
        .snapshotTooOld, "parts of extension \"\(name)\" were built again meanwhile; begin another transaction")
    }
    let content = ExtensionContent(
      number: record.number, generation: record.generation, families: families,
      volatileSettings: stored.volatileSettings,
      readyParts: parts.indices.reduce(into: []) { if parts[$1] != nil { $0.insert(PartSet(part: $1)) } },
      notWhole: record.state == .ready ? nil : notReady(record))
    state.withLock { state in
      // A reader of an older snapshot does not replace the content of a newer one.
      if state.content.map({ $0.version < snapshot.version }) ?? true { state.content = (snapshot.version, content) }
    }
    return content
  }

  /// Throws if another definition has come into force: the families of this one may then have been dropped, rather than
  /// being empty.
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

  /// Sets the record in memory. `version` is the commit that wrote the record.
  func set(_ record: ExtensionRecord, readySince: CommitVersion?, at version: CommitVersion) {
    state.withLock { state in
      state.record = record
      state.readySince = readySince
      for (index, isInUse) in record.partsInUse.enumerated() {
        state.partsReadySince[index] = isInUse ? state.partsReadySince[index] ?? readySince ?? version : nil
      }
    }
  }

  /// Returns whether a part has all rows of a commit.
  func isReady(part: Int, at version: CommitVersion) -> Bool {
    readySince(part: part).map { version >= $0 } ?? false
  }

  /// Returns the commit since which a part has all rows.
  func readySince(part: Int) -> CommitVersion? { state.withLock { $0.partsReadySince[part] } }

  /// The role of a record among those of its name.
  enum RecordRole {
    /// The record is in force, and a shadow that is being built to replace it stays.
    case inForce
    /// The record is in force, and has no shadow.
    case alone
    /// The record is that of a shadow, which is being built to replace the one in force.
    case shadow
  }

  /// Writes the record, and sets it in memory once the commit is applied.
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

  /// Returns the catalog's record of the extension's name, as a transaction sees it.
  func storedRecord(_ transaction: ReadTransaction) throws -> ExtensionRecord? {
    let bytes = try transaction.value(of: CatalogKey.databaseExtension(name), in: catalogFamily)
    return try bytes.map { try ExtensionRecord($0, name: name) }
  }

  /// Writes the catalog's record once more, for a commit that has to survive a loss of power.
  func rewrite(_ record: ExtensionRecord, _ transaction: WriteTransaction) throws {
    try transaction.pending.put(CatalogKey.databaseExtension(name), record.bytes, in: catalogFamily)
  }

  /// Moves the shared state to this definition's parts after the definition has replaced another. Must be called with
  /// the writer held, and the replacing commit applied.
  func shareReplaced(_ database: DatabaseCore) {
    guard let shared, let snapshot = try? database.backend.snapshot() else { return }
    let transaction = ReadTransaction(database: database, snapshot: snapshot)
    defer { transaction.end() }
    shared.replace(definition, SharedView(self, transaction, nil))
  }

  /// Makes the shared state, or moves it forward. Must be called with the writer held, so that no commit is made
  /// meanwhile.
  func share(_ database: DatabaseCore) throws {
    guard let shared else { return }
    let transaction = ReadTransaction(database: database, snapshot: try database.backend.snapshot())
    defer { transaction.end() }
    try shared.skip(to: SharedView(self, transaction, nil))
  }

  func set(_ progress: BuildProgress) { state.withLock { $0.progress = progress } }

  /// Reports the progress of the build to the last caller of `register`, and to the calls that wait.
  func reportProgress() {
    let (progressed, waiting, progress) = state.withLock { ($0.progressed, $0.waiting.values, $0.progress) }
    progressed?(progress)
    for progressed in waiting { progressed(progress) }
  }

  /// Adds a function that receives the progress of the build, until `removeWaiting` is called with the returned number.
  func addWaiting(_ progressed: @escaping @Sendable (BuildProgress) -> Void) -> Int {
    state.withLock { state in
      state.lastWaiting += 1
      state.waiting[state.lastWaiting] = progressed
      return state.lastWaiting
    }
  }

  func removeWaiting(_ number: Int) { state.withLock { _ = $0.waiting.removeValue(forKey: number) } }

  /// Sets the function that receives the progress, for another call that continues the build.
  func setProgressed(_ progressed: (@Sendable (BuildProgress) -> Void)?) {
    state.withLock { $0.progressed = progressed }
  }

  // MARK: - Families

  /// The families, by the index of the part, with `nil` for a part to which nothing was written.
  var families: [StorageFamily?] { state.withLock { $0.families } }

  /// Returns the family of a part, and makes it if there is none.
  func makeFamily(_ part: Int) throws -> StorageFamily {
    try state.withLock { state in
      if let family = state.families[part] { return family }
      let definition = traits.parts[part]
      let name = state.record.familyName(state.record.parts[part])
      // A family that is still to be dropped is empty, so the part continues in it. And the definition that this one
      // has replaced may have made the family in the transaction of the replacement.
      let mayExist = state.awaitsDrop || state.record.parts[part].watermark != []
      let present = mayExist ? try backend.families().first { $0.name == name } : nil
      let family = try present ?? backend.createFamily(name, options: definition.storageOptions)
      state.families[part] = family
      return family
    }
  }

  /// Returns the families of what the extension no longer keeps, and of parts that were given nothing. Families with
  /// runs of its build are in use.
  func deadFamilies() throws -> [StorageFamily] {
    try state.withLock { state in
      let living = state.families.compactMap { $0?.number }
      return try StoredFamilies(of: state.record, in: backend).parts.filter { family in
        !living.contains(family.number) && !state.record.keepsSpill(family.name)
      }
    }
  }

  /// Returns the highest generation of families that the extension has, or has had in this session.
  func lastGeneration() throws -> UInt32 {
    let owners = try backend.families().compactMap { ExtensionRecord.owner(ofFamily: $0.name) }
    return owners.filter { $0.number == number }.map(\.generation).reduce(record.generation, max)
  }

  /// The indexes of the parts that are derived from rows.
  var derivedParts: [Int] { traits.parts.indices.filter { traits.parts[$0].isDerived } }

  /// Forgets the families of all derived parts, which begin again empty.
  func forgetFamilies() {
    state.withLock { state in
      for (index, part) in traits.parts.enumerated() where part.isDerived { state.families[index] = nil }
    }
  }

  /// Forgets the families of some parts, which begin again empty. Their build drops the families first.
  func forgetFamilies(of parts: [Int]) {
    state.withLock { state in
      for part in parts { state.families[part] = nil }
      state.dropsAsked += 1
    }
  }

  /// Whether families that must be dropped were forgotten by a commit that may not be durable yet.
  var awaitsDrop: Bool { state.withLock { $0.awaitsDrop } }

  /// The number of times that families were forgotten.
  var dropsAsked: Int { state.withLock { $0.dropsAsked } }

  /// Notes that the commits that forgot families the first `count` times are durable, so that those families may be
  /// dropped.
  func noteDrops(_ count: Int) { state.withLock { $0.dropsDurable = max($0.dropsDurable, count) } }

  /// Drops families that the extension no longer uses.
  func drop(_ families: [StorageFamily]) throws { for family in families { try backend.dropFamily(family) } }

  // MARK: - Settings

  /// Returns the extension's number in a transaction, which may have assigned it, or `nil` if the catalog has no record
  /// of it.
  func knownNumber(in transaction: ReadTransaction) throws -> UInt32? {
    if number > 0 { return number }
    guard transaction.isWritable,
      let bytes = try transaction.value(of: CatalogKey.databaseExtension(name), in: catalogFamily)
    else { return nil }
    return try ExtensionRecord(bytes, name: name).number
  }

  /// Returns the extension's number, and assigns one if there is none: an extension that keeps only settings has a
  /// record from then on.
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
      catalog.noteAssigned(record.number)
      set(record, readySince: readySince, at: version)
    }
    return record.number
  }

  func settingKey(_ key: String, number: UInt32) -> [UInt8] { CatalogKey.settings(of: number) + Array(key.utf8) }

  func settingsFamily(isPersistent: Bool) -> StorageFamily? {
    isPersistent ? catalogFamily : state.withLock { $0.volatileSettings }
  }

  /// Takes over the settings in memory from the definition that this one has replaced.
  func adoptSettings(of other: RegisteredExtension) {
    guard let family = other.settingsFamily(isPersistent: false) else { return }
    state.withLock { if $0.volatileSettings == nil { $0.volatileSettings = family } }
  }

  func makeSettingsFamily(isPersistent: Bool, number: UInt32) throws -> StorageFamily {
    if isPersistent { return catalogFamily }
    return try state.withLock { state in
      if let family = state.volatileSettings { return family }
      let name = ExtensionRecord.settingsFamily(of: number)
      // A transaction that was rolled back may have made the family.
      let known = try backend.families().first { $0.name == name }
      let family = try known ?? backend.createFamily(name, options: StorageFamilyOptions(isVolatile: true))
      state.volatileSettings = family
      return family
    }
  }
}

/// The families of an extension that exist in the storage.
struct StoredFamilies {
  private let record: ExtensionRecord
  private(set) var parts: [StorageFamily] = []
  private(set) var volatileSettings: StorageFamily?

  init(of record: ExtensionRecord, in backend: any StorageBackend) throws {
    self.record = record
    // An extension with the number zero has no record, and keeps nothing.
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

/// The content on disk at one snapshot of an extension in a database that another program writes.
struct ExtensionContent: Sendable {
  /// The extension's number, or `nil` if the catalog has no record of it.
  let number: UInt32?
  /// The generation of the families.
  let generation: UInt32
  /// The families, by the index of the part.
  let families: [StorageFamily?]
  let volatileSettings: StorageFamily?
  /// The parts that have all rows.
  let readyParts: PartSet
  /// The reason why the extension can't be used as a whole, or `nil` if it can.
  let notWhole: DatabaseError?

  /// The content of an extension that keeps nothing.
  static let unrecorded = ExtensionContent(
    number: nil, generation: 0, families: [], volatileSettings: nil, readyParts: .all, notWhole: nil)
}

internal import Synchronization

/// The handle of a registered extension: `transaction[handle]` is its part in a transaction.
public struct Registered<Definition: DatabaseExtension>: Sendable {
  /// The name that it was registered by.
  public let name: String
}

/// An extension that is registered with an open database.
final class RegisteredExtension: Sendable {
  let name: String
  let definition: any DatabaseExtension
  let traits: ExtensionTraits
  /// Held by the thread that builds it.
  let build = BuildClaim()
  var number: UInt32 { record.number }
  let order: Int
  /// Whether nothing of what it kept before this session was of use.
  let beganAnew: Bool
  private let backend: any StorageBackend
  private let catalogFamily: StorageFamily
  private let state: Mutex<State>

  private struct State {
    var families: [String: StorageFamily] = [:]
    var record: ExtensionRecord
    /// The commit since which it can be read.
    var readySince: CommitVersion?
    var volatileSettings: StorageFamily?
    /// Where another program writes: what was loaded last, and the commit of which it is.
    var content: (version: CommitVersion, content: ExtensionContent)?
    /// Rows given to it so far, of about so many.
    var progress = BuildProgress(rowsDone: 0, rowsTotal: 0)
  }

  init(
    name: String, definition: any DatabaseExtension, traits: ExtensionTraits, record: ExtensionRecord, order: Int,
    backend: any StorageBackend, catalogFamily: StorageFamily, readySince: CommitVersion?, beganAnew: Bool = false
  ) throws {
    self.beganAnew = beganAnew
    self.name = name
    self.definition = definition
    self.traits = traits
    self.order = order
    self.backend = backend
    self.catalogFamily = catalogFamily
    let (families, settings) = try Self.families(of: record, isVolatile: !traits.isPersistent, in: backend)
    state = Mutex(State(families: families, record: record, readySince: readySince, volatileSettings: settings))
  }

  private static func families(
    of record: ExtensionRecord, isVolatile: Bool, in backend: any StorageBackend
  ) throws -> (parts: [String: StorageFamily], settings: StorageFamily?) {
    var parts: [String: StorageFamily] = [:]
    let prefix = ExtensionRecord.familyPrefix(record.number, isVolatile: isVolatile)
    let settingsName = record.familyName(settingsPart, isVolatile: true)
    var settings: StorageFamily?
    for family in try backend.families() {
      if family.name == settingsName {
        settings = family
      } else if family.name.hasPrefix(prefix) {
        parts[String(family.name.dropFirst(prefix.count))] = family
      }
    }
    return (parts, settings)
  }

  // MARK: - Where another program writes

  /// What is on disk at a snapshot, of a database that is only read here. It belongs to the transaction that asks: others
  /// may ask at other snapshots. Throws `.unknownExtension`, `.notReady`, `.extensionMismatch`, and `.definitionDiffers`
  /// where it is not what this definition would keep.
  func content(at snapshot: any StorageSnapshot) throws -> ExtensionContent {
    if let known = state.withLock({ $0.content }), known.version == snapshot.version { return known.content }
    guard let bytes = try snapshot.value(of: CatalogKey.databaseExtension(name), in: catalogFamily) else {
      throw DatabaseError(.unknownExtension, "the database has no extension \"\(name)\", and is read-only")
    }
    let record = try ExtensionRecord(bytes, name: name)
    try require(record)
    let (families, settings) = try Self.families(of: record, isVolatile: !traits.isPersistent, in: backend)
    let content = ExtensionContent(number: record.number, families: families, volatileSettings: settings)
    state.withLock { state in
      // A reader of an older snapshot leaves the newest to those that come.
      if state.content.map({ $0.version < snapshot.version }) ?? true { state.content = (snapshot.version, content) }
    }
    return content
  }

  private func require(_ record: ExtensionRecord) throws {
    try record.requireKind(traits.kind, name)
    if traits.isPopulated, !traits.isPersistent {
      throw DatabaseError(
        .definitionDiffers, "extension \"\(name)\" is kept in the memory of each program, and this one only reads")
    }
    if case .building = record.state {
      throw DatabaseError(.notReady, "extension \"\(name)\" is being built by another program")
    }
    let tag = record.tags.first ?? ""
    guard tag == traits.versionTag, record.layoutVersion == traits.layoutVersion, record.state == .ready,
      record.scope == traits.scope.recordText
    else {
      throw DatabaseError(
        .definitionDiffers,
        "extension \"\(name)\" is on disk with version \"\(tag)\", layout \(record.layoutVersion), scope \(record.scope) "
          + "and state \(record.state)")
    }
  }

  var record: ExtensionRecord { state.withLock { $0.record } }
  var readySince: CommitVersion? { state.withLock { $0.readySince } }
  var progress: BuildProgress { state.withLock { $0.progress } }

  func set(_ record: ExtensionRecord, readySince: CommitVersion?) {
    state.withLock { state in
      state.record = record
      state.readySince = readySince
    }
  }

  func set(_ progress: BuildProgress) { state.withLock { $0.progress = progress } }

  // MARK: - Families

  func family(_ part: String) -> StorageFamily? { state.withLock { $0.families[part] } }

  /// The family of a part, made where there is none.
  func makeFamily(_ part: String, isCounter: Bool = false) throws -> StorageFamily {
    guard !part.isEmpty else { throw DatabaseError(.invalidArgument, "a part of extension \"\(name)\" has no name") }
    return try state.withLock { state in
      if let family = state.families[part] { return family }
      let isVolatile = !traits.isPersistent
      let family = try backend.createFamily(
        state.record.familyName(part, isVolatile: isVolatile),
        options: StorageFamilyOptions(isCounter: isCounter, isVolatile: isVolatile))
      state.families[part] = family
      return family
    }
  }

  /// Empties everything that it keeps, with a transaction.
  func empty(_ transaction: WriteTransaction) throws {
    for family in state.withLock({ Array($0.families.values) }) {
      try transaction.pending.deleteRange(StorageRange(), in: family)
    }
  }

  /// Drops everything that it keeps.
  func dropFamilies() throws {
    let families = state.withLock { state in
      defer { state.families = [:] }
      return state.families.values.map(\.self)
    }
    for family in families { try backend.dropFamily(family) }
  }

  // MARK: - Settings

  /// The family of the settings in memory. No part of an extension is named so: parts are not empty.
  private static let settingsPart = ""

  func settingKey(_ key: String, number: UInt32) -> [UInt8] { CatalogKey.settings(of: number) + Array(key.utf8) }

  func settingsFamily(isPersistent: Bool) -> StorageFamily? {
    isPersistent ? catalogFamily : state.withLock { $0.volatileSettings }
  }

  func makeSettingsFamily(isPersistent: Bool) throws -> StorageFamily {
    if isPersistent { return catalogFamily }
    return try state.withLock { state in
      if let family = state.volatileSettings { return family }
      let family = try backend.createFamily(
        state.record.familyName(Self.settingsPart, isVolatile: true), options: StorageFamilyOptions(isVolatile: true))
      state.volatileSettings = family
      return family
    }
  }
}

/// What an extension of a database that another program writes has on disk, at one snapshot.
struct ExtensionContent: Sendable {
  let number: UInt32
  let families: [String: StorageFamily]
  let volatileSettings: StorageFamily?

  /// Runs a look into the families. Throws `.snapshotTooOld` where one of them is gone by now.
  func reading<Result>(
    _ transaction: ReadTransaction, _ name: String, _ body: () throws -> Result
  ) throws -> Result {
    do { return try body() } catch {
      let living = try transaction.database.backend.families().map(\.number)
      guard families.values.contains(where: { !living.contains($0.number) }) else { throw error }
      throw DatabaseError(
        .snapshotTooOld,
        "extension \"\(name)\" was unregistered or rebuilt by the program that writes; begin another transaction",
        cause: error)
    }
  }
}

/// How far the building of an extension is.
public struct BuildProgress: Hashable, Sendable {
  /// The rows that it was given.
  public var rowsDone: Int
  /// The rows that there were when it began.
  public var rowsTotal: Int

  /// So many of so many.
  public init(rowsDone: Int, rowsTotal: Int) {
    self.rowsDone = rowsDone
    self.rowsTotal = rowsTotal
  }

  /// From 0 to 1.
  public var fraction: Double { rowsTotal == 0 ? 1 : min(1, Double(rowsDone) / Double(rowsTotal)) }
}

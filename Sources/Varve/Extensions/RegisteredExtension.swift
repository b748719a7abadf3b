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
  let number: UInt32
  let order: Int
  private let backend: any StorageBackend
  private let catalogFamily: StorageFamily
  private let state: Mutex<State>

  private struct State {
    var families: [String: StorageFamily] = [:]
    var record: ExtensionRecord
    /// The commit since which it can be read.
    var readySince: CommitVersion?
    var volatileSettings: StorageFamily?
    /// Rows given to it so far, of about so many.
    var progress = BuildProgress(rowsDone: 0, rowsTotal: 0)
  }

  init(
    name: String, definition: any DatabaseExtension, record: ExtensionRecord, order: Int,
    backend: any StorageBackend, catalogFamily: StorageFamily, readySince: CommitVersion?
  ) throws {
    self.name = name
    self.definition = definition
    number = record.number
    self.order = order
    self.backend = backend
    self.catalogFamily = catalogFamily
    var families: [String: StorageFamily] = [:]
    let prefix = ExtensionRecord.familyPrefix(number, isVolatile: !definition.isPersistent)
    let settingsName = record.familyName(Self.settingsPart, isVolatile: true)
    var settings: StorageFamily?
    for family in try backend.families() {
      if family.name == settingsName {
        settings = family
      } else if family.name.hasPrefix(prefix) {
        families[String(family.name.dropFirst(prefix.count))] = family
      }
    }
    state = Mutex(State(families: families, record: record, readySince: readySince, volatileSettings: settings))
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
      let isVolatile = !definition.isPersistent
      let family = try backend.createFamily(
        state.record.familyName(part, isVolatile: isVolatile),
        options: StorageFamilyOptions(isCounter: isCounter, isVolatile: isVolatile))
      state.families[part] = family
      return family
    }
  }

  /// Empties everything that it keeps, with a transaction.
  func empty(_ transaction: WriteTransaction) {
    for family in state.withLock({ Array($0.families.values) }) {
      transaction.pending.deleteRange(StorageRange(), in: family)
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

  func settingKey(_ key: String) -> [UInt8] { CatalogKey.settings(of: number) + Array(key.utf8) }

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

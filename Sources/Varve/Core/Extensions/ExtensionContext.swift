/// The context of an extension in one transaction: its parts of the storage, its settings, and the rows.
public final class ExtensionContext<Definition: DatabaseExtension> {
  let open: OpenExtension
  private let givenShared: Definition.Shared
  /// The state that all transactions share. It is as of `sharedVersion`; a transaction that reads an earlier commit, or
  /// needs what commits in flight have written, reads the parts instead.
  public var shared: Definition.Shared {
    // The shared state does not contain what a build has collected so far.
    if let spill = open.reader?.spill, open.registered.shared != nil { _ = spill.refuse("uses what it shares") }
    return givenShared
  }

  init(_ open: OpenExtension) throws {
    self.open = open
    guard let shared = (open.registered.shared.map { $0.value } ?? ()) as? Definition.Shared else {
      throw DatabaseError(.notReady, "extension \"\(open.name)\" has no shared state yet")
    }
    givenShared = shared
  }

  /// The last acknowledged commit that `shared` has received, or zero if nothing is shared.
  public var sharedVersion: CommitVersion { open.registered.shared?.version ?? .zero }

  /// A Boolean value that indicates whether an observer or a connection currently receives change sets, and would
  /// receive that of this transaction's commit.
  @_spi(Extensions) public var isObserved: Bool { open.writer?.database.isObserved ?? false }

  /// A number that identifies the content of the extension: it is another one for a definition that was put in force
  /// instead and keeps other content, and after the extension was unregistered.
  @_spi(Extensions) public var contentIdentity: UInt64 {
    let (number, generation) =
      if let content = open.content {
        (content.number ?? 0, content.generation)
      } else {
        (open.registered.record.number, open.registered.record.generation)
      }
    return UInt64(number) << 32 | UInt64(generation)
  }

  /// The name under which the extension is registered.
  public var name: String { open.name }

  /// The progress of the extension's build, worded as the end of a message.
  var buildText: String {
    open.content == nil
      ? open.registered.buildText : "is being built by the program that writes, or is not among those that it has"
  }

  /// Returns the commit since which a part has all rows, if this transaction sees that commit and the process is the
  /// one that writes, or `nil` otherwise.
  func readySince(part: Int) -> CommitVersion? {
    guard open.content == nil, let reader = open.reader,
      let since = open.registered.readySince(part: part), reader.snapshot.version >= since
    else { return nil }
    return since
  }

  /// The maximum sizes of keys, values and commits.
  public var limits: StorageLimits { open.limits }

  /// The transaction, for access to rows and to other extensions. Throws `.transactionEnded` after its end.
  public var transaction: ReadTransaction {
    get throws {
      guard let reader = open.reader else { throw ReadTransaction.endedError }
      return reader
    }
  }

  /// The transaction if it can write, or `nil` in a read and after its end.
  public var writeTransaction: WriteTransaction? { open.writer }

  /// Returns a part of the extension in this transaction. Call it once for each part, in `makeTransaction`. Throws
  /// `.invalidArgument` for a name that is not in the configuration.
  public func part(_ name: String) throws -> Part {
    try open.part(name)
  }

  /// Returns the part with an index in the configuration.
  func part(at index: Int) -> Part { Part(open, index) }

  /// Notifies the extensions that depend on this one of a change that does not change rows.
  ///
  /// Each of them receives it in `dependencyDidChange`, after the current change. Throws what they throw, which dooms
  /// the transaction.
  public func notifyDependents(_ change: any Sendable) throws {
    try open.writing().notifyDependents(of: open.registered, change)
  }

  // MARK: - Settings

  /// Returns a setting, or `nil` if it is not set.
  ///
  /// `isPersistent` selects one of the two sets of settings: the one on disk, or the one in memory, which is empty
  /// after each open.
  public func setting(_ key: String, isPersistent: Bool = true) throws -> ExtensionSetting? {
    let transaction = try open.reading()
    let registered = open.registered
    let volatile = open.content.map { $0.volatileSettings } ?? registered.settingsFamily(isPersistent: false)
    guard let family = isPersistent ? registered.settingsFamily(isPersistent: true) : volatile,
      let number = try open.content?.number ?? registered.knownNumber(in: transaction)
    else { return nil }
    return try open.followed(transaction) {
      try transaction.value(of: registered.settingKey(key, number: number), in: family)
    }.map { try ExtensionSetting($0) }
  }

  /// Sets a setting, or removes it if the value is `nil`.
  public func set(_ setting: ExtensionSetting?, for key: String, isPersistent: Bool = true) throws {
    let writing = try open.writing()
    if let spill = writing.spill { throw spill.refuse("changes a setting") }
    let registered = open.registered
    let number = try registered.number(in: writing)
    let family = try registered.makeSettingsFamily(isPersistent: isPersistent, number: number)
    let key = registered.settingKey(key, number: number)
    writing.partWrites?.note(key, in: family)
    guard let bytes = setting?.bytes else { return try writing.pending.delete(key, in: family) }
    try open.check(keySize: key.count, valueSize: bytes.count)
    try writing.pending.put(key, bytes, in: family)
  }

  // MARK: - Rows by number

  /// Returns the key of the row of the extension's scope that has a number, or `nil` if there is none, or no longer
  /// one.
  ///
  /// Throws `.invalidArgument` for an extension whose configuration does not have
  /// `ExtensionConfiguration.asksRowsByID`. Complexity: one lookup.
  public func key(of id: RowID) throws -> RowKey? {
    let traits = open.registered.traits
    guard let map = traits.rowIDMap else {
      throw DatabaseError(
        .invalidArgument, "extension \"\(name)\" asks for rows by number, and its configuration does not say so")
    }
    return try transaction[ExtensionHandle(name: map, definition: RowIDMap(scope: traits.scope))].key(of: id)
  }

  /// Returns the row that has a number: the lookup of `key(of:)` and that of the row. Throws as `key(of:)` does.
  public func row(of id: RowID) throws -> Row? { try key(of: id).flatMap { try transaction.row($0) } }
}

/// What an extension works with in one transaction: its parts of the storage, its settings, and the rows.
public final class ExtensionContext<Definition: DatabaseExtension> {
  let open: OpenExtension
  private let givenShared: Definition.Shared
  /// What all transactions share. It stands at `sharedVersion`; a transaction that reads an earlier commit, or needs what
  /// commits in flight have written, reads the parts.
  public var shared: Definition.Shared {
    // What was given so far is not in it.
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

  /// The last acknowledged commit that `shared` has received; zero where nothing is shared.
  public var sharedVersion: CommitVersion { open.registered.shared?.version ?? .zero }

  /// Whether an observer or a connection will receive the change set of this transaction's commit, as of now.
  public var isObserved: Bool { open.writer?.database.isObserved ?? false }

  /// The name that the extension was registered by.
  public var name: String { open.name }

  /// How far its build is, as the end of a message.
  var buildText: String {
    open.content == nil
      ? open.registered.buildText : "is being built by the program that writes, or is not among those that it has"
  }

  /// The commit since which a part has all rows, where this transaction sees it, in the process that writes; nil: it has not.
  func readySince(part: Int) -> CommitVersion? {
    guard open.content == nil, let reader = open.reader,
      let since = open.registered.readySince(part: part), reader.snapshot.version >= since
    else { return nil }
    return since
  }

  /// How large keys, values and commits may be.
  public var limits: StorageLimits { open.limits }

  /// The transaction, for rows and for other extensions. Throws `.transactionEnded` after its end.
  public var transaction: ReadTransaction {
    get throws {
      guard let reader = open.reader else { throw ReadTransaction.endedError }
      return reader
    }
  }

  /// The transaction, where it can write; nil in a read, and after its end.
  public var writeTransaction: WriteTransaction? { open.writer }

  /// A part of the extension in this transaction: to be taken once, in `makeTransaction`. Throws `.invalidArgument` for
  /// a name that its configuration does not have.
  public func part(_ name: String) throws -> Part {
    try open.part(name)
  }

  /// The same by its index in the configuration.
  func part(at index: Int) -> Part { Part(open, index) }

  /// Notifies the extensions that depend on this one of a change that does not change rows: each receives it by
  /// `dependencyDidChange`, after the current change. Throws what they throw, which dooms the transaction.
  public func notifyDependents(_ change: any Sendable) throws {
    try open.writing().notifyDependents(of: open.registered, change)
  }

  // MARK: - Settings

  /// A setting; nil where it is not set. `isPersistent` says which of the two sets of settings is meant: the one
  /// on disk, or the one in memory, which begins empty at each open.
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

  /// Sets or, with nil, removes a setting.
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

  /// Which row of the extension's scope has a number; nil where there is none, or not any more. Throws `.invalidArgument` for an extension that
  /// does not say that it asks (`ExtensionConfiguration.asksRowsByID`). Complexity: one look.
  public func key(of id: RowID) throws -> RowKey? {
    let traits = open.registered.traits
    guard let map = traits.rowIDMap else {
      throw DatabaseError(
        .invalidArgument, "extension \"\(name)\" asks for rows by number, and its configuration does not say so")
    }
    return try transaction[ExtensionHandle(name: map, definition: RowIDMap(scope: traits.scope))].key(of: id)
  }

  /// The row that has a number: `key(of:)`, and the look for it. Throws as that does.
  public func row(of id: RowID) throws -> Row? { try key(of: id).flatMap { try transaction.row($0) } }
}

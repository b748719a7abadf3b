/// A transaction that changes the database: all changes of its closure are committed together, or none is.
///
/// It sees its own changes at once; other transactions see them when they are acknowledged. An operation that throws
/// has changed nothing, and the closure may continue.
public final class WriteTransaction: ReadTransaction {
  /// The label of the transaction in change sets, errors and log lines.
  public let label: String?
  let pending: any StorageWriting
  var changes = ChangeRecorder()
  let hooks: HookQueue
  /// The edition of `registered`.
  let extensionEdition: UInt64
  /// The extensions that receive changes. While the writer is held, the list changes only by replacements within this
  /// transaction.
  private(set) var registered: ExtensionList
  /// The definitions that this transaction has replaced, or `nil` if there are none.
  private(set) var replaced: ReplacedDefinitions?
  /// The error that prevents the transaction from being committed.
  private(set) var doom: (any Error)? {
    didSet { forbidUse() }
  }
  /// The number of open savepoints.
  private var depth = 0
  /// The depth at which `rollBack` was called. It stays set until the savepoint of that depth is undone, even if the
  /// closure has caught the error.
  private var rolledBackDepth: Int?
  /// The writes to observed parts, or `nil` if none was observed when the transaction began.
  let partWrites: PartWrites?
  /// The replaced rows in collections whose observers compare them, or `nil` if there were none when the transaction
  /// began.
  let replacedRows: ReplacedRows?
  /// Whether the transaction is an independent commit, which writes only to independent parts, without the writer.
  var isIndependent = false
  /// Whether the transaction is concurrent and has encountered something that only the holder of the writer may do, so
  /// that it can't be committed.
  private(set) var needsWriter = false
  /// The collection in which rows that were removed together lay far from each other, and the number of removals since
  /// for which a scan was skipped.
  private var farApart: (collection: UInt32, skipped: Int)?
  /// The closures to call when the commit has been acknowledged.
  var completions: [@Sendable () -> Void] = []
  /// The closures to call when the storage has accepted the commit, before the next writer begins.
  private(set) var appliedHandlers: [(CommitVersion) -> Void] = []
  /// The number of rows that were added to each collection minus those that were removed, which is written once, with
  /// the commit.
  private var addedRows: [AddedRows] = []
  /// The changes of counted parts. They are at a pointer, because a field of a class would be checked for exclusive
  /// access with each entry that is counted.
  var countedWrites: CountedWrites {
    @inline(__always) _read { yield counted.pointee }
    @inline(__always) _modify { yield &counted.pointee }
  }
  private let counted: StatePointer<CountedWrites>
  /// An encoded object of the program for the change set.
  var custom: [UInt8]?
  /// Whether the feed's entries of earlier commits become meaningless with this commit, so that the feed is restarted:
  /// observers and subscriptions receive a gap.
  var cutsFeed = false

  /// Creates a transaction. With a spill, it is one in which a build by tables collects entries: an operation that is
  /// not allowed in it ends that build.
  init(database: DatabaseCore, snapshot: any StorageSnapshot, label: String?, spill: Spill? = nil) throws {
    self.label = label
    pending = try spill.map { SpillWriting($0, snapshot) } ?? database.backend.begin(at: snapshot)
    counted = StatePointer(CountedWrites())
    // The edition is read before the list, so that a change in between is detected.
    extensionEdition = database.extensions.edition
    registered = database.extensions.list
    hooks = HookQueue(slots: registered.ordered.count)
    partWrites = spill == nil ? database.observedParts.makeWrites() : nil
    replacedRows = spill == nil ? database.observedRows.makeReplacedRows() : nil
    super.init(database: database, snapshot: snapshot, writing: pending, spill: spill)
    if spill != nil { hooks.rowBan = .ingestion }
  }

  deinit { counted.destroy() }

  override var useError: DatabaseError {
    if !hasEnded, let doom { return Self.doomed(doom) }
    return super.useError
  }

  private static func doomed(_ cause: any Error) -> DatabaseError {
    DatabaseError(
      .doomed, "an extension failed after a change; the transaction can only be rolled back", cause: cause)
  }

  /// Prevents the transaction from being committed.
  func doom(_ cause: any Error) {
    if doom == nil { doom = cause }
  }

  /// Throws in a concurrent transaction if an extension that does not support these receives a change. The attempt ends
  /// then, and the closure runs again with the writer held.
  func requireWriter(for other: RegisteredExtension) throws {
    if reads == nil || isIndependent || other.traits.configuration.isConcurrent { return }
    needsWriter = true
    let error = DatabaseError(
      .conflict,
      "extension \"\(other.name)\" does not work in writes side by side; the closure runs again with the writer held")
    doom(error)
    throw error
  }

  /// Runs code of an extension. If it throws, the transaction is doomed.
  func dooming<Result>(_ body: () throws -> Result) throws -> Result {
    do { return try body() } catch {
      doom(error)
      throw error
    }
  }

  /// Undoes everything that the innermost `write` around the call has done. That `write` throws `.rolledBack`: the
  /// outermost one commits nothing, and a nested one undoes only its own changes.
  ///
  /// Any error that the closure throws does the same. A closure that catches the error of this method does not keep its
  /// `write`, which is undone and throws all the same.
  public func rollBack() throws -> Never {
    rolledBackDepth = depth
    throw Self.rolledBackError
  }

  private static var rolledBackError: DatabaseError {
    DatabaseError(.rolledBack, "the closure of the write called rollBack(); nothing of it was kept")
  }

  /// Throws at the end of the closure of a `write` if the closure has called `rollBack`.
  func requireNoRollback() throws {
    if rolledBackDepth == depth { throw Self.rolledBackError }
  }

  /// Adds a closure that is called once the commit has been acknowledged. The closures are called in the order in which
  /// they were added, on the thread that commits, but not if the transaction is rolled back or fails.
  public func onCommit(_ body: @escaping @Sendable () -> Void) { completions.append(body) }

  /// Adds a closure that is called when the storage has accepted the commit, while the writer is still held.
  func onApplied(_ body: @escaping (CommitVersion) -> Void) { appliedHandlers.append(body) }

  override func end() {
    super.end()
    // The closures may retain the transaction, and with it a snapshot of the storage.
    appliedHandlers = []
    completions = []
    hooks.end()
  }

  /// Sets the custom object of the change set; the last call counts. The change set is delivered, and kept in the feed,
  /// even if the transaction changes nothing else.
  public func setCustomObject(_ object: some Encodable) throws {
    try check()
    custom = try database.coding.encodeStandalone(object)
  }

  /// Returns the effect of a commit that the storage has accepted on the shared state of extensions.
  func deltas(_ version: CommitVersion) -> [Publication.Sharing] {
    registered.sharing.map { registered in
      let open = opened.first { $0.registered === registered }
      return Publication.Sharing(registered: registered, delta: open?.listener?.takenDelta(version))
    }
  }

  // MARK: - Counts of rows

  fileprivate struct AddedRows {
    let info: CollectionInfo
    var number: Int
  }

  /// Adds a number, which may be negative, to the count of a collection's rows.
  @inline(__always)
  func addRows(_ number: Int, to info: CollectionInfo) {
    // Most transactions write to one or two collections.
    if let index = addedRows.firstIndex(where: { $0.info.record.id == info.record.id }) {
      addedRows[index].number += number
    } else {
      addedRows.append(AddedRows(info: info, number: number))
    }
  }

  override func rowsAdded(to info: CollectionInfo) -> Int {
    addedRows.first { $0.info.record.id == info.record.id }?.number ?? 0
  }

  /// Adds the changes of the counts of rows to a batch.
  func writeCounts(to batch: inout StorageBatch) {
    for added in addedRows where added.number != 0 {
      batch.add(Int64(added.number), to: added.info.countKey, in: database.catalog.families.counts)
    }
  }

  // MARK: - Rows that lie close

  /// Returns whether rows that are removed together may lie close to each other. If they did not before, it is tried
  /// again from time to time.
  func rowsAreNearby(_ info: CollectionInfo) -> Bool {
    guard let known = farApart, known.collection == info.record.id else { return true }
    if known.skipped >= 16 { return true }
    farApart?.skipped += 1
    return false
  }

  func noteRowsFarApart(_ info: CollectionInfo) { farApart = (info.record.id, 0) }

  // MARK: - Savepoints

  /// Runs `body`; if it throws, only the changes that it made are undone.
  ///
  /// A nested `write` does the same. Everything is restored: rows, the change set, and the pending changes of
  /// extensions.
  @discardableResult
  public func savepoint<Result>(_ body: () throws -> Result) throws -> Result {
    try check()
    let location = try beginSavepoint()
    do {
      let result = try body()
      try requireNoRollback()
      release(location)
      return result
    } catch {
      undo(to: location)
      throw error
    }
  }

  /// The state to which a savepoint is undone.
  struct Savepoint {
    fileprivate let changes: Int
    fileprivate let openCount: Int
    /// The marks of the extensions that keep state in fields.
    fileprivate let marks: [(open: OpenExtension, mark: Int)]
    fileprivate let eventCount: Int
    fileprivate let completionCount: Int
    fileprivate let appliedCount: Int
    fileprivate let countedWrites: CountedWrites
    fileprivate let custom: [UInt8]?
    fileprivate let addedRows: [AddedRows]
    fileprivate let replaced: ReplacedDefinitions?
  }

  func beginSavepoint() throws -> Savepoint {
    try pending.setSavepoint()
    depth += 1
    return Savepoint(
      changes: changes.setSavepoint(), openCount: opened.count, marks: marks,
      eventCount: hooks.events.count, completionCount: completions.count, appliedCount: appliedHandlers.count,
      countedWrites: countedWrites, custom: custom, addedRows: addedRows, replaced: replaced)
  }

  func release(_ location: Savepoint) {
    depth -= 1
    pending.releaseSavepoint()
    changes.releaseSavepoint()
  }

  func undo(to location: Savepoint) {
    if rolledBackDepth == depth { rolledBackDepth = nil }
    depth -= 1
    pending.rollBack()
    changes.rollBack(to: location.changes)
    restore(location.replaced)
    forgetOpened(after: location.openCount)
    for (open, mark) in location.marks { open.listener?.rollBack(to: mark) }
    // No hook has received the queued changes that are undone.
    hooks.truncate(to: location.eventCount)
    completions.removeSubrange(location.completionCount...)
    appliedHandlers.removeSubrange(location.appliedCount...)
    countedWrites = location.countedWrites
    custom = location.custom
    addedRows = location.addedRows
  }

  // MARK: - Replaced definitions

  /// Puts other definitions in force for the rest of this transaction.
  func install(_ replaced: ReplacedDefinitions) {
    self.replaced = replaced
    use(replaced.list)
  }

  private func restore(_ replaced: ReplacedDefinitions?) {
    if replaced === self.replaced { return }
    let emptied = self.replaced?.emptied ?? []
    self.replaced = replaced
    use(replaced?.list ?? database.extensions.list)
    // Extensions that would have been built again receive changes as before.
    for registered in emptied where replaced?.emptied.contains(where: { $0 === registered }) != true {
      forgetReach(of: registered)
    }
  }

  private func use(_ list: ExtensionList) {
    hooks.move(from: registered, to: list, opened)
    registered = list
    for open in opened { open.isReplaced = !list.contains(open.registered) }
  }

  override func find(_ name: String) throws -> RegisteredExtension? { registered[name] }

  override func isReady(_ registered: RegisteredExtension) -> Bool {
    guard let replaced else { return registered.readySince != nil }
    if replaced.ready.contains(where: { $0 === registered }) { return true }
    return registered.readySince != nil && !replaced.emptied.contains { $0 === registered }
  }

  private var marks: [(open: OpenExtension, mark: Int)] {
    if opened.isEmpty { return [] }
    return opened.compactMap { open in
      guard open.registered.traits.configuration.keepsState, let listener = open.listener else { return nil }
      return (open, listener.mark())
    }
  }

  /// Removes extensions that were opened after a savepoint that is undone; they are opened again when they are needed.
  private func forgetOpened(after count: Int) {
    guard opened.count > count else { return }
    for open in opened[count...] { hooks.forget(open) }
    opened.removeSubrange(count...)
  }

  /// Whether there is nothing to commit. A custom object alone is committed, because observers receive it.
  var isUnchanged: Bool { pending.isEmpty && changes.isEmpty && custom == nil }
}

/// A transaction that changes the database: all that its closure did is committed together, or nothing.
///
/// It sees its own changes at once; everybody else sees them when they were acknowledged. An operation that
/// throws has changed nothing, and the closure may go on.
public final class WriteTransaction: ReadTransaction {
  /// What the program calls it, in change sets, errors and log lines.
  public let label: String?
  let pending: any StorageWriting
  var changes = ChangeRecorder()
  let hooks: HookQueue
  /// Of `registered`.
  let extensionEdition: UInt64
  /// The extensions that receive changes. None comes or goes while the writer is held, but what this transaction itself
  /// replaces.
  private(set) var registered: ExtensionList
  /// The definitions that this transaction has replaced; nil: none.
  private(set) var replaced: ReplacedDefinitions?
  /// Why it can't be committed any more.
  private(set) var doom: (any Error)? {
    didSet { forbidUse() }
  }
  /// How many savepoints are open.
  private var depth = 0
  /// At which depth `rollback` was called, until the savepoint there is undone: also where the closure has caught what it
  /// threw.
  private var rolledBackDepth: Int?
  /// What it writes to parts that are observed; nil: none was when it began.
  let partWrites: PartWrites?
  /// The rows that it replaces, of collections whose observers compare them; nil: none did when it began.
  let replacedRows: ReplacedRows?
  /// Whether it writes to independent parts alone, beside the writer.
  var isAside = false
  /// Whether it runs beside the writer, and has come to something that only its holder may do: it can't be committed.
  private(set) var needsWriter = false
  /// The collection in which rows that were removed together lay far from each other, and how often it was not looked at
  /// since whether others do.
  private var farApart: (collection: UInt32, skipped: Int)?
  /// Called when the commit was acknowledged.
  var completions: [@Sendable () -> Void] = []
  /// Called when the storage has taken the commit, before the next writer begins.
  private(set) var appliedHandlers: [(CommitVersion) -> Void] = []
  /// How many rows were added to each collection, less those that were removed: written once, with the commit.
  private var addedRows: [AddedRows] = []
  /// An object of the program's that the change set carries.
  var custom: [UInt8]?
  /// Whether what the feed has of earlier commits means nothing after this one, so that it begins again: observers and
  /// subscriptions receive a gap.
  var cutsFeed = false

  /// With a spill it is one of those in which a build collects: what it may not do ends the build by tables.
  init(database: DatabaseCore, snapshot: any StorageSnapshot, label: String?, spill: Spill? = nil) throws {
    self.label = label
    pending = try spill.map { SpillWriting($0, snapshot) } ?? database.backend.begin(at: snapshot)
    // Before the list: what changes in between is noticed.
    extensionEdition = database.extensions.edition
    registered = database.extensions.list
    hooks = HookQueue(slots: registered.ordered.count)
    partWrites = spill == nil ? database.observations.parts.makeWrites() : nil
    replacedRows = spill == nil ? database.observations.rows.makeReplacedRows() : nil
    super.init(database: database, snapshot: snapshot, writing: pending, spill: spill)
    if spill != nil { hooks.rowBan = .ingestion }
  }

  override var useError: DatabaseError {
    if !hasEnded, let doom { return Self.doomed(doom) }
    return super.useError
  }

  private static func doomed(_ cause: any Error) -> DatabaseError {
    DatabaseError(
      .doomed, "an extension failed after a change; the transaction can only be rolled back", cause: cause)
  }

  /// From now on the transaction can't be committed.
  func doom(_ cause: any Error) {
    if doom == nil { doom = cause }
  }

  /// A transaction beside the writer ends at the first change that an extension receives which does not work so. The
  /// closure runs again with the writer held.
  func requireWriter(for other: RegisteredExtension) throws {
    if reads == nil || isAside || other.traits.configuration.isConcurrent { return }
    needsWriter = true
    let error = DatabaseError(
      .conflict,
      "extension \"\(other.name)\" does not work in writes side by side; the closure runs again with the writer held")
    doom(error)
    throw error
  }

  /// Runs what an extension does. An error of it dooms the transaction.
  func dooming<Result>(_ body: () throws -> Result) throws -> Result {
    do { return try body() } catch {
      doom(error)
      throw error
    }
  }

  /// Undoes everything that the innermost `write` around it has done, which throws `.rolledBack`: the outermost commits
  /// nothing, and a nested one undoes its own part alone. An error of the program's own does the same. A closure that
  /// catches what this throws does not keep its `write`: that is undone and throws all the same.
  public func rollback() throws -> Never {
    rolledBackDepth = depth
    throw Self.rolledBackError
  }

  private static var rolledBackError: DatabaseError {
    DatabaseError(.rolledBack, "the closure of the write called rollback(); nothing of it was kept")
  }

  /// At the end of the closure of a `write`: throws where that has called `rollback`.
  func requireNoRollback() throws {
    if rolledBackDepth == depth { throw Self.rolledBackError }
  }

  /// Calls `body` once the commit was acknowledged: in order of adding, on the thread that commits. Not called
  /// where the transaction is rolled back or fails.
  public func onCommit(_ body: @escaping @Sendable () -> Void) { completions.append(body) }

  /// Calls `body` when the storage has taken the commit, while the writer is still held.
  func onApplied(_ body: @escaping (CommitVersion) -> Void) { appliedHandlers.append(body) }

  override func end() {
    super.end()
    // These may hold the transaction, and with it a snapshot of the storage.
    appliedHandlers = []
    completions = []
    hooks.end()
  }

  /// Gives the change set an object of the program's; the last one counts. It is delivered, and kept in the feed, also where
  /// the transaction changes nothing else.
  public func setCustomObject(_ object: some Encodable) throws {
    try check()
    custom = try database.coding.encodeStandalone(object)
  }

  /// What a commit that the storage has taken means for the shared state of extensions.
  func deltas(_ version: CommitVersion) -> [Publication.Sharing] {
    registered.sharing.map { registered in
      let open = opened.first { $0.registered === registered }
      return Publication.Sharing(registered: registered, delta: open?.hearer?.takenDelta(version))
    }
  }

  // MARK: - Counts of rows

  fileprivate struct AddedRows {
    let info: CollectionInfo
    var number: Int
  }

  /// Rows came or went.
  @inline(__always)
  func addRows(_ number: Int, to info: CollectionInfo) {
    // Most transactions write to one collection or two.
    if let index = addedRows.firstIndex(where: { $0.info.record.id == info.record.id }) {
      addedRows[index].number += number
    } else {
      addedRows.append(AddedRows(info: info, number: number))
    }
  }

  override func rowsAdded(to info: CollectionInfo) -> Int {
    addedRows.first { $0.info.record.id == info.record.id }?.number ?? 0
  }

  /// Adds how the counts of rows changed to a batch.
  func writeCounts(to batch: inout StorageBatch) {
    for added in addedRows where added.number != 0 {
      batch.add(Int64(added.number), to: added.info.countKey, in: database.catalog.families.counts)
    }
  }

  // MARK: - Rows that lie close

  /// Whether rows that are removed together may lie close to each other: looked at again from time to time.
  func rowsLieClose(_ info: CollectionInfo) -> Bool {
    guard let known = farApart, known.collection == info.record.id else { return true }
    if known.skipped >= 16 { return true }
    farApart?.skipped += 1
    return false
  }

  func noteRowsFarApart(_ info: CollectionInfo) { farApart = (info.record.id, 0) }

  // MARK: - Savepoints

  /// Runs `body` so that, where it throws, what it did is undone, and nothing else.
  ///
  /// What a nested `write` does. Everything goes back: rows, change set, and what extensions have pending.
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

  /// Where a savepoint was set.
  struct Savepoint {
    fileprivate let changes: Int
    fileprivate let openCount: Int
    /// Of those that keep state in fields.
    fileprivate let marks: [(open: OpenExtension, mark: Int)]
    fileprivate let eventCount: Int
    fileprivate let completionCount: Int
    fileprivate let appliedCount: Int
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
      custom: custom, addedRows: addedRows, replaced: replaced)
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
    for (open, mark) in location.marks { open.hearer?.rollBack(to: mark) }
    // No hook has received yet what is undone.
    hooks.truncate(to: location.eventCount)
    completions.removeSubrange(location.completionCount...)
    appliedHandlers.removeSubrange(location.appliedCount...)
    custom = location.custom
    addedRows = location.addedRows
  }

  // MARK: - Replaced definitions

  /// From now on other definitions are in force here.
  func install(_ replaced: ReplacedDefinitions) {
    self.replaced = replaced
    use(replaced.list)
  }

  private func restore(_ replaced: ReplacedDefinitions?) {
    if replaced === self.replaced { return }
    let emptied = self.replaced?.emptied ?? []
    self.replaced = replaced
    use(replaced?.list ?? database.extensions.list)
    // Those that would have been built again receive changes as before.
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
      guard open.registered.traits.configuration.keepsState, let hearer = open.hearer else { return nil }
      return (open, hearer.mark())
    }
  }

  /// Extensions that were first asked for after a savepoint which is undone are made again.
  private func forgetOpened(after count: Int) {
    guard opened.count > count else { return }
    for open in opened[count...] { hooks.forget(open) }
    opened.removeSubrange(count...)
  }

  /// Whether there is nothing to commit. An object for the change set alone is something: someone wants it heard.
  var isUnchanged: Bool { pending.isEmpty && changes.isEmpty && custom == nil }
}

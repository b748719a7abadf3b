/// The build of an extension in the background, on a thread of the database.
///
/// # Steps
/// 1. The families of parts that begin again are dropped; the commit of the registration has emptied them.
/// 2. Chunk by chunk, each in an ordinary write, the next rows are passed to the extension in their current state as
///    inserted, and the watermark of its parts moves in the same commit. Other writers run in between. From the
///    registration on, the extension receives the changes of rows up to the watermark.
/// 3. One commit marks the extension as *ready*.
///
/// No snapshot is held, so a build may take any time, and no row can be missed: a change of a row after the watermark
/// is left to the build, and a change of a row before it is received by the extension. A chunk ends after a row whose
/// hooks changed rows, and the next one reads the following rows again. Parts with different watermarks are built up to
/// the next watermark, and from there on together.
///
/// # How a build ends
/// - An error of the extension empties its parts. The record is marked *failed*, until `retry` or another version.
/// - A crash, `close` and a failure of the storage leave the watermark; `retry` and the next registration continue.
/// - The build waits for a dependency that is being built, and, if a dependency has failed, until that one is ready.
///
/// A stale extension that catches up is updated from the feed instead (`CatchingUp`); if that is not possible, it is
/// built again. The first build of an extension that catches up, over many rows, uses tables (`IngestedBuild`) instead
/// of the chunks above.
struct ExtensionBuild {
  private let core: DatabaseCore
  private let registered: RegisteredExtension

  // Members that `IngestedBuild` uses are not private.

  init(_ core: DatabaseCore, _ registered: RegisteredExtension) {
    self.core = core
    self.registered = registered
  }

  private var name: String { registered.name }

  /// The role of the record: the extension is in force, or is built to replace the one in force.
  var role: RegisteredExtension.RecordRole { core.extensions.list.isShadow(registered) ? .shadow : .inForce }

  /// The maximum number of rows of a chunk, and the maximum time that it holds the writer.
  static var chunkRows: Int { 1_000 }
  static var chunkDuration: Duration { .milliseconds(5) }

  /// The terms of a build's writes. A build waits for the writer without a timeout, because giving up would discard
  /// what was built.
  var terms: WriteTerms { WriteTerms(label: label, waitsForWriter: true, isOfBuild: true) }
  var label: String { "build \(name)" }

  // MARK: - The thread

  /// Starts the build, unless it runs already or the database is being closed.
  func start() {
    guard registered.build.take() else { return }
    guard core.builds.begin() else { return registered.build.end(WriterQueue.closedError) }
    Task.detached(executorPreference: core.writerExecutor) {
      BuildFrame.$database.withValue(ObjectIdentifier(core)) { run() }
      core.builds.end()
    }
  }

  private func run() {
    do {
      repeat {
        try complete()
        // Dependent builds are continued before this one ends, so that a caller that waits for both finds the second
        // one running.
        for other in core.extensions.list.ordered where other.traits.predecessors.contains(name) {
          continueBuild(other)
        }
      } while !registered.build.endUnlessAskedAgain()
      // A replaced dependency may have made the build begin again in between.
      if case .building = registered.record.state, core.extensions.list.contains(registered) { start() }
      core.sweepWhereDue()
    } catch {
      registered.build.end(error)
      // The dependency that the build waits for may have become ready in between.
      if error is WaitsForDependency, dependenciesAreReady { start() }
    }
  }

  private func continueBuild(_ other: RegisteredExtension) {
    if other.record.state != .ready, other.build.error is WaitsForDependency { ExtensionBuild(core, other).start() }
  }

  private func complete() throws {
    var wasIngested = false
    do {
      // A build that had failed was requested again.
      if registered.record.state.isFailed { try restart() }
      try dropDeadFamilies()
      try waitForDependencies()
      wasIngested = try ingest()
      try catchUp()
      try measure()
      while try !step() { try waitForDependencies() }
    } catch let failure as ExtensionFailure {
      throw fail(failure.cause, leavesNothing: wasIngested)
    }
  }

  /// Runs a chunk of the build in a write. An error of the extension is thrown as `ExtensionFailure`, and every other
  /// one unchanged.
  private func chunk<Result>(attempt count: Int = 1, _ body: (WriteTransaction) throws -> Result) throws -> Result {
    if core.isClosing { throw WriterQueue.closedError }
    var running: WriteTransaction?
    do {
      return try core.write(terms) { transaction in
        running = transaction
        return try body(transaction)
      }
    } catch let error as DatabaseError
      where error.code == .conflict && running?.doom == nil && count < Self.chunkAttempts
    {
      // A hook has used an independent part that an independent commit has changed.
      return try chunk(attempt: count + 1, body)
    } catch {
      // Errors of hooks and flushes doom their transaction.
      throw running?.doom == nil ? error : Self.failure(error)
    }
  }

  /// Returns the error to throw for a doomed transaction: the extension's error as `ExtensionFailure`, or an error of
  /// the storage unchanged.
  static func failure(_ error: any Error) -> any Error {
    isOfStorage(error) ? error : ExtensionFailure(cause: error)
  }

  private static let chunkAttempts = 64

  private static func isOfStorage(_ error: any Error) -> Bool {
    guard let error = error as? DatabaseError else { return error is CancellationError }
    let codes: [DatabaseError.Code] = [
      .storage, .outcomeUnknown, .notReadableNow, .corruption, .snapshotTooOld, .closed, .writerBusy,
    ]
    return codes.contains(error.code)
  }

  /// Throws if the extension was unregistered between two chunks, perhaps with another one registered under its name.
  /// Must be called with the writer held.
  func requireRegistered() throws {
    guard core.extensions.list.contains(registered) else {
      throw DatabaseError(
        .unknownExtension, "extension \"\(name)\" was unregistered, or replaced, while it was being built")
    }
  }

  // MARK: - Dependencies

  var dependenciesAreReady: Bool {
    registered.traits.predecessors.allSatisfy { core.extensions.list[$0]?.record.state == .ready }
  }

  /// Whether a dependency is being built.
  var dependencyIsRunning: Bool {
    registered.traits.predecessors.contains { core.extensions.list[$0]?.build.isRunning == true }
  }

  /// Waits until all dependencies are ready.
  private func waitForDependencies() throws {
    for dependency in registered.traits.predecessors {
      var isSettled = false
      while true {
        if core.isClosing { throw WriterQueue.closedError }
        guard let other = core.extensions.list[dependency] else {
          throw DatabaseError(
            .unknownExtension, "\"\(name)\" depends on \"\(dependency)\", which was unregistered meanwhile")
        }
        if other.record.state == .ready { break }
        if other.build.waitForEnd() || other.record.state == .ready { continue }
        // A commit that makes the dependency begin again starts its build before the next writer begins.
        if isSettled { throw WaitsForDependency(name: name, dependency: dependency) }
        try core.write(terms) { _ in isSettled = true }
      }
    }
  }

  // MARK: - Parts that begin again

  /// Drops the families of parts that begin again, which may have another form, and of parts that the definition no
  /// longer has.
  ///
  /// The commit that recorded this has emptied them: a crash leaves them complete with the old record, or empty with
  /// the new one.
  func dropDeadFamilies() throws {
    if registered.number == 0 { return }
    if registered.awaitsDrop {
      let asked = try core.write(.beforeDrop(name, isOfBuild: true)) { transaction in
        try requireRegistered()
        if let stored = try registered.storedRecord(transaction) { try registered.rewrite(stored, transaction) }
        return registered.dropsAsked
      }
      // This commit is durable, and so is the earlier one that has emptied the families.
      registered.noteDrops(asked)
    }
    // No other transaction writes to the families while the writer is held.
    try core.write(terms) { _ in try registered.drop(try registered.deadFamilies()) }
  }

  /// Restarts a build that can't catch up, or that is requested again after a failure.
  private func restart() throws {
    do { try empty { $0.restart() } } catch let failure as SharedStateFailure {
      throw ExtensionFailure(cause: failure.cause)
    }
    registered.set(BuildProgress(rowsDone: 0, rowsTotal: 0))
  }

  /// Empties the extension's parts and changes its record. Throws `SharedStateFailure` if the parts are emptied but the
  /// shared state could not follow.
  private func empty(_ change: (inout ExtensionRecord) -> Void) throws {
    let failure = try core.write(.beforeDrop(name, isOfBuild: true)) { transaction in
      try requireRegistered()
      var record = registered.record
      change(&record)
      try transaction.empty(registered.derivedParts, of: registered)
      try registered.save(record, transaction, as: role)
      transaction.onApplied { _ in registered.forgetFamilies() }
      return role == .shadow ? SharedStateFailure.Box() : sharing(registered, transaction)
    }
    try dropDeadFamilies()
    if let error = failure.error { throw SharedStateFailure(cause: error) }
  }

  /// Moves the shared state to a commit that changes the extension's content. The error of that move is stored in the
  /// returned box.
  func sharing(_ registered: RegisteredExtension, _ transaction: WriteTransaction) -> SharedStateFailure.Box {
    let failure = SharedStateFailure.Box()
    transaction.onApplied { [core] _ in
      do { try registered.share(core) } catch { failure.error = error }
    }
    return failure
  }

  /// Empties the parts after a failed build.
  ///
  /// An extension that was catching up keeps its position and content, unless `leavesNothing` is true because the
  /// content belongs to the failed build. Returns the error that `ready` is to throw: that of the build, combined with
  /// that of a shared state which could not follow.
  private func fail(_ error: any Error, leavesNothing: Bool) -> any Error {
    if registered.record.state.isStale, !leavesNothing { return error }
    do {
      try empty { record in
        record.restart()
        record.state = .failed(String("\(error)".prefix(Self.messageMaximum)))
      }
    } catch let failure as SharedStateFailure {
      DatabaseLog.sharedStateFailure(failure.cause, name: name)
      return DatabaseError(
        .extensionFailed,
        "the build of extension \"\(name)\" has failed: \(error); and its shared state could not be emptied: "
          + "\(failure.cause)", cause: error)
    } catch {
      // The storage has failed: the record is unchanged, and the next build will encounter the extension's error again.
    }
    return error
  }

  /// The maximum number of characters of an error in the record.
  private static let messageMaximum = 1_000

  // MARK: - By tables

  /// Passes all rows to the extension by tables if possible, and leaves it to catch up. Returns false if that is not
  /// possible; an ingestion that was begun and can't continue is discarded.
  private func ingest() throws -> Bool {
    if var ingestion = try IngestedBuild(core, registered, self) {
      try measure { registered.traits.scope.contains($0.name) }
      do { if try ingestion.run() { return true } } catch let failure as SharedStateFailure {
        throw ExtensionFailure(cause: failure.cause)
      }
    }
    if registered.record.state.isIngesting { try restart() }
    return false
  }

  // MARK: - Catching up

  /// Delivers the changes that the extension missed, or lets its build begin again if that is not possible.
  private func catchUp() throws {
    var pace = CatchingUpPace(core)
    while case .stale(let position?) = registered.record.state {
      let isPossible = try chunk { transaction in try catchUp(from: position, &pace, transaction) }
      guard isPossible else { return try restart() }
      registered.reportProgress()
    }
  }

  /// Delivers one chunk of missed changes. Returns false if that is not possible; nothing was changed in that case.
  private func catchUp(
    from position: FeedPosition, _ pace: inout CatchingUpPace, _ transaction: WriteTransaction
  ) throws -> Bool {
    try requireRegistered()
    let catching = CatchingUp(core: core, registered: registered)
    var record = registered.record
    var progress = registered.progress
    pace.begin(at: position, head: transaction.snapshot.version)
    guard let step = try catching.step(from: position, pace, transaction) else { return false }
    record.state = step.state
    // New parts are built now.
    if record.state == .ready, !record.keepsNoPart { record.settle() }
    progress.rowsDone += step.count
    progress.rowsTotal = progress.rowsDone
    if case .stale(let position?) = step.state {
      pace.end(step.count, changing: transaction.changes.changeCount, at: position)
      progress.rowsTotal += pace.rowsLeft(at: position)
    }
    try save(record, transaction)
    registered.set(progress)
    return true
  }

  /// Writes the record after a chunk. If the extension has all rows then, it finishes, and a shadow comes into force.
  private func save(_ record: ExtensionRecord, _ transaction: WriteTransaction) throws {
    if record.state == .ready { try finish(transaction) }
    if role == .shadow, record.state == .ready {
      try DefinitionSwitch(transaction, to: registered, record).run()
    } else {
      try registered.save(record, transaction, as: role)
    }
  }

  /// Lets the extension finish in the transaction that marks it as ready.
  private func finish(_ transaction: WriteTransaction) throws {
    try transaction.dooming {
      try transaction.flushExtensions()
      try transaction.open(registered).listener?.didFinishBuild()
    }
  }

  // MARK: - The chunks

  /// Determines the progress from the watermark: how many rows were passed to the extension, and how many there are.
  ///
  /// It runs without the writer. The keys of the rows up to the watermark are iterated, which costs little compared to
  /// building them.
  private func measure(_ counts: (CollectionInfo) -> Bool = { _ in true }) throws {
    guard let watermark = registered.record.lastDelivered else { return }
    let snapshot = try core.backend.snapshot()
    let transaction = ReadTransaction(database: core, snapshot: snapshot)
    defer { transaction.end() }
    let infos = core.catalog.collections.filter(counts)
    var progress = BuildProgress(rowsDone: 0, rowsTotal: try infos.reduce(0) { try $0 + transaction.count($1) })
    for info in infos where ByteOrder.precedes(BigEndian.bytes(info.record.id), watermark) {
      guard let given = BuildScan.range(of: info, through: watermark) else {
        progress.rowsDone += try transaction.count(info)
        continue
      }
      var cursor = FamilyCursor(given, in: info.objects, of: snapshot, isReverse: false, keysOnly: true)
      while try cursor.nextKey() != nil {
        progress.rowsDone += 1
        if progress.rowsDone % 1_024 == 0, core.isClosing { throw WriterQueue.closedError }
      }
    }
    registered.set(progress)
  }

  /// Passes the next rows to the extension. Returns true if it is ready.
  private func step() throws -> Bool {
    guard registered.record.frontier != nil else { return true }
    // Parts may have been emptied since the previous chunk.
    if registered.awaitsDrop { try dropDeadFamilies() }
    let isReady = try chunk { transaction in try give(transaction) }
    registered.reportProgress()
    return isReady
  }

  /// Passes the rows of one chunk. Returns whether the extension is ready.
  private func give(_ transaction: WriteTransaction) throws -> Bool {
    try requireRegistered()
    // A dependency may have begun again between two chunks, and would be incomplete for the extension.
    guard dependenciesAreReady else { return false }
    var record = registered.record
    guard let frontier = record.frontier else { return true }
    if registered.traits.configuration.build == .none {
      while record.frontier != nil { record.advance(to: nil) }
      try registered.save(record, transaction)
      return true
    }
    let limit = record.nextFrontier
    var scan = BuildScan(core.catalog.collections, after: frontier.watermark, transaction)
    let begin = ContinuousClock.now
    var reached: [UInt8]?
    var isAtLimit = false
    var count = 0
    let open = try transaction.dooming { try transaction.open(registered) }
    let changeCount = transaction.changes.changeCount
    let slot = transaction.setReach(BuildReach(record), of: registered)
    let reviewed = registered.traits.configuration.reviewsWholeParts ? record.wholeParts : []
    var scope: (collection: UInt32, isInside: Bool)?
    while count < Self.chunkRows, transaction.changes.changeCount == changeCount,
      count % 64 != 63 || ContinuousClock.now - begin < Self.chunkDuration,
      let (info, key, row) = try scan.next()
    {
      let position = info.scanKey(key)
      if let limit, ByteOrder.precedes(limit, position) {
        // From here on the parts with the higher watermark need the rows, too.
        isAtLimit = true
        break
      }
      // The record itself is updated after the last row of the chunk.
      if let slot { transaction.moveReach(of: slot, from: reached ?? frontier.watermark, to: position) }
      if scope?.collection != info.record.id {
        scope = (info.record.id, registered.traits.scope.contains(info.name))
      }
      // A hook may change following rows, which the cursor does not see: the next chunk then begins after this row.
      if scope?.isInside == true {
        try transaction.give(row, key, info, to: open, parts: frontier.parts, reviewed: reviewed)
      }
      reached = position
      count += 1
    }
    if let reached { record.advance(to: reached) }
    // The parts have all rows after the last one, or join those with the next watermark.
    if isAtLimit || reached == nil { record.advance(to: limit) }
    let isReady = record.state == .ready
    // A flush in the commit that marks the extension as ready may change any row.
    transaction.setReach(isReady ? BuildReach(whole: record.wholeParts) : BuildReach(record), of: registered)
    try save(record, transaction)
    var progress = registered.progress
    progress.rowsDone += count
    registered.set(progress)
    return isReady
  }
}

/// An error of the extension that is being built.
struct ExtensionFailure: Error {
  let cause: any Error
}

/// The error of a build that can't begin because a dependency is not ready and not being built. The build begins when
/// the dependency becomes ready.
struct WaitsForDependency: Error {
  let name: String
  let dependency: String
  var message: String {
    "\"\(name)\" depends on \"\(dependency)\", whose build has failed or was interrupted; retry that one"
  }
}

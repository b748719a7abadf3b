/// Builds an extension in the background, on a thread of the database.
///
/// # Steps
/// 1. The families of parts that begin again are dropped: they were emptied by the commit of the registration.
/// 2. Chunk by chunk, each an ordinary write: the next rows as they are now are given to it as inserted, and the
///    watermark of its parts moves with the same commit. Other writers come in between. From the registration on it
///    receives the changes of rows up to the watermark.
/// 3. One commit says *ready*.
///
/// No snapshot is held, so a build may take as long as it wants, and no row can be missed: a writer that changes a row
/// after the watermark leaves it to the build, and before it notifies the extension. A chunk ends after a row whose
/// hooks changed rows: the next one reads again what lies ahead. Parts with different watermarks are built up to the
/// next one, and then together.
///
/// # How a build ends
/// - An error of the extension empties its parts. The record says *failed*, until `retry` or another version.
/// - A crash, `close` and a failure of the storage leave the watermark; `retry` and the next registration continue.
/// - A dependency that is being built is waited for; one that failed keeps it waiting until that is ready.
///
/// One that is stale and catches up goes by the feed instead (`CatchingUp`); where that can't be done it begins again. The
/// first build of one that catches up, over many rows, goes by tables (`IngestedBuild`) instead of the chunks above.
struct ExtensionBuild {
  private let core: DatabaseCore
  private let registered: RegisteredExtension

  // What `IngestedBuild` uses is not private.

  init(_ core: DatabaseCore, _ registered: RegisteredExtension) {
    self.core = core
    self.registered = registered
  }

  private var name: String { registered.name }

  /// The most rows, and the longest, that a chunk holds the writer.
  static var chunkRows: Int { 1_000 }
  static var chunkDuration: Duration { .milliseconds(5) }

  /// A build waits for the writer as long as it takes: giving up would throw away what was built.
  var terms: WriteTerms { WriteTerms(label: label, waitsForWriter: true, isOfBuild: true) }
  var label: String { "build \(name)" }

  /// For a commit after which families are dropped: those are gone for certain then, also after a loss of power, and
  /// the record that says so must be there.
  static func termsBeforeDrop(_ name: String, isOfBuild: Bool = false) -> WriteTerms {
    WriteTerms(label: "register \(name)", durability: .power, waitsForWriter: true, isOfBuild: isOfBuild)
  }

  // MARK: - The thread

  /// Begins, unless it runs already or the database is being closed.
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
        // Before its own end: those that wait for both find the second running.
        for other in core.extensions.list.ordered where other.traits.predecessors.contains(name) {
          continueBuild(other)
        }
      } while !registered.build.endUnlessAskedAgain()
      // A replaced dependency may have begun it again in between.
      if case .building = registered.record.state, core.extensions.list.contains(registered) { start() }
      core.sweepWhereDue()
    } catch {
      registered.build.end(error)
      // What it waited for may have become ready in between.
      if error is WaitsForDependency, dependenciesAreReady { start() }
    }
  }

  private func continueBuild(_ other: RegisteredExtension) {
    if other.record.state != .ready, other.build.error is WaitsForDependency { ExtensionBuild(core, other).start() }
  }

  private func complete() throws {
    var wasIngested = false
    do {
      // It failed, and is asked for again.
      if registered.record.state.isFailed { try beginAnew() }
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

  /// Runs a chunk of a build in a write. An error of the extension comes as `ExtensionFailure`, every other one as it is.
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
      // A hook has used an independent part beside a commit of the other lane.
      return try chunk(attempt: count + 1, body)
    } catch {
      // Hooks and flushes doom their transaction.
      throw running?.doom == nil ? error : Self.failure(error)
    }
  }

  /// The error of a transaction that is doomed: that of the extension, unless it has met one of the storage.
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

  /// It may have been unregistered between two chunks, and another registered by its name. With the writer held.
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

  /// Whether one of them is being built.
  var dependencyIsRunning: Bool {
    registered.traits.predecessors.contains { core.extensions.list[$0]?.build.isRunning == true }
  }

  /// A dependency that is being built is built first.
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
        // A commit that lets it begin again starts its build before the next writer begins.
        if isSettled { throw WaitsForDependency(name: name, dependency: dependency) }
        try core.write(terms) { _ in isSettled = true }
      }
    }
  }

  // MARK: - Parts that begin again

  /// Drops the families of parts that begin again, which may be of another form, and of parts that the definition does not
  /// have any more. They were emptied by the commit that said so: a crash leaves them whole with the old record, or empty
  /// with the new one.
  func dropDeadFamilies() throws {
    if registered.number == 0 { return }
    if registered.awaitsDrop {
      let asked = try core.write(Self.termsBeforeDrop(name, isOfBuild: true)) { transaction in
        try requireRegistered()
        if let stored = try registered.storedRecord(transaction) { try registered.rewrite(stored, transaction) }
        return registered.dropsAsked
      }
      // Durable now, and with it the commit that has emptied them.
      registered.noteDrops(asked)
    }
    // No other writer writes to them meanwhile.
    try core.write(terms) { _ in try registered.drop(try registered.deadFamilies()) }
  }

  /// It can't catch up, or is asked for again after a failure.
  private func beginAnew() throws {
    do { try empty { $0.beginAnew() } } catch let failure as SharedStateFailure {
      throw ExtensionFailure(cause: failure.cause)
    }
    registered.set(BuildProgress(rowsDone: 0, rowsTotal: 0))
  }

  /// Throws `SharedStateFailure` where it has no content any more, and its shared state could not follow.
  private func empty(_ change: (inout ExtensionRecord) -> Void) throws {
    let failure = try core.write(Self.termsBeforeDrop(name, isOfBuild: true)) { transaction in
      try requireRegistered()
      var record = registered.record
      change(&record)
      for family in registered.derivedFamilies {
        try transaction.pending.deleteRange(StorageRange(), in: family)
      }
      let isShadow = core.extensions.list.isShadow(registered)
      try registered.save(record, transaction, as: isShadow ? .shadow : .inForce)
      transaction.onApplied { _ in registered.forgetFamilies() }
      return isShadow ? SharedStateFailure.Box() : sharing(registered, transaction)
    }
    try dropDeadFamilies()
    if let error = failure.error { throw SharedStateFailure(cause: error) }
  }

  /// Moves the shared state to a commit after which the extension keeps something else; what that throws is in the box.
  func sharing(_ registered: RegisteredExtension, _ transaction: WriteTransaction) -> SharedStateFailure.Box {
    let failure = SharedStateFailure.Box()
    transaction.onApplied { [core] _ in
      do { try registered.share(core) } catch { failure.error = error }
    }
    return failure
  }

  /// Leaves nothing of a build that failed. What was catching up stays where it came to, unless that belongs to the build.
  /// Returns what `ready` is to throw: the error of the build, and in it also that of a shared state which could not follow.
  private func fail(_ error: any Error, leavesNothing: Bool) -> any Error {
    if registered.record.state.isStale, !leavesNothing { return error }
    do {
      try empty { record in
        record.beginAnew()
        record.state = .failed(String("\(error)".prefix(Self.messageMaximum)))
      }
    } catch let failure as SharedStateFailure {
      DatabaseLog.sharedStateFailure(failure.cause, name: name)
      return DatabaseError(
        .extensionFailed,
        "the build of extension \"\(name)\" has failed: \(error); and its shared state could not be emptied: "
          + "\(failure.cause)", cause: error)
    } catch {
      // The storage fails: the record says what it said, and the next build meets the error of this one.
    }
    return error
  }

  /// How many characters of an error the record keeps.
  private static let messageMaximum = 1_000

  // MARK: - By tables

  /// Gives it all rows by tables where that can be done, and leaves it to catch up: true. What was begun and can't go on is
  /// gone.
  private func ingest() throws -> Bool {
    if var ingestion = try IngestedBuild(core, registered, self) {
      try measure { registered.traits.scope.contains($0.name) }
      do { if try ingestion.run() { return true } } catch let failure as SharedStateFailure {
        throw ExtensionFailure(cause: failure.cause)
      }
    }
    if registered.record.state.isIngesting { try beginAnew() }
    return false
  }

  // MARK: - Catching up

  /// Brings it what it missed; where that can't be done it is to be built again afterwards.
  private func catchUp() throws {
    var pace = CatchingUpPace(core)
    while case .stale(let position?) = registered.record.state {
      let isPossible = try chunk { transaction in try catchUp(from: position, &pace, transaction) }
      guard isPossible else { return try beginAnew() }
      registered.reportProgress()
    }
  }

  /// One chunk. False where it can't: nothing was done.
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
    // Parts that are new are built now.
    if record.state == .ready, !record.keepsNoPart { record.settle() }
    progress.rowsDone += step.count
    progress.rowsTotal = progress.rowsDone
    if case .stale(let position?) = step.state {
      pace.end(step.count, changing: transaction.changes.changeCount, at: position)
      progress.rowsTotal += pace.rowsLeft(at: position)
    }
    if record.state == .ready { try finish(transaction) }
    try registered.save(record, transaction)
    registered.set(progress)
    return true
  }

  /// What the extension does in the transaction that says *ready*.
  private func finish(_ transaction: WriteTransaction) throws {
    try transaction.dooming {
      try transaction.flushExtensions()
      try transaction.open(registered).hearer?.didFinishBuild()
    }
  }

  // MARK: - The chunks

  /// How many rows it was given before, of how many: what the watermark says. Without the writer; the rows up to the
  /// watermark are scanned by their keys, which costs little beside what building them did.
  private func measure(_ counts: (CollectionInfo) -> Bool = { _ in true }) throws {
    guard let watermark = registered.record.lastGiven else { return }
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

  /// Gives it the next rows. True: it is ready.
  private func step() throws -> Bool {
    guard registered.record.frontier != nil else { return true }
    // Parts were emptied since the chunk before.
    if registered.awaitsDrop { try dropDeadFamilies() }
    let isReady = try chunk { transaction in try give(transaction) }
    registered.reportProgress()
    return isReady
  }

  /// Returns whether it is ready.
  private func give(_ transaction: WriteTransaction) throws -> Bool {
    try requireRegistered()
    // One may have begun again between two chunks: what this would read of it is not whole.
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
        // From here on the parts that were ahead need the rows, too.
        isAtLimit = true
        break
      }
      // The record follows after the last row of the chunk.
      if let slot { transaction.moveReach(of: slot, from: reached ?? frontier.watermark, to: position) }
      if scope?.collection != info.record.id {
        scope = (info.record.id, registered.traits.scope.contains(info.name))
      }
      // A hook may change rows ahead, which the cursor does not see: the next chunk begins after this row.
      if scope?.isInside == true {
        try transaction.give(row, key, info, to: open, parts: frontier.parts, reviewed: reviewed)
      }
      reached = position
      count += 1
    }
    if let reached { record.advance(to: reached) }
    // After the last row, or where the next parts are.
    if isAtLimit || reached == nil { record.advance(to: limit) }
    let isReady = record.state == .ready
    // What is flushed in the commit that says "ready" may change any row.
    transaction.setReach(isReady ? BuildReach(whole: record.wholeParts) : BuildReach(record), of: registered)
    if isReady { try finish(transaction) }
    if !core.extensions.list.isShadow(registered) {
      try registered.save(record, transaction)
    } else if isReady {
      try DefinitionSwitch(transaction, to: registered, record).run()
    } else {
      try registered.save(record, transaction, as: .shadow)
    }
    var progress = registered.progress
    progress.rowsDone += count
    registered.set(progress)
    return isReady
  }
}

/// An error of the extension that is built.
struct ExtensionFailure: Error {
  let cause: any Error
}

/// The shared state of an extension could not follow a commit after which the extension keeps something else.
struct SharedStateFailure: Error {
  let cause: any Error

  /// Where it is left by what can't throw.
  final class Box {
    var error: (any Error)?
  }
}

/// A build that can't begin because a dependency is not ready and is not being built: it begins when that becomes ready.
struct WaitsForDependency: Error {
  let name: String
  let dependency: String
  var message: String {
    "\"\(name)\" depends on \"\(dependency)\", whose build has failed or was interrupted; retry that one"
  }
}

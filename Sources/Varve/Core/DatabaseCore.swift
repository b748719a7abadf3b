internal import Dispatch
internal import FutexLocks
internal import Synchronization

/// The components of an open database. `Database` is its API.
package final class DatabaseCore: Sendable {
  let path: String
  let options: DatabaseOptions
  package let backend: any StorageBackend
  /// The limits of the storage; that of a batch is also the limit of a transaction.
  package let limits: StorageLimits
  package let catalog: Catalog
  let coding: ObjectCoding
  let extensions = ExtensionRegistry()
  let extensionCatalog: ExtensionCatalog
  let builds = BuildList()
  let writer = WriterQueue()
  let publication: Publication
  /// Orders the commits of both lanes: see `DatabaseCore+Independent.swift`. In the lock order it comes after the
  /// writer and before everything else.
  let commitLock = Mutex(())
  let counts = DatabaseCounts()
  /// Runs reads. They may take long, so there are many threads: a short read does not wait for the end of long ones.
  let executor = DatabaseExecutor(
    limit: DatabaseExecutor.readLimit, readyLimit: DatabaseExecutor.usualLimit, stallDuration: .milliseconds(2))
  let readPace = ReadPace()
  /// Runs work that waits for the writer or holds it: asynchronous writes with their commits, the closure of a
  /// `perform`, and the building of extensions; and what does not read: `sync`, `backup` and the end of `close`.
  ///
  /// It is separate so that this work never takes a thread that a read needs. It has no limit, because a job of it may
  /// wait for the writer on its thread; most jobs wait suspended, and need no thread of their own.
  let writerExecutor = DatabaseExecutor(limit: .max, readyLimit: DatabaseExecutor.usualReadyLimit)
  let feed: ChangeFeed
  let changes: ChangeHub
  /// The parts that observers of whole commits have read.
  let observedParts = ObservedParts()
  /// The trees of runs of counted parts.
  let runTrees: RunTreeCache
  /// The collections whose rows observers compare with their previous content.
  let observedRows = ObservedRows()
  let connections: ConnectionList
  let checkedDefinitions = CheckedDefinitions()
  let longLivedReads = LongLivedReadList()
  /// Held while the map from numbers to rows, or an extension that asks for it, is added or removed. In the lock order
  /// it comes before the writer.
  let rowIDMapLock = Mutex(())
  /// Whether the remains of replaced definitions are being dropped.
  let isSweeping = Atomic<Bool>(false)
  /// Held while unused families of extensions are looked up and dropped. In the lock order it comes before the writer.
  let droppingLock = Mutex(())
  /// The writes of the last commit, which is made when the database is closed.
  let lastWrites = Mutex(LastWrites())
  private let openState = FutexLock(OpenState())
  /// Entered when the database is closed, and left when its storage is closed.
  private let closing = DispatchGroup()

  private struct OpenState {
    var isClosed = false
    var transactionCount = 0
    /// Continuations of callers that wait for the last transaction to end.
    var waiters: [CheckedContinuation<Void, Never>] = []
    /// The number of reasons for which a close has to wait before it begins, and the callers that wait.
    var delayCount = 0
    var delayed: [CheckedContinuation<Void, Never>] = []
  }

  init(
    path: String, options: DatabaseOptions, backend: any StorageBackend, catalog: Catalog,
    extensionCatalog: ExtensionCatalog, feed: ChangeFeed
  ) {
    self.path = path
    self.options = options
    self.backend = backend
    self.catalog = catalog
    self.extensionCatalog = extensionCatalog
    var limits = backend.limits
    limits.batchSize = min(limits.batchSize, options.transactionLimit)
    self.limits = limits
    coding = ObjectCoding(shapes: catalog)
    self.feed = feed
    runTrees = RunTreeCache(isExact: backend.isReadOnly)
    let changes = ChangeHub(after: feed.openVersion)
    self.changes = changes
    let connections = ConnectionList()
    self.connections = connections
    publication = Publication(backend: backend, deliverParts: { changes.deliver($0, $1) }) {
      [coding] version, pending in
      if pending.cutsFeed {
        changes.deliverGap(version)
        return connections.loseAll()
      }
      // The change set is made only if there is an observer, and once for all observers.
      lazy var changeSet = pending.changeSet(version, coding)
      changes.deliver(version) { changeSet }
      connections.deliver { changeSet }
    }
  }

  /// Whether an observer or a connection currently receives change sets.
  var isObserved: Bool { changes.subscriptionCount > 0 || connections.count > 0 }

  // MARK: - Collections

  /// Makes a collection that has no definition, at the write of its first key.
  func makeCollection(_ name: String, keyType: String) throws -> CollectionInfo {
    guard !name.isEmpty else { throw DatabaseError(.invalidArgument, "a collection's name is empty") }
    let info = try catalog.collection(name, definition: nil, keyType: keyType, coder: options.coder)
    if extensions.list.notifiesExternally(of: name) { DatabaseLog.undefinedType(path: path, collection: name) }
    return info
  }

  // MARK: - Open and closed

  /// Whether a close has begun.
  var isClosing: Bool { openState.withLock { $0.isClosed } }

  /// Registers a transaction that begins. Throws `.closed`.
  func enter() throws {
    try openState.withLock { state in
      if state.isClosed { throw WriterQueue.closedError }
      state.transactionCount += 1
    }
  }

  func leave() {
    let waiters = openState.withLock { state in
      state.transactionCount -= 1
      guard state.transactionCount == 0 else { return [CheckedContinuation<Void, Never>]() }
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.resume() }
    if extensions.hasLeftovers { sweepWhereDue() }
  }

  /// Closes the database.
  ///
  /// Throws `.writerBusy` if transactions run. A second call waits for the first, but at most for the writer's timeout:
  /// this thread may be one that the transactions need.
  func close() throws {
    try requireOutside()
    // The transactions of builds are paused first, because the caller does not know of them.
    let isFirst = try builds.pausingWork { try beginClosing() }
    if isFirst { return try finish() }
    guard closing.wait(timeout: .now() + options.writerTimeout.dispatchInterval) == .success else {
      throw DatabaseError(.writerBusy, "the database is being closed, and transactions run that this waits for")
    }
  }

  /// Prevents new transactions. Returns false if another call has already done so. Throws `.writerBusy` if transactions
  /// run.
  private func beginClosing() throws -> Bool {
    try openState.withLock { state in
      if state.isClosed { return false }
      guard state.delayCount == 0 else {
        throw DatabaseError(.writerBusy, "an extension ends its work, such as running tasks; close when it has ended")
      }
      guard state.transactionCount == 0 else {
        throw DatabaseError(.writerBusy, "\(state.transactionCount) transactions run; close when they have ended")
      }
      state.isClosed = true
      closing.enter()
      return true
    }
  }

  /// Prevents new transactions, waits for those that run, and closes the database. A second call waits for the first.
  func closeWhenIdle() async throws {
    try requireOutside()
    guard await beginClosingAfterDelays() else { return await waitUntilClosed() }
    await waitUntilIdle()
    try await writerExecutor.run { try finish() }
  }

  /// Prevents new transactions when nothing delays the close any more. Returns false if another call has already done
  /// so.
  private func beginClosingAfterDelays() async -> Bool {
    while true {
      let isFirst: Bool? = openState.withLock { state in
        if state.isClosed { return false }
        if state.delayCount > 0 { return nil }
        state.isClosed = true
        closing.enter()
        return true
      }
      if let isFirst { return isFirst }
      await waitForDelays()
    }
  }

  private func waitForDelays() async {
    await withCheckedContinuation { waiter in
      let isOver = openState.withLock { state in
        if state.delayCount > 0 { state.delayed.append(waiter) }
        return state.delayCount == 0
      }
      if isOver { waiter.resume() }
    }
  }

  /// Lets each close that has not begun wait until `endDelay`. Returns false if one has begun.
  func delayClose() -> Bool {
    openState.withLock { state in
      if !state.isClosed { state.delayCount += 1 }
      return !state.isClosed
    }
  }

  func endDelay() {
    let waiters = openState.withLock { state in
      state.delayCount -= 1
      guard state.delayCount == 0 else { return [CheckedContinuation<Void, Never>]() }
      defer { state.delayed = [] }
      return state.delayed
    }
    for waiter in waiters { waiter.resume() }
  }

  private func waitUntilIdle() async {
    await withCheckedContinuation { waiter in
      let isIdle = openState.withLock { state in
        if state.transactionCount > 0 { state.waiters.append(waiter) }
        return state.transactionCount == 0
      }
      if isIdle { waiter.resume() }
    }
  }

  private func waitUntilClosed() async {
    await withCheckedContinuation { waiter in closing.notify(queue: .global()) { waiter.resume() } }
  }

  /// Throws inside a transaction, because closing would wait for that transaction.
  private func requireOutside() throws {
    try requireNoBuild("the database is closed")
    try requireNoCall()
    // The transaction count alone does not suffice: decoding an object for an observation is not counted as one.
    guard ThreadFrame.transaction(of: self) == nil, AsyncTransaction.living(of: self) == nil else {
      throw DatabaseError(.writerBusy, "the database is closed inside a transaction; close it after the transaction")
    }
  }

  /// Throws if the caller is run by a build of this database.
  func requireNoBuild(_ what: @autoclosure () -> String) throws {
    guard BuildFrame.database == ObjectIdentifier(self) else { return }
    throw DatabaseError(.invalidArgument, "\(what()) by a closure that a build calls, and that the build waits for")
  }

  private func finish() throws {
    defer {
      closing.leave()
      noteClosed()
    }
    builds.close()
    builds.pausingWork {}
    commitLast()
    writer.close()
    changes.close()
    try backend.close()
  }
}

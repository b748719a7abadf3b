internal import Foundation
public import Logging
internal import Synchronization
@_spi(Extensions) public import Varve

/// Runs the tasks of a database: those that its transactions enqueue, and those that it had when it was opened.
///
/// ```swift
/// let scheduler = try TaskScheduler(database)
/// try scheduler.register(SendMessage.self) { message, context in
///   try await server.send(message.text)
///   return .done
/// }
/// try await scheduler.run()        // until its Swift task is cancelled
/// ```
///
/// # Guarantees
/// A task whose enqueueing was committed runs to a settled state, at least once. After the death of the process it runs
/// again as soon as the database is opened and a scheduler is started, without waiting for a lease to expire. Its
/// effects on the database happen exactly once if its handler uses `TaskContext.complete(_:)`. Other effects may be
/// repeated, and should carry `TaskContext.id`.
///
/// # Claims
/// Attempts begin and end in independent commits, so a transaction of the program that takes a minute delays none
/// of them. These commits survive the death of the process. After a power loss the last ones may be undone, and their
/// tasks run again.
///
/// # One scheduler
/// Only the process that writes the database runs tasks, by one scheduler. Starting another one throws
/// `TaskError.alreadyRunning`.
///
/// Safe from any thread.
public final class TaskScheduler: Sendable {
  /// The configuration of a scheduler.
  public struct Configuration: Sendable {
    /// The maximum number of handlers that run at once over all queues, at least 1, or `nil` for 4 for each core, but
    /// at least 8.
    public var workers: Int?
    /// The time for which `stop` waits for handlers before it cancels them.
    public var drainTimeout = Duration.seconds(30)
    /// The time after its cancellation for which a handler that does not return keeps its worker.
    public var abandonAfter = Duration.seconds(10)
    /// The number of deaths of the process while a task ran that make the task dead, or 0 for no limit.
    public var maxCrashes = 3
    /// A number from which the random parts of delays follow (`Retry.exponential`), or `nil` for random numbers of the
    /// system.
    ///
    /// With the same number, a task with the same id has the same delay after the same attempt. This is for tests.
    public var jitterSeed: UInt64?
    /// The rules of queues. If several selectors contain a queue, the most exact one counts. All other queues are
    /// standard queues.
    public var queues: [QueueSelector: QueueRules] = [:]
    /// The kinds of events that the database keeps. It keeps the last 10,000 events: see `ReadTransaction.taskEvents`.
    ///
    /// Events of every task would double what is written. The default are the kinds that a person may ask about.
    public var keptEvents: Set<TaskEvent.Kind> = [.dead, .parked, .crashed, .timedOut, .slotMissed, .abandoned]

    /// Creates the default configuration.
    public init() {}

    var workerCount: Int {
      workers.map { QueueRules.clip($0) } ?? max(8, 4 * ProcessInfo.processInfo.activeProcessorCount)
    }
  }

  /// The database whose tasks the scheduler runs.
  public let database: Database
  /// The configuration of the scheduler.
  public let configuration: Configuration
  let clock: any SchedulerClock
  let logger: Logger
  let dispatcher: TaskDispatcher
  let alarm: Alarm
  let hub = EventHub()
  let recorder = StatisticsRecorder()
  let rates = TaskRates()
  /// The starts and stops, one after the other.
  private let startMutex = AsyncMutex()
  /// The calls and commits that store and remove schedules, one after the other.
  let scheduleMutex = AsyncMutex()
  /// The operations on the database that the loop does not wait for.
  let workGate = AsyncGate()
  /// The commits in which tasks begin and end, and the transactions of the inbox that have conflicted with them, one
  /// after the other.
  let commitMutex = AsyncMutex()
  let hasMiddleware = Atomic(false)
  let hasPoints = Atomic(false)

  struct State {
    var isRunning = false
    var start: UInt32 = 0
    var handlers = HandlerRegistry()
    var queues: QueueRuleTable
    /// The time on the continuous clock at which tasks that have ended were last pruned.
    var lastPruned: Duration?
    /// Where the search for tasks that move up continues, by the numbers of queues.
    var ageingSearches: [UInt32: AgeingSearch] = [:]
    /// The callers that wait until no work is left. The value is `nil` for a caller that is about to wait.
    var idleWaiters: [UInt64: CheckedContinuation<Void, Never>?] = [:]
    /// Those of them that do not wait for handlers which sleep by a clock that a test advances.
    var sleepWaiters: Set<UInt64> = []
    var nextWaiter: UInt64 = 0
    /// Whether callers that wait until no work is left do not wait for handlers that do not return.
    var leavesHandlers = false
    /// Whether they do not wait for handlers that wait for a stop.
    var leavesStopCallers = false
    /// Whether a stop waits only for handlers that have called one.
    var waitsForStopCallers = false
    /// The handlers that wait for a stop, until all other attempts have ended.
    var stopCallers: [CheckedContinuation<Void, Never>] = []
    /// The number of the next event that the database keeps.
    var nextEvent: UInt64 = 1
    var middleware: [any TaskMiddleware] = []
    var schedules: [String: RegisteredSchedule] = [:]
    /// The number of schedules that were registered.
    var scheduleCount: UInt64 = 0
    var accepted: [String: AcceptedType] = [:]
    var watch: DirectoryChanges?
    /// The operations on the files of the inbox. Tests set others.
    var inboxFiles: any InboxFiles = SystemInboxFiles()
    /// A closure that tests set, called at each point of an attempt.
    var atPoint: (@Sendable (TaskID, AttemptPoint) async -> Void)?
    /// The number of requests to read the inbox since it was last read completely.
    var inboxRequests = 0
    /// The files of the inbox that could not be applied yet, each with the weight of the reasons so far.
    var inboxDelays: [String: Int] = [:]
    /// The Swift task that applies the files of the inbox, or `nil` if none does.
    var inboxReading: Task<Void, Never>?
    /// The objects that live as long as the scheduler.
    var kept: [any AnyObject & Sendable] = []
  }

  let state: Mutex<State>

  /// Creates a scheduler for a database. Registers `TaskStorage` if the database's definition does not have it.
  ///
  /// Throws `TaskError.invalidValue` for a configuration without workers and for rules of queues that can't be used,
  /// and the errors of `Database.register`.
  public init(
    _ database: Database, configuration: Configuration = Configuration(),
    clock: any SchedulerClock = SystemSchedulerClock(), logger: Logger = Logger(label: "varve.tasks")
  ) throws {
    if let workers = configuration.workers, workers < 1 {
      throw TaskError.invalidValue("a scheduler has \(workers) workers; at least 1 is possible, or nil for the default")
    }
    for (selector, rules) in configuration.queues { try rules.check(selector) }
    self.database = database
    self.configuration = configuration
    self.clock = clock
    self.logger = logger
    alarm = Alarm(clock)
    state = Mutex(State(queues: QueueRuleTable(configuration.queues)))
    do { try database.register(TaskStorage(), as: TaskStorage.handle.name) } catch let error as DatabaseError
      where error.code == .alreadyDefined
    {
      // The program's definition has registered the extension already.
    }
    do {
      dispatcher = try database.read { tx in try tx.tasks.dispatcher }
    } catch let error as DatabaseError where error.code == .notReady {
      // A program without tasks has changed the database: the build of the extension takes no longer than a commit.
      try database.waitUntilReady(TaskStorage.handle)
      dispatcher = try database.read { tx in try tx.tasks.dispatcher }
    }
    dispatcher.use(clock)
    rates.begin(clock.continuousNow)
    noteLimits()
  }

  // MARK: - Queues

  /// Sets the rules of some queues from their next task on. Call this before `start`.
  ///
  /// Throws `TaskError.invalidValue` for rules that can't be used.
  public func use(_ rules: QueueRules, for queues: QueueSelector) throws {
    try rules.check(queues)
    state.withLock { $0.queues.set(rules, for: queues) }
    noteLimits()
  }

  private func noteLimits() {
    if state.withLock({ $0.queues.hasWaitingLimits }) { dispatcher.hasWaitingLimits.store(true, ordering: .relaxed) }
  }

  /// Adds a middleware, which runs around every handler and is called for every task that is enqueued in this process.
  ///
  /// The first of several middlewares is the outermost. Call this before `start`.
  public func use(_ middleware: any TaskMiddleware) {
    let all = state.withLock { state in
      state.middleware.append(middleware)
      return state.middleware
    }
    hasMiddleware.store(true, ordering: .releasing)
    dispatcher.use(EnqueueHooks(hooks: all))
  }

  /// Keeps an object alive as long as the scheduler.
  @_spi(TaskQueue)
  public func keep(alive object: any AnyObject & Sendable) { state.withLock { $0.kept.append(object) } }

  /// Returns the rules of a queue.
  func rules(of queue: QueueName) -> QueueRules {
    state.withLock { $0.queues.find(queue) } ?? QueueRules()
  }

  // MARK: - Handlers

  /// Registers a closure that runs the tasks with a type of payload, in all queues or in some.
  ///
  /// It may be called at any time. Tasks that were enqueued before wait for their handler, and so does a serial queue
  /// whose next task has none.
  ///
  /// Throws `TaskError.overlappingHandlers` if another handler would receive some of the same tasks, and
  /// `TaskError.invalidValue` or `.tooLarge` for a kind or options that can't be used.
  public func register<Payload: TaskPayload>(
    _ type: Payload.Type, on queues: QueueSelector = .all, options: HandlerOptions = HandlerOptions(),
    _ body: @escaping @Sendable (Payload, TaskContext) async throws -> TaskOutcome
  ) throws {
    try add([handler(type, queues, options, body)])
  }

  /// Registers a closure for several selections of queues, and sets the rules of these queues. If it throws, it has
  /// registered nothing.
  ///
  /// Throws as the form for one selection does.
  @_spi(TaskQueue)
  public func register<Payload: TaskPayload>(
    _ type: Payload.Type, on queues: [QueueSelector], rules: QueueRules,
    _ body: @escaping @Sendable (Payload, TaskContext) async throws -> TaskOutcome
  ) throws {
    if queues.isEmpty { return }
    try add(queues.map { try handler(type, $0, HandlerOptions(), body) }, rules)
  }

  /// Throws `TaskError.overlappingHandlers` if a handler for a kind of tasks in some queues could not be registered.
  @_spi(TaskQueue)
  public func requireNoHandler(of kind: String, on queues: [QueueSelector]) throws {
    var handlers = state.withLock { $0.handlers }
    for queue in queues { try handlers.add(RegisteredHandler(kind, queue, HandlerOptions()) { _, _ in .done }) }
  }

  private func handler<Payload: TaskPayload>(
    _ type: Payload.Type, _ queues: QueueSelector, _ options: HandlerOptions,
    _ body: @escaping @Sendable (Payload, TaskContext) async throws -> TaskOutcome
  ) throws -> RegisteredHandler {
    try TaskDraft.check(kind: Payload.kind)
    if let refusal = options.refusal { throw TaskError.invalidValue(refusal) }
    let logger = logger
    return RegisteredHandler(Payload.kind, queues, options) { run, host in
      guard let host = host as? any CompletingHost else { throw TaskError.leaseLost(run.id) }
      let context = TaskContext(run, host, logger)
      let payload = try Self.payload(Payload.self, run)
      return try await host.surround(context) { try await body(payload, context) }
    }
  }

  /// Adds handlers, and sets the rules of their queues. If it throws, it has changed nothing.
  private func add(_ added: [RegisteredHandler], _ rules: QueueRules? = nil) throws {
    if let rules, let first = added.first { try rules.check(first.selector) }
    let isRunning = try state.withLock { state throws(TaskError) in
      if added.count == 1 {
        try state.handlers.add(added[0])
      } else {
        // A handler can't be removed, so they are added to a copy first.
        var handlers = state.handlers
        for handler in added { try handlers.add(handler) }
        state.handlers = handlers
      }
      if let rules {
        for handler in added { state.queues.set(rules, for: handler.selector) }
      }
      return state.isRunning
    }
    if rules != nil { noteLimits() }
    if isRunning { for handler in added { dispatcher.use(handler) } }
  }

  /// Passes all handlers to the dispatcher. Of several calls at once, the last one passes the handlers of all.
  private func useHandlers() { dispatcher.use { [self] in state.withLock { $0.handlers } } }

  /// Registers a handler for the tasks with its type of payload, in all queues or in some: see the form with a closure.
  public func register<Handler: TaskHandler>(
    _ handler: Handler, on queues: QueueSelector = .all, options: HandlerOptions = HandlerOptions()
  ) throws {
    try register(Handler.Payload.self, on: queues, options: options) { payload, context in
      try await handler.run(payload, context)
    }
  }

  private static func payload<Payload: TaskPayload>(_ type: Payload.Type, _ run: TaskRun) throws -> Payload {
    do { return try Payload.stored(run.record.payload, run.record.version) } catch {
      throw UnreadablePayload(cause: error)
    }
  }

  /// The kinds of tasks that are due to run and have no handler.
  public var unhandledKinds: [String] { dispatcher.unhandledKinds }

  /// The serial queues that wait because their first task is dead or parked.
  public var blockedQueues: [BlockedTaskQueue] {
    dispatcher.blockedHeads.map { BlockedTaskQueue(queue: $0.queue, task: $0.id, state: $0.state) }
  }

  /// Returns the progress that the handler of a task has reported, or `nil` if the task does not run or its handler has
  /// reported none.
  public func progress(of id: TaskID) -> HandlerProgress? {
    dispatcher.run(id)?.state.withLock { $0.progress }
  }

  // MARK: - Running

  /// Runs tasks until the Swift task of the caller is cancelled. Then handlers have `drainTimeout` to end.
  ///
  /// Throws as `start` does.
  public func run() async throws {
    try await start()
    let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
    await withTaskCancellationHandler {
      for await _ in stream {}
    } onCancel: {
      continuation.finish()
    }
    // The caller's Swift task is cancelled, and the remaining work needs one that is not.
    await Task.detached { await self.stop() }.value
  }

  /// Runs tasks until a time on the clock's continuous time, for example within time that the operating system grants.
  ///
  /// At that time handlers are cancelled at once, and tasks that they do not finish run at the next start. Handlers
  /// that check for cancellation and keep checkpoints lose no work.
  ///
  /// Returns earlier if no work is left until a later time. Throws as `start` does.
  public func run(until deadline: Duration) async throws {
    try await start()
    await withTaskGroup { group in
      group.addTask { await self.waitUntilIdle() }
      group.addTask { [clock] in try? await clock.sleep(until: deadline) }
      await group.next()
      group.cancelAll()
    }
    await Task.detached { [self] in await stop(draining: .zero) }.value
  }

  /// Begins to run tasks, first those that were running when a process died. Returns when these are queued again.
  ///
  /// Each of these is counted as crashed, and dead if it has crashed `maxCrashes` times. A process that has ended
  /// without `stop`, and without closing the database, counts as one that died.
  ///
  /// Calls of `start` and `stop` take effect one after the other, in the order in which they are made.
  ///
  /// Throws `TaskError.alreadyRunning`, also in a handler of the scheduler, and `DatabaseError.readOnly` if another
  /// process writes the database.
  public func start() async throws {
    // The call would wait for the end of a stop, which waits for the handler.
    if ownRun != nil { throw TaskError.alreadyRunning(path: database.path) }
    try await startMutex.withLock { [self] in try await startNow() }
  }

  private func startNow() async throws {
    let (number, setBack) = try await noteStart()
    let host = TaskDispatcher.Host(
      clock: clock, workers: configuration.workerCount, abandonAfter: configuration.abandonAfter.clipped, start: number,
      rules: { [weak self] in self?.rules(of: $0) ?? QueueRules() },
      // Events of beginnings are stored in the commits of the claims.
      claimsAhead: !configuration.keptEvents.contains(.started),
      wake: { [weak self] in self?.beginPump(number) }, timersChanged: { [weak self] in self?.setAlarm() },
      released: { [weak self] in self?.beginSchedules() }, recorder: recorder)
    guard dispatcher.attach(host, state.withLock({ $0.handlers })) else {
      throw TaskError.alreadyRunning(path: database.path)
    }
    state.withLock { state in
      state.isRunning = true
      state.start = number
      state.ageingSearches = [:]
    }
    workGate.open()
    dispatcher.worker.writeAtClose { [dispatcher] parts in try Self.noteClose(parts, dispatcher) }
    // A handler may have been registered since the scheduler was attached.
    useHandlers()
    do {
      if let setBack { try await keep([setBack]) }
      try await recover()
      try await prune()
      try await loadState(number)
      if dispatcher.areAllHeld { SchedulerLog.held(logger, database.path) } else { try await startSchedules() }
      dispatcher.discover(try await readAcknowledged(database) { tx in try subqueues(tx.tasks.parts.live) })
      try openInbox()
    } catch {
      dispatcher.detach()
      state.withLock { $0.isRunning = false }
      await workGate.close()
      throw error
    }
  }

  // MARK: - Stopping

  // A handler may stop the scheduler that runs it. The stop first ends all other attempts, and then lets the call of
  // the handler return. It ends when the end of this attempt is committed, too.

  /// Stops the scheduler: no further task begins. Handlers have `drainTimeout` to return and are then cancelled.
  ///
  /// Tasks that are not finished run again at the next start, as if the attempt had not been made: those whose handlers
  /// throw, or return `.retry`, after they were cancelled. A handler that does not return within `abandonAfter` either
  /// is left running, and its task runs again, at the same time, at the next start.
  ///
  /// When the method returns, the scheduler does not use the database any more, which can be closed. Handlers that were
  /// left running may still use it.
  ///
  /// If the database is closed without a stop, the handlers that run are not cancelled, and can't use it any more.
  /// Their tasks also run again at the next start, as if the attempts had not been made. If the process ends without a
  /// stop or a close, the next start counts a crash for each task that runs.
  ///
  /// In a handler, the method returns when all other attempts have ended, except those whose handlers also wait for a
  /// stop. The scheduler stops when the handler has returned and its outcome is stored: `Database.close()` in its
  /// asynchronous form waits for that, and the blocking form throws `.writerBusy` until then.
  ///
  /// The method has its full effect even if the caller's Swift task is cancelled.
  public func stop() async {
    if let run = ownRun { return await stop(in: run) }
    await Task.detached { [self] in await stop(draining: configuration.drainTimeout) }.value
  }

  /// The attempt whose handler runs the current code, or `nil` if no handler of this scheduler does.
  var ownRun: TaskRun? {
    guard let run = DatabaseWorker.call as? TaskRun, dispatcher.isOfHandler(run) else { return nil }
    return run
  }

  private func stop(in run: TaskRun) async {
    SchedulerLog.stops(logger, run)
    let isDelaying = dispatcher.worker.delayClose()
    Task.detached { [self] in
      await stop(draining: configuration.drainTimeout)
      if isDelaying { dispatcher.worker.endDelay() }
    }
    dispatcher.noteStopCaller(run)
    await withCheckedContinuation { continuation in
      let isOver = state.withLock { state in
        if !state.isRunning || state.waitsForStopCallers { return true }
        state.stopCallers.append(continuation)
        return false
      }
      if isOver { return continuation.resume() }
      // It may be the last one that a stop has waited for.
      noteIdle()
    }
  }

  private func stop(draining limit: Duration) async {
    await startMutex.withLock { [self] in await stopNow(draining: limit) }
  }

  private func stopNow(draining limit: Duration) async {
    guard state.withLock({ $0.isRunning }) else {
      dispatcher.noteStopWithoutStart()
      return resumeStopCallers()
    }
    closeInbox()
    _ = dispatcher.stop(leavingCallers: false)
    state.withLock { $0.leavesStopCallers = true }
    await endRuns(draining: limit, leavingCallers: true)
    // None of these returns before it is resumed.
    let hasCallers = dispatcher.hasStopCallers
    state.withLock { ($0.leavesStopCallers, $0.waitsForStopCallers) = (false, true) }
    resumeStopCallers()
    if hasCallers { await endRuns(draining: limit, leavingCallers: false) }
    try? await noteTime()
    alarm.set({ nil }, {})
    dispatcher.detach()
    state.withLock { ($0.isRunning, $0.waitsForStopCallers) = (false, false) }
    resumeStopCallers()
    await endInbox()
    await workGate.close()
    hub.finish()
    resumeIdle()
  }

  private func resumeStopCallers() {
    let callers = state.withLock { state in
      defer { state.stopCallers = [] }
      return state.stopCallers
    }
    for caller in callers { caller.resume() }
  }

  /// Ends the attempts that run, or those whose handlers do not wait for a stop.
  private func endRuns(draining limit: Duration, leavingCallers: Bool) async {
    if limit > .zero { await waitForRuns(limit) }
    for run in dispatcher.stop(leavingCallers: leavingCallers) {
      run.state.withLock { $0.isInterrupted = true }
      run.state.withLock { $0.task }?.cancel()
    }
    await waitForRuns(configuration.abandonAfter)
    let left = dispatcher.workload(leavingCallers: leavingCallers).running
    if left == 0 { return }
    SchedulerLog.leftRunning(logger, left)
    let runs = dispatcher.stop(leavingCallers: leavingCallers)
    await interrupt(runs)
    await reportAbandoned(runs)
    if leavingCallers { dispatcher.abandonAll() }
  }

  /// Settles the attempts of handlers that do not return.
  ///
  /// When the method returns, their tasks are queued again, as if the attempts had not been made.
  private func interrupt(_ runs: [TaskRun]) async {
    let host = dispatcher.settle(runs.filter { $0.settle() }.map { Settlement(run: $0, end: .interrupted) })
    state.withLock { $0.leavesHandlers = true }
    host?.wake()
    // The limit is by the system's clock, because the wait is for a commit.
    await waitForRuns(.seconds(10), SystemSchedulerClock())
    state.withLock { $0.leavesHandlers = false }
  }

  /// Returns when no handler runs and all attempts are settled, or after a time.
  private func waitForRuns(_ limit: Duration, _ other: (any SchedulerClock)? = nil) async {
    let clock = other ?? self.clock
    let deadline = clock.continuousNow + limit.clipped
    await withTaskGroup { group in
      group.addTask { await self.waitUntilIdle() }
      group.addTask { try? await clock.sleep(until: deadline) }
      await group.next()
      group.cancelAll()
    }
  }

  // MARK: - Waiting

  /// Returns when no handler runs and no work is left until a later time or another task, or when the caller's Swift
  /// task is cancelled.
  ///
  /// A handler must not call it: the call would wait for the handler itself, until the handler is cancelled. A warning
  /// in the log names its task then.
  public func waitUntilIdle() async { await waitUntilIdle(leavingSleepers: false) }

  func waitUntilIdle(leavingSleepers: Bool) async {
    if let run = ownRun { SchedulerLog.waits(logger, run, for: "waitUntilIdle()") }
    if let host = dispatcher.timerFired() { host.wake() }
    let id = state.withLock { state in
      state.nextWaiter += 1
      state.idleWaiters[state.nextWaiter] = .some(nil)
      if leavingSleepers { state.sleepWaiters.insert(state.nextWaiter) }
      return state.nextWaiter
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isOver = state.withLock { state in
          guard state.isRunning, state.idleWaiters[id] != nil else { return true }
          state.idleWaiters[id] = continuation
          return false
        }
        if isOver { return continuation.resume() }
        noteIdle()
      }
    } onCancel: {
      state.withLock { $0.idleWaiters.removeValue(forKey: id) ?? nil }?.resume()
    }
    state.withLock { state in
      state.idleWaiters[id] = nil
      state.sleepWaiters.remove(id)
    }
  }

  /// Resumes the callers that wait until no work is left, if none is.
  func noteIdle() {
    // A caller that waits from now on may have added work after the check below.
    let (waiting, leavesHandlers, leavesCallers) = state.withLock { state in
      (state.idleWaiters.filter { $0.value != nil }, state.leavesHandlers, state.leavesStopCallers)
    }
    if waiting.isEmpty { return }
    let workload = dispatcher.workload(leavingCallers: leavesCallers)
    if workload.running == 0 || leavesHandlers, !workload.hasWork { return resumeIdle(waiting.keys) }
    let sleepWaiters = state.withLock { $0.sleepWaiters.intersection(waiting.keys) }
    if !sleepWaiters.isEmpty, dispatcher.areAllAsleep { resumeIdle(sleepWaiters) }
  }

  /// Resumes all callers that wait.
  private func resumeIdle() { resumeIdle(state.withLock { $0.idleWaiters.filter { $0.value != nil } }.keys) }

  /// Resumes some of the callers that wait, as far as they still do.
  private func resumeIdle(_ ids: some Sequence<UInt64>) {
    let waiters = state.withLock { state in ids.compactMap { state.idleWaiters.removeValue(forKey: $0) ?? nil } }
    for waiter in waiters { waiter.resume() }
  }
}

/// A type that runs the tasks with one type of payload.
public protocol TaskHandler<Payload>: Sendable {
  /// The type of the payload.
  associatedtype Payload: TaskPayload
  /// Runs one attempt. An error is a failure, after which the retries of the task determine what follows.
  func run(_ payload: Payload, _ context: TaskContext) async throws -> TaskOutcome
}

/// The error for a payload that the program can't read. Its task is parked.
struct UnreadablePayload: Error { let cause: any Error }

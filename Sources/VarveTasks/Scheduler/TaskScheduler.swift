public import Foundation
public import Logging
internal import Synchronization
public import Varve

/// Runs the tasks of a database: those that its transactions enqueue, and those that were there when it was opened.
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
/// # What is promised
/// A task whose enqueueing was committed runs to a settled state, at least once. After the death of the process it runs again when
/// the database is opened and a scheduler is started: nothing waits for a lease to end. Its effects on the database happen exactly
/// once where its handler uses `TaskContext.complete(_:)`; effects elsewhere may be repeated, and carry `TaskContext.id`.
///
/// # Claims
/// Beginning and ending attempts are commits beside the writer: a transaction of the program that takes a minute holds none of them
/// up. They survive the death of the process; after a loss of power the last ones may be undone, and their tasks run again.
///
/// # One scheduler
/// Only the process that writes runs tasks, by one scheduler: another one throws `TaskError.alreadyRunning`.
///
/// Safe from any thread.
public final class TaskScheduler: Sendable {
  /// How a scheduler works.
  public struct Configuration: Sendable {
    /// How many handlers run at once over all queues; nil: 4 for each core, at least 8.
    public var workers: Int?
    /// How long `stop` waits for handlers before it cancels them.
    public var drainTimeout = Duration.seconds(30)
    /// How long after its cancellation a handler that does not return keeps its worker.
    public var abandonAfter = Duration.seconds(10)
    /// After so many deaths of the process while it ran a task is dead; 0: without a limit.
    public var maxCrashes = 3
    /// The rules of queues. Of several that select a queue the most exact counts; others are standard queues.
    public var queues: [QueueSelector: QueueRules] = [:]
    /// Which events the database keeps, the last 10,000 of them: `ReadTransaction.taskEvents`. Those of each task would double what is
    /// written; the default are those that a person may ask about.
    public var keptEvents: Set<TaskEvent.Kind> = [.dead, .parked, .crashed, .timedOut, .slotMissed, .abandoned]

    /// The defaults.
    public init() {}

    var workerCount: Int { workers ?? max(8, 4 * ProcessInfo.processInfo.activeProcessorCount) }
  }

  /// The database.
  public let database: Database
  /// How it works.
  public let configuration: Configuration
  let clock: any SchedulerClock
  let logger: Logger
  let dispatcher: TaskDispatcher
  let alarm: TaskAlarm
  let hub = TaskEventHub()
  let hasMiddleware = Atomic(false)
  let hasPoints = Atomic(false)

  struct State {
    var isRunning = false
    var start: UInt32 = 0
    var handlers = TaskHandlers()
    var queues: [QueueSelector: QueueRules]
    /// When tasks that have ended were looked at, on the continuous clock.
    var lastPruned: Duration?
    /// Callers that wait until nothing is left to do; nil: one is about to, or was cancelled before it did.
    var idleWaiters: [UInt64: CheckedContinuation<Void, Never>?] = [:]
    var nextWaiter: UInt64 = 0
    /// Whether handlers that do not return are not waited for.
    var leavesHandlers = false
    /// The number of the next event that the database keeps.
    var nextEvent: UInt64 = 1
    var middleware: [any TaskMiddleware] = []
    var schedules: [String: RegisteredSchedule] = [:]
    var accepted: [String: AcceptedType] = [:]
    var watch: DirectoryWatch?
    /// Called at each point of an attempt, in tests.
    var atPoint: (@Sendable (TaskID, TaskPoint) async -> Void)?
    /// How often a read of the inbox was requested since the last one.
    var inboxRequests = 0
  }

  let state: Mutex<State>

  /// A scheduler of a database. Registers `TaskStorage` where the database's definition does not have it.
  ///
  /// Throws what `Database.register` throws.
  public init(
    _ database: Database, configuration: Configuration = Configuration(),
    clock: any SchedulerClock = SystemSchedulerClock(), logger: Logger = Logger(label: "varve.tasks")
  ) throws {
    self.database = database
    self.configuration = configuration
    self.clock = clock
    self.logger = logger
    alarm = TaskAlarm(clock)
    state = Mutex(State(queues: configuration.queues))
    do { try database.register(TaskStorage(), as: TaskStorage.handle.name) } catch let error as DatabaseError
      where error.code == .alreadyDefined
    {
      // The program's definition has it.
    }
    dispatcher = try database.read { tx in try tx.tasks.dispatcher }
    dispatcher.use(clock)
    noteLimits()
  }

  // MARK: - Queues

  /// The rules of some queues from their next task on: to be called before `start`.
  public func use(_ rules: QueueRules, for queues: QueueSelector) {
    state.withLock { $0.queues[queues] = rules }
    noteLimits()
  }

  private func noteLimits() {
    let hasLimits = state.withLock { $0.queues.values.contains { $0.maxWaiting != nil } }
    if hasLimits { dispatcher.hasWaitingLimits.store(true, ordering: .relaxed) }
  }

  /// Adds what runs around every handler, and sees every task that is enqueued in this process: of several the first is the outermost.
  /// To be called before `start`.
  public func use(_ middleware: any TaskMiddleware) {
    let all = state.withLock { state in
      state.middleware.append(middleware)
      return state.middleware
    }
    hasMiddleware.store(true, ordering: .releasing)
    dispatcher.use(EnqueueHooks(hooks: all))
  }

  /// The rules of a queue.
  func rules(of queue: QueueName) -> QueueRules {
    let queues = state.withLock { $0.queues }
    return queues.filter { $0.key.contains(queue) }.max { $0.key.rank < $1.key.rank }?.value ?? QueueRules()
  }

  // MARK: - Handlers

  /// Runs tasks of a payload by a closure: in all queues, or in some. May be called at any time: tasks that were enqueued before
  /// wait for it, and so does a serial queue whose next task has no handler.
  ///
  /// Throws `TaskError.overlappingHandlers` where another handler would receive some of them.
  public func register<Payload: TaskPayload>(
    _ type: Payload.Type, on queues: QueueSelector = .all, options: HandlerOptions = HandlerOptions(),
    _ body: @escaping @Sendable (Payload, TaskContext) async throws -> TaskOutcome
  ) throws {
    let logger = logger
    try add(
      RegisteredHandler(Payload.kind, queues, options) { run, host in
        guard let host = host as? any CompletingHost else { throw TaskError.leaseLost(run.id) }
        let context = TaskContext(run, host, logger)
        let payload = try Self.payload(Payload.self, run)
        return try await host.surround(context) { try await body(payload, context) }
      })
  }

  private func add(_ handler: RegisteredHandler) throws {
    let (handlers, isRunning) = try state.withLock { state throws(TaskError) in
      try state.handlers.add(handler)
      return (state.handlers, state.isRunning)
    }
    if isRunning { dispatcher.use(handlers) }
  }

  /// Runs tasks of a payload by a handler.
  public func register<Handler: TaskHandler>(
    _ handler: Handler, on queues: QueueSelector = .all, options: HandlerOptions = HandlerOptions()
  ) throws {
    try register(Handler.Payload.self, on: queues, options: options) { payload, context in
      try await handler.run(payload, context)
    }
  }

  private static func payload<Payload: TaskPayload>(_ type: Payload.Type, _ run: TaskRun) throws -> Payload {
    let data = Data(run.record.payload)
    do {
      if run.record.version == Payload.version { return try Payload(encoded: data) }
      return try Payload.migrate(data, from: run.record.version)
    } catch { throw UnreadablePayload(cause: error) }
  }

  /// The kinds of tasks that were to be run and have no handler.
  public var unhandledKinds: [String] { dispatcher.unhandledKinds }

  /// Serial queues that wait because their first task is dead or parked.
  public var blockedQueues: [BlockedQueue] {
    dispatcher.blockedHeads.map { BlockedQueue(queue: $0.queue, task: $0.id, state: $0.state) }
  }

  /// A serial queue that waits for a person or a signal.
  public struct BlockedQueue: Hashable, Sendable {
    /// Its name.
    public let queue: QueueName
    /// Its first task.
    public let task: TaskID
    /// `dead` or `parked`.
    public let state: TaskState
  }

  /// How far the handler of a task says it is; nil where the task does not run, or has said nothing.
  public func progress(of id: TaskID) -> HandlerProgress? {
    dispatcher.run(id)?.state.withLock { $0.progress }
  }

  // MARK: - Running

  /// Runs tasks until the Swift task of the caller is cancelled; then handlers have `drainTimeout` to end.
  ///
  /// Throws as `start`.
  public func run() async throws {
    try await start()
    let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
    await withTaskCancellationHandler {
      for await _ in stream {}
    } onCancel: {
      continuation.finish()
    }
    // The Swift task is cancelled: what is left to do needs one that is not.
    await Task.detached { await self.stop() }.value
  }

  /// Runs tasks until a time on the clock's continuous time, for time that a system grants: then handlers are cancelled at once, and
  /// what they do not finish runs at the next start. Handlers that check for cancellation, and keep checkpoints, lose nothing.
  ///
  /// Returns earlier where nothing is left to do before another time. Throws as `start`.
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

  /// Begins to run tasks: first those that ran when a process died. Returns when these are in line again.
  ///
  /// Throws `TaskError.alreadyRunning`, and `DatabaseError.readOnly` where another process writes.
  public func start() async throws {
    let (number, setBack) = try await noteStart()
    let host = TaskDispatcher.Host(
      clock: clock, workers: configuration.workerCount, start: number,
      rules: { [weak self] in self?.rules(of: $0) ?? QueueRules() },
      wake: { [weak self] in self?.beginPump() }, timersChanged: { [weak self] in self?.setAlarm() },
      released: { [weak self] in self?.beginSchedules() })
    guard dispatcher.attach(host, state.withLock({ $0.handlers })) else {
      throw TaskError.alreadyRunning(path: database.path)
    }
    state.withLock { state in
      state.isRunning = true
      state.start = number
    }
    do {
      if let setBack { try await keep([setBack]) }
      try await recover()
      try await prune()
      try await load()
      if dispatcher.areAllHeld { TaskLog.held(logger, database.path) } else { try await startSchedules() }
      dispatcher.discover(try await readAcknowledged(database) { tx in try Self.lines(tx.tasks.parts.live) })
      try openInbox()
    } catch {
      dispatcher.detach()
      state.withLock { $0.isRunning = false }
      throw error
    }
  }

  /// Ends: no task begins any more. Handlers have `drainTimeout` to return, then they are cancelled, and what they do not finish runs
  /// again at the next start, as if the attempt had not been.
  ///
  /// A handler that does not return in `abandonAfter` either is left running, and its task runs again at the next start beside it. It
  /// does not matter whether the caller's Swift task is cancelled.
  public func stop() async {
    await Task.detached { [self] in await stop(draining: configuration.drainTimeout) }.value
  }

  private func stop(draining limit: Duration) async {
    guard state.withLock({ $0.isRunning }) else { return }
    closeInbox()
    _ = dispatcher.stop()
    if limit > .zero { await waitForRuns(limit) }
    for run in dispatcher.stop() {
      run.state.withLock { $0.isInterrupted = true }
      run.state.withLock { $0.task }?.cancel()
    }
    await waitForRuns(configuration.abandonAfter)
    let left = dispatcher.load.running
    if left > 0 {
      TaskLog.left(logger, left)
      await interrupt(dispatcher.stop())
    }
    try? await noteTime()
    alarm.set(nil) {}
    dispatcher.detach()
    state.withLock { $0.isRunning = false }
    resumeIdle()
  }

  /// Handlers that do not return: their tasks are in line again when this returns, as if the attempts had not been.
  private func interrupt(_ runs: [TaskRun]) async {
    let host = dispatcher.settle(runs.filter { $0.settle() }.map { TaskSettlement(run: $0, end: .interrupted) })
    state.withLock { $0.leavesHandlers = true }
    host?.wake()
    // By the system's clock: what is waited for is a commit.
    await waitForRuns(.seconds(10), SystemSchedulerClock())
    state.withLock { $0.leavesHandlers = false }
  }

  /// Returns when no handler runs and all is settled, or after a time.
  private func waitForRuns(_ limit: Duration, _ other: (any SchedulerClock)? = nil) async {
    let clock = other ?? self.clock
    let deadline = clock.continuousNow + limit
    await withTaskGroup { group in
      group.addTask { await self.waitUntilIdle() }
      group.addTask { try? await clock.sleep(until: deadline) }
      await group.next()
      group.cancelAll()
    }
  }

  /// Returns when no handler runs, and nothing is to be done before another time or another task; or when the caller's Swift task is
  /// cancelled.
  public func waitUntilIdle() async {
    if let host = dispatcher.timerFired() { host.wake() }
    let id = state.withLock { state in
      state.nextWaiter += 1
      state.idleWaiters[state.nextWaiter] = .some(nil)
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
    state.withLock { $0.idleWaiters[id] = nil }
  }

  /// Callers that wait for it are resumed where nothing is left to do.
  func noteIdle() {
    let load = dispatcher.load
    let leavesHandlers = state.withLock { $0.leavesHandlers }
    if load.running == 0 || leavesHandlers, !load.hasWork { resumeIdle() }
  }

  private func resumeIdle() {
    let waiters = state.withLock { state in
      let waiting = state.idleWaiters.filter { $0.value != nil }
      for id in waiting.keys { state.idleWaiters[id] = nil }
      return waiting.values
    }
    for waiter in waiters { waiter?.resume() }
  }
}

/// What runs the tasks of a payload.
public protocol TaskHandler<Payload>: Sendable {
  /// What its tasks are given.
  associatedtype Payload: TaskPayload
  /// Runs one attempt. What it throws is a failure: then the task's retries decide.
  func run(_ payload: Payload, _ context: TaskContext) async throws -> TaskOutcome
}

/// A payload that the program can't read: its task is parked.
struct UnreadablePayload: Error { let cause: any Error }

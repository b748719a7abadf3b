import Foundation
import FutexLocks
import Logging
import Synchronization
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// A task with a text that a test chooses.
struct Note: TaskPayload, Hashable {
  static let kind = "note"
  var text: String

  init(_ text: String) { self.text = text }
}

/// A task of another kind, for which a fixture has no handler.
struct Other: TaskPayload { static let kind = "other" }

/// The error of a handler that fails.
struct Broken: Error {}

/// The error of a transaction that is rolled back.
struct Undo: Error {}

/// A database, a scheduler with a clock that advances only on request, and a record of what its handlers did.
final class TaskFixture: Sendable {
  let database: Database
  let clock: ManualSchedulerClock
  let scheduler: TaskScheduler
  let lines: Lines

  final class Lines: Sendable {
    private let lines = Mutex<[String]>([])
    func add(_ line: String) { lines.withLock { $0.append(line) } }
    var count: Int { lines.withLock { $0.count } }
    func take() -> [String] {
      lines.withLock { lines in
        defer { lines = [] }
        return lines
      }
    }
  }

  init(
    _ database: Database? = nil, rules: [QueueSelector: QueueRules] = [:], workers: Int = 1,
    clock: ManualSchedulerClock = ManualSchedulerClock(), lines: Lines = Lines(), maxCrashes: Int = 3,
    kept: Set<TaskEvent.Kind>? = nil, drainTimeout: Duration = .seconds(30), logger: Logger? = nil
  ) throws {
    self.database = try database ?? Database.inMemory(definition: DatabaseDefinition {}, options: .patient)
    self.clock = clock
    self.lines = lines
    var configuration = TaskScheduler.Configuration()
    configuration.workers = workers
    configuration.queues = rules
    configuration.maxCrashes = maxCrashes
    configuration.drainTimeout = drainTimeout
    if let kept { configuration.keptEvents = kept }
    // Tests in which tasks die would fill the log.
    var quiet = Logger(label: "varve.tasks")
    quiet.logLevel = .critical
    scheduler = try TaskScheduler(self.database, configuration: configuration, clock: clock, logger: logger ?? quiet)
  }

  /// Opens a database over a storage.
  convenience init(
    over backend: any StorageBackend, rules: [QueueSelector: QueueRules] = [:], workers: Int = 1,
    kept: Set<TaskEvent.Kind>? = nil, logger: Logger? = nil
  ) throws {
    let database = try Database.open(
      backend, path: "/no/tasks", definition: DatabaseDefinition { TaskStorage.handle }, options: .patient)
    try self.init(database, rules: rules, workers: workers, kept: kept, logger: logger)
  }

  /// Stops the scheduler, and closes the database.
  func close() async throws {
    await scheduler.stop()
    try await database.close()
  }

  /// Registers a handler that runs notes: each adds its text to the record, and ends with the result of `outcome`.
  func handle(
    on queues: QueueSelector = .all, lease: Duration? = nil,
    _ outcome: @escaping @Sendable (Note, TaskContext) async throws -> TaskOutcome = { _, _ in .done }
  ) throws {
    let lines = lines
    var options = HandlerOptions()
    options.retry = .fixed(.seconds(10))
    options.lease = lease
    try scheduler.register(Note.self, on: queues, options: options) { note, context in
      lines.add(note.text)
      return try await outcome(note, context)
    }
  }

  /// Calls the blocking forms, in contexts in which these names mean the asynchronous forms.
  @discardableResult
  func write<Result>(_ body: (WriteTransaction) throws -> Result) throws -> Result { try database.write(body) }
  func read<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result { try database.read(body) }

  /// Runs a transaction on a thread of its own. It may wait for handlers, which need the threads of Swift's pool.
  @discardableResult
  func writeOnThread<Result: Sendable>(
    durability: StorageDurability? = nil, _ body: @escaping @Sendable (WriteTransaction) throws -> Result
  ) async throws -> Result {
    try await Threads.alone { [database] in try database.write(durability: durability, body) }
  }

  func backup(to path: String) throws { try database.backup(to: path) }

  @discardableResult
  func enqueue(_ text: String, _ change: (inout TaskOptions) -> Void = { _ in }) throws -> TaskID {
    var options = Note.defaults
    change(&options)
    return try database.write { tx in try tx.enqueue(Note(text), options).id }
  }

  // MARK: - What is stored

  func state(_ id: TaskID) throws -> TaskState? { try database.read { tx in try tx.task(id)?.progress.state } }

  /// Returns the number of all tasks, also of those that have ended and are kept.
  func taskCount() throws -> Int { try database.read { tx in try tx.tasks(.all).count } }

  /// Returns the number of tasks of a queue that are in a state.
  func count(_ state: TaskState, in queue: QueueName = "default") throws -> Int {
    try database.read { tx in try tx.taskCount(in: queue, state) }
  }

  /// Returns the number of rows of tasks that have not ended.
  func rowCount() throws -> Int { try database.read { tx in try tx.tasks.parts.live.count() } }

  /// Returns the number of claims, which are among the rows of tasks that have not ended.
  func claimCount() throws -> Int {
    try database.read { tx in try tx.tasks.parts.live.count(StorageRange(prefix: TaskKeys.claimPrefix)) }
  }

  /// Returns the number of rows of `config` that begin with a byte.
  func configCount(_ tag: UInt8) throws -> Int {
    try database.read { tx in try tx.tasks.config.count(StorageRange(prefix: [tag])) }
  }

  /// Returns the progress of a handler as it is stored for other processes.
  func storedProgress(_ id: TaskID) throws -> HandlerProgress? {
    try database.read { tx in try tx.tasks.config.get(ConfigKeys.progress(id)).map { try HandlerProgress($0) } }
  }

  /// Expects that no rows are left of tasks that have not ended, and none of parents whose children must be changed.
  func expectNothingLeft(_ location: SourceLocation = #_sourceLocation) throws {
    let (rows, parents) = (try rowCount(), try configCount(ConfigKeys.pending))
    #expect(rows == 0, sourceLocation: location)
    #expect(parents == 0, sourceLocation: location)
  }

  // MARK: - Waiting

  /// Waits until a condition holds that other threads bring about.
  func poll(_ condition: () throws -> Bool) async { await waitUntil(condition) }

  // MARK: - Dispatching by hand

  /// Attaches a host to the dispatcher, for a test that takes the work of a start itself.
  func attach(
    workers: Int = 1, start: UInt32 = 1, wake: @escaping @Sendable () -> Void = {},
    timersChanged: @escaping @Sendable () -> Void = {}
  ) {
    let scheduler = scheduler
    let host = TaskDispatcher.Host(
      clock: clock, workers: workers, abandonAfter: .seconds(10), start: start, rules: { scheduler.rules(of: $0) },
      wake: wake, timersChanged: timersChanged, released: {})
    #expect(scheduler.dispatcher.attach(host, scheduler.state.withLock { $0.handlers }))
  }
}

extension [QueueSelector: QueueRules] {
  /// Returns rules by which all queues are serial, or no rules.
  static func all(isSerial: Bool) -> Self { isSerial ? [.all: QueueRules(order: .serial())] : [:] }
}

extension Database {
  /// Claims tasks as a process that dies while their handlers run.
  ///
  /// With `isAhead`, the process has made the claims ahead, and it is not known whether the handlers have begun.
  func claimAndDie(_ ids: [TaskID], isAhead: Bool = false) async throws {
    try await commitIndependently { parts in
      let parts = try TaskParts(parts)
      var counts = TaskCounts()
      for id in ids {
        guard var running = try parts.record(id) else { continue }
        try running.progress.apply(.claim)
        _ = try TaskEdit.claim(running, start: 0, begun: isAhead ? nil : 0).write(to: parts, &counts)
      }
    }
  }
}

extension TaskContext {
  /// Completes the task in a transaction that counts a key in a collection.
  func complete(counting key: some KeyCodable & Sendable, in collection: String = "effects") async throws {
    try await complete { tx in
      let before = try tx.object(Int.self, key: key, in: collection) ?? 0
      try tx.set(before + 1, key: key, in: collection)
    }
  }
}

extension Date {
  /// Creates a date from a text in the form of ISO 8601.
  init(iso text: String) throws { self = try #require(try? Date(text, strategy: .iso8601), "\(text) is not a date") }
}

import Foundation
import Logging
import Synchronization
import Varve
import VarveTesting

@testable import VarveTasks

/// A task with a text that a test chooses.
struct Note: TaskPayload, Hashable {
  static let kind = "note"
  var text: String

  init(_ text: String) { self.text = text }
}

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
    kept: Set<TaskEvent.Kind>? = nil, drainTimeout: Duration = .seconds(30)
  ) throws {
    self.database = try database ?? Database.inMemory(definition: DatabaseDefinition {})
    self.clock = clock
    self.lines = lines
    var configuration = TaskScheduler.Configuration()
    configuration.workers = workers
    configuration.queues = rules
    configuration.maxCrashes = maxCrashes
    configuration.drainTimeout = drainTimeout
    if let kept { configuration.keptEvents = kept }
    // Tests in which tasks die would fill the log.
    var logger = Logger(label: "varve.tasks")
    logger.logLevel = .critical
    scheduler = try TaskScheduler(self.database, configuration: configuration, clock: clock, logger: logger)
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
  func writeOnThread(_ body: @escaping @Sendable (WriteTransaction) throws -> Void) async throws {
    try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
      Thread.detachNewThread { [self] in continuation.resume(with: Result { try write(body) }) }
    }
  }

  func backup(to path: String) throws { try database.backup(to: path) }

  @discardableResult
  func enqueue(_ text: String, _ change: (inout TaskOptions) -> Void = { _ in }) throws -> TaskID {
    var options = Note.defaults
    change(&options)
    return try database.write { tx in try tx.enqueue(Note(text), options).id }
  }

  func state(_ id: TaskID) throws -> TaskState? { try database.read { tx in try tx.task(id)?.progress.state } }
}

import Foundation
import Logging
import Varve
import VarveTasks

// The Swift blocks of the guides about order, failures and operation, as OperationGuideTests runs them: a test compares
// them with the guides.

/// Block 1 of OrderingTasks.md.
enum OrderingTasks1 {
  struct Preview: TaskPayload {
    static let kind = "preview"
    var file: String
  }

  static func configuration() -> TaskScheduler.Configuration {
    var previews = QueueRules(order: .standard, concurrency: 2)
    previews.ageing = .seconds(60)
    var configuration = TaskScheduler.Configuration()
    configuration.queues = [.named("previews"): previews]
    return configuration
  }

  /// A preview that no one looks at yet runs after the others, but waits ten minutes for them at most.
  static func enqueue(_ file: String, isWanted: Bool, in tx: WriteTransaction) throws {
    try tx.enqueue(Preview(file: file)) { ($0.queue, $0.priority) = ("previews", isWanted ? 100 : 110) }
  }
}

/// Block 2 of OrderingTasks.md.
enum OrderingTasks2 {
  struct Feed: TaskPayload {
    static let kind = "feed"
    var name: String
  }

  /// Feeds are read in the order of their dates, in whichever order they were enqueued.
  static func enqueue(_ name: String, dated date: Date, in tx: WriteTransaction) throws {
    try tx.enqueue(Feed(name: name)) { ($0.queue, $0.sortKey) = ("feeds", SortKey(date)) }
  }
}

/// Block 3 of OrderingTasks.md.
enum OrderingTasks3 {
  struct Analyze: TaskPayload {
    static let kind = "analyze"
    var file: String
  }

  static func enqueueAll(_ files: [String], in tx: WriteTransaction) throws -> [TaskID] {
    try tx.enqueue(contentsOf: files.map { Analyze(file: $0) }) { $0.queue = "analysis" }.map(\.id)
  }
}

/// Block 4 of OrderingTasks.md.
enum OrderingTasks4 {
  /// If both queues have work, and four workers are free, three of these run replies.
  static func configuration() -> TaskScheduler.Configuration {
    var replies = QueueRules()
    replies.weight = 3
    var configuration = TaskScheduler.Configuration()
    configuration.workers = 4
    configuration.queues = [.named("replies"): replies]
    return configuration
  }
}

/// Block 5 of OrderingTasks.md.
enum OrderingTasks5 {
  static func configuration() -> TaskScheduler.Configuration {
    var payments = QueueRules(order: .serial())
    payments.strictDurableOrder = true
    var configuration = TaskScheduler.Configuration()
    configuration.queues = [.prefix("payments-"): payments]
    return configuration
  }
}

/// Block 6 of OrderingTasks.md.
enum OrderingTasks6 {
  static func configuration() -> TaskScheduler.Configuration {
    var scans = QueueRules(order: .serial())
    scans.leavesHandlers = true
    var configuration = TaskScheduler.Configuration()
    configuration.abandonAfter = .seconds(5)
    configuration.queues = [.named("scans"): scans]
    return configuration
  }
}

/// Block 1 of FailingTasks.md.
enum FailingTasks1 {
  struct Fetch: TaskPayload {
    static let kind = "fetch"
    /// The first delay is 2 seconds, the second 6, the third 18, each 20 % longer or shorter at most.
    static var defaults: TaskOptions {
      let retry = Retry.exponential(base: .seconds(2), factor: 3, cap: .seconds(600), jitter: 0.2)
      return TaskOptions(queue: "fetches", retry: retry, maxAttempts: 10)
    }

    var address: String
  }
}

/// Block 2 of FailingTasks.md.
enum FailingTasks2 {
  struct Deliver: TaskPayload {
    static let kind = "deliver"
    var text: String
  }

  struct Offline: Error {}
  struct Rejected: Error {}

  protocol Server: Sendable {
    func accept(_ text: String) async throws
  }

  static func register(_ scheduler: TaskScheduler, _ server: any Server) throws {
    let options = HandlerOptions(onError: { error, failures in
      if error is Offline { return .park(wakeOn: ["network"]) }
      if error is Rejected { return .discard("the server has rejected it") }
      if failures < 3 { return .retry(after: .seconds(30)) }
      return nil
    })
    try scheduler.register(Deliver.self, options: options) { task, context in
      try await server.accept(task.text)
      return .done
    }
  }
}

/// Block 3 of FailingTasks.md.
enum FailingTasks3 {
  struct Collect: TaskPayload {
    static let kind = "collect"
    var export: String
  }

  static func register(
    _ scheduler: TaskScheduler, _ isReady: @escaping @Sendable (String) async throws -> Bool
  ) throws {
    try scheduler.register(Collect.self) { task, context in
      guard try await isReady(task.export) else { return .snooze(for: .seconds(30)) }
      return .done
    }
  }
}

/// Block 4 of FailingTasks.md.
enum FailingTasks4 {
  struct Render: TaskPayload {
    static let kind = "render"
    static var defaults: TaskOptions { TaskOptions(retry: .fixed(.seconds(60)), timeout: .seconds(20)) }

    var page: Int
  }

  static func register(_ scheduler: TaskScheduler, _ render: @escaping @Sendable (Int) async throws -> Void) throws {
    try scheduler.register(Render.self) { task, context in
      try await render(task.page)  // throws if it is cancelled
      return .done
    }
  }
}

/// Block 5 of FailingTasks.md.
enum FailingTasks5 {
  static func configuration() -> TaskScheduler.Configuration {
    var configuration = TaskScheduler.Configuration()
    configuration.maxCrashes = 2
    return configuration
  }

  /// Returns the dead tasks that were running when the process died.
  static func suspects(_ database: Database) throws -> [TaskInfo] {
    try database.read { tx in try tx.tasks(.state(.dead)).filter { $0.progress.crashes > 0 } }
  }
}

/// Block 1 of OperatingTasks.md.
enum OperatingTasks1 {
  struct Sync: TaskPayload {
    static let kind = "sync"
    var account: Int
  }

  /// Registers the handler that needs a user, and returns whether tasks have waited for it.
  static func signedIn(
    _ scheduler: TaskScheduler, _ sync: @escaping @Sendable (Int) async throws -> Void
  ) throws -> Bool {
    let hasWaited = scheduler.unhandledKinds.contains(Sync.kind)
    try scheduler.register(Sync.self) { task, context in
      try await sync(task.account)
      return .done
    }
    return hasWaited
  }
}

/// Block 2 of OperatingTasks.md.
enum OperatingTasks2 {
  /// Every attempt is recorded. This about doubles what is written for a task.
  static func configuration() -> TaskScheduler.Configuration {
    var configuration = TaskScheduler.Configuration()
    configuration.keptEvents.formUnion([.started, .done, .failed])
    return configuration
  }

  static func history(_ database: Database, after number: UInt64) throws -> [String] {
    try database.read { tx in
      try tx.taskEvents(after: number).map { number, event in "\(number) \(event.kind)" }
    }
  }
}

/// Block 3 of OperatingTasks.md.
enum OperatingTasks3 {
  struct Scan: TaskPayload {
    static let kind = "scan"
    var pageCount: Int
  }

  static func register(_ scheduler: TaskScheduler, _ scan: @escaping @Sendable (Int) async throws -> Void) throws {
    try scheduler.register(Scan.self) { task, context in
      var page = try context.restored(Int.self) ?? 0
      while page < task.pageCount {
        try await scan(page)  // throws if it is cancelled
        page += 1
        try await context.checkpoint(page)
      }
      return .done
    }
  }

  /// Runs tasks for the time that the system grants, less a second for the rest of the program.
  static func runInBackground(
    _ scheduler: TaskScheduler, for granted: Duration, clock: any SchedulerClock = SystemSchedulerClock()
  ) async throws {
    try await scheduler.run(until: clock.continuousNow + granted - .seconds(1))
  }
}

/// Block 4 of OperatingTasks.md.
enum OperatingTasks4 {
  struct Mail: TaskPayload {
    static let kind = "mail"
    var address: String
  }

  static func makeScheduler(_ database: Database, _ base: Logger) throws -> TaskScheduler {
    var logger = base
    logger[metadataKey: "service"] = "mailer"
    let scheduler = try TaskScheduler(database, logger: logger)
    try scheduler.register(Mail.self) { mail, context in
      context.logger.info("sending", metadata: ["mail.address": "\(mail.address)"])
      return .done
    }
    return scheduler
  }
}

/// Block 5 of OperatingTasks.md.
enum OperatingTasks5 {
  /// Returns the queues whose first task has waited for more than a minute, and what the scheduler has measured.
  static func report(_ scheduler: TaskScheduler) throws -> [String] {
    let late = try scheduler.queueHeads().filter { $0.age > .seconds(60) }
    var lines = late.map { "queue \($0.queue) waits with task \($0.task), which is \($0.state)" }
    let statistics = scheduler.statistics
    lines.append("attempts that lost their task: \(statistics.fencedCount)")
    lines.append("the slowest claim took \(statistics.claims.maximum)")
    lines.append("the latest timer was \(statistics.timers.maximum) late")
    return lines
  }
}

/// Block 6 of FailingTasks.md.
enum FailingTasks6 {
  struct Payment: TaskPayload {
    static let kind = "payment"
    var amount: Int
  }

  /// Handles the payments that have died since the last call, and remembers where it stopped, in one transaction.
  static func handleDeadPayments(in tx: WriteTransaction, _ handle: (Payment, [String]) throws -> Void) throws {
    let last = try tx.object(UInt64.self, key: "dead payments", in: "positions") ?? 0
    for (number, event) in try tx.taskEvents(after: last) {
      try tx.set(number, key: "dead payments", in: "positions")
      guard event.kind == .dead, event.payloadKind == Payment.kind, let task = try tx.task(event.id) else { continue }
      try handle(try task.payload(as: Payment.self), task.errors)
    }
  }
}

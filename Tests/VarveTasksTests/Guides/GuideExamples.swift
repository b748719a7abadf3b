import Dispatch
import Foundation
import Logging
import Varve
import VarveTasks
import VarveTesting

// The Swift blocks of the guides, as GuideTests runs them: a test compares them with the guides.

/// Block 1 of Tasks.md.
enum Tasks1 {
  struct Thumbnail: TaskPayload {
    static let kind = "thumbnail"
    static let version: UInt16 = 2
    static var defaults: TaskOptions { TaskOptions(queue: "images", maxAttempts: 5, timeout: .seconds(60)) }

    var photo: UUID
    var width: Int

    /// Version 1 had no width.
    static func migrate(_ data: Data, from version: UInt16) throws -> Thumbnail {
      struct First: Codable { var photo: UUID }
      return Thumbnail(photo: try JSONDecoder().decode(First.self, from: data).photo, width: 200)
    }
  }
}

/// Block 2 of Tasks.md.
enum Tasks2 {
  struct Upload: TaskPayload {
    static let kind = "upload"
    var file: String
  }

  static func run(_ database: Database) async throws {
    var configuration = TaskScheduler.Configuration()
    configuration.queues = [.prefix("account-"): QueueRules(order: .serial())]
    let scheduler = try TaskScheduler(database, configuration: configuration)
    try scheduler.register(Upload.self) { upload, context in
      if context.attempt > 3 { return .park(wakeOn: ["network"]) }
      context.progress(0.5, upload.file)
      try await context.complete { tx in try tx.set(true, key: upload.file, in: "uploaded") }
      return .done
    }
    try await scheduler.run()  // until the Swift task is cancelled
  }
}

/// Block 3 of Tasks.md.
enum Tasks3 {
  static func look(_ database: Database, _ id: TaskID) throws {
    let (task, waiting) = try database.read { tx in
      (try tx.task(id), try tx.taskCount(in: "images", .ready))
    }
    print(task?.progress.state ?? .done, task?.handlerProgress?.fraction ?? 0, task?.errors ?? [], waiting)
    for reason in task?.waitsFor ?? [] { print("it waits for \(reason)") }
    try database.write { tx in
      try tx.retryNow(.parked("images"))  // those that wait for a person
      try tx.revive(.dead("images"))  // those that have failed for good
      try tx.cancel(.id(id))
      try tx.pause("images")  // also after a restart, until resume
      try tx.resume("images")
    }
  }
}

/// Block 4 of Tasks.md.
enum Tasks4 {
  struct Export: TaskPayload {
    static let kind = "export"
    var month: Int
  }

  /// Enqueues an export, and returns its result when it is done, or nil if it has failed.
  static func export(_ month: Int, _ database: Database, _ scheduler: TaskScheduler) async throws -> String? {
    let id = try await database.write { tx in
      try tx.enqueue(Export(month: month)) { $0.retention = .keep(.seconds(3_600)) }.id
    }
    guard try await scheduler.end(of: id) == .done else { return nil }
    return try await database.read { tx in try tx.task(id)?.result(as: String.self) }
  }
}

/// Block 5 of Tasks.md.
enum Tasks5 {
  /// Runs tasks until the process gets SIGTERM, and stops them.
  static func runUntilTerminated(_ scheduler: TaskScheduler) async throws {
    let source = DispatchSource.makeSignalSource(signal: SIGTERM, queue: .global())
    #if canImport(Darwin)
      signal(SIGTERM, SIG_IGN)  // on Linux, the source itself keeps the signal from ending the process
    #endif
    let run = Task { try await scheduler.run() }
    source.setEventHandler { run.cancel() }
    source.resume()
    defer { source.cancel() }
    try await run.value
  }
}

/// Block 1 of TaskFeatures.md.
enum TaskFeatures1 {
  struct Refresh: TaskPayload {
    static let kind = "refresh"
    var account: Int
  }

  /// At most one waits for each account, with the newest payload; what comes while one runs is run after it.
  static func refresh(_ account: Int, in tx: WriteTransaction) throws -> EnqueueResult {
    try tx.enqueue(Refresh(account: account)) { $0.unique = Uniqueness(key: "\(account)", onConflict: .rerun) }
  }
}

/// Block 2 of TaskFeatures.md.
enum TaskFeatures2 {
  static func rules() -> TaskScheduler.Configuration {
    var mail = QueueRules(order: .standard, concurrency: 20)
    mail.perKey = 2  // of each limit key
    mail.rate = QueueRules.Rate(count: 100, per: .seconds(1), burst: 20)  // of the queue
    mail.ratePerKey = QueueRules.Rate(count: 5, per: .seconds(1))
    mail.maxWaiting = 1_000_000
    var configuration = TaskScheduler.Configuration()
    configuration.queues = [.named("mail"): mail, .prefix("chat-"): QueueRules(order: .serial(), concurrency: 100)]
    return configuration
  }
}

/// Block 3 of TaskFeatures.md.
enum TaskFeatures3 {
  struct Step: TaskPayload {
    static let kind = "step"
    var name: String
  }

  static func diamond(in tx: WriteTransaction) throws {
    let top = try tx.enqueue(Step(name: "fetch")).id
    let left = try tx.enqueue(Step(name: "resize")) { $0.dependsOn = [top] }.id
    let right = try tx.enqueue(Step(name: "index")) { $0.dependsOn = [top] }.id
    try tx.enqueue(Step(name: "publish")) { ($0.dependsOn, $0.onParentFailure) = ([left, right], .cancel) }
  }
}

/// Block 4 of TaskFeatures.md.
enum TaskFeatures4 {
  struct Import: TaskPayload {
    static let kind = "import"
    var file: String
  }

  struct Summary: TaskPayload {
    static let kind = "summary"
    var title: String
  }

  static func importAll(_ files: [String], in tx: WriteTransaction) throws -> TaskID {
    try tx.enqueueGroup(Summary(title: "nightly")) { group in
      for file in files { try tx.enqueue(Import(file: file)) { $0.group = group } }
    }
  }

  static func register(_ scheduler: TaskScheduler) throws {
    try scheduler.register(Summary.self) { summary, context in
      guard let group = try context.group() else { return .discard("not the last one of a group") }
      print("\(summary.title): \(group.done) of \(group.total), \(group.dead) dead")
      return .done
    }
  }
}

/// Block 5 of TaskFeatures.md.
enum TaskFeatures5 {
  struct Report: TaskPayload {
    static let kind = "report"
    var day: Date
  }

  static func schedule(_ scheduler: TaskScheduler) throws {
    guard let zone = TimeZone(identifier: "Europe/Lisbon") else { return }
    let rules = ScheduleRules(missed: .latest, grace: .seconds(6 * 3_600), overlap: .skip)
    try scheduler.schedule("report", "0 6 * * MON-FRI", in: zone, rules: rules) { slot in Report(day: slot.date) }
  }
}

/// Block 6 of TaskFeatures.md.
enum TaskFeatures6 {
  struct Timing: TaskMiddleware {
    func run(_ context: TaskContext, _ next: NextHandler) async throws -> TaskOutcome {
      let begun = ContinuousClock.now
      defer { context.logger.info("\(context.kind) took \(ContinuousClock.now - begun)") }
      return try await next()
    }

    func enqueuing(_ kind: String, _ options: inout TaskOptions, in transaction: WriteTransaction) throws {
      if kind == "mail" { options.tags.append("outgoing") }
    }
  }

  static func use(_ scheduler: TaskScheduler) { scheduler.use(Timing()) }
}

/// Block 7 of TaskFeatures.md.
enum TaskFeatures7 {
  static func watch(_ scheduler: TaskScheduler) async {
    for await event in scheduler.events where event.kind == .dead { print(event.id, event.detail ?? "") }
  }

  static func look(_ database: Database) throws {
    try database.read { tx in
      for (number, event) in try tx.taskEvents(after: 0, limit: 100) { print(number, event.kind, event.id) }
      for task in try tx.tasks(.queue("images").and(.state(.dead)), limit: 20) { print(task.id, task.errors) }
      for task in try tx.tasks(.kind("thumbnail").and(.state(.done))) { print(try task.result(as: Int.self) ?? 0) }
    }
  }
}

/// Block 8 of TaskFeatures.md.
enum TaskFeatures8 {
  static func change(_ id: TaskID, in tx: WriteTransaction) throws {
    try tx.edit(id, priority: 10)
    try tx.edit(id, start: .after(.seconds(60)))
    try tx.drain("images")  // takes no tasks any more, and runs those that it has
    try tx.resume("images")
  }
}

/// Block 9 of TaskFeatures.md.
enum TaskFeatures9 {
  static func tidy(_ scheduler: TaskScheduler) async throws {
    let cancelled = try await scheduler.cancel(.tag("campaign-7"))
    let woken = try await scheduler.signal("network")
    print(cancelled, woken, try await scheduler.revive(.dead("images")))
  }
}

/// Block 10 of TaskFeatures.md.
enum TaskFeatures10 {
  static func send(_ path: String, _ account: Int) throws {
    try TaskInbox(path).send { batch in
      try batch.enqueue(Refresh(account: account))
      batch.signal("network")
    }
  }

  struct Refresh: TaskPayload {
    static let kind = "refresh"
    var account: Int
  }
}

/// Block 11 of TaskFeatures.md.
enum TaskFeatures11 {
  struct Transcode: TaskPayload {
    static let kind = "transcode"
    var file: String
  }

  protocol Transcoder: Sendable {
    func next(_ file: String) async throws -> Bool
  }

  static func register(_ scheduler: TaskScheduler, _ machine: any Transcoder) throws {
    try scheduler.register(Transcode.self, options: HandlerOptions(lease: .seconds(30))) { task, context in
      while try await machine.next(task.file) { try context.heartbeat() }
      return .done
    }
  }
}

/// Block 12 of TaskFeatures.md.
enum TaskFeatures12 {
  static func takeOver(_ database: Database) throws {
    if try database.read({ tx in try tx.areTasksHeld }) { try database.write { tx in try tx.releaseTasks() } }
  }
}

/// Block 1 of TestingTasks.md.
enum TestingTasks1 {
  struct Reminder: TaskPayload {
    static let kind = "reminder"
    var text: String
  }

  struct TestFailed: Error {}

  static func remindsAfterAnHour() async throws {
    let database = try await Database.inMemory { TaskStorage.handle }
    let clock = ManualSchedulerClock()
    let scheduler = try TaskScheduler(database, clock: clock)
    try scheduler.register(Reminder.self) { reminder, context in
      try await context.complete { tx in try tx.set(reminder.text, key: "last", in: "reminders") }
      return .done
    }
    try await scheduler.start()
    _ = try await database.write { tx in
      try tx.enqueue(Reminder(text: "tea")) { $0.start = .after(.seconds(3_600)) }
    }
    _ = try await database.read { tx in try tx.assertEnqueued(Reminder.self, count: 1) { $0.text == "tea" } }
    await scheduler.advance(clock, by: .seconds(3_600))
    let last = try await database.read { tx in try tx.object(String.self, key: "last", in: "reminders") }
    guard last == "tea" else { throw TestFailed() }
    await scheduler.stop()
  }
}

/// Block 2 of TestingTasks.md.
enum TestingTasks2 {
  struct Greet: TaskPayload {
    static let kind = "greet"
    var name: String
  }

  struct Greeter: TaskHandler {
    func run(_ greet: Greet, _ context: TaskContext) async throws -> TaskOutcome {
      guard let phrase = try context.restored(String.self) else {
        try await context.checkpoint("Hello, ")
        return .retry()
      }
      try context.result(phrase + greet.name)
      return .done
    }
  }

  struct TestFailed: Error {}

  static func greets() async throws {
    let database = try await Database.inMemory { TaskStorage.handle }
    let outcome = try await database.perform(Greet(name: "Ada")) { greet, context in
      try await context.complete { tx in try tx.set(true, key: greet.name, in: "greeted") }
      return .done
    }
    let isGreeted = try await database.read { tx in try tx.object(Bool.self, key: "Ada", in: "greeted") }
    guard outcome == .done, isGreeted == true else { throw TestFailed() }

    let trial = TestWorker(database)
    let first = try await trial.perform(Greet(name: "Ada"), with: Greeter())
    let second = try await trial.perform(Greet(name: "Ada"), attempt: 2, with: Greeter())
    let result = try trial.result(as: String.self)
    guard first == .retry(), second == .done, result == "Hello, Ada" else { throw TestFailed() }
    try await database.close()
  }
}

/// Block 3 of TestingTasks.md.
enum TestingTasks3 {
  struct Charge: TaskPayload {
    static let kind = "charge"
    var account: String
  }

  static func chargesOnce() async throws {
    try await assertSurvivesCrashes(of: Charge(account: "a")) {
      try await Database.inMemory { TaskStorage.handle }
    } register: { scheduler in
      try scheduler.register(Charge.self) { charge, context in
        try await context.checkpoint("began")
        try await context.complete { tx in
          let before = try tx.object(Int.self, key: charge.account, in: "charges") ?? 0
          try tx.set(before + 1, key: charge.account, in: "charges")
        }
        return .done
      }
    } check: { database, point in
      let count = try await database.read { tx in try tx.object(Int.self, key: "a", in: "charges") }
      if count != 1 { throw TaskAssertionFailed("charged \(count ?? 0) times after a death \(point)") }
    }
  }
}

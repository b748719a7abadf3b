import EngineTestSupport
import Foundation
import Synchronization
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests that run each example of the guides, and check that it does what the guide describes.
struct GuideTests {
  /// The examples must equal those of the guides, apart from spaces and the word `static`.
  @Test func `the examples in the tests equal those of the guides`() throws {
    let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    let root = folder.deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    func letters(_ text: some StringProtocol) -> String {
      text.replacingOccurrences(of: "static ", with: "").filter { !$0.isWhitespace }
    }
    let files = ["GuideExamples.swift", "OperationExamples.swift", "StatusExamples.swift"]
    let texts = try files.map { try String(contentsOf: folder.appending(path: $0), encoding: .utf8) }
    let examples = letters(texts.joined())
    let counts = [
      ("Tasks", 5), ("TaskFeatures", 12), ("TestingTasks", 3), ("OrderingTasks", 6), ("FailingTasks", 6),
      ("OperatingTasks", 5), ("StatusPages", 3),
    ]
    for (guide, count) in counts {
      let path = root.appending(path: "Sources/VarveTasks/VarveTasks.docc/Guides/\(guide).md")
      let parts = try String(contentsOf: path, encoding: .utf8).components(separatedBy: "```swift\n").dropFirst()
      #expect(parts.count == count, "\(guide).md")
      for (number, part) in parts.enumerated() {
        let block = part.components(separatedBy: "\n```")[0]
        let body = block.split(separator: "\n").filter { !$0.hasPrefix("import ") }.joined(separator: "\n")
        #expect(
          examples.contains("enum\(guide)\(number + 1){\(letters(body))}"), "block \(number + 1) of \(guide).md")
      }
    }
  }

  private func database() throws -> Database { try TaskFixture().database }

  /// Runs everything that is due in a database, with the handlers that `register` registers.
  private func run(
    _ database: Database, clock: ManualSchedulerClock = ManualSchedulerClock(),
    _ register: (TaskScheduler) throws -> Void
  ) async throws {
    let scheduler = try TaskScheduler(database, clock: clock)
    try register(scheduler)
    try await scheduler.start()
    await scheduler.waitUntilIdle()
    await scheduler.stop()
  }

  /// These call the blocking forms.
  private func write<Result>(_ database: Database, _ body: (WriteTransaction) throws -> Result) throws -> Result {
    try database.write(body)
  }
  private func read<Result>(_ database: Database, _ body: (ReadTransaction) throws -> Result) throws -> Result {
    try database.read(body)
  }

  // MARK: - Tasks

  @Test func `Tasks 1: a payload of an earlier version is migrated`() async throws {
    let photo = UUID()
    struct Old: TaskPayload {
      static let kind = Tasks1.Thumbnail.kind
      var photo: UUID
    }
    let database = try database()
    _ = try write(database) { tx in try tx.enqueue(Old(photo: photo), Tasks1.Thumbnail.defaults) }
    let found = Mutex<Tasks1.Thumbnail?>(nil)
    try await run(database) { scheduler in
      try scheduler.register(Tasks1.Thumbnail.self) { thumbnail, _ in
        found.withLock { $0 = thumbnail }
        return .done
      }
    }
    #expect(found.withLock { $0?.photo } == photo && found.withLock { $0?.width } == 200)
  }

  @Test func `Tasks 2 and 3: uploads run and write, and a person retries, revives and cancels tasks`() async throws {
    let database = try database()
    let id = try write(database) { tx in try tx.enqueue(Tasks2.Upload(file: "a"), TaskOptions(queue: "account-1")).id }
    let running = Task { try await Tasks2.run(database) }
    await waitUntil { try read(database) { tx in try tx.object(Bool.self, key: "a", in: "uploaded") } == true }
    running.cancel()
    try await running.value
    #expect(try read(database) { tx in try tx.task(id) } == nil)
    let parked = try write(database) { tx in
      var options = TaskOptions(queue: "images")
      options.start = .parked()
      _ = try tx.enqueue(Tasks2.Upload(file: "b"), options)
      return try tx.enqueue(Tasks2.Upload(file: "c"), options).id
    }
    try Tasks3.look(database, parked)
    #expect(try read(database) { tx in try tx.task(parked) } == nil)
    #expect(try read(database) { tx in try tx.taskCount(in: "images", .ready) } == 1)
  }

  // MARK: - TaskFeatures

  @Test func `TaskFeatures 1: one refresh waits for each account`() async throws {
    let database = try database()
    let results = try write(database) { tx in
      [
        try TaskFeatures1.refresh(1, in: tx), try TaskFeatures1.refresh(1, in: tx),
        try TaskFeatures1.refresh(2, in: tx),
      ]
    }
    #expect(results == [.inserted(results[0].id), .replaced(results[0].id), .inserted(results[2].id)])
    #expect(results[0].id != results[2].id)
  }

  @Test func `TaskFeatures 2: a scheduler applies the rules of queues`() throws {
    let scheduler = try TaskScheduler(try database(), configuration: TaskFeatures2.rules())
    #expect(scheduler.rules(of: "mail").perKey == 2 && scheduler.rules(of: "mail").maxWaiting == 1_000_000)
    #expect(scheduler.rules(of: "chat-7").isSerial && !scheduler.rules(of: "other").isSerial)
  }

  @Test func `TaskFeatures 3: a diamond of tasks runs from its top to its end`() async throws {
    let database = try database()
    try write(database) { tx in try TaskFeatures3.diamond(in: tx) }
    let names = Mutex<[String]>([])
    try await run(database) { scheduler in
      try scheduler.register(TaskFeatures3.Step.self) { step, _ in
        names.withLock { $0.append(step.name) }
        return .done
      }
    }
    let found = names.withLock { $0 }
    #expect(found.first == "fetch" && found.last == "publish" && Set(found) == ["fetch", "resize", "index", "publish"])
  }

  @Test func `TaskFeatures 4: the last task of a group runs after its members`() async throws {
    let database = try database()
    let group = try write(database) { tx in try TaskFeatures4.importAll(["a", "b"], in: tx) }
    let files = Mutex<Set<String>>([])
    try await run(database) { scheduler in
      try TaskFeatures4.register(scheduler)
      try scheduler.register(TaskFeatures4.Import.self) { task, _ in
        _ = files.withLock { $0.insert(task.file) }
        return .done
      }
    }
    #expect(files.withLock { $0 } == ["a", "b"])
    #expect(try read(database) { tx in try tx.task(group) } == nil)
  }

  @Test func `TaskFeatures 5: a report is enqueued at six on each weekday in Lisbon`() async throws {
    let database = try database()
    let clock = ManualSchedulerClock()
    // The time is a Friday at noon.
    clock.setWall(Date(timeIntervalSince1970: 1_795_780_800))
    let days = Mutex<[Date]>([])
    let scheduler = try TaskScheduler(database, clock: clock)
    try TaskFeatures5.schedule(scheduler)
    try scheduler.register(TaskFeatures5.Report.self) { report, _ in
      days.withLock { $0.append(report.day) }
      return .done
    }
    try await scheduler.start()
    await scheduler.advance(clock, by: .seconds(2 * 86_400))
    #expect(days.withLock { $0 }.isEmpty)
    await scheduler.advance(clock, by: .seconds(86_400))
    let found = days.withLock { $0 }
    await scheduler.stop()
    var calendar = Calendar(identifier: .gregorian)
    calendar.timeZone = try #require(TimeZone(identifier: "Europe/Lisbon"))
    let parts = calendar.dateComponents([.weekday, .hour, .minute], from: try #require(found.first))
    #expect(found.count == 1 && parts.weekday == 2 && parts.hour == 6 && parts.minute == 0)
  }

  @Test func `TaskFeatures 6: a middleware runs around handlers, and receives tasks when they are enqueued`()
    async throws
  {
    struct Mail: TaskPayload {
      static let kind = "mail"
      var text: String
    }
    let database = try database()
    let scheduler = try TaskScheduler(database)
    TaskFeatures6.use(scheduler)
    try scheduler.register(Mail.self) { _, _ in .park() }
    try await scheduler.start()
    let id = try write(database) { tx in try tx.enqueue(Mail(text: "hello")).id }
    await scheduler.waitUntilIdle()
    await scheduler.stop()
    let task = try read(database) { tx in try tx.task(id) }
    #expect(task?.tags == ["outgoing"] && task?.progress.state == .parked)
  }

  @Test func `TaskFeatures 7 to 9: events are observed, and tasks are queried and changed`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle { _, _ in .discard("no") }
    let watching = Task { await TaskFeatures7.watch(fixture.scheduler) }
    try await fixture.scheduler.start()
    let dead = try fixture.enqueue("bad") { $0.queue = "images" }
    await fixture.scheduler.waitUntilIdle()
    try TaskFeatures7.look(fixture.database)
    #expect(try fixture.read { tx in try tx.tasks(.queue("images").and(.state(.dead))).map(\.id) } == [dead])
    let other = try fixture.enqueue("later") { options in
      options.queue = "images"
      options.start = .parked()
    }
    try fixture.write { tx in try TaskFeatures8.change(other, in: tx) }
    #expect(try fixture.read { tx in try tx.task(other)?.priority } == 10)
    let tagged = try fixture.enqueue("tagged") { options in
      options.tags = ["campaign-7"]
      options.start = .parked(wakeOn: ["network"])
    }
    try await TaskFeatures9.tidy(fixture.scheduler)
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.state(tagged) == nil)
    await fixture.scheduler.stop()
    watching.cancel()
    await watching.value
  }

  @Test func `TaskFeatures 10 and 12: another process sends commands, and a copy is taken over`() async throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    func open(_ path: String) throws -> Database {
      try Database.open(at: path, definition: DatabaseDefinition { TaskStorage.handle })
    }
    let database = try open(path)
    try TaskFeatures10.send(path, 7)
    let accounts = Mutex<[Int]>([])
    let scheduler = try TaskScheduler(database)
    try scheduler.register(TaskFeatures10.Refresh.self) { task, _ in
      accounts.withLock { $0.append(task.account) }
      return .done
    }
    try await scheduler.start()
    await waitUntil { accounts.withLock { !$0.isEmpty } }
    await scheduler.stop()
    #expect(accounts.withLock { $0 } == [7])
    let copy = directory.path + "/copy"
    try await database.backup(to: copy)
    let second = try open(copy)
    #expect(try read(second) { tx in try tx.areTasksHeld })
    try TaskFeatures12.takeOver(second)
    #expect(try read(second) { tx in try tx.areTasksHeld } == false)
    try await second.close()
    try await database.close()
  }

  @Test func `TaskFeatures 11: a transcoder that sends heartbeats keeps its lease`() async throws {
    final class Machine: TaskFeatures11.Transcoder {
      let steps = Atomic(3)
      let clock: ManualSchedulerClock
      init(_ clock: ManualSchedulerClock) { self.clock = clock }

      func next(_ file: String) async throws -> Bool {
        clock.advance(by: .seconds(20))
        return steps.subtract(1, ordering: .relaxed).newValue > 0
      }
    }
    let database = try database()
    let clock = ManualSchedulerClock()
    let id = try write(database) { tx in
      var options = TaskFeatures11.Transcode.defaults
      options.retention = .keepCount(1)
      return try tx.enqueue(TaskFeatures11.Transcode(file: "a"), options).id
    }
    try await run(database, clock: clock) { try TaskFeatures11.register($0, Machine(clock)) }
    let task = try read(database) { tx in try tx.task(id) }
    #expect(task?.progress.state == .done && task?.progress.attempt == 1)
  }

  // MARK: - TestingTasks

  @Test func `TestingTasks 1 to 3: the tests of the guide pass`() async throws {
    try await TestingTasks1.remindsAfterAnHour()
    try await TestingTasks2.greets()
    try await TestingTasks3.chargesOnce()
  }
}

import Foundation
import Testing
import Varve
import VarveTasks

/// Tests of `varve tasks` with `--wait`, of queues that do not exist, and of schedules that no program declares.
struct TaskAnswerTests {
  private struct Mail: TaskPayload {
    static let kind = "mail"
    var to: String
  }

  private let directory = TemporaryDirectory()
  private var database: String { directory.path + "/db" }
  /// The patience of a test on a machine that is slow.
  private static let patient = ["--wait", "--timeout", "86400"]

  private func make() async throws -> Database {
    let open = try await Database.open(at: database) { TaskStorage.handle }
    _ = try await open.write { tx in
      for name in ["a", "b", "c"] {
        var options = TaskOptions(queue: "out")
        options.start = .parked(wakeOn: ["network"])
        _ = try tx.enqueue(Mail(to: name), options)
      }
    }
    return open
  }

  private func run(_ arguments: String...) throws -> Tool.Result { try Tool.run(["tasks"] + arguments) }

  /// Runs a command that waits for the scheduler of this process, which needs the threads of the tasks meanwhile.
  private func answer(_ arguments: String...) async throws -> String {
    try await withCheckedThrowingContinuation { continuation in
      DispatchQueue.global().async {
        continuation.resume(with: Result { try Tool.good(["tasks"] + arguments + Self.patient) })
      }
    }
  }

  @Test func `a command waits for the process that has the database open, and prints what was changed`() async throws {
    let open = try await make()
    let scheduler = try TaskScheduler(open)
    try await scheduler.start()
    #expect(try await answer("pause", database, "out") == "paused\n")
    #expect(try await open.read { tx in try tx.taskQueueState("out").isPaused })
    #expect(try await answer("retry", database, "--queue", "out") == "3 retried\n")
    #expect(try await answer("retry", database, "--queue", "out", "--json") == "{\"retried\":0}\n")
    #expect(try await answer("cancel", database, "--queue", "out", "--json") == "{\"cancelled\":3}\n")
    #expect(try await answer("purge", database, "--queue", "out") == "0 deleted\n")
    #expect(try await answer("release", database, "--json") == "{\"released\":false}\n")
    #expect(try await answer("drain", database, "out", "--json") == "{\"draining\":true}\n")
    let names = try FileManager.default.contentsOfDirectory(atPath: database + "/inbox")
    #expect(names == [])
    await scheduler.stop()
    try await open.close()
    // Without a process, nothing has to be waited for.
    #expect(try await answer("resume", database, "out") == "resumed\n")
  }

  @Test func `a command that no one carries out fails after the bound, and the change stays requested`() async throws {
    let open = try await make()
    let result = try run("pause", database, "out", "--wait", "--timeout", "0.1")
    #expect(result.status == 1 && result.errors.contains("stays requested"), "\(result)")
    let scheduler = try TaskScheduler(open)
    try await scheduler.start()
    while try await !open.read({ tx in try tx.taskQueueState("out").isPaused }) { await Task.yield() }
    await scheduler.stop()
    try await open.close()
    #expect(try run("pause", database, "out", "--wait", "--timeout", "0").status == 2)
  }

  @Test(arguments: ["pause", "resume", "drain"])
  func `a queue that does not exist is refused, and is not made`(command: String) async throws {
    let open = try await make()
    for isOpen in [true, false] {
      if !isOpen { try await open.close() }
      let result = try run(command, database, "nope\u{1b}[31m")
      #expect(result.status == 1 && result.errors.contains("no queue is named \"nope\\x1b[31m\""), "\(result)")
      #expect(result.errors.contains("there are out"), "\(result)")
    }
    #expect(try Tool.objects(["tasks", "queues", database, "--json"]).map { $0["queue"] as? String } == ["out"])
    #expect(try run(command, database, "new", "--create").status == 0)
    #expect(try Tool.objects(["tasks", "queues", database, "--json"]).count == 2)
  }

  @Test func `a schedule that the program does not declare any more is marked, and has no next times`() async throws {
    func start(_ names: [String]) async throws {
      let open = try await Database.open(at: database) { TaskStorage.handle }
      let scheduler = try TaskScheduler(open)
      for name in names { try scheduler.schedule(name, "0 3 * * *") { _ in Mail(to: name) } }
      try await scheduler.start()
      await scheduler.stop()
      try await open.close()
    }
    func declared() throws -> [String: Bool] {
      let rows = try Tool.objects(["tasks", "cron", database, "--json"])
      return Dictionary(
        uniqueKeysWithValues: rows.map { ($0["name"] as? String ?? "", $0["isDeclared"] as? Bool ?? false) })
    }
    try await start(["daily", "old"])
    #expect(try declared() == ["daily": true, "old": true])
    try await start(["daily"])
    #expect(try declared() == ["daily": true, "old": false])
    let lines = try Tool.good(["tasks", "cron", database]).split(separator: "\n")
    #expect(lines.count == 2 && lines[1].hasPrefix("old\t") && lines[1].hasSuffix("\tnot declared by the program"))
    #expect(lines[0].contains("T03:00:00"))
    try await start([])
    #expect(try declared() == ["daily": false, "old": false])
    try await start(["old"])
    #expect(try declared() == ["daily": false, "old": true])
  }

  @Test func `a list has the progress of a task`() async throws {
    let open = try await Database.open(at: database) { TaskStorage.handle }
    let scheduler = try TaskScheduler(open)
    let (begun, end) = (AsyncStream.makeStream(of: Void.self), AsyncStream.makeStream(of: Void.self))
    try scheduler.register(Mail.self) { _, context in
      context.progress(0.255, "half")
      begun.continuation.yield()
      for await _ in end.stream { break }
      return .done
    }
    try await scheduler.start()
    _ = try await open.write { tx in try tx.enqueue(Mail(to: "a")) }
    for await _ in begun.stream { break }
    while try !Tool.good(["tasks", "list", database]).contains("\t25 %\t") { await Task.yield() }
    end.continuation.yield()
    await scheduler.waitUntilIdle()
    await scheduler.stop()
    try await open.close()
  }
}

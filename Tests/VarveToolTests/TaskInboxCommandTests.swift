import Foundation
import Testing
import Varve
import VarveTasks

/// Tests of `varve tasks` on a database that no process has open, whose inbox has commands, and of tasks that wait for
/// others.
struct TaskInboxCommandTests {
  private struct Mail: TaskPayload {
    static let kind = "mail"
    var to: String
  }

  private struct Letter: Persistable {
    static let collection = "letters"
    var id: Int
  }

  private let directory = TemporaryDirectory()
  private var database: String { directory.path + "/db" }

  private func open() async throws -> Database {
    try await Database.open(
      at: database,
      definition: DatabaseDefinition {
        Letter.self
        TaskStorage.handle
      })
  }

  private func make() async throws {
    let open = try await open()
    _ = try await open.write { tx in try tx.enqueue(Mail(to: "a")) { $0.queue = "out" } }
    try await open.close()
  }

  private func run(_ arguments: String...) throws -> Tool.Result { try Tool.run(["tasks"] + arguments) }
  private func good(_ arguments: String...) throws -> String { try Tool.good(["tasks"] + arguments) }

  private func isPaused() throws -> Bool {
    let rows = try Tool.objects(["tasks", "queues", database, "--json"])
    return rows.first { $0["queue"] as? String == "out" }?["isPaused"] as? Bool ?? false
  }

  private func waiting() throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: database + "/inbox").filter { $0.hasSuffix(".commands") }
  }

  @Test func `a change applies what waits in the inbox first, so that an earlier command does not undo it`()
    async throws
  {
    try await make()
    let inbox = TaskInbox(database)
    try inbox.send { $0.pause("out") }
    let receipt = try inbox.sendForAnswer { batch in
      try batch.enqueue(Mail(to: "b")) { $0.queue = "out" }
      batch.cancel(.all)
    }
    #expect(try good("resume", database, "out") == "resumed\n")
    #expect(try waiting() == [])
    #expect(try receipt.answer() == .applied([1, 2]))
    #expect(try !isPaused())
    let open = try await open()
    let scheduler = try TaskScheduler(open)
    try await scheduler.start()
    await scheduler.stop()
    #expect(try await open.read { tx in try tx.taskQueueState("out").isPaused } == false)
    #expect(try await open.read { tx in try tx.tasks(.all).count } == 0)
    try await open.close()
  }

  @Test func `a change waits in the inbox after commands that only the program can apply`() async throws {
    try await make()
    let inbox = TaskInbox(database)
    try inbox.send { $0.resume("out") }
    try inbox.send { batch in
      try batch.set(Letter(id: 1))
      batch.resume("out")
    }
    let result = try run("pause", database, "out")
    #expect(result.status == 0 && result.output.hasPrefix("sent to the inbox"), "\(result)")
    #expect(result.errors.contains("only the program can apply"), "\(result)")
    #expect(try waiting().count == 2)
    #expect(try !isPaused())
    let open = try await open()
    let scheduler = try TaskScheduler(open)
    scheduler.accept(Letter.self)
    try await scheduler.start()
    while try !waiting().isEmpty { await Task.yield() }
    await scheduler.stop()
    #expect(try await open.read { tx in try tx.taskQueueState("out").isPaused })
    #expect(try await open.read { tx in try Letter.load(1, in: tx) } != nil)
    try await open.close()
  }

  @Test func `a damaged file of the inbox is refused, and the change is made`() async throws {
    try await make()
    try FileManager.default.createDirectory(atPath: database + "/inbox", withIntermediateDirectories: true)
    try Data("garbage".utf8).write(to: URL(fileURLWithPath: database + "/inbox/bad.commands"))
    #expect(try good("pause", database, "out") == "paused\n")
    #expect(try waiting() == [])
    let refused = try FileManager.default.contentsOfDirectory(atPath: database + "/inbox/refused").sorted()
    #expect(refused == ["bad.commands", "bad.commands.txt"])
  }

  @Test func `purge demands a selection, and says how many tasks become ready that have waited`() async throws {
    let open = try await open()
    let scheduler = try TaskScheduler(open)
    try scheduler.register(Mail.self, on: .named("out")) { _, _ in .discard("refused") }
    let parked = try await open.write { tx in
      let first = try tx.enqueue(Mail(to: "a")) { $0.queue = "out" }.id
      let parked = try tx.enqueue(Mail(to: "b")) { ($0.queue, $0.start) = ("in", .parked()) }.id
      try tx.enqueue(Mail(to: "payout")) { ($0.queue, $0.dependsOn) = ("in", [first]) }
      try tx.enqueue(Mail(to: "both")) { ($0.queue, $0.dependsOn) = ("in", [first, parked]) }
      return parked
    }
    try await scheduler.start()
    await scheduler.waitUntilIdle()
    await scheduler.stop()
    try await open.close()
    let refused = try run("purge", database)
    #expect(refused.status == 2 && refused.errors.contains("say which tasks"), "\(refused)")
    #expect(
      try good("purge", database, "--queue", "out") == "1 deleted, and 1 task that waited for them is ready now\n")
    #expect(try good("list", database, "--state", "ready", "--count") == "1\n")
    #expect(
      try good("purge", database, "--id", "\(parked)", "--json") == "{\"deleted\":1,\"released\":1}\n")
    #expect(try good("purge", database, "--state", "dead") == "0 deleted\n")
  }

  @Test(arguments: ["retry", "cancel", "purge"])
  func `a selection names a queue that exists`(command: String) async throws {
    try await make()
    let result = try run(command, database, "--queue", "otu")
    #expect(result.status == 1 && result.errors.contains("no queue is named \"otu\"; there are out"), "\(result)")
    #expect(!result.errors.contains("--create"), "\(result)")
    #expect(try run(command, database, "--queue", "out").status == 0)
  }
}

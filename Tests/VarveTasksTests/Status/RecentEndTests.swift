import EngineTestSupport
import Foundation
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of what is known about tasks that have ended and are not kept, and of what is encoded of tasks.
struct RecentEndTests {
  @Test func `the end of a task that is not kept is known in its process, until many others have ended`() async throws {
    let fixture = try TaskFixture(workers: 4)
    try fixture.handle { note, context in
      if note.text == "completes" { try await context.complete { _ in } }
      return .done
    }
    let parked = try fixture.enqueue("deleted") { $0.start = .parked() }
    let waits = try fixture.enqueue("cancelled") { $0.start = .parked() }
    try await fixture.scheduler.start()
    let done = try fixture.enqueue("done")
    let completed = try fixture.enqueue("completes")
    await fixture.scheduler.waitUntilIdle()
    try fixture.write { tx in
      _ = try tx.delete(.id(parked))
      _ = try tx.cancel(.id(waits))
    }
    let ids = [done, completed, parked, waits]
    var ends: [TaskEnd] = []
    for id in ids { ends.append(try await fixture.scheduler.end(of: id)) }
    #expect(ends == [.done, .done, .deleted, .cancelled])
    let other = TaskID(rawValue: done.rawValue + TaskEnds.recentMaximum)
    fixture.scheduler.dispatcher.ends.notify([(other, .done)])
    #expect(try await fixture.scheduler.end(of: done) == .forgotten)
    #expect(try await fixture.scheduler.end(of: completed) == .done)
    await fixture.scheduler.stop()
  }

  @Test func `every caller that waits after the write learns how its task has ended`() async throws {
    let fixture = try TaskFixture(workers: 4)
    try fixture.handle()
    try await fixture.scheduler.start()
    for number in 0..<TestScale.count(200) {
      #expect(try await fixture.scheduler.end(of: fixture.enqueue("\(number)")) == .done)
    }
    await fixture.scheduler.stop()
  }

  @Test func `the end of a task that is not kept is forgotten when the database is opened again`() async throws {
    let directory = try TemporaryDirectory()
    func open() throws -> TaskFixture {
      let definition = DatabaseDefinition { TaskStorage.handle }
      let fixture = try TaskFixture(try Database.open(at: directory.path + "/db", definition: definition))
      try fixture.handle()
      return fixture
    }
    let first = try open()
    try await first.scheduler.start()
    let id = try first.enqueue("x")
    #expect(try await first.scheduler.end(of: id) == .done)
    try await first.close()
    let next = try open()
    #expect(try await next.scheduler.end(of: id) == .forgotten)
    try await next.close()
  }

  private struct Sum: TaskPayload, Hashable {
    static let kind = "sum"
    static let version: UInt16 = 2
    var terms: [Int]

    static func migrate(_ data: Data, from version: UInt16) throws -> Sum {
      Sum(terms: [try JSONDecoder().decode([String: Int].self, from: data)["term"] ?? 0])
    }
  }

  private struct OldSum: TaskPayload {
    static let kind = "sum"
    var term: Int
  }

  @Test func `the payload of a task is read, also one of an earlier version, but not as that of another kind`() throws {
    let fixture = try TaskFixture()
    let ids = try fixture.write { tx in
      [try tx.enqueue(Sum(terms: [1, 2])).id, try tx.enqueue(OldSum(term: 3)).id]
    }
    let tasks = try fixture.read { tx in try ids.compactMap { try tx.task($0) } }
    #expect(try tasks.map { try $0.payload(as: Sum.self) } == [Sum(terms: [1, 2]), Sum(terms: [3])])
    #expect(throws: TaskError.self) { try tasks[0].payload(as: Note.self) }
    // The program does not know version 2 of the old type.
    #expect(throws: TaskError.self) { try tasks[0].payload(as: OldSum.self) }
  }

  @Test func `a task is encoded with what it waits for, by the names of the reasons`() throws {
    let fixture = try TaskFixture()
    try fixture.write { tx in try tx.pause("default") }
    let first = try fixture.enqueue("a") { $0.start = .parked(wakeOn: ["network"]) }
    let child = try fixture.enqueue("b") { $0.dependsOn = [first] }
    func waits(_ id: TaskID) throws -> [[String: Any]] {
      let task = try #require(try fixture.read { tx in try tx.task(id) })
      let object = try JSONSerialization.jsonObject(with: JSONEncoder().encode(task)) as? [String: Any]
      #expect((object?["queue"] as? String) == "default")
      return try #require(object?["waitsFor"] as? [[String: Any]])
    }
    let signals = try #require(try waits(first).first { $0["reason"] as? String == "signals" })
    #expect(signals["signals"] as? [String] == ["network"])
    let parents = try #require(try waits(child).first { $0["reason"] as? String == "tasks" })
    #expect(parents["tasks"] as? [UInt64] == [first.rawValue])
    let head = try JSONEncoder().encode(TaskWait.head(first, .dead))
    let object = try JSONSerialization.jsonObject(with: head) as? [String: Any]
    #expect(object?["state"] as? String == "dead" && object?["reason"] as? String == "head")
  }
}

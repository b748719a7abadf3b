import EngineTestSupport
import Foundation
import Testing
import Varve
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of callers that wait for the end of tasks which another process has sent, or ends, through the inbox.
struct InboxEndTests {
  private let directory: TemporaryDirectory
  private var path: String { directory.path + "/db" }
  /// What another process has: the path alone.
  private var inbox: TaskInbox { TaskInbox(path) }

  init() throws { directory = try TemporaryDirectory() }

  private func fixture() throws -> TaskFixture {
    let fixture = try TaskFixture(try Database.open(at: path, definition: DatabaseDefinition { TaskStorage.handle }))
    try fixture.handle { note, _ in note.text == "bad" ? .discard("no") : .done }
    return fixture
  }

  private func answer(_ receipt: InboxReceipt) async throws -> InboxReceipt.Answer {
    while true {
      if let answer = try receipt.answer() { return answer }
      await Task.yield()
    }
  }

  /// Sends tasks, which wait for a command, and returns their ids once they are in the database.
  private func send(_ texts: [String], _ fixture: TaskFixture) async throws -> [TaskID] {
    let receipt = try inbox.sendForAnswer { batch in
      for text in texts { try batch.enqueue(Note(text), TaskOptions(start: .parked(), tags: [text])) }
    }
    #expect(try await answer(receipt) == .applied(texts.map { _ in 1 }))
    return try fixture.read { tx in
      try texts.map { text in try #require(try tx.tasks(.tag(text)).first?.id) }
    }
  }

  /// Begins to wait for the ends of tasks, and returns when each call waits.
  private func begin(_ fixture: TaskFixture, _ ids: [TaskID]) async -> [Task<TaskEnd, any Error>] {
    var calls: [Task<TaskEnd, any Error>] = []
    for id in ids {
      let before = fixture.scheduler.dispatcher.ends.count
      calls.append(Task { try await fixture.scheduler.end(of: id) })
      await fixture.poll { fixture.scheduler.dispatcher.ends.count > before }
    }
    return calls
  }

  private func ends(_ calls: [Task<TaskEnd, any Error>]) async throws -> [TaskEnd] {
    var ends: [TaskEnd] = []
    for call in calls { ends.append(try await call.value) }
    return ends
  }

  @Test("a task of another process has its end, whether a handler or a command of that process ends it")
  func ofOthers() async throws {
    let fixture = try fixture()
    try await fixture.scheduler.start()
    let ids = try await send(["good", "bad", "cancelled", "deleted"], fixture)
    let calls = await begin(fixture, ids)
    try inbox.send { batch in
      batch.retryNow(.tag("good"))
      batch.retryNow(.tag("bad"))
      batch.cancel(.tag("cancelled"))
      batch.delete(.tag("deleted"))
    }
    #expect(try await ends(calls) == [.done, .dead, .cancelled, .deleted])
    #expect(fixture.scheduler.dispatcher.ends.count == 0)
    try await fixture.close()
  }

  @Test("a task of this process that a command of another one cancels ends the wait, and a refused file ends none")
  func ofThis() async throws {
    let fixture = try fixture()
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("own") { ($0.start, $0.tags) = (.parked(), ["own"]) }
    let calls = await begin(fixture, [id])
    struct Unknown: Persistable {
      static let collection = "unknown"
      var id: Int
    }
    // The file is one transaction: its cancellation is undone when the row is refused.
    let refused = try inbox.sendForAnswer { batch in
      batch.cancel(.tag("own"))
      try batch.set(Unknown(id: 1))
    }
    guard case .refused = try await answer(refused) else {
      Issue.record("applied")
      return
    }
    #expect(fixture.scheduler.dispatcher.ends.count == 1)
    let applied = try inbox.sendForAnswer { $0.cancel(.tag("own")) }
    #expect(try await ends(calls) == [.cancelled])
    #expect(try await answer(applied) == .applied([1]))
    try await fixture.close()
  }

  @Test("commands that were sent before the start end the tasks that callers wait for")
  func beforeTheStart() async throws {
    let fixture = try fixture()
    let id = try fixture.enqueue("own") { ($0.start, $0.tags) = (.parked(), ["own"]) }
    let calls = await begin(fixture, [id])
    try inbox.send { batch in
      try batch.enqueue(Note("sent"), TaskOptions(retention: .keep(.seconds(60)), tags: ["sent"]))
      batch.delete(.tag("own"))
    }
    try await fixture.scheduler.start()
    #expect(try await ends(calls) == [.deleted])
    let sent = try #require(try fixture.read { tx in try tx.tasks(.tag("sent")) }.first?.id)
    #expect(try await fixture.scheduler.end(of: sent) == .done)
    try await fixture.close()
  }
}

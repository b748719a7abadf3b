import Foundation
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of the information about tasks that is delivered and kept: events, results, middleware around handlers, and
/// queries.
struct EventTests {
  @Test func `events of a task are delivered in order, and those of dead and parked tasks are stored`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle { note, context in
      switch note.text {
      case "fails": if context.failures == 0 { throw CancellationError() } else { return .done }
      case "bad": return .discard("reason")
      case "parked": return .park()
      case "snoozed": return context.run.record.progress.snoozes == 0 ? .snooze(for: .seconds(1)) : .done
      default: return .done
      }
    }
    let events = fixture.scheduler.events
    try await fixture.scheduler.start()
    for text in ["good", "fails", "bad", "parked", "snoozed"] { try fixture.enqueue(text) }
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(10))
    await fixture.scheduler.stop()
    var seen: [UInt64: [TaskEvent.Kind]] = [:]
    var count = 0
    for await event in events {
      seen[event.id.rawValue, default: []].append(event.kind)
      count += 1
      if count == 14 { break }
    }
    #expect(
      seen == [
        1: [.started, .done], 2: [.started, .failed, .started, .done], 3: [.started, .dead], 4: [.started, .parked],
        5: [.started, .snoozed, .started, .done],
      ])
    let kept = try fixture.read { tx in try tx.taskEvents() }
    #expect(kept.map(\.event.kind) == [.dead, .parked] && kept[0].event.detail == "reason")
    #expect(try fixture.read { tx in try tx.taskEvents(after: kept[0].number) }.map(\.number) == [kept[1].number])
  }

  @Test func `a kind without a handler is reported once for each start and registration`() async throws {
    let fixture = try TaskFixture(kept: [.unhandled])
    try fixture.handle()
    func reported() throws -> [TaskEvent] {
      try fixture.read { tx in try tx.taskEvents() }.map(\.event)
    }
    try await fixture.scheduler.start()
    let ids = try fixture.write { tx in try (0..<3).map { _ in try tx.enqueue(Other()).id } }
    await fixture.scheduler.runUntilIdle()
    #expect(try reported().map(\.kind) == [.unhandled])
    #expect(try reported()[0].id == ids[0] && reported()[0].payloadKind == "other")
    await fixture.scheduler.stop()
    try await fixture.scheduler.start()
    await fixture.scheduler.runUntilIdle()
    #expect(try reported().map(\.id) == [ids[0], ids[0]])
    try fixture.scheduler.register(Other.self) { _, _ in .done }
    await fixture.scheduler.runUntilIdle()
    #expect(try reported().count == 2 && fixture.read { tx in try tx.tasks(.all) }.isEmpty)
    await fixture.scheduler.stop()
  }

  @Test func `every kind of event is stored if the configuration keeps it`() async throws {
    let all = Set(TaskEvent.Kind.allCases)
    let fixture = try TaskFixture(workers: 4, kept: all)
    let returns = AsyncFlag()
    try fixture.handle { note, context in
      if note.text == "stays" { await returns.wait() }
      if note.text == "completes" { try await context.complete { _ in } }
      return .done
    }
    let last = fixture.clock.wallNow
    try await fixture.scheduler.start()
    let ids = try ["done", "completes", "stays"].map { text in
      try fixture.enqueue(text) { $0.timeout = text == "stays" ? .seconds(1) : nil }
    }
    await fixture.poll { fixture.lines.count == 3 }
    await fixture.poll { (try? fixture.state(ids[1])) == nil && (try? fixture.state(ids[0])) == nil }
    fixture.clock.advance(by: .seconds(1))
    await fixture.poll { (try? fixture.state(ids[2])) == .retryWait }
    fixture.clock.advance(by: .seconds(20))
    func kept(_ id: TaskID) throws -> [TaskEvent.Kind] {
      try fixture.read { tx in try tx.taskEvents() }.map(\.event).filter { $0.id == id }.map(\.kind)
    }
    #expect(try kept(ids[0]) == [.started, .done])
    #expect(try kept(ids[1]) == [.started, .done])
    await fixture.poll { (try? kept(ids[2]))?.contains(.abandoned) ?? false }
    returns.set()
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.stop()
    #expect(try kept(ids[2]).prefix(3) == [.started, .timedOut, .failed])

    fixture.clock.setWall(last.addingTimeInterval(-7_200))
    try await fixture.scheduler.start()
    #expect(try kept(TaskID(rawValue: 0)) == [.clockSetBack])
    await fixture.scheduler.stop()
  }

  @Test func `a cancelled handler that does not return is abandoned, and its task is cancelled`() async throws {
    let fixture = try TaskFixture(workers: 1, kept: [.abandoned, .cancelled])
    let returns = AsyncFlag()
    defer { returns.set() }
    try fixture.handle { note, _ in
      if note.text == "stays" { await returns.wait() }
      return .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("stays")
    await fixture.poll { fixture.lines.count == 1 }
    try fixture.enqueue("next")
    #expect(try await fixture.scheduler.cancel(.id(id)) == 1)
    fixture.clock.advance(by: .seconds(9))
    #expect(try fixture.state(id) == .running)
    fixture.clock.advance(by: .seconds(1))
    // The next task has the worker, although the handler has not returned.
    await fixture.poll { fixture.lines.count == 2 }
    #expect(try fixture.state(id) == nil)
    #expect(try fixture.read { tx in try tx.taskEvents() }.map(\.event.kind) == [.cancelled, .abandoned])
    returns.set()
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.stop()
  }

  @Test func `only the last 10,000 events are kept, and their numbers continue after a start`() async throws {
    let fixture = try TaskFixture()
    try await fixture.database.commitIndependently { parts in
      let part = try TaskParts(parts).events
      let event = TaskEvent(.dead, TaskID(rawValue: 7), "note", "q", attempt: 1, 0)
      for number in 1...10_005 { try TaskEventRecord.put(event, UInt64(number), to: part) }
    }
    let numbers = try fixture.read { tx in try tx.taskEvents() }.map(\.number)
    #expect(numbers.count == 10_000 && numbers.first == 6)
    try fixture.handle { _, _ in .discard("no") }
    try fixture.enqueue("bad")
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.read { tx in try tx.taskEvents() }.map(\.number).last == 10_006)
    await fixture.scheduler.stop()
  }

  @Test func `transition 20: a crash is stored as an event`() async throws {
    let fixture = try TaskFixture()
    let id = try fixture.enqueue("poison")
    try await fixture.database.commitIndependently { parts in
      let parts = try TaskParts(parts)
      guard let record = try parts.record(id) else { return }
      var counts = TaskCounts()
      var running = record
      try running.progress.apply(.claim)
      _ = try TaskEdit.claim(running, start: 0, begun: 0).write(to: parts, &counts)
    }
    try fixture.handle()
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.read { tx in try tx.taskEvents() }.map(\.event.kind) == [.crashed])
    await fixture.scheduler.stop()
  }

  @Test func `transition 26: results and the last done tasks of a queue are kept according to their retention`()
    async throws
  {
    let fixture = try TaskFixture()
    try fixture.handle { note, context in
      try context.result(["text": note.text])
      #expect(throws: TaskError.self) { try context.result(String(repeating: "x", count: 70_000)) }
      return .done
    }
    try await fixture.scheduler.start()
    let ids = try (0..<5).map { number in
      try fixture.enqueue("\(number)") { $0.retention = .keepCount(2) }
    }
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(61))
    try await fixture.scheduler.prune()
    let kept = try fixture.read { tx in try tx.tasks(.state(.done)) }
    #expect(kept.map(\.id) == Array(ids.suffix(2)))
    #expect(try kept.last?.result(as: [String: String].self) == ["text": "4"])
    #expect(try fixture.count(.done) == 2)
    await fixture.scheduler.stop()
  }

  private struct Around: TaskMiddleware {
    let name: String
    let lines: TaskFixture.Lines

    func run(_ context: TaskContext, _ next: NextHandler) async throws -> TaskOutcome {
      lines.add("\(name) begins")
      defer { lines.add("\(name) ends") }
      return try await next()
    }

    func enqueuing(_ kind: String, _ options: inout TaskOptions, in transaction: WriteTransaction) throws {
      options.tags.append(name)
      if kind == "note", options.queue == "refused" { throw TaskError.invalidValue("refused") }
    }
  }

  @Test func `middleware runs around handlers, the first one outermost, and may change and refuse tasks`() async throws
  {
    let fixture = try TaskFixture()
    fixture.scheduler.use(Around(name: "a", lines: fixture.lines))
    fixture.scheduler.use(Around(name: "b", lines: fixture.lines))
    try fixture.handle()
    let id = try fixture.enqueue("note")
    #expect(try fixture.read { tx in try tx.task(id)?.tags } == ["a", "b"])
    #expect(throws: TaskError.invalidValue("refused")) { try fixture.enqueue("x") { $0.queue = "refused" } }
    let group = try fixture.write { tx in try tx.enqueueGroup(Note("group")) { _ in } }
    #expect(try fixture.read { tx in try tx.task(group)?.tags } == ["a", "b"])
    #expect(try fixture.write { tx in try tx.delete(.id(group)) } == 1)
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["a begins", "b begins", "note", "b ends", "a ends"])
    await fixture.scheduler.stop()
  }

  @Test func `queries find tasks by queue, state, kind, tag and limit key, and by combinations of them`() async throws {
    let fixture = try TaskFixture()
    func add(_ text: String, _ queue: QueueName, _ tags: [String], _ start: Start, _ key: String? = nil) throws
      -> TaskID
    {
      try fixture.enqueue(text) { options in
        (options.queue, options.tags, options.start, options.limitKey) = (queue, tags, start, key)
      }
    }
    let ready = try add("1", "a", ["x"], .now, "k")
    let later = try add("2", "a", ["x", "y"], .after(.seconds(5)))
    let parked = try add("3", "b", ["y"], .parked())
    let child = try fixture.write { tx in
      var options = TaskOptions(queue: "b")
      options.dependsOn = [parked]
      return try tx.enqueue(Note("4"), options).id
    }
    func find(_ query: TaskQuery) throws -> Set<TaskID> {
      try fixture.read { tx in Set(try tx.tasks(query).map(\.id)) }
    }
    #expect(try find(.all) == [ready, later, parked, child])
    #expect(try find(.queue("a")) == [ready, later])
    #expect(try find(.tag("y")) == [later, parked])
    #expect(try find(.queue("a").and(.tag("y"))) == [later])
    #expect(try find(.state(.blocked, .parked)) == [parked, child])
    #expect(try find(.kind("note").and(.limitKey("k"))) == [ready])
    #expect(try find(.kind("other")).isEmpty && find(.queue("c")).isEmpty)
    #expect(try find(.queue("a").and(.queue("b"))).isEmpty)
    #expect(try find(.state(.ready).and(.state(.parked))).isEmpty)
    #expect(try find(.id(ready).and(.queue("b"))).isEmpty)
    #expect(try fixture.read { tx in try tx.tasks(.all, limit: 2).count } == 2)
    #expect(try fixture.write { tx in try tx.cancel(.tag("x")) } == 2)
    #expect(try find(.all) == [parked, child])
  }

  @Test func `a transaction that queries a queue does not conflict with a concurrent commit that adds a task`()
    async throws
  {
    let fixture = try TaskFixture(workers: 2)
    try fixture.handle()
    try await fixture.scheduler.start()
    try fixture.enqueue("parked") { $0.start = .parked() }
    let (stands, mayGo) = (AsyncFlag(), Flag())
    async let write: Int = fixture.writeOnThread { tx in
      _ = try tx.tasks(.queue("default"))
      stands.set()
      while !mayGo.isSet { sched_yield() }
      return try tx.cancel(.parked("default"))
    }
    await stands.wait()
    // A commit concurrent with the writer adds to the subqueue.
    try await fixture.database.commitIndependently { parts in
      let parts = try TaskParts(parts)
      let position = TaskPosition(.queued, queue: 1, priority: 0, sortKey: [], stamp: 1, ordinal: 1 << 31)
      var counts = TaskCounts()
      let record = TaskRecord(
        id: TaskID(rawValue: 1 << 30), progress: TaskProgress(.ready), position: position, enqueued: 0, kind: "note",
        version: 1, payload: Array("{\"text\":\"x\"}".utf8), TaskOptions())
      _ = try TaskEdit.add(record).write(to: parts, &counts)
      try counts.write(to: parts.counts)
    }
    mayGo.set()
    let count = try await write
    #expect(count == 1)
    await fixture.scheduler.stop()
  }
}

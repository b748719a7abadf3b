import Foundation
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of what tasks wait for, and of what else a task shows.
struct WaitTests {
  private static func waits(_ fixture: TaskFixture, _ id: TaskID) throws -> [TaskWait] {
    try fixture.read { tx in try tx.task(id)?.waitsFor ?? [] }
  }

  @Test func `times, signals, tasks, a paused queue and a copy are known in every process`() async throws {
    let fixture = try TaskFixture()
    let date = fixture.clock.wallNow + 60
    let timed = try fixture.enqueue("t") { $0.start = .at(date) }
    let parked = try fixture.enqueue("p") { $0.start = .parked(wakeOn: ["network"]) }
    let called = try fixture.enqueue("q") { $0.start = .parked() }
    let child = try fixture.enqueue("c") { $0.dependsOn = [timed, parked] }
    let ready = try fixture.enqueue("r")
    #expect(try Self.waits(fixture, timed) == [.time(date)])
    #expect(try Self.waits(fixture, parked) == [.signals(["network"])])
    #expect(try Self.waits(fixture, called) == [.signals([])])
    #expect(try Self.waits(fixture, child) == [.tasks([timed, parked])])
    #expect(try fixture.read { tx in try tx.task(child)?.parents } == [timed, parked])
    #expect(try Self.waits(fixture, ready).isEmpty)
    try fixture.write { tx in try tx.pause("default") }
    #expect(try Self.waits(fixture, ready) == [.pausedQueue])
    #expect(try Self.waits(fixture, timed) == [.time(date), .pausedQueue])
    try await fixture.database.commitIndependently { parts in
      try TaskParts(parts).config.put(ConfigKeys.incarnation, ConfigKeys.incarnation(1))
    }
    #expect(try Self.waits(fixture, ready) == [.copy, .pausedQueue])
    // In a transaction that writes, nothing is remembered from before.
    try fixture.write { tx in
      #expect(try tx.task(ready)?.waitsFor == [.copy, .pausedQueue])
      try tx.resume("default")
      #expect(try tx.task(ready)?.waitsFor == [.copy])
    }
  }

  @Test func `limits, workers, handlers and turns are known in the process of the scheduler`() async throws {
    var narrow = QueueRules(order: .standard, concurrency: 2)
    narrow.perKey = 1
    var slow = QueueRules()
    slow.rate = QueueRules.Rate(count: 1, per: .seconds(60))
    let fixture = try TaskFixture(rules: [.named("narrow"): narrow, .named("slow"): slow], workers: 3)
    let flag = AsyncFlag()
    try fixture.handle { note, _ in
      if note.text == "long" { await flag.wait() }
      return .done
    }
    try await fixture.scheduler.start()
    let unhandled = try fixture.write { tx in try tx.enqueue(Other()).id }
    func enqueueLong(_ key: String) throws -> TaskID {
      try fixture.enqueue("long") { ($0.queue, $0.limitKey) = ("narrow", key) }
    }
    _ = try enqueueLong("a")
    await fixture.poll { fixture.lines.count == 1 }
    let sameKey = try enqueueLong("a")
    await fixture.poll { fixture.scheduler.dispatcher.workload.hasWork }
    #expect(try Self.waits(fixture, unhandled) == [.handler])
    #expect(try Self.waits(fixture, sameKey) == [.limitKey])
    _ = try enqueueLong("b")
    await fixture.poll { fixture.lines.count == 2 }
    let otherKey = try enqueueLong("c")
    #expect(try Self.waits(fixture, otherKey) == [.concurrency])
    #expect(try Self.waits(fixture, sameKey) == [.concurrency, .limitKey])
    _ = try fixture.enqueue("quick") { $0.queue = "slow" }
    await fixture.poll { try fixture.count(.running, in: "slow") + fixture.count(.ready, in: "slow") == 0 }
    let slowed = try fixture.enqueue("quick") { $0.queue = "slow" }
    await fixture.poll { try Self.waits(fixture, slowed).contains(.rate) }
    #expect(try Self.waits(fixture, slowed) == [.rate])
    let after = try fixture.enqueue("quick") { $0.queue = "slow" }
    #expect(try Self.waits(fixture, after) == [.turn, .rate])
    _ = try fixture.enqueue("long")
    await fixture.poll { fixture.lines.count == 4 }
    let last = try fixture.enqueue("long")
    #expect(try Self.waits(fixture, last) == [.workers])
    let running = try fixture.read { tx in try tx.tasks(.state(.running)) }
    #expect(running.count == 3 && running.allSatisfy { $0.waitsFor.isEmpty })
    flag.set()
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.stop()
  }

  @Test func `a serial queue's tasks wait for its head, whether that runs, waits, is parked or is dead`() async throws {
    let fixture = try TaskFixture(rules: .all(isSerial: true))
    let flag = AsyncFlag()
    try fixture.handle { note, context in
      switch note.text {
      case "dead": return .discard("no")
      case "wait": return .retry(after: .seconds(60))
      case "park": return .park()
      default:
        await flag.wait()
        return .done
      }
    }
    try await fixture.scheduler.start()
    for (text, state) in [("dead", TaskState.dead), ("wait", .retryWait), ("park", .parked), ("run", .running)] {
      let queue = QueueName(text)
      let head = try fixture.enqueue(text) { $0.queue = queue }
      await fixture.poll { try fixture.state(head) == state }
      let next = try fixture.enqueue("next") { $0.queue = queue }
      let waits = try Self.waits(fixture, next)
      #expect(waits.first == .head(head, state), "\(text): \(waits)")
      // The only worker runs one of the tasks.
      #expect(waits.dropFirst() == (state == .running ? [.workers] : []))
    }
    flag.set()
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.stop()
    // Without a scheduler, the heads that do not run are known by their rows.
    let ready = try fixture.read { tx in try tx.tasks(.queue("dead").and(.state(.ready))) }
    #expect(ready.count == 1 && ready[0].waitsFor.count == 1)
  }

  @Test func `each reason can be read`() {
    let all: [TaskWait] = [
      .time(Date(timeIntervalSince1970: 0)), .signals([]), .signals(["a", "b"]), .tasks([TaskID(rawValue: 1)]),
      .tasks([TaskID(rawValue: 1), TaskID(rawValue: 2)]), .pausedQueue, .copy, .head(TaskID(rawValue: 3), .dead),
      .handler,
      .concurrency, .limitKey, .rate, .workers, .turn, .suspect, .transaction, .diskSpace, .nextStart,
    ]
    #expect(Set(all.map(\.description)).count == all.count)
    #expect("\(all[0])" == "1970-01-01T00:00:00Z")
    #expect("\(all[2])" == "the signal \"a\" or \"b\"")
    #expect("\(all[4])" == "tasks 1, 2")
  }

  // MARK: - What else a task shows

  @Test func `a task tells its unique key, and the options that it was enqueued with`() throws {
    let fixture = try TaskFixture()
    let options = TaskOptions(
      queue: "q", priority: 7, sortKey: SortKey(4), start: .after(.seconds(5)), retry: .fixed(.seconds(3)),
      maxAttempts: nil, timeout: .seconds(9), retention: .keep(.seconds(8)),
      unique: Uniqueness(key: "k", window: .forever), limitKey: "l", headers: ["a": "b"], tags: ["t"])
    var same = TaskOptions()
    #expect(same == TaskOptions(queue: "default"))
    (same.queue, same.priority, same.sortKey, same.start) = ("q", 7, SortKey(4), .after(.seconds(5)))
    (same.retry, same.maxAttempts, same.timeout) = (.fixed(.seconds(3)), nil, .seconds(9))
    (same.retention, same.unique) = (.keep(.seconds(8)), Uniqueness(key: "k", window: .forever))
    (same.limitKey, same.headers, same.tags) = ("l", ["a": "b"], ["t"])
    #expect(same == options)
    let id = try fixture.write { tx in try tx.enqueue(Note("a"), options).id }
    let task = try #require(try fixture.read { tx in try tx.task(id) })
    #expect(task.unique?.key == "k" && task.unique?.until == .distantFuture)
    #expect(task.sortKey == SortKey(4) && task.retry == .fixed(.seconds(3)) && task.maxAttempts == nil)
    #expect(task.timeout == .seconds(9) && task.retention == .keep(.seconds(8)) && task.headers == ["a": "b"])
    let other = try fixture.enqueue("b") { $0.unique = Uniqueness() }
    let derived = try #require(try fixture.read { tx in try tx.task(other)?.unique })
    #expect(derived.key == nil && derived.until == nil)
    let plain = try fixture.enqueue("c")
    let (unique, attempts) = try fixture.read { tx in (try tx.task(plain)?.unique, try tx.task(plain)?.maxAttempts) }
    #expect(unique == nil && attempts == 25)
  }

  @Test func `a duplicate tells the state of the other task, or that it is gone`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle { note, _ in note.text == "dead" ? .discard("no") : .done }
    func enqueue(_ text: String, _ retention: Retention = .deleteOnSuccess) throws -> EnqueueResult {
      try fixture.write { tx in
        try tx.enqueue(
          Note(text), TaskOptions(retention: retention, unique: Uniqueness(key: text, window: .forever)))
      }
    }
    for (text, retention, state) in [
      ("kept", Retention.keep(.seconds(60)), TaskState?.some(.done)), ("gone", .deleteOnSuccess, nil),
      ("dead", .deleteOnSuccess, .dead),
    ] {
      let first = try enqueue(text, retention)
      #expect(try enqueue(text) == .duplicate(of: first.id, .ready))
      try await fixture.scheduler.start()
      await fixture.scheduler.waitUntilIdle()
      #expect(try enqueue(text) == .duplicate(of: first.id, state))
      await fixture.scheduler.stop()
    }
  }

  // MARK: - Pages and conditions

  @Test func `the pages of a query are its list, whatever their size is`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle { note, _ in note.text.hasPrefix("dead") ? .discard("no") : .done }
    for number in 0..<5 {
      try fixture.enqueue("dead \(number)")
      try fixture.enqueue("kept \(number)") { $0.retention = number < 3 ? .keep(.seconds(60)) : .keepCount(9) }
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.stop()
    for number in 0..<4 {
      try fixture.enqueue("ready \(number)") { $0.queue = number < 2 ? "default" : "other" }
      try fixture.enqueue("timed \(number)") { $0.start = .after(.seconds(9)) }
      try fixture.enqueue("parked \(number)") { $0.start = .parked() }
    }
    for query in [TaskQuery.all, .queue("default"), .state(.dead, .parked), .id(TaskID(rawValue: 1)), .queue("none")] {
      let list = try fixture.read { tx in try tx.tasks(query) }
      for size in [1, 2, 3, 100] {
        var (pages, position): ([TaskInfo], TaskListPosition?) = ([], nil)
        repeat {
          let page = try fixture.read { tx in try tx.taskPage(query, after: position, limit: size) }
          #expect(page.tasks.count <= size)
          pages += page.tasks
          position = try page.next.map {
            try JSONDecoder().decode(TaskListPosition.self, from: JSONEncoder().encode($0))
          }
        } while position != nil
        #expect(pages == list)
      }
    }
    #expect(try fixture.read { tx in try tx.taskPage(.all, limit: 0) }.tasks.isEmpty)
  }

  @Test func `tasks are found by their errors and by their age`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle { note, _ in .discard("the reason is \(note.text)") }
    try await fixture.scheduler.start()
    let first = try fixture.enqueue("one")
    await fixture.scheduler.advance(fixture.clock, by: .seconds(10))
    let date = fixture.clock.wallNow
    let second = try fixture.enqueue("two")
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.stop()
    let third = try fixture.enqueue("three")
    func ids(_ query: TaskQuery) throws -> Set<TaskID> { try fixture.read { tx in Set(try tx.tasks(query).map(\.id)) } }
    #expect(try ids(.error()) == [first, second])
    #expect(try ids(.error(containing: "is two")) == [second])
    #expect(try ids(.enqueued(before: date)) == [first])
    #expect(try ids(.enqueued(since: date)) == [second, third])
    #expect(try ids(.enqueued(since: date).and(.enqueued(before: date + 1)).and(.error())) == [second])
    #expect(try ids(.enqueued(before: date).and(.enqueued(before: date + 99))) == [first])
    let stored = try JSONEncoder().encode(TaskQuery.error(containing: "x").and(.enqueued(before: date)))
    #expect(
      try JSONDecoder().decode(TaskQuery.self, from: stored) == .error(containing: "x").and(.enqueued(before: date)))
  }
}

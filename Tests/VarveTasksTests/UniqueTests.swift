import Foundation
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of tasks of which only one may exist.
struct UniqueTests {
  private static func options(
    _ onConflict: Uniqueness.OnConflict, _ window: Uniqueness.Window = .whileLive, key: String? = "k"
  ) -> TaskOptions {
    var options = TaskOptions()
    options.unique = Uniqueness(key: key, window: window, onConflict: onConflict)
    return options
  }

  @Test func `a second task with a unique key is skipped or refused until the first one has ended`() async throws {
    let fixture = try TaskFixture()
    let first = try fixture.write { tx in try tx.enqueue(Note("a"), Self.options(.skip)) }
    #expect(
      try fixture.write { tx in try tx.enqueue(Note("b"), Self.options(.skip)) } == .duplicate(of: first.id, .ready))
    let other = try fixture.write { tx in try tx.enqueue(Note("c"), Self.options(.skip, key: "other")) }
    #expect(other != first)
    #expect(throws: TaskError.duplicate(of: first.id)) {
      try fixture.write { tx in try tx.enqueue(Note("d"), Self.options(.fail)) }
    }
    try fixture.handle()
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["a", "c"])
    guard case .inserted = try fixture.write({ tx in try tx.enqueue(Note("e"), Self.options(.skip)) }) else {
      Issue.record("the key is still taken")
      return
    }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["e"])
    // No record of a key is left.
    #expect(try fixture.rowCount() == 0)
    #expect(try fixture.configCount(0x55) == 0)
    await fixture.scheduler.stop()
  }

  @Test func `a unique key that a concurrent commit gives to another task conflicts, also with parents`()
    async throws
  {
    let fixture = try TaskFixture()
    let parent = try fixture.enqueue("parent")
    for parents in [[], [parent]] {
      let key = ConfigKeys.unique("note", Array("k \(parents.count)".utf8))
      let (enqueued, given) = (AsyncFlag(), Flag())
      async let write: Void = fixture.writeOnThread { tx in
        var options = TaskOptions()
        options.unique = Uniqueness(key: "k \(parents.count)")
        options.dependsOn = parents
        try tx.enqueue(Note("unique"), options)
        enqueued.set()
        while !given.isSet { sched_yield() }
      }
      await enqueued.wait()
      try await fixture.database.commitIndependently { parts in
        try TaskParts(parts).config.put(key, ConfigKeys.uniqueValue(TaskID(rawValue: 99), until: nil))
      }
      given.set()
      do {
        try await write
        Issue.record("the transaction was committed")
      } catch {
        #expect((error as? DatabaseError)?.code == .conflict)
      }
    }
  }

  @Test func `two tasks with one unique key conflict within a transaction, and a rollback releases the key`() throws {
    let fixture = try TaskFixture()
    try? fixture.write { tx in
      let first = try tx.enqueue(Note("a"), Self.options(.skip))
      #expect(try tx.enqueue(Note("b"), Self.options(.skip)) == .duplicate(of: first.id, .ready))
      #expect(try tx.enqueue(Note("c"), Self.options(.replacePayload)) == .replaced(first.id))
      #expect(try tx.task(first.id).map { try Note(encoded: Data($0.payload)) } == Note("c"))
      throw Undo()
    }
    guard case .inserted = try fixture.write({ tx in try tx.enqueue(Note("d"), Self.options(.skip)) }) else {
      Issue.record("the key is still taken")
      return
    }
  }

  @Test func `a unique task without a key has its payload as its key, even a long one`() throws {
    let fixture = try TaskFixture()
    for text in ["short", String(repeating: "long", count: 1_000)] {
      let first = try fixture.write { tx in try tx.enqueue(Note(text), Self.options(.skip, key: nil)) }
      let second = try fixture.write { tx in try tx.enqueue(Note(text), Self.options(.skip, key: nil)) }
      let other = try fixture.write { tx in try tx.enqueue(Note(text + "!"), Self.options(.skip, key: nil)) }
      #expect(second == .duplicate(of: first.id, .ready) && other.id != first.id)
    }
  }

  @Test func `debounce replaces the payload of a waiting task, and postpones the task`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    let options = Self.options(.debounce(.seconds(10)))
    var waiting = options
    waiting.start = .after(.seconds(10))
    let first = try fixture.write { tx in try tx.enqueue(Note("1"), waiting) }
    await fixture.scheduler.advance(fixture.clock, by: .seconds(8))
    #expect(try fixture.write { tx in try tx.enqueue(Note("2"), options) } == .replaced(first.id))
    await fixture.scheduler.advance(fixture.clock, by: .seconds(8))
    #expect(fixture.lines.take().isEmpty)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(2))
    #expect(fixture.lines.take() == ["2"])
    await fixture.scheduler.stop()
  }

  @Test func `a task is put off by debounce for the maximum wait after it was enqueued, and no longer`() async throws {
    for (maxWait, isBusy) in [(25, false), (25, true), (nil, false)] as [(Int?, Bool)] {
      let fixture = try TaskFixture()
      try fixture.handle()
      try await fixture.scheduler.start()
      var options = Self.options(.debounce(.seconds(10), maxWait: maxWait.map { .seconds($0) }))
      options.start = .after(.seconds(10))
      let first = try fixture.write { tx in
        if isBusy { try tx.pause("default") }
        return try tx.enqueue(Note("0"), options)
      }
      var runs: [String] = []
      for number in 1...8 {
        await fixture.scheduler.advance(fixture.clock, by: .seconds(5))
        runs += fixture.lines.take()
        if !runs.isEmpty { break }
        #expect(try fixture.write { tx in try tx.enqueue(Note("\(number)"), options) } == .replaced(first.id))
      }
      if isBusy {
        // The task is queued since its maximum wait has passed.
        #expect(try fixture.state(first.id) == .ready)
        try fixture.write { tx in try tx.resume("default") }
        await fixture.scheduler.waitUntilIdle()
        runs += fixture.lines.take()
      }
      #expect(runs == (maxWait == nil ? [] : [isBusy ? "8" : "4"]))
      await fixture.scheduler.stop()
    }
  }

  @Test func `debounce puts off neither the next attempt of a task nor one that its handler has postponed`()
    async throws
  {
    for isSnoozed in [false, true] {
      let fixture = try TaskFixture()
      try fixture.handle { _, context in
        if context.failures > 0 || fixture.lines.count > 1 { return .done }
        if isSnoozed { return .snooze(for: .seconds(10)) }
        throw Broken()
      }
      try await fixture.scheduler.start()
      let options = Self.options(.debounce(.seconds(10)))
      let first = try fixture.write { tx in try tx.enqueue(Note("1"), options) }
      await fixture.scheduler.waitUntilIdle()
      #expect(try fixture.state(first.id) == (isSnoozed ? .scheduled : .retryWait))
      for number in 2...3 {
        await fixture.scheduler.advance(fixture.clock, by: .seconds(4))
        #expect(try fixture.write { tx in try tx.enqueue(Note("\(number)"), options) } == .replaced(first.id))
      }
      await fixture.scheduler.advance(fixture.clock, by: .seconds(2))
      #expect(fixture.lines.take() == ["1", "3"])
      await fixture.scheduler.stop()
    }
  }

  @Test func `a rule of debounce without a maximum wait is read from the bytes of earlier versions`() throws {
    let rule = Uniqueness(key: "k", onConflict: .debounce(.seconds(10)))
    let bytes = try JSONEncoder().encode(rule)
    #expect(!String(decoding: bytes, as: UTF8.self).contains("maxWait"))
    #expect(try JSONDecoder().decode(Uniqueness.self, from: bytes) == rule)
    let bounded = Uniqueness(key: "k", onConflict: .debounce(.seconds(10), maxWait: .seconds(60)))
    #expect(try JSONDecoder().decode(Uniqueness.self, from: JSONEncoder().encode(bounded)) == bounded)
  }

  @Test func `replacing a payload does not change when the task runs`() async throws {
    let fixture = try TaskFixture(rules: [.named("serial"): QueueRules(order: .serial())], workers: 4)
    try fixture.handle { note, context in
      if note.text == "head 1" { throw CancellationError() }
      return .done
    }
    try await fixture.scheduler.start()
    var later = Self.options(.replacePayload, key: "later")
    later.start = .after(.seconds(10))
    var head = Self.options(.replacePayload, key: "head")
    head.queue = "serial"
    try fixture.write { tx in
      try tx.enqueue(Note("later 1"), later)
      try tx.enqueue(Note("head 1"), head)
      try tx.enqueue(Note("next"), TaskOptions(queue: "serial"))
    }
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(6))
    try fixture.write { tx in
      try tx.enqueue(Note("later 2"), later)
      try tx.enqueue(Note("head 2"), head)
    }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["head 1"])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(4))
    let lines = fixture.lines.take()
    #expect(Set(lines) == ["later 2", "head 2", "next"] && lines.filter { $0 != "later 2" } == ["head 2", "next"])
    await fixture.scheduler.stop()
  }

  @Test func `a dead head of a serial queue releases its unique key`() async throws {
    let fixture = try TaskFixture(rules: [.all: QueueRules(order: .serial())])
    try fixture.handle { _, _ in .discard("no") }
    try await fixture.scheduler.start()
    let first = try fixture.write { tx in try tx.enqueue(Note("a"), Self.options(.skip)) }
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.state(first.id) == .dead)
    let second = try fixture.write { tx in try tx.enqueue(Note("b"), Self.options(.skip)) }
    #expect(second == .inserted(second.id))
    await fixture.scheduler.stop()
  }

  @Test func `rerun runs one more task after the running one, with the newest payload`() async throws {
    let fixture = try TaskFixture(workers: 4)
    let (began, mayEnd) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { note, _ in
      if note.text == "1" {
        began.set()
        await mayEnd.wait()
      }
      return .done
    }
    try await fixture.scheduler.start()
    let first = try fixture.write { tx in try tx.enqueue(Note("1"), Self.options(.rerun)) }
    await began.wait()
    #expect(
      try fixture.write { tx in try tx.enqueue(Note("x"), Self.options(.skip)) } == .duplicate(of: first.id, .running))
    let second = try fixture.write { tx in try tx.enqueue(Note("2"), Self.options(.rerun)) }
    #expect(second.id != first.id && second == .inserted(second.id))
    #expect(try fixture.state(second.id) == .blocked)
    #expect(try fixture.write { tx in try tx.enqueue(Note("3"), Self.options(.rerun)) } == .replaced(second.id))
    try fixture.write { tx in try tx.pause("default") }
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    // The first task has ended, and the key belongs to the second one.
    #expect(
      try fixture.write { tx in try tx.enqueue(Note("x"), Self.options(.skip)) } == .duplicate(of: second.id, .ready))
    try fixture.write { tx in try tx.resume("default") }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["1", "3"])
    #expect(try fixture.rowCount() == 0)
    #expect(try fixture.configCount(0x46) == 0)
    await fixture.scheduler.stop()
  }

  @Test(arguments: [Uniqueness.OnConflict.replacePayload, .debounce(.seconds(10))])
  func `replacePayload and debounce run one more task after a running one, and replace its payload while it waits`(
    onConflict: Uniqueness.OnConflict
  ) async throws {
    let fixture = try TaskFixture(workers: 4)
    let (began, mayEnd) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { note, _ in
      if note.text == "1" {
        began.set()
        await mayEnd.wait()
      }
      return .done
    }
    try await fixture.scheduler.start()
    let options = Self.options(onConflict)
    let first = try fixture.write { tx in try tx.enqueue(Note("1"), options) }
    await began.wait()
    let second = try fixture.write { tx in try tx.enqueue(Note("2"), options) }
    #expect(second.id != first.id && second == .inserted(second.id))
    // A task that waits for another one is not postponed.
    #expect(try fixture.write { tx in try tx.enqueue(Note("3"), options) } == .replaced(second.id))
    #expect(try fixture.state(second.id) == .blocked)
    try fixture.write { tx in try tx.pause("default") }
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["1"])
    #expect(try fixture.state(second.id) == .ready)
    #expect(try fixture.write { tx in try tx.enqueue(Note("4"), options) } == .replaced(second.id))
    let isPostponed = onConflict != .replacePayload
    #expect(try fixture.state(second.id) == (isPostponed ? .scheduled : .ready))
    try fixture.write { tx in try tx.resume("default") }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == (isPostponed ? [] : ["4"]))
    await fixture.scheduler.advance(fixture.clock, by: .seconds(10))
    #expect(fixture.lines.take() == (isPostponed ? ["4"] : []))
    #expect(try fixture.rowCount() == 0)
    await fixture.scheduler.stop()
  }

  @Test func `bucket, sliding and permanent windows keep a unique key after its task has ended`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    func isNew(_ window: Uniqueness.Window, _ key: String) async throws -> Bool {
      let result = try fixture.write { tx in try tx.enqueue(Note(key), Self.options(.skip, window, key: key)) }
      await fixture.scheduler.waitUntilIdle()
      return result == .inserted(result.id)
    }
    // The clock begins at a midnight in UTC.
    let (bucket, sliding, forever) = (
      Uniqueness.Window.bucket(.seconds(100)), Uniqueness.Window.sliding(.seconds(100)), Uniqueness.Window.forever
    )
    await fixture.scheduler.advance(fixture.clock, by: .seconds(60))
    #expect(try await isNew(bucket, "b"))
    #expect(try await isNew(sliding, "s"))
    #expect(try await isNew(forever, "f"))
    #expect(try await !isNew(bucket, "b"))
    #expect(try await !isNew(sliding, "s"))
    #expect(try await !isNew(forever, "f"))
    await fixture.scheduler.advance(fixture.clock, by: .seconds(40))
    #expect(try await isNew(bucket, "b"))
    #expect(try await !isNew(sliding, "s"))
    await fixture.scheduler.advance(fixture.clock, by: .seconds(60))
    #expect(try await !isNew(bucket, "b"))
    #expect(try await isNew(sliding, "s"))
    #expect(try await !isNew(forever, "f"))
    // A key without a task is released by its name.
    #expect(try fixture.write { tx in try tx.delete(.unique("note", "f")) } == 1)
    #expect(try fixture.write { tx in try tx.delete(.unique("note", "f")) } == 0)
    #expect(try await isNew(forever, "f"))
    // Keys that are no longer used are removed.
    await fixture.scheduler.advance(fixture.clock, by: .seconds(1_000))
    await fixture.scheduler.waitUntilIdle()
    try await fixture.scheduler.prune()
    #expect(try fixture.configCount(0x56) == 0)
    #expect(try fixture.configCount(0x55) == 1)
    await fixture.scheduler.stop()
  }

  @Test func `reviving a task whose unique key is taken throws, until cancelling or deleting releases the key`()
    async throws
  {
    let fixture = try TaskFixture()
    try fixture.handle { _, _ in .discard("no") }
    try await fixture.scheduler.start()
    let dead = try fixture.write { tx in try tx.enqueue(Note("a"), Self.options(.skip)) }
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.state(dead.id) == .dead)
    await fixture.scheduler.stop()
    let next = try fixture.write { tx in try tx.enqueue(Note("b"), Self.options(.skip)) }
    #expect(next == .inserted(next.id))
    #expect(throws: TaskError.duplicate(of: next.id)) { try fixture.write { tx in try tx.revive(.id(dead.id)) } }
    #expect(try fixture.write { tx in try tx.revive(.dead("default")) } == 0)
    #expect(try fixture.write { tx in try tx.cancel(.unique("note", "k")) } == 1)
    #expect(try fixture.write { tx in try tx.revive(.id(dead.id)) } == 1)
    #expect(
      try fixture.write { tx in try tx.enqueue(Note("c"), Self.options(.skip)) } == .duplicate(of: dead.id, .ready))
    #expect(try fixture.read { tx in try tx.tasks(.unique("note", "k")).map(\.id) } == [dead.id])
    #expect(try fixture.write { tx in try tx.delete(.id(dead.id)) } == 1)
    let last = try fixture.write { tx in try tx.enqueue(Note("d"), Self.options(.skip)) }
    #expect(last == .inserted(last.id))
  }
}

import EngineTestSupport
import Foundation
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of tasks that wait for others.
struct DependencyTests {
  private static func after(_ parents: [TaskID], _ rule: ParentFailure = .stayBlocked) -> TaskOptions {
    var options = TaskOptions()
    options.dependsOn = parents
    options.onParentFailure = rule
    return options
  }

  /// Returns a fixture that runs notes; those that begin with "bad" are dead at once.
  private static func fixture(workers: Int = 4) async throws -> TaskFixture {
    let fixture = try TaskFixture(workers: workers)
    try fixture.handle { note, _ in note.text.hasPrefix("bad") ? .discard("bad") : .done }
    return fixture
  }

  @Test func `transition 4 and 6: the last task of a diamond runs after both tasks that it depends on`() async throws {
    let fixture = try await Self.fixture()
    try await fixture.scheduler.start()
    let last = try fixture.write { tx in
      let top = try tx.enqueue(Note("top")).id
      let left = try tx.enqueue(Note("left"), Self.after([top])).id
      let right = try tx.enqueue(Note("right"), Self.after([top])).id
      return try tx.enqueue(Note("last"), Self.after([left, right, left])).id
    }
    await fixture.scheduler.waitUntilIdle()
    let lines = fixture.lines.take()
    #expect(lines.first == "top" && lines.last == "last" && lines.count == 4)
    #expect(try fixture.state(last) == nil)
    try fixture.expectNothingLeft()
    await fixture.scheduler.stop()
  }

  @Test func `a parent that is done already lets its child run, and an unknown parent throws`() async throws {
    let fixture = try await Self.fixture()
    try await fixture.scheduler.start()
    let parent = try fixture.enqueue("parent")
    await fixture.scheduler.waitUntilIdle()
    try fixture.write { tx in try tx.enqueue(Note("child"), Self.after([parent])) }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["parent", "child"])
    let unknown = TaskID(rawValue: 1 << 40)
    #expect(throws: TaskError.unknownTask(unknown)) {
      try fixture.write { tx in try tx.enqueue(Note("child"), Self.after([unknown])) }
    }
    try fixture.expectNothingLeft()
    await fixture.scheduler.stop()
  }

  @Test func `transition 7: a failed parent blocks, cancels or runs its child as declared, and so on for its children`()
    async throws
  {
    let fixture = try await Self.fixture()
    try await fixture.scheduler.start()
    let (stays, cancelled, grandchild) = try fixture.write { tx in
      let bad = try tx.enqueue(Note("bad")).id
      let stays = try tx.enqueue(Note("stays"), Self.after([bad])).id
      var keeps = Self.after([bad], .cancel)
      keeps.retention = .keep(.seconds(1_000))
      let cancelled = try tx.enqueue(Note("cancelled"), keeps).id
      try tx.enqueue(Note("anyway"), Self.after([bad], .runAnyway))
      let grandchild = try tx.enqueue(Note("grandchild"), Self.after([cancelled], .cancel)).id
      try tx.enqueue(Note("runs"), Self.after([cancelled], .runAnyway))
      return (stays, cancelled, grandchild)
    }
    await fixture.scheduler.waitUntilIdle()
    #expect(Set(fixture.lines.take()) == ["bad", "anyway", "runs"])
    #expect(try fixture.state(stays) == .blocked && fixture.state(cancelled) == .cancelled)
    #expect(try fixture.state(grandchild) == nil)
    // 24: the dead parent is deleted: a parent that is gone counts as done.
    #expect(try fixture.write { tx in try tx.delete(.dead("default")) } == 1)
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["stays"])
    try fixture.expectNothingLeft()
    await fixture.scheduler.stop()
  }

  @Test func `a parent that is done after a retry makes its child ready, even the head of a serial queue`() async throws
  {
    let fixture = try TaskFixture(rules: [.named("serial"): QueueRules(order: .serial())], workers: 4)
    try fixture.handle { note, context in
      if note.text.hasPrefix("parent"), context.failures == 0 { throw CancellationError() }
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.write { tx in
      for queue in ["serial", "standard"] {
        let parent = try tx.enqueue(Note("parent \(queue)"), TaskOptions(queue: QueueName(queue))).id
        var options = Self.after([parent])
        options.queue = QueueName(queue)
        // The child precedes the tasks that are queued when it becomes ready.
        options.priority = 0
        try tx.enqueue(Note("child \(queue)"), options)
        try tx.enqueue(Note("other \(queue)"), TaskOptions(queue: QueueName(queue)))
      }
    }
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(10))
    let lines = fixture.lines.take()
    #expect(
      lines.filter { $0.hasSuffix("serial") } == ["parent serial", "parent serial", "child serial", "other serial"])
    #expect(lines.contains("child standard"))
    try fixture.expectNothingLeft()
    await fixture.scheduler.stop()
  }

  @Test func `a child that is enqueued while its parent runs waits for it`() async throws {
    let fixture = try TaskFixture(workers: 4)
    let (began, mayEnd) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { note, _ in
      if note.text == "parent" {
        began.set()
        await mayEnd.wait()
      }
      return .done
    }
    try await fixture.scheduler.start()
    let parent = try fixture.enqueue("parent")
    await began.wait()
    let child = try fixture.write { tx in try tx.enqueue(Note("child"), Self.after([parent])).id }
    #expect(try fixture.state(child) == .blocked)
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["parent", "child"])
    try fixture.expectNothingLeft()
    await fixture.scheduler.stop()
  }

  @Test func `a parent that ends concurrently with the transaction that enqueues its child does not leave it blocked`()
    async throws
  {
    let fixture = try await Self.fixture()
    try await fixture.scheduler.start()
    let parent = try fixture.enqueue("parent") { $0.start = .parked() }
    // The transaction reads at a commit before the parent's end.
    let (stands, mayGo) = (AsyncFlag(), Flag())
    async let write: Void = fixture.writeOnThread { tx in
      _ = try tx.taskCount(in: "default", .parked)
      stands.set()
      while !mayGo.isSet { sched_yield() }
      try tx.enqueue(Note("child"), Self.after([parent]))
    }
    await stands.wait()
    _ = try await fixture.database.commitIndependently { parts in
      // The scheduler would make this change to the parent if it had been running.
      let parts = try TaskParts(parts)
      guard let record = try parts.record(parent) else { return }
      var counts = TaskCounts()
      _ = try TaskEdit.end(record, counted: .parked, as: record, at: nil).write(to: parts, &counts)
      try counts.write(to: parts.counts)
    }
    mayGo.set()
    try await write
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["child"])
    try fixture.expectNothingLeft()
    await fixture.scheduler.stop()
  }

  @Test func `crash h: thousands of children run after their parent, even if it ended while no scheduler was running`()
    async throws
  {
    let fixture = try await Self.fixture()
    let count = 3_000
    try fixture.write { tx in
      let parent = try tx.enqueue(Note("parent")).id
      for number in 0..<count { try tx.enqueue(Note("\(number)"), Self.after([parent])) }
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(Set(fixture.lines.take()).count == count + 1)
    try fixture.expectNothingLeft()
    await fixture.scheduler.stop()
    // The parent ends in a transaction while no scheduler runs.
    let parent = try fixture.enqueue("other") { $0.start = .parked() }
    try fixture.write { tx in
      for number in 0..<count { try tx.enqueue(Note("\(number)"), Self.after([parent])) }
    }
    #expect(try fixture.write { tx in try tx.delete(.id(parent)) } == 1)
    let next = try TaskFixture(fixture.database, workers: 4, clock: fixture.clock)
    try next.handle()
    try await next.scheduler.start()
    await next.scheduler.waitUntilIdle()
    #expect(next.lines.take().count == count)
    try next.expectNothingLeft()
    await next.scheduler.stop()
  }

  @Test(arguments: ["done", "throws", "again"])
  func `complete within a transaction of the handler that is rolled back leaves the end to the outcome`(
    text: String
  ) async throws {
    let fixture = try TaskFixture()
    try fixture.handle { note, context in
      let isLast = context.failures > 0
      for isGood in [false, isLast || note.text == "again"] {
        try? await fixture.database.perform {
          try await context.complete { tx in try tx.set(note.text, key: context.failures, in: "effects") }
          if !isGood { throw Undo() }
        }
      }
      if note.text == "throws", !isLast { throw Undo() }
      return .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue(text)
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.state(id) == (text == "throws" ? .retryWait : nil))
    #expect(try fixture.read { tx in try tx.count(in: "effects") } == (text == "again" ? 1 : 0))
    await fixture.scheduler.advance(fixture.clock, by: .seconds(10))
    #expect(try fixture.state(id) == nil)
    #expect(try fixture.read { tx in try tx.count(in: "effects") } == (text == "done" ? 0 : 1))
    await fixture.scheduler.stop()
    try fixture.expectNothingLeft()
  }

  @Test func `complete makes children ready in its own transaction`() async throws {
    let fixture = try TaskFixture(workers: 1)
    let states = TaskFixture.Lines()
    let child = TaskID(rawValue: 2)
    try fixture.handle { note, context in
      if note.text != "parent" { return .done }
      try await context.complete { tx in try tx.set(1, key: "done", in: "effects") }
      states.add("\(try context.test { tx in try tx.task(child)?.progress.state.rawValue ?? 99 })")
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.write { tx in
      let parent = try tx.enqueue(Note("parent")).id
      #expect(try tx.enqueue(Note("child"), Self.after([parent])).id == child)
    }
    await fixture.scheduler.waitUntilIdle()
    #expect(states.take() == ["\(TaskState.ready.rawValue)"])
    #expect(fixture.lines.take() == ["parent", "child"])
    await fixture.scheduler.stop()
  }

  @Test func `a transaction that ends a parent does not conflict with the concurrent end of another parent`()
    async throws
  {
    let fixture = try TaskFixture(workers: 2)
    let flag = AsyncFlag()
    try fixture.handle { note, _ in
      if note.text == "runs" { await flag.wait() }
      return .done
    }
    try await fixture.scheduler.start()
    let (runs, parked) = try fixture.write { tx in
      let runs = try tx.enqueue(Note("runs")).id
      var options = TaskOptions()
      options.start = .parked()
      let parked = try tx.enqueue(Note("parked"), options).id
      try tx.enqueue(Note("child"), Self.after([runs, parked], .runAnyway))
      return (runs, parked)
    }
    await fixture.poll { fixture.lines.count == 1 }
    try await fixture.writeOnThread { tx in
      #expect(try tx.cancel(.id(parked)) == 1)
      flag.set()
      while try tx.tasks.dispatcher.run(runs) != nil { sched_yield() }
    }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["runs", "child"])
    try fixture.expectNothingLeft()
    await fixture.scheduler.stop()
  }

  @Test func `complete runs its transaction up to eight times if it conflicts`() async throws {
    let fixture = try TaskFixture()
    let runs = TaskFixture.Lines()
    try fixture.handle { note, context in
      try await context.complete { tx in
        runs.add(note.text)
        if note.text == "never" || runs.count < 8 { throw DatabaseError(.conflict, "changed") }
        try tx.set(1, key: note.text, in: "effects")
      }
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.enqueue("eighth")
    await fixture.scheduler.waitUntilIdle()
    #expect(runs.take().count == 8)
    #expect(try fixture.read { tx in try tx.keys(String.self, in: "effects") } == ["eighth"])
    let never = try fixture.enqueue("never")
    await fixture.scheduler.waitUntilIdle()
    #expect(runs.take().count == 8)
    #expect(try fixture.state(never) == .retryWait)
    await fixture.scheduler.stop()
  }

  @Test func `a parent cancelled by the transaction that enqueues its child blocks the child until it is deleted`()
    async throws
  {
    let fixture = try await Self.fixture()
    try await fixture.scheduler.start()
    let parent = try fixture.enqueue("parent") { $0.start = .parked() }
    let child = try fixture.write { tx in
      let child = try tx.enqueue(Note("child"), Self.after([parent])).id
      try tx.cancel(.id(parent))
      return child
    }
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.state(child) == .blocked && fixture.lines.take().isEmpty)
    // The parent is kept while other tasks stay blocked by it, and deleting it lets them run.
    #expect(try fixture.state(parent) == .cancelled)
    #expect(try fixture.write { tx in try tx.delete(.id(parent)) } == 1)
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["child"])
    try fixture.expectNothingLeft()
    await fixture.scheduler.stop()
  }

  @Test
  func `transition 18: a blocked task can be cancelled, and the delay of a blocked task counts from its enqueueing`()
    async throws
  {
    let fixture = try await Self.fixture()
    try await fixture.scheduler.start()
    let parent = try fixture.enqueue("parent") { $0.start = .parked() }
    var later = Self.after([parent])
    later.start = .after(.seconds(60))
    let (gone, delayed) = try fixture.write { tx in
      (try tx.enqueue(Note("gone"), Self.after([parent])).id, try tx.enqueue(Note("later"), later).id)
    }
    #expect(try fixture.write { tx in try tx.cancel(.id(gone)) } == 1)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(20))
    try fixture.write { tx in try tx.retryNow(.id(parent)) }
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.state(delayed) == .scheduled)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(39))
    #expect(fixture.lines.take() == ["parent"])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(1))
    #expect(fixture.lines.take() == ["later"])
    try fixture.expectNothingLeft()
    await fixture.scheduler.stop()
  }

  @Test func `a cancelled task that blocks others is kept until the last of them is gone, and then by its retention`()
    async throws
  {
    let fixture = try await Self.fixture()
    try await fixture.scheduler.start()
    for retention in [Retention.deleteOnSuccess, .keep(.seconds(3_600))] {
      let (parent, children) = try fixture.write { tx in
        var options = TaskOptions()
        options.start = .parked()
        options.retention = retention
        let parent = try tx.enqueue(Note("parent"), options).id
        return (parent, try (0..<2).map { _ in try tx.enqueue(Note("child"), Self.after([parent])).id })
      }
      try fixture.write { tx in try tx.cancel(.id(parent)) }
      await fixture.scheduler.waitUntilIdle()
      #expect(try fixture.write { tx in try tx.cancel(.id(children[0])) } == 1)
      #expect(try fixture.state(parent) == .cancelled)
      #expect(try await fixture.scheduler.delete(.id(children[1])) == 1)
      #expect(try fixture.state(parent) == (retention == .deleteOnSuccess ? nil : .cancelled))
      await fixture.scheduler.advance(fixture.clock, by: .seconds(3_700))
      try fixture.enqueue("next")
      await fixture.scheduler.waitUntilIdle()
      #expect(try fixture.state(parent) == nil)
      #expect(fixture.lines.take() == ["next"])
    }
    try fixture.expectNothingLeft()
    #expect(try fixture.read { tx in try tx.tasks.parts.ended.count() } == 0)
    await fixture.scheduler.stop()
  }

  @Test
  func
    `transition 7: a task is cancelled after a parent that had failed before, even if that one is forgotten meanwhile`()
    async throws
  {
    let fixture = try await Self.fixture()
    let parent = try fixture.enqueue("parent")
    let blocked = try fixture.write { tx in try tx.enqueue(Note("blocked"), Self.after([parent])).id }
    try fixture.write { tx in _ = try tx.cancel(.id(parent)) }
    #expect(try fixture.state(parent) == .cancelled)
    let late = try fixture.write { tx in
      var keeps = Self.after([parent], .cancel)
      keeps.retention = .keep(.seconds(1_000))
      return try tx.enqueue(Note("late"), keeps).id
    }
    // The parent was kept for the blocked task alone. No scheduler has seen the late task by now.
    try fixture.write { tx in _ = try tx.delete(.id(blocked)) }
    #expect(try fixture.state(parent) == nil)
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == [])
    #expect(try fixture.state(late) == .cancelled)
    await fixture.scheduler.stop()
  }

  @Test func `a task that is cancelled while it runs is kept as long as it blocks others, whatever its retention`()
    async throws
  {
    let fixture = try TaskFixture()
    let begun = AsyncFlag()
    try fixture.handle { note, _ in
      if note.text != "parent" { return .done }
      begun.set()
      await waitForCancellation()
      throw CancellationError()
    }
    try await fixture.scheduler.start()
    let parent = try fixture.enqueue("parent") { $0.retention = .keep(.seconds(100)) }
    await begun.wait()
    let child = try fixture.write { tx in try tx.enqueue(Note("child"), Self.after([parent])).id }
    #expect(try fixture.write { tx in try tx.cancel(.id(parent)) } == 1)
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(300))
    try fixture.enqueue("next")
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.state(parent) == .cancelled && fixture.state(child) == .blocked)
    #expect(try fixture.write { tx in try tx.delete(.id(parent)) } == 1)
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["parent", "next", "child"])
    try fixture.expectNothingLeft()
    await fixture.scheduler.stop()
  }

  @Test(arguments: [0, 1, 2])
  func `the open parents of a child are found in any order in which they end`(order: Int) async throws {
    let fixture = try await Self.fixture()
    let (child, count) = (TaskID(rawValue: 9_000), 200)
    var parents = (1...count).map { TaskID(rawValue: UInt64($0)) }
    try await fixture.database.commitIndependently { [parents] parts in
      let live = try TaskParts(parts).live
      for parent in parents { try live.put(TaskKeys.parent(of: child, parent), []) }
    }
    if order == 1 { parents.reverse() }
    var random = SeededRandom(seed: 11)
    if order == 2 { parents.shuffle(using: &random) }
    let open = OpenParents()
    for (index, parent) in parents.enumerated() {
      // Rows may also be deleted in another way: what is remembered is checked.
      if index % 3 == 2, index < count - 1 {
        try await fixture.database.commitIndependently { parts in
          try TaskParts(parts).live.delete(TaskKeys.parent(of: child, parent))
        }
        continue
      }
      let hasOther = try await fixture.database.commitIndependently { parts in
        let live = try TaskParts(parts).live
        let before = try open.hasOther(than: parent, of: child, in: live)
        try live.delete(TaskKeys.parent(of: child, parent))
        return (before, try open.hasOther(than: parent, of: child, in: live))
      }
      #expect(hasOther == (index < count - 1, index < count - 1))
    }
  }

  @Test func `a blocked task waits no longer than its delay after the wall clock was set back`() async throws {
    let fixture = try await Self.fixture()
    let parent = try fixture.enqueue("parent")
    try fixture.write { tx in
      var options = Self.after([parent])
      options.start = .after(.seconds(20))
      try tx.enqueue(Note("delayed"), options)
      options.start = .at(fixture.clock.wallNow.addingTimeInterval(20))
      try tx.enqueue(Note("dated"), options)
    }
    fixture.clock.setWall(fixture.clock.wallNow.addingTimeInterval(-100))
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(19))
    #expect(fixture.lines.take() == ["parent"])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(1))
    #expect(fixture.lines.take() == ["delayed"])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(100))
    #expect(fixture.lines.take() == ["dated"])
    await fixture.scheduler.stop()
  }

  @Test func `a dead head of a serial queue counts for its group, and a group whose closure throws leaves no tasks`()
    async throws
  {
    let fixture = try TaskFixture(rules: [.all: QueueRules(order: .serial())])
    try fixture.handle { note, _ in note.text == "bad" ? .discard("no") : .done }
    let group = try fixture.write { tx in
      try tx.enqueueGroup(Note("last"), TaskOptions(queue: "other")) { group in
        var options = TaskOptions(queue: "serial")
        options.group = group
        try tx.enqueue(Note("good"), options)
        try tx.enqueue(Note("bad"), options)
      }
    }
    try fixture.write { tx in try tx.pause("other") }
    try fixture.write { tx in try? tx.enqueueGroup(Note("never")) { _ in throw Broken() } }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    let info = try fixture.read { tx in try tx.taskGroup(group) }
    #expect(info?.total == 2 && info?.done == 1 && info?.dead == 1 && info?.pending == 0)
    #expect(try fixture.read { tx in try tx.tasks(.all).map(\.id.rawValue) } == [1, 3])
    await fixture.scheduler.stop()
  }

  @Test func `the last task of a group runs when all members have ended, and reads how many succeeded and failed`()
    async throws
  {
    let fixture = try TaskFixture(workers: 2)
    try fixture.handle { note, context in
      switch note.text {
      case "bad": return .discard("no")
      case "more":
        let group = context.run.record.extras.group
        try await context.complete { tx in
          var options = TaskOptions()
          options.group = group
          try tx.enqueue(Note("added"), options)
        }
        return .done
      case "last":
        let group = try context.group()
        return .discard("\(group?.total ?? 0) \(group?.done ?? 0) \(group?.dead ?? 0) \(group?.cancelled ?? 0)")
      default: return .done
      }
    }
    let (group, cancelled) = try fixture.write { tx in
      var cancelled = TaskID(rawValue: 0)
      let group = try tx.enqueueGroup(Note("last")) { group in
        var options = TaskOptions()
        options.group = group
        for text in ["a", "bad", "more"] { try tx.enqueue(Note(text), options) }
        cancelled = try tx.enqueue(Note("cancelled"), options).id
      }
      return (group, cancelled)
    }
    #expect(try fixture.write { tx in try tx.cancel(.id(cancelled)) } == 1)
    #expect(try fixture.read { tx in try tx.taskGroup(group)?.pending } == 3)
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    let errors = try fixture.read { tx in try tx.tasks(.all).flatMap(\.errors) }
    #expect(errors.sorted() == ["5 3 1 1", "no"])
    #expect(fixture.lines.take().last == "last")
    #expect(try fixture.read { tx in try tx.task(group)?.errors } == ["5 3 1 1"])
    #expect(throws: TaskError.self) {
      try fixture.write { tx in
        var options = TaskOptions()
        options.group = group
        try tx.enqueue(Note("late"), options)
      }
    }
    // A group without tasks runs at once.
    try fixture.write { tx in try tx.enqueueGroup(Note("empty")) { _ in } }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["empty"])
    #expect(try fixture.write { tx in try tx.delete(.dead("default")) } == 2)
    #expect(try fixture.read { tx in try tx.tasks.parts.counts.count(StorageRange(prefix: [0x47])) } == 0)
    try fixture.expectNothingLeft()
    await fixture.scheduler.stop()
  }
}

extension TaskContext {
  /// Reads the database of a test.
  func test<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result {
    guard let scheduler = host as? TaskScheduler else { throw TaskError.notRegistered }
    return try scheduler.database.read(body)
  }
}

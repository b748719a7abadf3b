import EngineTestSupport
import FutexLocks
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of tasks that depend on very many others, and of tasks that very many others depend on.
///
///     VARVE_TEST_SCALE=50 ./tools/test --filter ManyChildrenTests   # a million children
struct ManyChildrenTests {
  /// The maximum number of entries of a commit that changes the maximum number of children.
  ///
  /// A child that becomes ready has six: its row, its row by id and the two rows of its dependency are deleted, and the
  /// first two are put again. The other entries are counts, and rows of the parents.
  private static let entryMaximum = 6 * TurnWork.batchMaximum + 100

  /// Enqueues tasks that depend on a task that is committed, in a paused queue.
  private static func enqueueChildren(_ count: Int, of parent: TaskID, _ fixture: TaskFixture) throws {
    try fixture.write { tx in try tx.pause("children") }
    for first in stride(from: 0, to: count, by: 1_000) {
      try fixture.write { tx in
        var options = TaskOptions(queue: "children")
        options.dependsOn = [parent]
        options.onParentFailure = .cancel
        for number in first..<min(first + 1_000, count) { try tx.enqueue(Note("\(number)"), options) }
      }
    }
  }

  @Test
  func `transition 4 and 6: a task may depend on 1,000 tasks and runs after all of them, and with 1,001 it is refused`()
    async throws
  {
    let fixture = try TaskFixture(workers: 4)
    try fixture.handle()
    let (child, parked) = try fixture.write { tx in
      var options = TaskOptions()
      options.start = .parked()
      let parked = try tx.enqueue(Note("parked"), options).id
      options = TaskOptions()
      options.dependsOn = try (0..<1_000).map { try tx.enqueue(Note("\($0)")).id }
      let child = try tx.enqueue(Note("child"), options).id
      options.dependsOn.append(parked)
      let unit = "tasks that it depends on"
      #expect(throws: TaskError.tooLarge(what: "a task", size: 1_001, limit: 1_000, unit: unit)) {
        try tx.enqueue(Note("refused"), options)
      }
      return (child, parked)
    }
    #expect(try fixture.state(child) == .blocked)
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    let lines = fixture.lines.take()
    #expect(lines.count == 1_001 && Set(lines).count == 1_001 && lines.last == "child")
    #expect(try fixture.read { tx in try tx.tasks(.all).map(\.id) } == [parked])
    #expect(try fixture.write { tx in try tx.delete(.id(parked)) } == 1)
    try fixture.expectNothingLeft()
    await fixture.scheduler.stop()
  }

  /// The end of a parent.
  enum End: String, CaseIterable, Sendable { case done, dead }

  /// Lets a scheduler end a task that many others depend on, until its process dies after the first commit. Returns the
  /// id of the task.
  private static func endUntilCrash(_ end: End, _ count: Int, _ site: StorageSite) async throws -> TaskID {
    let gate = Gate()
    let fixture = try TaskFixture(over: HeldBackend(try site.open(), gate, holding: .process))
    let mayEnd = AsyncFlag()
    try fixture.handle { _, _ in
      await mayEnd.wait()
      return end == .done ? .done : .discard("no")
    }
    let parent = try fixture.enqueue("parent") { $0.start = .parked() }
    try enqueueChildren(count, of: parent, fixture)
    try await fixture.scheduler.start()
    try fixture.write { tx in try tx.retryNow(.id(parent)) }
    await fixture.poll { fixture.lines.count == 1 }
    gate.shut()
    mayEnd.set()
    await fixture.poll { gate.waitingCount == 1 }
    try site.abandon()
    fixture.scheduler.dispatcher.detach()
    gate.open()
    try await fixture.database.close()
    return parent
  }

  @Test(arguments: End.allCases)
  func `crash h: very many children receive the end of their parent in bounded commits, also after a crash among these`(
    end: End
  ) async throws {
    let count = TestScale.count(20_000)
    let site = try StorageSite(.memory)
    let parent = try await Self.endUntilCrash(end, count, site)
    let backend = HeldBackend(try site.open(), Gate())
    let fixture = try TaskFixture(over: backend, workers: 8)
    try fixture.handle()
    // The first commit has ended the parent, and has changed as many children as one commit changes.
    // The first commit also ends the parent.
    let left = max(0, count - (TurnWork.batchMaximum - 1))
    #expect(try fixture.state(parent) == (end == .done ? nil : .dead))
    #expect(try fixture.count(.blocked, in: "children") == left)
    _ = backend.takeCommits()
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    let sizes = backend.takeCommits().map(\.entryCount)
    print("\(left) children of a task that is \(end): \(sizes.count) commits of at most \(sizes.max() ?? 0) entries")
    #expect(sizes.allSatisfy { $0 <= Self.entryMaximum })
    #expect(sizes.count >= left / TurnWork.batchMaximum)
    #expect(try fixture.count(.blocked, in: "children") == 0)
    #expect(try fixture.count(.ready, in: "children") == (end == .done ? count : 0))
    try fixture.write { tx in try tx.resume("children") }
    await fixture.scheduler.waitUntilIdle()
    let lines = fixture.lines.take()
    #expect(lines.count == (end == .done ? count : 0) && Set(lines).count == lines.count)
    #expect(try fixture.read { tx in try tx.tasks(.all).map(\.id) } == (end == .done ? [] : [parent]))
    try fixture.expectNothingLeft()
    try await fixture.close()
    withExtendedLifetime(site) {}
  }

  @Test func `transition 6: parents that end in one commit change together as many children as one commit changes`()
    async throws
  {
    let (parents, children) = (8, 300)
    let gate = Gate()
    let site = try StorageSite(.memory)
    let backend = HeldBackend(try site.open(), gate, holding: .process)
    let fixture = try TaskFixture(over: backend, workers: parents)
    let mayEnd = AsyncFlag()
    try fixture.handle { note, _ in
      if note.text == "parent" { await mayEnd.wait() }
      return .done
    }
    try fixture.write { tx in
      try tx.pause("children")
      for parent in 0..<parents {
        var options = TaskOptions(queue: "children")
        options.dependsOn = [try tx.enqueue(Note("parent")).id]
        for number in 0..<children { try tx.enqueue(Note("\(parent) \(number)"), options) }
      }
    }
    try await fixture.scheduler.start()
    await fixture.poll { fixture.lines.count == parents }
    _ = fixture.lines.take()
    _ = backend.takeCommits()
    // While the commit of the first end is held, all others come.
    gate.shut()
    mayEnd.set()
    let dispatcher = fixture.scheduler.dispatcher
    await fixture.poll { gate.waitingCount == 1 && dispatcher.state.withLock { $0.running.busyCount } == 0 }
    gate.open()
    await fixture.scheduler.waitUntilIdle()
    let sizes = backend.takeCommits().map(\.entryCount)
    #expect(sizes.allSatisfy { $0 <= Self.entryMaximum }, "\(sizes)")
    #expect(try fixture.count(.ready, in: "children") == parents * children)
    try fixture.write { tx in try tx.resume("children") }
    await fixture.scheduler.waitUntilIdle()
    let lines = fixture.lines.take()
    #expect(lines.count == parents * children && Set(lines).count == lines.count)
    try fixture.expectNothingLeft()
    try await fixture.close()
    withExtendedLifetime(site) {}
  }

  @Test func `a task is looked at once for all children that one transaction enqueues while it waits`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    let parent = try fixture.enqueue("parent") { $0.start = .parked() }
    await fixture.scheduler.waitUntilIdle()
    let before = fixture.database.statistics.independentCommits
    let count = 8 * TurnWork.batchMaximum
    try fixture.write { tx in
      var options = TaskOptions()
      options.dependsOn = [parent]
      for number in 0..<count { try tx.enqueue(Note("\(number)"), options) }
    }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.database.statistics.independentCommits - before <= 2)
    #expect(try fixture.count(.blocked) == count)
    #expect(try fixture.write { tx in try tx.retryNow(.id(parent)) } == 1)
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().count == count + 1)
    try fixture.expectNothingLeft()
    await fixture.scheduler.stop()
  }
}

import EngineTestSupport
import Testing
import Varve
import VarveEngine
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of what claims and ends of attempts read and write, and of the first tasks of subqueues, which are in memory.
struct HeadBufferTests {
  private static let queued = TaskPosition.Kind.queued.rawValue

  /// Returns a database in which four tasks of a paused queue wait, and whose handlers wait for a flag.
  private static func waiting(_ mayEnd: AsyncFlag) async throws -> RecordedTasks {
    let recorded = try RecordedTasks(workers: 4)
    let fixture = recorded.fixture
    try fixture.handle { _, _ in
      await mayEnd.wait()
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.write { tx in
      try tx.pause("default")
      for number in 0..<4 { try tx.enqueue(Note("\(number)")) }
    }
    await fixture.scheduler.waitUntilIdle()
    recorded.forget()
    try fixture.write { tx in try tx.resume("default") }
    await fixture.poll { fixture.lines.count == 4 }
    return recorded
  }

  @Test func `layout 2: a claim reads nothing, and the end of an attempt reads the row of its claim alone`()
    async throws
  {
    let mayEnd = AsyncFlag()
    let recorded = try await Self.waiting(mayEnd)
    let claiming = try recorded.takeReads()
    #expect(claiming.isEmpty, "\(claiming)")
    mayEnd.set()
    await recorded.fixture.scheduler.waitUntilIdle()
    let ending = try recorded.takeReads()
    #expect(ending.count == 4)
    #expect(ending.allSatisfy { !$0.isOfRange && $0.range.lower.first == TaskKeys.claim })
    #expect(recorded.fixture.lines.take().sorted() == ["0", "1", "2", "3"])
    try await recorded.fixture.close()
  }

  @Test func `layout 4: a claim adds one row and leaves that of the task, and the end of the attempt removes both`()
    async throws
  {
    let mayEnd = AsyncFlag()
    let recorded = try await Self.waiting(mayEnd)
    let claiming = try recorded.takeChanges().flatMap { $0 }
    #expect(claiming.count == 4 && claiming.tags(.put) == Array(repeating: TaskKeys.claim, count: 4))
    mayEnd.set()
    await recorded.fixture.scheduler.waitUntilIdle()
    let ending = try recorded.takeChanges().flatMap { $0 }
    #expect(ending.count == 12)
    for tag in [TaskKeys.claim, TaskKeys.byID, Self.queued] {
      #expect(ending.tags(.singleDelete).count { $0 == tag } == 4, "0x\(String(tag, radix: 16))")
    }
    try await recorded.fixture.close()
  }

  /// With `isPinned`, a snapshot is held throughout, so that no compaction removes what is dead.
  @Test(arguments: [false, true])
  func `layout 3 and 8: tasks beyond the buffer are read in order, each time from where the last read ended`(
    isPinned: Bool
  ) async throws {
    let recorded = try RecordedTasks()
    let fixture = recorded.fixture
    try fixture.handle()
    try await fixture.scheduler.start()
    try fixture.write { tx in try tx.pause("default") }
    let pinned = isPinned ? recorded.engine.snapshot() : nil
    let count = 2_000
    try fixture.write { tx in
      for number in 0..<count { try tx.enqueue(Note("\(number)")) }
    }
    await fixture.scheduler.waitUntilIdle()
    let keys = try recorded.takeChanges().flatMap { $0 }.filter { $0.key.first == Self.queued }.map(\.key)
    #expect(keys.count == count)
    recorded.forget()
    try fixture.write { tx in try tx.resume("default") }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == (0..<count).map { "\($0)" })
    let pages = try recorded.takeReads().filter(\.isOfRange)
    // The first tasks came into memory with the commit, and each of the others is read from there on.
    let first = try #require(pages.first)
    #expect(!QueuedTask.precedes(first.range.lower, keys[Subqueue.refillCount]))
    for (page, next) in zip(pages, pages.dropFirst()) {
      #expect(QueuedTask.precedes(page.range.lower, next.range.lower))
    }
    // A page may end after the last task that is kept of it.
    #expect(pages.reduce(0) { $0 + $1.rowCount } <= 2 * count)
    #expect(pages.count <= count / 64)
    withExtendedLifetime(pinned) {}
    try await recorded.fixture.close()
  }

  @Test func `layout 9: a read for a subqueue ends with the subqueue, and no read of tasks is without an end`()
    async throws
  {
    let recorded = try RecordedTasks(rules: [.named("b"): QueueRules(order: .serial())], workers: 4)
    let fixture = recorded.fixture
    try fixture.handle { note, context in
      if note.text == "fails", context.failures == 0 { return .retry(after: .seconds(5)) }
      return .done
    }
    let count = Subqueue.entryMaximum + 100
    try fixture.write { tx in
      for queue: QueueName in ["a", "b", "c"] {
        for number in 0..<count { try tx.enqueue(Note(number == 7 ? "fails" : "\(number)"), TaskOptions(queue: queue)) }
      }
      var options = TaskOptions()
      options.start = .after(.seconds(3))
      let parent = try tx.enqueue(Note("later"), options).id
      options.start = .now
      options.dependsOn = [parent]
      try tx.enqueue(Note("child"), options)
    }
    recorded.forget()
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.advance(fixture.clock, by: .seconds(10))
    #expect(fixture.lines.take().count == 3 * count + 5)
    let ranges = try recorded.takeReads().filter(\.isOfRange)
    for read in ranges {
      let upper = try #require(read.range.upper, "\(read)")
      let tag = try #require(read.range.lower.first)
      // The end is within the rows of one kind, or just after them.
      #expect(upper.first == tag || upper == [tag + 1], "\(read)")
    }
    // The reads that return several rows of subqueues are those of one subqueue each.
    let refills = ranges.filter { $0.range.lower.first == Self.queued && $0.rowCount > 1 }
    #expect(!refills.isEmpty)
    for read in refills {
      let line = try SubqueueID(of: read.range.lower)
      #expect(read.range.upper == StorageRange(prefix: line.begin).upper)
    }
    try await recorded.fixture.close()
  }

  @Test func `layout 11: the number of tasks in a state is one read, and one of claims, however many tasks there are`()
    async throws
  {
    let recorded = try RecordedTasks()
    let fixture = recorded.fixture
    for (added, count) in [(10, 10), (990, 1_000)] {
      try fixture.write { tx in
        for number in 0..<added { try tx.enqueue(Note("\(number)")) }
      }
      recorded.forget()
      #expect(try fixture.count(.ready) == count)
      let (live, counts) = (try recorded.family("live").number, try recorded.family("counts").number)
      let reads = recorded.backend.takeReads()
      #expect(reads.count { $0.family.number == live } <= 1)
      let found = reads.filter { $0.family.number == counts }
      #expect(found.count == 1 && found.allSatisfy { !$0.isOfRange })
    }
    try await recorded.fixture.close()
  }
}

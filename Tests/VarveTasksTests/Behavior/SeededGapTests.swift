import Foundation
import FutexLocks
import Testing
import Varve
import VarveTestSupport

@_spi(Extensions) @testable import VarveTasks
@testable import VarveTesting

/// Tests of rules that other suites use without checking them. Each was written for a planted bug that no other test
/// found.
struct SeededGapTests {
  // MARK: - Lines

  /// Returns a scheduler that is attached to its database, and that takes work only when a test does so.
  private static func attached(workers: Int) throws -> TaskFixture {
    let fixture = try TaskFixture()
    try fixture.handle()
    fixture.attach(workers: workers)
    fixture.scheduler.dispatcher.discover([])
    return fixture
  }

  /// Begins and ends tasks until at least `count` have begun, or no work is left. Their rows stay on disk.
  ///
  /// Returns their texts, and the keys from which on tasks were read from disk.
  private static func run(_ count: Int, _ fixture: TaskFixture) throws -> (texts: [String], reads: [[UInt8]]) {
    let dispatcher = fixture.scheduler.dispatcher
    var texts: [String] = []
    var reads: [[UInt8]] = []
    while texts.count < count, let work = dispatcher.takeWork(1) {
      try fixture.read { tx in
        for (line, from) in work.refills {
          reads.append(from)
          try fixture.scheduler.refill(line, from, try tx.tasks.parts.live, of: 1)
        }
      }
      for run in work.settlements.map(\.run) { dispatcher.didSettle(run, nil, [], isDone: true) }
      for run in work.claims {
        texts.append(try Note(encoded: Data(run.record.payload)).text)
        // The handler takes a second, so no claims are made ahead.
        _ = dispatcher.finish(run, .outcome(.done), after: 1e9)
      }
    }
    return (texts, reads)
  }

  @Test func `tasks that are only on disk run before later ones, and are read from the first of them on`() throws {
    let fixture = try Self.attached(workers: 4)
    // A commit passes 512 tasks of a subqueue to the scheduler, and leaves the others to the disk.
    let ids = try fixture.write { tx in try tx.enqueue(contentsOf: (0..<600).map { Note("\($0)") }).map(\.id) }
    let first = try Self.run(4, fixture)
    try fixture.enqueue("late")
    let kept = fixture.scheduler.dispatcher.state.withLock { $0.subqueues.values.first?.entryCount }
    #expect(kept == 508)
    let rest = try Self.run(2_000, fixture)
    let expected = (0..<600).map { "\($0)" } + ["late"]
    #expect(first.texts + rest.texts == expected)
    let record = try #require(try fixture.read { tx in try tx.tasks.parts.record(ids[512]) })
    #expect(first.reads.isEmpty)
    #expect(rest.reads == [record.position.key(of: record.id)])
  }

  @Test func `a task that was passed runs when its handler is registered, and so do all tasks after it`() async throws {
    let fixture = try TaskFixture()
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { note, _ in
      if note.text == "0" {
        begun.set()
        await mayEnd.wait()
      }
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.write { tx in
      try tx.enqueue(Other())
      // The last of these are only on disk.
      try tx.enqueue(contentsOf: (0..<1_000).map { Note("\($0)") })
    }
    await begun.wait()
    let lines = fixture.lines
    try fixture.scheduler.register(Other.self) { _, _ in
      lines.add("other")
      return .done
    }
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    let expected = ["0", "other"] + (1..<1_000).map { "\($0)" }
    #expect(fixture.lines.take() == expected)
    await fixture.scheduler.stop()
  }

  // MARK: - Selections of queues

  @Test func `two selectors overlap if a queue may exist that both contain, whichever comes first`() {
    let overlapping: [(QueueSelector, QueueSelector)] = [
      (.all, .named("a")), (.all, .prefix("a")), (.named("a"), .named("a")), (.named("a-1"), .prefix("a-")),
      (.prefix("a-"), .prefix("a-")), (.prefix("a-"), .prefix("a-b-")), (.prefix(""), .prefix("a")),
    ]
    for (left, right) in overlapping {
      #expect(left.overlaps(right), "\(left) and \(right)")
      #expect(right.overlaps(left), "\(right) and \(left)")
    }
    let separate: [(QueueSelector, QueueSelector)] = [
      (.named("a"), .named("b")), (.named("a"), .prefix("a-")), (.named("a"), .prefix("b")),
      (.prefix("a-"), .prefix("b-")), (.prefix("a1-"), .prefix("a10-")),
    ]
    for (left, right) in separate {
      #expect(!left.overlaps(right), "\(left) and \(right)")
      #expect(!right.overlaps(left), "\(right) and \(left)")
    }
  }

  @Test func `a handler is refused if another one of its kind would receive some of its tasks`() throws {
    let pairs: [(QueueSelector, QueueSelector)] = [
      (.all, .named("a")), (.all, .prefix("a")), (.named("a"), .named("a")), (.named("a-1"), .prefix("a-")),
      (.prefix("a-"), .prefix("a-b-")),
    ]
    for (left, right) in pairs + pairs.map({ ($1, $0) }) {
      let scheduler = try TaskFixture().scheduler
      try scheduler.register(Note.self, on: left) { _, _ in .done }
      #expect(throws: TaskError.overlappingHandlers(kind: "note", left, right)) {
        try scheduler.register(Note.self, on: right) { _, _ in .done }
      }
      // A handler of another kind receives other tasks.
      try scheduler.register(Other.self, on: right) { _, _ in .done }
    }
  }

  @Test func `a query for a queue finds no task of another queue, whatever they wait for, and cancels none`()
    async throws
  {
    let fixture = try TaskFixture()
    try fixture.handle()
    let starts: [Start] = [.after(.seconds(60)), .parked(), .now]
    for queue: QueueName in ["a", "b"] {
      for start in starts {
        try fixture.enqueue("task") { options in
          (options.queue, options.start, options.retention) = (queue, start, .keep(.seconds(1_000)))
        }
      }
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    let found = try fixture.read { tx in try tx.tasks(.queue("b")) }
    #expect(found.map(\.queue) == ["b", "b", "b"])
    #expect(Set(found.map(\.progress.state)) == [.scheduled, .parked, .done])
    #expect(try fixture.write { tx in try tx.cancel(.queue("b")) } == 2)
    let others = try fixture.read { tx in try tx.tasks(.queue("a")) }
    #expect(Set(others.map(\.progress.state)) == [.scheduled, .parked, .done])
    await fixture.scheduler.stop()
  }

  // MARK: - Times

  /// Returns when everything that is due has been done, also while handlers run.
  private static func waitUntilDone(_ fixture: TaskFixture) async {
    let dispatcher = fixture.scheduler.dispatcher
    await fixture.poll {
      let isDue = dispatcher.nextDeadline.map { $0 <= fixture.clock.continuousNow } ?? false
      return !isDue && !dispatcher.state.withLock { $0.loop.isPumping }
    }
  }

  @Test func `a scheduler wakes up once a minute only while a task waits for a date, and not for one that has passed`()
    async throws
  {
    let fixture = try TaskFixture()
    try fixture.handle()
    try await fixture.scheduler.start()
    let dispatcher = fixture.scheduler.dispatcher
    #expect(dispatcher.nextDeadline == nil)
    try fixture.enqueue("delay") { $0.start = .after(.seconds(3_600)) }
    await fixture.scheduler.waitUntilIdle()
    #expect(dispatcher.nextDeadline == .seconds(3_600))
    try fixture.enqueue("date") { $0.start = .at(fixture.clock.wallNow + 600) }
    await fixture.scheduler.waitUntilIdle()
    #expect(dispatcher.nextDeadline == .seconds(60))
    for _ in 0..<10 { await fixture.scheduler.advance(fixture.clock, by: .seconds(60)) }
    #expect(fixture.lines.take() == ["date"])
    #expect(dispatcher.nextDeadline == .seconds(3_600))
    await fixture.scheduler.stop()
  }

  @Test
  func
    `transition 16: a time limit does not expire while the machine sleeps, and the handler is cancelled when it does`()
    async throws
  {
    let fixture = try TaskFixture()
    let (begun, mayEnd, wasCancelled) = (AsyncFlag(), AsyncFlag(), Flag())
    try fixture.handle { _, _ in
      begun.set()
      await withTaskCancellationHandler {
        await mayEnd.wait()
      } onCancel: {
        wasCancelled.set()
      }
      return .done
    }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("slow") { $0.timeout = .seconds(5) }
    await begun.wait()
    fixture.clock.suspend(for: .seconds(100))
    await Self.waitUntilDone(fixture)
    #expect(try fixture.state(id) == .running)
    fixture.clock.advance(by: .seconds(4))
    await Self.waitUntilDone(fixture)
    #expect(try fixture.state(id) == .running && !wasCancelled.isSet)
    fixture.clock.advance(by: .seconds(1))
    await Self.waitUntilDone(fixture)
    #expect(try fixture.state(id) == .retryWait && wasCancelled.isSet)
    #expect(try fixture.read { tx in try tx.task(id) }?.progress.failures == 1)
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    await fixture.scheduler.stop()
  }

  @Test func `transition 16 and 21: an attempt whose time limit or lease has expired ends with a new epoch`() throws {
    let changes: [TaskChange] = [.timeOut(epoch: 1, next: .wait), .expireLease(epoch: 1, next: .wait)]
    for change in changes {
      var progress = TaskProgress(.ready)
      try progress.apply(.claim)
      try progress.apply(change)
      #expect(progress.epoch == 2)
      try progress.apply(.due)
      try progress.apply(.claim)
      #expect(progress.epoch == 3)
    }
  }

  @Test func `run(until:) waits until a time of the clock, and then cancels handlers without waiting for them`()
    async throws
  {
    let fixture = try TaskFixture()
    let clock = fixture.clock
    clock.advance(by: .seconds(100))
    let (begun, wasCancelled) = (AsyncFlag(), Flag())
    try fixture.handle { _, _ in
      begun.set()
      await waitForCancellation { wasCancelled.set() }
      throw CancellationError()
    }
    let id = try fixture.enqueue("runs")
    async let isRun: Void = fixture.scheduler.run(until: .seconds(120))
    await begun.wait()
    await fixture.poll { !clock.deadlines.isEmpty }
    #expect(clock.deadlines == [.seconds(120)])
    clock.advance(by: .seconds(200))
    // A stop that gives handlers time waits on the clock before it cancels them.
    await fixture.poll { wasCancelled.isSet || !clock.deadlines.isEmpty }
    #expect(wasCancelled.isSet)
    await fixture.poll { try !wasCancelled.isSet || fixture.state(id) == .ready }
    // Nothing waits for this time unless the handler was not cancelled.
    clock.advance(by: .seconds(1_000))
    try await isRun
    let task = try fixture.read { tx in try tx.task(id) }
    #expect(task?.progress.state == .ready && task?.progress.attempt == 0)
  }

  @Test func `a bucket that was not used for long has no more tokens than its burst`() async throws {
    var rules = QueueRules()
    rules.rate = QueueRules.Rate(count: 1, per: .seconds(10), burst: 3)
    let fixture = try TaskFixture(rules: [.all: rules], workers: 8)
    try fixture.handle()
    try await fixture.scheduler.start()
    for number in 0..<3 { try fixture.enqueue("\(number)") }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().count == 3)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(1_000))
    for number in 3..<13 { try fixture.enqueue("\(number)") }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().count == 3)
    await fixture.scheduler.stop()
  }

  // MARK: - More than one commit

  /// More tasks than are changed in two commits.
  private static let count = 2 * TurnWork.batchMaximum + 1

  @Test func `transition 20: a start recovers every task that was running when a process died, however many they are`()
    async throws
  {
    let fixture = try TaskFixture()
    let ids = try fixture.write { tx in
      try tx.pause("default")
      return try tx.enqueue(contentsOf: (0..<Self.count).map { Note("\($0)") }).map(\.id)
    }
    try await fixture.database.claimAndDie(ids)
    try fixture.handle()
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    let crashes = try fixture.read { tx in try tx.tasks(.all).map(\.progress.crashes) }
    #expect(crashes.count == Self.count && Set(crashes) == [1])
    #expect(try fixture.claimCount() == 0)
    #expect(fixture.lines.take() == [])
    await fixture.scheduler.stop()
  }

  @Test
  func `transition 26: all tasks that need not be kept any more are removed within a minute, however many they are`()
    async throws
  {
    let cases: [(retention: Retention, left: Int)] = [(.keep(.seconds(10)), 0), (.keepCount(3), 3)]
    for (retention, left) in cases {
      let fixture = try TaskFixture()
      try fixture.write { tx in
        var options = TaskOptions()
        options.start = .parked()
        options.retention = retention
        try tx.enqueue(contentsOf: (0..<Self.count).map { Note("\($0)") }, options)
      }
      #expect(try fixture.write { tx in try tx.cancel(.all) } == Self.count)
      #expect(try fixture.count(.cancelled) == Self.count)
      try await fixture.scheduler.start()
      await fixture.scheduler.advance(fixture.clock, by: .seconds(61))
      #expect(try fixture.taskCount() == left)
      #expect(try fixture.count(.cancelled) == left)
      await fixture.scheduler.stop()
    }
  }
}

import Foundation
import FutexLocks
import Testing
import Varve
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of schedulers that have nothing to do: they set no alarm, make no commit and are not woken, however much time
/// passes.
struct IdleTests {
  /// The reason why a scheduler has nothing to do.
  enum Reason: String, CaseIterable, Sendable {
    /// The database never had a task.
    case unused
    /// All tasks have ended, among them some that were delayed, failed, or had a time limit or a lease.
    case afterManyTasks
    /// Tasks wait in paused queues.
    case pausedQueues
    /// Tasks wait for a handler, in a standard and in a serial queue.
    case withoutHandler
    /// Tasks are parked, in a standard and in a serial queue.
    case parked
    /// The head of a serial queue is dead.
    case deadHead
    /// Tasks wait for one that is parked.
    case blocked
  }

  /// Brings about the reason.
  private static func prepare(_ reason: Reason, _ fixture: TaskFixture) async throws {
    switch reason {
    case .unused: break
    case .afterManyTasks: try await runMany(fixture)
    case .pausedQueues:
      for queue: QueueName in ["a", "serial"] {
        try fixture.write { tx in try tx.pause(queue) }
        for number in 0..<600 { try fixture.enqueue("\(number)") { $0.queue = queue } }
      }
    case .withoutHandler:
      try fixture.write { tx in
        for queue: QueueName in ["a", "serial"] {
          for _ in 0..<600 { try tx.enqueue(Other(), TaskOptions(queue: queue)) }
        }
      }
    case .parked:
      for queue: QueueName in ["a", "serial"] {
        try fixture.enqueue("parks") { $0.queue = queue }
        try fixture.enqueue("other") { options in
          options.queue = queue
          options.start = .parked(wakeOn: ["go"])
        }
      }
    case .deadHead:
      for text in ["bad", "next"] { try fixture.enqueue(text) { $0.queue = "serial" } }
    case .blocked:
      let parent = try fixture.enqueue("parent") { $0.start = .parked() }
      for number in 0..<600 { try fixture.enqueue("\(number)") { $0.dependsOn = [parent] } }
    }
  }

  /// Runs many tasks of all sorts until all have ended.
  private static func runMany(_ fixture: TaskFixture) async throws {
    for number in 0..<1_000 {
      try fixture.enqueue(number % 10 == 0 ? "fails" : "\(number)") { options in
        options.queue = ["a", "b", "serial"][number % 3]
        if number % 7 == 0 { options.start = .after(.seconds(number)) }
        if number % 7 == 1 { options.start = .at(fixture.clock.wallNow.addingTimeInterval(Double(number))) }
        if number % 5 == 0 { options.timeout = .seconds(60) }
        if number % 11 == 0 { options.limitKey = "key \(number % 3)" }
      }
    }
    for _ in 0..<200 { await fixture.scheduler.advance(fixture.clock, by: .seconds(10)) }
    #expect(try fixture.taskCount() == 0)
    #expect(fixture.lines.take().count == 1_100)
  }

  /// Lets a day pass, in which nothing is done unless something wakes the scheduler.
  private static func passDay(_ fixture: TaskFixture) async {
    for _ in 0..<24 * 60 {
      fixture.clock.advance(by: .seconds(60))
      await Task.yield()
    }
  }

  @Test(arguments: Reason.allCases)
  func `an idle scheduler is not woken in a day, whatever the reason why it is idle`(reason: Reason) async throws {
    let fixture = try TaskFixture(rules: [.named("serial"): QueueRules(order: .serial())], workers: 4)
    try fixture.handle(lease: .seconds(30)) { note, context in
      switch note.text {
      case "parks": return .park()
      case "bad": return .discard("no")
      case "fails" where context.failures == 0: throw Broken()
      default: return .done
      }
    }
    try await fixture.scheduler.start()
    try await Self.prepare(reason, fixture)
    await fixture.scheduler.waitUntilIdle()
    let dispatcher = fixture.scheduler.dispatcher
    // The limits of handlers that have ended expire without an effect.
    if reason != .unused { await fixture.scheduler.advance(fixture.clock, by: .seconds(100)) }
    #expect(dispatcher.nextDeadline == nil)
    // An alarm that has rung may arrive late.
    await Self.passDay(fixture)
    await fixture.poll { !dispatcher.state.withLock { $0.loop.isPumping } }
    let (sleeps, commits) = (fixture.clock.sleepCount, fixture.database.statistics.independentCommits)
    _ = fixture.lines.take()
    await Self.passDay(fixture)
    #expect(fixture.clock.sleepCount == sleeps)
    #expect(fixture.database.statistics.independentCommits == commits)
    #expect(!dispatcher.state.withLock { $0.loop.isPumping })
    #expect(fixture.lines.take() == [])
    // Without handlers that have limits, no alarm was ever set.
    if ![Reason.afterManyTasks, .parked, .deadHead].contains(reason) { #expect(sleeps == 0) }
    await fixture.scheduler.stop()
  }

  @Test func `a scheduler sets no alarm for tasks that run and end at once, and one for the next time of many`()
    async throws
  {
    let fixture = try TaskFixture(workers: 4)
    try fixture.handle()
    try await fixture.scheduler.start()
    for _ in 0..<10 {
      try fixture.write { tx in for number in 0..<100 { try tx.enqueue(Note("\(number)")) } }
      await fixture.scheduler.waitUntilIdle()
    }
    #expect(fixture.lines.take().count == 1_000)
    #expect(fixture.clock.sleepCount == 0)
    try fixture.write { tx in
      for number in 1...1_000 {
        var options = TaskOptions()
        options.start = .after(.seconds(number))
        try tx.enqueue(Note("\(number)"), options)
      }
    }
    await fixture.poll { fixture.clock.sleepCount > 0 }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.clock.sleepCount == 1)
    #expect(fixture.scheduler.dispatcher.nextDeadline == .seconds(1))
    await fixture.scheduler.stop()
  }
}

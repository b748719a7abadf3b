import Foundation
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of transactions that change all tasks of a queue while a scheduler runs them.
struct BusySelectionTests {
  /// The number of tasks that wait after those that run, and that run until they are cancelled.
  private static let waitingCount = 600

  /// Returns a scheduler that runs four tasks, and these tasks and one that waits for five seconds, by their texts.
  ///
  /// Three of the four end in different ways after `mayEnd`. Many others wait after them.
  private static func busy(_ mayEnd: AsyncFlag) async throws -> (fixture: TaskFixture, ids: [String: TaskID]) {
    let fixture = try TaskFixture(workers: 4)
    try fixture.handle { note, _ in
      switch note.text {
      case "done", "fails", "parks":
        await mayEnd.wait()
        if note.text == "fails" { throw Broken() }
        return note.text == "parks" ? .park(wakeOn: ["go"]) : .done
      default:
        await waitForCancellation()
        throw CancellationError()
      }
    }
    try await fixture.scheduler.start()
    var ids: [String: TaskID] = [:]
    for text in ["done", "fails", "parks", "runs"] { ids[text] = try fixture.enqueue(text) }
    await fixture.poll { fixture.lines.count == 4 }
    ids["due"] = try fixture.enqueue("due") { options in
      options.start = .after(.seconds(5))
      options.priority = 200
    }
    try fixture.write { tx in for number in 0..<waitingCount { try tx.enqueue(Note("\(number)")) } }
    return (fixture, ids)
  }

  /// Runs a transaction that begins, and that changes tasks only after some of them have ended, others have begun, and
  /// one has become due. Returns the result of `change`.
  private static func late(
    _ fixture: TaskFixture, _ ids: [String: TaskID], _ mayEnd: AsyncFlag,
    _ change: @escaping @Sendable (WriteTransaction) throws -> Int
  ) async throws -> Int {
    let (begun, mayChange) = (AsyncFlag(), DispatchSemaphore(value: 0))
    async let count: Int = fixture.writeOnThread { tx in
      begun.set()
      mayChange.wait()
      return try change(tx)
    }
    await begun.wait()
    do {
      defer { mayChange.signal() }
      mayEnd.set()
      await fixture.poll { try states(of: ["done", "fails", "parks"], ids, fixture) == [nil, .retryWait, .parked] }
      fixture.clock.advance(by: .seconds(5))
      await fixture.poll { try states(of: ["due"], ids, fixture) == [.ready] }
    }
    return try await count
  }

  private static func states(
    of texts: [String], _ ids: [String: TaskID], _ fixture: TaskFixture
  ) throws -> [TaskState?] {
    try texts.map { text in try fixture.state(#require(ids[text])) }
  }

  @Test
  func `transition 17 and 18: a transaction cancels a queue at once, although tasks of it end and begin meanwhile`()
    async throws
  {
    let mayEnd = AsyncFlag()
    let (fixture, ids) = try await Self.busy(mayEnd)
    let count = try await Self.late(fixture, ids, mayEnd) { tx in try tx.cancel(.queue("default")) }
    // All that have not ended when it begins.
    #expect(count == ids.count + Self.waitingCount)
    await fixture.scheduler.waitUntilIdle()
    try fixture.expectNothingLeft()
    for state in TaskState.allCases { #expect(try fixture.count(state) == 0, "\(state)") }
    let begun = fixture.lines.take()
    #expect(Set(begun).count == begun.count)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(100))
    #expect(fixture.lines.take() == [])
    await fixture.scheduler.stop()
  }

  @Test
  func `transition 22: a transaction wakes the tasks of a queue at once, although tasks of it end after its beginning`()
    async throws
  {
    let mayEnd = AsyncFlag()
    let (fixture, ids) = try await Self.busy(mayEnd)
    let timed = try (0..<50).map { number in
      try fixture.enqueue("timed \(number)") { $0.start = .after(.seconds(100)) }
    }
    let parked = try fixture.enqueue("parked") { $0.start = .parked() }
    let count = try await Self.late(fixture, ids, mayEnd) { tx in try tx.retryNow(.queue("default")) }
    #expect(count == timed.count + 1)
    for id in timed + [parked] { #expect(try fixture.state(id) == .ready) }
    // These ran when it began.
    #expect(try Self.states(of: ["done", "fails", "parks"], ids, fixture) == [nil, .retryWait, .parked])
    try await fixture.scheduler.cancel(.all)
    await fixture.scheduler.waitUntilIdle()
    try fixture.expectNothingLeft()
    await fixture.scheduler.stop()
  }

  @Test func `a task that a commit of the scheduler may be changing is in motion for a transaction until the commit`()
    throws
  {
    let fixture = try TaskFixture()
    fixture.attach()
    let (dispatcher, id) = (fixture.scheduler.dispatcher, TaskID(rawValue: 7))
    #expect(dispatcher.mayChange(id))
    let during = dispatcher.hold([id])
    #expect(during.held == [id] && during.moving == [id])
    #expect(!dispatcher.mayChange(id))
    dispatcher.release([id])
    dispatcher.apply(SchedulerDelta(), of: 1)
    let after = dispatcher.hold([id])
    #expect(after.held == [id] && after.moving == [])
    dispatcher.release([id])
    dispatcher.detach()
  }
}

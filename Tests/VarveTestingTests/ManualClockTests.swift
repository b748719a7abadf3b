import Foundation
import Synchronization
import Testing
import Varve
import VarveTesting

/// Tests of a clock that advances only on request.
struct ManualClockTests {
  private let clock = ManualClock()

  /// Sleeps by the clock, through the protocol, as code under test does.
  private func pause<C: Clock>(_ clock: C, _ duration: C.Duration) async throws {
    let wait: (C.Instant, C.Duration?) async throws -> Void = clock.sleep
    try await wait(clock.now.advanced(by: duration), nil)
  }

  @Test func `a manual clock advances only by the requested duration, and never backwards`() {
    let start = clock.now
    #expect(clock.now == start)
    clock.advance(by: .milliseconds(1_500))
    #expect(start.duration(to: clock.now) == .milliseconds(1_500))
    #expect(clock.now == start.advanced(by: .milliseconds(1_500)))
    clock.advance(by: .zero)
    #expect(clock.now.offset == .milliseconds(1_500))
    clock.advance(to: ManualClock.Instant(offset: .seconds(2)))
    clock.advance(to: start)
    #expect(clock.now.offset == .seconds(2))
    #expect(start < clock.now)
  }

  @Test func `a sleep ends when the clock reaches its deadline, and not before`() async throws {
    let isAwake = Mutex(false)
    let task = Task {
      try await pause(clock, .seconds(5))
      isAwake.withLock { $0 = true }
    }
    try await clock.sleepers()
    clock.advance(by: .seconds(4))
    // If the task had been woken, there would be no sleeper.
    try await clock.sleepers()
    #expect(isAwake.withLock { !$0 })
    clock.advance(by: .seconds(1))
    try await task.value
    #expect(isAwake.withLock { $0 })
  }

  @Test func `one advance wakes every sleeper whose deadline it reaches, and no other`() async throws {
    let tasks = (1...5).map { number in Task { try await pause(clock, .seconds(number)) } }
    try await clock.sleepers(5)
    clock.advance(by: .seconds(3))
    for task in tasks.prefix(3) { try await task.value }
    try await clock.sleepers(2)
    clock.advance(to: clock.now.advanced(by: .seconds(60)))
    for task in tasks { try await task.value }
  }

  @Test func `a sleep whose deadline has passed returns at once`() async throws {
    try await pause(clock, .zero)
    try await pause(clock, .seconds(-1))
    clock.advance(by: .seconds(1))
    let wait: (ManualClock.Instant, Duration?) async throws -> Void = clock.sleep
    try await wait(ManualClock.Instant(), nil)
  }

  @Test func `a sleep cancelled before or after its start throws and is not counted as a sleeper`() async throws {
    let early = Task {
      unsafe withUnsafeCurrentTask { task in unsafe task?.cancel() }
      try await pause(clock, .seconds(1))
    }
    await #expect(throws: CancellationError.self) { try await early.value }
    let late = Task { try await pause(clock, .seconds(1)) }
    let other = Task { try await pause(clock, .seconds(2)) }
    try await clock.sleepers(2)
    late.cancel()
    await #expect(throws: CancellationError.self) { try await late.value }
    clock.advance(by: .seconds(2))
    try await other.value
    // A cancellation after its end has no effect.
    other.cancel()
  }

  @Test func `a wait for sleepers can be cancelled`() async throws {
    let task = Task { try await clock.sleepers() }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    try await clock.sleepers(0)
  }

  @Test func `many tasks sleep, are cancelled and advance the clock concurrently`() async throws {
    try await withThrowingTaskGroup(of: Bool.self) { group in
      for number in 0..<400 {
        group.addTask {
          let task = Task { try await pause(clock, .milliseconds(number)) }
          if number.isMultiple(of: 3) { task.cancel() }
          clock.advance(by: .milliseconds(2))
          do {
            try await task.value
            return true
          } catch is CancellationError {
            return false
          }
        }
      }
      group.addTask {
        // The last task to sleep waits at most until 400 ms from now.
        while !Task.isCancelled {
          clock.advance(by: .milliseconds(50))
          await Task.yield()
        }
        return true
      }
      var count = 0
      for try await _ in group {
        count += 1
        if count == 400 { group.cancelAll() }
      }
      #expect(count == 401)
    }
  }

  // MARK: - In a database

  @Test func `change sets have the date of the clock, and the feed drops events that are too old by it`() async throws {
    var options = DatabaseOptions()
    options.clock = clock.timeOfDay(from: 1_000_000)
    options.feed?.ageMaximum = .seconds(240)
    let database = try await Database.inMemory(options: options)
    var changes = database.changes().makeAsyncIterator()
    for number in 1...3 {
      try database.fill { Fixture("numbers", key: number, "") }
      guard case .changes(let set) = try await changes.next() else {
        Issue.record("there should be a change set")
        return
      }
      #expect(set.date.timeIntervalSince1970 == 1_000_000 + Double(number - 1) * 1_000)
      clock.advance(by: .seconds(1_000))
    }
    var all = database.changes(after: .zero).makeAsyncIterator()
    guard case .gap = try await all.next() else {
      Issue.record("the first two should be gone")
      return
    }
    guard case .changes(let last) = try await all.next() else {
      Issue.record("the last should be there")
      return
    }
    #expect(last.date.timeIntervalSince1970 == 1_002_000)
  }
}

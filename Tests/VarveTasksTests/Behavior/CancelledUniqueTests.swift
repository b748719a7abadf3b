import Foundation
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of unique keys whose tasks will not do what the key stands for, because they are being cancelled or completed.
struct CancelledUniqueTests {
  private static let conflicts: [Uniqueness.OnConflict] = [
    .skip, .fail, .replacePayload, .debounce(.seconds(10)), .rerun,
  ]

  private static func options(
    _ onConflict: Uniqueness.OnConflict = .skip, _ window: Uniqueness.Window = .whileLive
  ) -> TaskOptions {
    var options = TaskOptions()
    options.unique = Uniqueness(key: "k", window: window, onConflict: onConflict)
    return options
  }

  /// Starts a scheduler with a task whose handler waits until `mayEnd` is set, whether or not it is cancelled.
  private static func begin(
    _ fixture: TaskFixture, _ mayEnd: AsyncFlag, _ options: TaskOptions, isDone: Bool = false
  ) async throws -> TaskID {
    let begun = AsyncFlag()
    try fixture.handle { note, _ in
      if note.text != "1" { return .done }
      begun.set()
      await mayEnd.wait()
      if !isDone { throw CancellationError() }
      return .done
    }
    try await fixture.scheduler.start()
    let first = try fixture.write { tx in try tx.enqueue(Note("1"), options).id }
    await begun.wait()
    return first
  }

  @Test(arguments: conflicts)
  func `transition 17: a task whose key a running task has that is being cancelled is enqueued, and runs after it`(
    onConflict: Uniqueness.OnConflict
  ) async throws {
    for (isBeside, isDone) in [(false, false), (false, true), (true, false)] {
      let (fixture, mayEnd) = (try TaskFixture(workers: 4), AsyncFlag())
      let first = try await Self.begin(fixture, mayEnd, Self.options(onConflict), isDone: isDone)
      if isBeside { #expect(try await fixture.scheduler.cancel(.id(first)) == 1) }
      let second = try fixture.write { tx in
        if !isBeside { #expect(try tx.cancel(.id(first)) == 1) }
        return try tx.enqueue(Note("2"), Self.options(onConflict))
      }
      #expect(second == .inserted(second.id) && second.id != first)
      // The key belongs to the second task from now on.
      let third = try fixture.write { tx in try tx.enqueue(Note("3"), Self.options()) }
      #expect(third == .duplicate(of: second.id, .blocked))
      #expect(try fixture.state(second.id) == .blocked)
      #expect(fixture.lines.take() == ["1"])
      mayEnd.set()
      await fixture.scheduler.waitUntilIdle()
      #expect(fixture.lines.take() == ["2"])
      try fixture.expectNothingLeft()
      #expect(try fixture.configCount(ConfigKeys.unique) == 0)
      await fixture.scheduler.stop()
    }
  }

  @Test(arguments: [Uniqueness.Window.sliding(.seconds(100)), .bucket(.seconds(100)), .forever])
  func `transition 17: a key that is taken for a time stays taken while its task is cancelled`(
    window: Uniqueness.Window
  ) async throws {
    let (fixture, mayEnd) = (try TaskFixture(), AsyncFlag())
    let first = try await Self.begin(fixture, mayEnd, Self.options(.skip, window))
    try fixture.write { tx in
      try tx.cancel(.id(first))
      #expect(try tx.enqueue(Note("2"), Self.options(.skip, window)) == .duplicate(of: first, .running))
    }
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["1"])
    await fixture.scheduler.stop()
  }

  @Test(arguments: conflicts)
  func `transition 17: a key is free although its task waits again when its request to be cancelled is examined`(
    onConflict: Uniqueness.OnConflict
  ) async throws {
    let fixture = try TaskFixture()
    var later = Self.options(onConflict)
    later.start = .after(.seconds(100))
    let first = try fixture.write { tx in try tx.enqueue(Note("1"), later).id }
    // As if its last attempt had ended while the request was made.
    try await fixture.database.commitIndependently { parts in try TaskParts(parts).live.put(TaskKeys.cancel(first), [])
    }
    let second = try fixture.write { tx in try tx.enqueue(Note("2"), Self.options(onConflict)) }
    #expect(second == .inserted(second.id) && second.id != first)
    try fixture.handle()
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["2"])
    #expect(try fixture.state(first) == nil)
    await fixture.scheduler.stop()
  }

  @Test(arguments: conflicts)
  func `transition 7: a key is free if its task waits for one that has failed, and must be cancelled with it`(
    onConflict: Uniqueness.OnConflict
  ) async throws {
    let fixture = try TaskFixture()
    try fixture.handle { note, _ in note.text == "parent" ? .discard("no") : .done }
    try await fixture.scheduler.start()
    let parent = try fixture.enqueue("parent")
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.state(parent) == .dead)
    await fixture.scheduler.stop()
    // No scheduler cancels the child.
    let (first, second) = try fixture.write { tx in
      var child = Self.options(onConflict)
      child.dependsOn = [parent]
      child.onParentFailure = .cancel
      return (try tx.enqueue(Note("1"), child), try tx.enqueue(Note("2"), Self.options(onConflict)))
    }
    #expect(second == .inserted(second.id) && second.id != first.id)
    let next = try TaskFixture(fixture.database, clock: fixture.clock)
    try next.handle()
    try await next.scheduler.start()
    await next.scheduler.waitUntilIdle()
    #expect(next.lines.take() == ["2"])
    #expect(try next.state(first.id) == nil)
    await next.scheduler.stop()
  }

  @Test func `transition 7: a key is taken while its task waits for one that has failed, and stays blocked`()
    async throws
  {
    let fixture = try TaskFixture()
    let parent = try fixture.enqueue("parent") { $0.start = .parked() }
    try fixture.write { tx in
      var child = Self.options()
      child.dependsOn = [parent]
      let first = try tx.enqueue(Note("1"), child)
      #expect(try tx.enqueue(Note("2"), Self.options()) == .duplicate(of: first.id, .blocked))
      try tx.cancel(.id(parent))
      #expect(try tx.enqueue(Note("3"), Self.options()) == .duplicate(of: first.id, .blocked))
    }
  }

  @Test(arguments: conflicts)
  func `transition 10: a task may enqueue the next one with its own key in the transaction that completes it`(
    onConflict: Uniqueness.OnConflict
  ) async throws {
    let fixture = try TaskFixture()
    try fixture.handle { note, context in
      if note.text == "3" { return .done }
      let next = Note("\((Int(note.text) ?? 0) + 1)")
      let result = try await context.complete { tx in try tx.enqueue(next, Self.options(onConflict)) }
      #expect(result == .inserted(result.id))
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.write { tx in _ = try tx.enqueue(Note("1"), Self.options(onConflict)) }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["1", "2", "3"])
    try fixture.expectNothingLeft()
    #expect(try fixture.configCount(ConfigKeys.unique) == 0)
    await fixture.scheduler.stop()
  }

  @Test func `transition 10: the key of a task is taken again when the closure that would complete it throws`()
    async throws
  {
    let fixture = try TaskFixture()
    try fixture.handle { _, context in
      await #expect(throws: Undo.self) {
        try await context.complete { tx in
          _ = try tx.enqueue(Note("2"), Self.options())
          throw Undo()
        }
      }
      let again = try await fixture.database.write { tx in try tx.enqueue(Note("3"), Self.options()) }
      #expect(again == .duplicate(of: context.id, .running))
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.write { tx in _ = try tx.enqueue(Note("1"), Self.options()) }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["1"])
    await fixture.scheduler.stop()
  }
}

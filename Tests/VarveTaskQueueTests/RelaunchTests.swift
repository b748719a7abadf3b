import EngineTestSupport
import Foundation
import Testing
import Varve
import VarveTaskQueue
import VarveTasks
import VarveTestSupport
import VarveTesting

/// Tests of actions whose program is ended and launched again: on files, with a new database object, a new scheduler
/// and a new broker. No call is necessary for the actions to continue.
struct RelaunchTests {
  /// The way in which a program ends.
  enum End: String, CaseIterable, Sendable { case closed, crashed }

  /// Runs a program until one action waits without end, one for a time and one runs, each the first of its queue. The
  /// last one ends with `mayEnd`.
  private static func runFirst(_ site: StorageSite, _ mayEnd: AsyncFlag, usesClosure: Bool) async throws -> ActionSite {
    let program = try await ActionSite(try site.open(), stopsAtOnce: true)
    let begun = AsyncFlag()
    let handler = RecordingHandler { action in
      switch action.key {
      case "endless": return .failure(retryTimeout: -1)
      case "timed": return .failure(retryTimeout: 60)
      case "running":
        begun.set()
        await mayEnd.wait()
        return .success
      default: return .success
      }
    }
    try program.setup(handler, usesClosure: usesClosure)
    for key in ["endless", "timed", "running"] { try program.save(key, "after \(key)", queue: "messages-\(key)") }
    try await program.scheduler.start()
    await begun.wait()
    await waitUntil { try program.count(.parked) == 1 && program.count(.retryWait) == 1 }
    #expect(handler.take().sorted() == ["endless", "running", "timed"])
    return program
  }

  @Test(arguments: End.allCases, [false, true])
  func `actions that waited without end, waited for a time or ran at the end of a program resume at the next`(
    end: End, usesClosure: Bool
  ) async throws {
    for pause in [0, 3_600] {
      let (site, mayEnd) = (try StorageSite(.disk), AsyncFlag())
      let first = try await Self.runFirst(site, mayEnd, usesClosure: usesClosure)
      first.clock.advance(by: .seconds(30))
      switch end {
      case .closed:
        await first.scheduler.stop()
        try await first.database.close()
      case .crashed: try site.abandon()
      }
      // The time of day continues while no program runs.
      let wall = first.clock.wallNow.addingTimeInterval(Double(pause))
      let second = try await ActionSite(try site.open(), clock: ManualSchedulerClock(wall: wall), stopsAtOnce: true)
      #expect(try second.left().count == 6)
      let handler = RecordingHandler()
      try second.setup(handler, usesClosure: usesClosure)
      try await second.scheduler.start()
      await second.scheduler.waitUntilIdle()
      // Half of the minute had passed before the end of the first program.
      let isOver = pause > 30
      var expected: Set = ["endless", "running"]
      if isOver { expected.insert("timed") }
      Self.check(handler.take(), expected)
      #expect(try second.left().sorted() == (isOver ? [] : ["after timed", "timed"]))
      await second.scheduler.advance(second.clock, by: .seconds(29))
      #expect(handler.take() == [])
      await second.scheduler.advance(second.clock, by: .seconds(1))
      Self.check(handler.take(), isOver ? [] : ["timed"])
      #expect(try second.left() == [])
      #expect(try await second.database.read { tx in try tx.tasks(.all).count } == 0)
      await second.scheduler.stop()
      try await second.database.close()
      mayEnd.set()
      if end == .crashed {
        await first.scheduler.stop()
        try await first.database.close()
      }
      withExtendedLifetime(site) {}
    }
  }

  @Test(arguments: [false, true], [false, true])
  func `an action that is removed while it runs is done by the next program if its process dies`(
    usesClosure: Bool, isRemovedByHandler: Bool
  ) async throws {
    let (site, begun, mayEnd) = (try StorageSite(.disk), AsyncFlag(), AsyncFlag())
    let first = try await ActionSite(try site.open(), stopsAtOnce: true)
    let handler = RecordingHandler { action in
      if isRemovedByHandler { try? first.remove(action.key) }
      begun.set()
      await mayEnd.wait()
      return .success
    }
    try first.setup(handler, usesClosure: usesClosure)
    try await first.scheduler.start()
    // It is the only action of its queue, so no row names the queue after the removal.
    try first.save("removed", queue: "messages-ada")
    await begun.wait()
    if !isRemovedByHandler { try first.remove("removed") }
    #expect(try first.left() == [])
    try site.abandon()
    let second = try await ActionSite(try site.open(), stopsAtOnce: true)
    #expect(try await second.database.read { tx in try tx.tasks(.all).count } == 1)
    let next = RecordingHandler()
    try second.setup(next, usesClosure: usesClosure)
    try await second.scheduler.start()
    await second.scheduler.waitUntilIdle()
    #expect(second.scheduler.unhandledKinds == [])
    #expect(try await second.database.read { tx in try tx.tasks(.all).count } == 0)
    try second.save("next", queue: "messages-ada")
    await second.scheduler.waitUntilIdle()
    #expect(next.take() == ["next"])
    await second.scheduler.stop()
    try await second.database.close()
    mayEnd.set()
    await first.scheduler.stop()
    try await first.database.close()
    withExtendedLifetime(site) {}
  }

  /// Checks that the first action of each of some queues has run, and then the one after it.
  private static func check(_ keys: [String], _ firsts: Set<String>) {
    #expect(keys.count == 2 * firsts.count, "\(keys)")
    for first in firsts {
      #expect(keys.filter { $0.hasSuffix(first) } == [first, "after \(first)"], "\(keys)")
    }
  }
}

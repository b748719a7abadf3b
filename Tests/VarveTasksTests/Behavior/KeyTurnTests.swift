import FutexLocks
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of the turns that limit keys take within a queue.
struct KeyTurnTests {
  private static func keyed(_ key: String) -> TaskOptions {
    var options = TaskOptions(queue: "q")
    options.limitKey = key
    return options
  }

  private static func rules(isSerial: Bool, concurrency: Int) -> [QueueSelector: QueueRules] {
    [.named("q"): QueueRules(order: isSerial ? .serial(onDead: .skip) : .standard, concurrency: concurrency)]
  }

  /// The ways in which an attempt ends, each of which lets another key begin at another step.
  private enum End: CaseIterable { case done, complete, discard, snooze }

  @Test(arguments: [true, false]) func `keys begin their tasks in turn, however attempts end`(isSerial: Bool)
    async throws
  {
    for end in End.allCases {
      let fixture = try TaskFixture(rules: Self.rules(isSerial: isSerial, concurrency: 1))
      try fixture.handle { note, context in
        switch end {
        case .done: return .done
        case .complete:
          try await context.complete(counting: note.text)
          return .done
        case .discard: return .discard("as the test says")
        case .snooze: return .snooze(for: .seconds(100))
        }
      }
      let keys = ["a", "b", "c", "d", "e"]
      try fixture.write { tx in
        for key in keys { for _ in 0..<4 { try tx.enqueue(Note(key), Self.keyed(key)) } }
      }
      try await fixture.scheduler.start()
      await fixture.scheduler.waitUntilIdle()
      let lines = fixture.lines.take()
      #expect(lines.count == 20)
      for begin in stride(from: 0, to: lines.count, by: 5) {
        #expect(Set(lines[begin...].prefix(5)) == Set(keys), "\(end): \(lines.joined())")
      }
      await fixture.scheduler.stop()
    }
  }

  @Test(arguments: [true, false])
  func `a key whose tasks arrive all the time does not delay another key by more than one task`(isSerial: Bool)
    async throws
  {
    let fixture = try TaskFixture(rules: Self.rules(isSerial: isSerial, concurrency: 1))
    let hot = Self.keyed("hot")
    // Each attempt adds two further tasks of its key before it ends.
    try fixture.handle { note, context in
      if note.text == "hot", fixture.lines.count < 50 {
        try await fixture.database.write { tx in for _ in 0..<2 { try tx.enqueue(Note("hot"), hot) } }
      }
      return .done
    }
    try fixture.write { tx in
      for _ in 0..<10 { try tx.enqueue(Note("hot"), hot) }
      for _ in 0..<3 { try tx.enqueue(Note("cold"), Self.keyed("cold")) }
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    let lines = fixture.lines.take()
    let places = lines.indices.filter { lines[$0] == "cold" }
    #expect(places.count == 3 && places[0] <= 1 && places[1] <= 3 && places[2] <= 5, "\(places)")
    await fixture.scheduler.stop()
  }

  @Test func `a key that has waited keeps its turn while its queue is paused, and while no worker is free`()
    async throws
  {
    var rules = Self.rules(isSerial: true, concurrency: 1)
    rules[.named("other")] = QueueRules()
    let fixture = try TaskFixture(rules: rules)
    let (isRunning, mayEnd) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { note, _ in
      if note.text == "a0" {
        isRunning.set()
        await mayEnd.wait()
      }
      return .done
    }
    try fixture.write { tx in
      for number in 0..<3 { try tx.enqueue(Note("a\(number)"), Self.keyed("a")) }
    }
    try await fixture.scheduler.start()
    await isRunning.wait()
    try fixture.write { tx in
      for number in 0..<2 { try tx.enqueue(Note("b\(number)"), Self.keyed("b")) }
    }
    try await fixture.scheduler.pause("q")
    mayEnd.set()
    await fixture.scheduler.waitUntilIdle()
    try fixture.write { tx in try tx.enqueue(Note("a3"), Self.keyed("a")) }
    try await fixture.scheduler.resume("q")
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["a0", "b0", "a1", "b1", "a2", "a3"])
    await fixture.scheduler.stop()
  }

  @Test func `a key that leaves its turn unused passes it on`() async throws {
    var rules = QueueRules(order: .standard, concurrency: 1)
    rules.ratePerKey = QueueRules.Rate(count: 1, per: .seconds(100))
    let fixture = try TaskFixture(rules: [.named("q"): rules])
    try fixture.handle()
    try fixture.write { tx in
      for key in ["a", "b", "c"] { for _ in 0..<2 { try tx.enqueue(Note(key), Self.keyed(key)) } }
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().sorted() == ["a", "b", "c"])
    await fixture.scheduler.advance(fixture.clock, by: .seconds(100))
    #expect(fixture.lines.take().sorted() == ["a", "b", "c"])
    try fixture.expectNothingLeft()
    await fixture.scheduler.stop()
  }
}

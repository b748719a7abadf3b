import EngineTestSupport
import Synchronization
import Testing

@testable import Varve

/// The order in which waiters get the writer.
@Suite(.timeLimit(.minutes(1))) struct WriterQueueTests {
  private static let long = Duration.seconds(3_600)

  /// Starts a waiting task, and returns once it is in the queue.
  private func waiter(
    _ queue: WriterQueue, _ timeout: Duration = long, _ body: @escaping @Sendable () -> Void = {}
  ) async -> Task<Void, any Error> {
    let arrivals = queue.arrivalCount
    let task = Task {
      try await queue.acquire("waiter", timeout: timeout)
      body()
      queue.release()
    }
    while queue.arrivalCount == arrivals, !Task.isCancelled { await Task.yield() }
    return task
  }

  /// If the time limit ends the test, the waits end too: a queue that loses a waiter fails, and does not hang.
  private func withQueue(_ body: (WriterQueue) async throws -> Void) async throws {
    let queue = WriterQueue()
    try await withTaskCancellationHandler {
      try await body(queue)
    } onCancel: {
      queue.close()
    }
  }

  @Test func `tasks get it in the order of arrival, and share one timer`() async throws {
    try await withQueue { queue in
      let order = Mutex<[Int]>([])
      #expect(try queue.tryAcquire(nil))
      var tasks: [Task<Void, any Error>] = []
      for number in 0..<500 {
        tasks.append(await waiter(queue) { order.withLock { $0.append(number) } })
      }
      #expect(queue.waiterCount == 500)
      #expect(queue.timerCount == 1)
      queue.release()
      for task in tasks { try await task.value }
      #expect(order.withLock { $0 } == Array(0..<500))
      #expect(queue.waiterCount == 0)
    }
  }

  @Test func `a wait that times out ends, and the others keep their order`() async throws {
    try await withQueue { queue in
      let order = Mutex<[Int]>([])
      #expect(try queue.tryAcquire("holder"))
      var tasks: [Task<Void, any Error>] = []
      for number in 0..<30 {
        let isShort = number % 3 == 1
        let task = await waiter(queue, isShort ? .milliseconds(1 + number % 5) : Self.long) {
          order.withLock { $0.append(number) }
        }
        tasks.append(task)
      }
      for (number, task) in tasks.enumerated() where number % 3 == 1 {
        let result = await task.result
        let error = try #require(throws: DatabaseError.self) { try result.get() }
        #expect(error.code == .writerBusy)
        #expect(error.description.contains("held by \"holder\""))
      }
      #expect(queue.waiterCount == 20)
      queue.release()
      for (number, task) in tasks.enumerated() where number % 3 != 1 { try await task.value }
      #expect(order.withLock { $0 } == (0..<30).filter { $0 % 3 != 1 })
    }
  }

  @Test func `no wait outlives the closing of the queue`() async throws {
    try await withQueue { queue in
      #expect(try queue.tryAcquire(nil))
      var tasks: [Task<Void, any Error>] = []
      for _ in 0..<5 { tasks.append(await waiter(queue)) }
      queue.close()
      for task in tasks {
        let result = await task.result
        let error = try #require(throws: DatabaseError.self) { try result.get() }
        #expect(error.code == .closed)
      }
      #expect(queue.waiterCount == 0)
    }
  }

  @Test(arguments: [1, 2, 3] as [UInt64])
  func `a queue is a list from which any waiter may leave`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var line = WaiterLine()
    var model: [(number: UInt64, deadline: ContinuousClock.Instant?)] = []
    let start = ContinuousClock.now
    var number: UInt64 = 0
    var counts = [0, 0, 0, 0]
    for step in 0..<20_000 {
      // Long phases of growing and of shrinking.
      let kind = step / 1_000 % 2 == 0 ? [0, 0, 0, 1, 2, 3][random.below(6)] : [0, 1, 1, 2, 2, 3][random.below(6)]
      counts[kind] += 1
      switch kind {
      case 0:
        number += UInt64(1 + random.below(3))
        let deadline = random.oneIn(4) ? nil : start + .seconds(random.below(100_000))
        line.append(WaiterLine.Waiter(number: number, label: nil, deadline: deadline) { _ in })
        model.append((number, deadline))
      case 1:
        #expect(line.popFirst()?.number == model.first?.number)
        if !model.isEmpty { model.removeFirst() }
      case 2:
        let isAnyNumber = model.isEmpty || random.oneIn(4)
        let leaving = isAnyNumber ? UInt64(random.below(Int(number) + 2)) : model[random.below(model.count)].number
        let index = model.firstIndex { $0.number == leaving }
        #expect(line.remove(leaving)?.number == index.map { model[$0].number })
        if let index { model.remove(at: index) }
      default:
        #expect(line.earliestDeadline == model.compactMap(\.deadline).min())
        guard random.oneIn(10) else { break }
        let now = start + .seconds(random.below(10_000))
        let due = model.filter { $0.deadline.map { $0 <= now } == true }.map(\.number)
        #expect(line.removeAll(dueAt: now).map(\.number) == due)
        model.removeAll { due.contains($0.number) }
      }
      #expect(line.count == model.count)
      #expect(line.placeCount <= 32 + 2 * line.count)
    }
    #expect(counts.allSatisfy { $0 > 200 })
    #expect(line.removeAll().map(\.number) == model.map(\.number), "seed \(seed)")
  }
}

import EngineTestSupport
import Synchronization
import Testing

@testable import Varve

/// Tests of the order in which waiting tasks get the writer.
struct WriterQueueTests {
  private static let long = Duration.seconds(3_600)

  /// Starts a task that has begun to wait when this returns.
  private func waiter(
    _ queue: WriterQueue, on executor: LateExecutor, _ timeout: Duration = long,
    _ body: @escaping @Sendable () -> Void = {}
  ) -> Task<Void, any Error> {
    Task(executorPreference: executor) {
      try await queue.acquire("waiter", timeout: timeout)
      body()
      queue.release()
    }
  }

  @Test func `tasks get the writer in the order of arrival, and share one timer`() async throws {
    let (queue, executor) = (WriterQueue(), LateExecutor())
    let order = Mutex<[Int]>([])
    #expect(try queue.tryAcquire(nil))
    let tasks = (0..<500).map { number in
      waiter(queue, on: executor) { order.withLock { $0.append(number) } }
    }
    #expect(queue.waiterCount == 500)
    #expect(queue.timerCount == 1)
    queue.release()
    for task in tasks { try await task.value }
    #expect(order.withLock { $0 } == Array(0..<500))
    #expect(queue.waiterCount == 0)
  }

  @Test func `a running caller may take the writer before a woken waiter, which is then handed the writer`()
    async throws
  {
    let (queue, executor) = (WriterQueue(), LateExecutor())
    let order = Mutex<[String]>([])
    #expect(try queue.tryAcquire("holder"))
    let first = waiter(queue, on: executor) { order.withLock { $0.append("first") } }
    let second = waiter(queue, on: LateExecutor()) { order.withLock { $0.append("second") } }
    executor.hold()
    queue.release()
    // The first waiter was called, and has not resumed: no other waiter is called meanwhile.
    for _ in 0..<3 {
      #expect(try queue.acquireSoon("passing"))
      #expect(queue.waiterCount == 1)
      queue.release()
    }
    #expect(try queue.tryAcquire("passing"))
    executor.release()
    #expect(queue.waiterCount == 2)
    #expect(order.withLock { $0 }.isEmpty)
    // The waiter is first in the queue again, and the writer is handed to it: no other can pass it again.
    executor.hold()
    queue.release()
    #expect(try !queue.tryAcquire("passing again"))
    executor.release()
    try await first.value
    try await second.value
    #expect(order.withLock { $0 } == ["first", "second"])
    #expect(queue.waiterCount == 0)
    #expect(try queue.tryAcquire(nil))
  }

  @Test func `a woken waiter that is cancelled leaves the queue, and the next waiter gets the writer`() async throws {
    let (queue, executor) = (WriterQueue(), LateExecutor())
    let ran = Mutex(0)
    #expect(try queue.tryAcquire("holder"))
    let first = waiter(queue, on: executor) { ran.withLock { $0 += 1 } }
    let second = waiter(queue, on: LateExecutor()) { ran.withLock { $0 += 10 } }
    executor.hold()
    queue.release()
    #expect(try queue.tryAcquire("passing"))
    first.cancel()
    executor.release()
    await #expect(throws: CancellationError.self) { try await first.value }
    queue.release()
    try await second.value
    #expect(ran.withLock { $0 } == 10)
    #expect(try queue.tryAcquire(nil))
  }

  @Test func `a strict queue gives the writer to no caller before its waiters`() async throws {
    let (queue, executor) = (WriterQueue(isStrict: true), LateExecutor())
    #expect(try queue.tryAcquire("holder"))
    let first = waiter(queue, on: executor)
    executor.hold()
    queue.release()
    #expect(try !queue.acquireSoon("passing"))
    executor.release()
    try await first.value
    #expect(try queue.tryAcquire(nil))
  }

  @Test func `a wait that times out throws, and the other waiters keep their order`() async throws {
    let (queue, executor) = (WriterQueue(), LateExecutor())
    let order = Mutex<[Int]>([])
    #expect(try queue.tryAcquire("holder"))
    let tasks = (0..<30).map { number in
      let isShort = number % 3 == 1
      return waiter(queue, on: executor, isShort ? .milliseconds(1 + number % 5) : Self.long) {
        order.withLock { $0.append(number) }
      }
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

  @Test func `closing the queue ends every wait`() async throws {
    let (queue, executor) = (WriterQueue(), LateExecutor())
    #expect(try queue.tryAcquire(nil))
    let tasks = (0..<5).map { _ in waiter(queue, on: executor) }
    queue.close()
    for task in tasks {
      let result = await task.result
      let error = try #require(throws: DatabaseError.self) { try result.get() }
      #expect(error.code == .closed)
    }
    #expect(queue.waiterCount == 0)
  }

  @Test(arguments: [1, 2, 3] as [UInt64])
  func `a waiter queue equals a list from which any waiter may be removed`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var line = WaiterQueue()
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
        line.append(WaiterQueue.Waiter(number: number, label: nil, deadline: deadline) { _ in })
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
      #expect(line.locationCount <= 32 + 2 * line.count)
    }
    #expect(counts.allSatisfy { $0 > 200 })
    #expect(line.removeAll().map(\.number) == model.map(\.number), "seed \(seed)")
  }
}

/// An executor that runs its jobs one after the other on the threads that enqueue them, or keeps them until `release`.
private final class LateExecutor: TaskExecutor {
  /// The jobs, which the last of them outlives: the end of its task may release the executor.
  private final class Jobs: Sendable {
    private let state = Mutex((jobs: [UnownedJob](), isHeld: false, isRunning: false))

    func add(_ job: UnownedJob) { state.withLock { $0.jobs.append(job) } }
    func hold(_ isHeld: Bool) { state.withLock { $0.isHeld = isHeld } }

    /// Returns whether the caller is to run the jobs. Otherwise another call runs them.
    func begin() -> Bool {
      state.withLock { state in
        defer { state.isRunning = true }
        return !state.isRunning
      }
    }

    /// Returns the next job, or `nil` if there is none to run.
    func next() -> UnownedJob? {
      state.withLock { state in
        if !state.isHeld, !state.jobs.isEmpty { return state.jobs.removeFirst() }
        state.isRunning = false
        return nil
      }
    }
  }

  private let jobs = Jobs()

  func enqueue(_ job: consuming ExecutorJob) {
    jobs.add(UnownedJob(job))
    run()
  }

  func hold() { jobs.hold(true) }

  func release() {
    jobs.hold(false)
    run()
  }

  private func run() {
    let jobs = jobs
    guard jobs.begin() else { return }
    while let job = jobs.next() { unsafe job.runSynchronously(on: asUnownedTaskExecutor()) }
  }
}

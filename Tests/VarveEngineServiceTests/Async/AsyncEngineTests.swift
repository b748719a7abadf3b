import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of the engine's asynchronous calls.
struct AsyncEngineTests {
  /// An engine whose syncs wait at a gate.
  private struct World {
    let engine: Engine
    let gate: Gate
    let environment: EngineEnvironment
    let disk = FaultInjectingFileSystem(MemoryFileSystem())

    init() throws {
      let files = GatedFileSystem(disk)
      var environment = EngineEnvironment.inMemory()
      environment.fileSystem = files
      gate = files.syncs
      self.environment = environment
      engine = try Engine.open(at: "/db", options: SmallEngine.options(), environment: environment)
    }

    /// Waits until the syncs after the opening are done, and shuts the gate.
    func shutAfterOpening() async throws {
      try await engine.async.put([100], [1], durability: .power)
      try await engine.async.flush()
      gate.shut()
    }

    /// Commits a key, and returns a task that waits for its sync.
    func waiter(_ number: UInt8) throws -> Task<Void, any Error> {
      var batch = WriteBatch()
      try batch.put([number], [1])
      let ticket = try engine.submit(batch, durability: .power)
      return Task { try await ticket.wait() }
    }

    /// Shuts the gate, and starts commits that wait there on every thread that the engine may use for calls.
    func occupyAllThreads() async -> [Task<SequenceNumber, any Error>] {
      gate.shut()
      let tasks = (0..<Limits.callThreadCountMaximum).map { number in
        Task { try await engine.async.put([UInt8(number)], [1], durability: .power) }
      }
      while engine.visibleSequence.value < UInt64(Limits.callThreadCountMaximum) { await Task.yield() }
      await gate.waitUntilHeld()
      return tasks
    }
  }

  private func code<T>(_ task: Task<T, any Error>) async -> EngineError.Code? {
    do { _ = try await task.value } catch { return (error as? EngineError)?.code }
    return nil
  }

  @Test func `the asynchronous calls have the results of the blocking calls`() async throws {
    let world = try World()
    let engine = world.engine
    try await engine.async.put([1], [10])
    let family = try await engine.async.createFamily("other")
    var batch = WriteBatch()
    try batch.put([2], [20])
    try batch.put([3], [30], in: family)
    #expect(try await engine.async.write(batch) == SequenceNumber(3))
    var second = WriteBatch()
    try second.put([4], [40])
    let ticket = try await engine.async.submit(second, durability: .power)
    try await ticket.wait()
    #expect(engine.durableSequence >= ticket.sequence)
    #expect(try await engine.async.get([1]) == [10])
    #expect(try await engine.async.get([9]) == nil)
    #expect(try await engine.async.withValue(forKey: [2]) { $0.byteCount } == 1)
    #expect(try await engine.async.withValue(forKey: [9]) { $0.byteCount } == nil)
    #expect(try await engine.async.contains([3], in: family))
    #expect(try await engine.async.multiGet([[1], [9], [4]]) == [[10], nil, [40]])
    let snapshot = engine.snapshot()
    try await engine.async.delete([1])
    #expect(try await engine.async.get([1]) == nil)
    #expect(try await engine.async.get([1], snapshot: snapshot) == [10])
    try await engine.async.sync()
    try await engine.async.flush()
    try await engine.async.compact()
    try await engine.async.waitForCompaction()
    #expect(try await engine.async.verify().faults.isEmpty)
    let first = try await engine.async.perform { (engine) throws(EngineError) in
      var cursor = try engine.cursor()
      try cursor.seekToFirst()
      return cursor.keyBytes
    }
    #expect(first == [2])
    try await engine.async.dropFamily(family)
    #expect(await code(Task { try await engine.async.get([3], in: family) }) == .familyDropped)
    try await engine.async.close()
  }

  @Test func `removals, ranges, operands, transactions, checkpoints and budgets have asynchronous calls`() async throws
  {
    let world = try World()
    let engine = world.engine
    var options = FamilyOptions()
    options.mergeOperator = AppendOperator().name
    let family = try await engine.async.createFamilies(["a", "b"], options: options)[1]
    for number in UInt8(1)...5 { try await engine.async.put([number], [number], in: family) }
    try await engine.async.singleDelete([1], in: family)
    try await engine.async.deleteRange(from: [2], to: [4], in: family)
    try await engine.async.merge([4], [44], in: family)
    let sum = try await engine.async.transaction { transaction in
      let values = try (1...5).map { try transaction.get([$0], in: family) }
      try transaction.put([9], [9], in: family)
      return values
    }
    #expect(sum == [nil, nil, nil, [4, 44], [5]])
    try await engine.async.resume()
    try await engine.async.setMemoryBudget(16 << 20)
    #expect(engine.memoryBudget == 16 << 20)
    let report = try await engine.async.checkpoint(to: "/copy")
    #expect(report.sequence == engine.visibleSequence)
    struct Mine: Error {}
    await #expect(throws: Mine.self) { try await engine.async.transaction { _ in throw Mine() } }
    let conflict = Task {
      try await engine.async.transaction(attempts: 1) { transaction in
        _ = try transaction.get([9], in: family)
        try engine.put([9], [0], in: family)
        try transaction.put([10], [0], in: family)
      }
    }
    #expect(await code(conflict) == .conflict)
    try await engine.async.close()
    let copy = try Engine.open(at: "/copy", options: SmallEngine.options(), environment: world.environment)
    #expect(try copy.get([9], in: copy.family(named: "b")) == [9])
    try copy.close()
  }

  @Test func `an engine can be opened and released in a task`() async throws {
    let environment = EngineEnvironment.inMemory()
    do {
      let engine = try await AsyncEngine.open(at: "/db", options: SmallEngine.options(), environment: environment)
      try await engine.async.put([1], [2])
    }
    // The lock is released with the last reference, which another thread may hold.
    var again: Engine?
    while again == nil { again = try? await AsyncEngine.open(at: "/db", environment: environment) }
    #expect(try await again?.async.get([1]) == [2])
    try await again?.async.close()
  }

  @Test func `calls that block leave Swift's threads free, and take a bounded number of the engine's threads`()
    async throws
  {
    let world = try World()
    let engine = world.engine
    world.gate.shut()
    // Far more tasks than processors: if they blocked threads here, no other task could run.
    let count = 64 * ProcessorCount.current
    let blocked = (0..<count).map { number in
      Task { try await engine.async.put(ObservedEngine.key(number), [1], durability: .power) }
    }
    while engine.visibleSequence.value < UInt64(Limits.callThreadCountMaximum) { await Task.yield() }
    await world.gate.waitUntilHeld()
    let sum = await withTaskGroup(of: Int.self) { group in
      for number in 0..<100 {
        group.addTask {
          await Task.yield()
          return number
        }
      }
      return await group.reduce(0, +)
    }
    #expect(sum == 4_950)
    #expect(world.gate.waitingCount >= 1, "and meanwhile they were blocked")
    #expect(engine.core.callThreads.count == Limits.callThreadCountMaximum)
    world.gate.open()
    for task in blocked { _ = try await task.value }
    #expect(engine.visibleSequence == SequenceNumber(UInt64(count)))
    try await engine.async.close()
  }

  @Test func `a call that waits for a thread is cancelled with its task, and a call that has begun is not`()
    async throws
  {
    let world = try World()
    let engine = world.engine
    let begun = await world.occupyAllThreads()
    let waiting = Task { try await engine.async.put([200], [1]) }
    while engine.core.callThreads.waitingCount == 0 { await Task.yield() }
    waiting.cancel()
    begun[3].cancel()
    #expect(await code(waiting) == .canceled)
    #expect(world.gate.waitingCount >= 1, "no one waited for a thread to be notified")
    world.gate.open()
    for task in begun { #expect(await code(task) == nil) }
    #expect(try await engine.async.get([200]) == nil)
    #expect(try await engine.async.get([3]) == [1])
    try await engine.async.close()
  }

  @Test func `a task that is cancelled already makes no call`() async throws {
    let world = try World()
    let engine = world.engine
    let task = Task {
      while !Task.isCancelled { await Task.yield() }
      return try await engine.async.put([1], [1])
    }
    task.cancel()
    #expect(await code(task) == .canceled)
    #expect(try await engine.async.get([1]) == nil)
    try await engine.async.close()
  }

  @Test func `a task waits for a ticket without a thread, and the wait can be cancelled`() async throws {
    let world = try World()
    let engine = world.engine
    try await world.shutAfterOpening()
    let first = try world.waiter(0)
    while world.gate.waitingCount == 0 { await Task.yield() }
    var batch = WriteBatch()
    try batch.put([101], [1])
    let ticket = try engine.submit(batch, durability: .power)
    let wait = Task { try await ticket.wait() }
    while engine.core.syncWaiters.count == 0 { await Task.yield() }
    wait.cancel()
    #expect(await code(wait) == .canceled)
    #expect(try engine.get([101]) == [1], "the commit has happened")
    world.gate.open()
    try await first.value
    try await ticket.wait()
    #expect(engine.durableSequence >= ticket.sequence)
    var unsynced = WriteBatch()
    try unsynced.put([102], [1])
    try await engine.submit(unsynced).wait()
    try await engine.async.close()
  }

  @Test func `tasks that wait for their commits share a sync, on one thread`() async throws {
    let world = try World()
    let engine = world.engine
    try await world.shutAfterOpening()
    let before = engine.core.pipeline.log.syncCounter.load(ordering: .relaxed)
    let first = try world.waiter(0)
    while world.gate.waitingCount == 0 { await Task.yield() }
    let others = try (1...40).map { try world.waiter($0) }
    while engine.core.syncWaiters.count < 40 { await Task.yield() }
    world.gate.open()
    for task in [first] + others { try await task.value }
    #expect(engine.core.pipeline.log.syncCounter.load(ordering: .relaxed) - before == 2)
    #expect(engine.core.callThreads.count <= 2)
    #expect(engine.durableSequence == engine.visibleSequence)
    try await engine.async.close()
  }

  @Test func `after a failed sync the last commit's task gets an error, and the entries logged again are durable`()
    async throws
  {
    let world = try World()
    let engine = world.engine
    try await world.shutAfterOpening()
    let first = try world.waiter(0)
    while world.gate.waitingCount == 0 { await Task.yield() }
    let others = try (1...3).map { try world.waiter($0) }
    while engine.core.syncWaiters.count < 3 { await Task.yield() }
    world.disk.inject(Fault([.sync], pathSuffix: ".log", skip: 1))
    world.gate.open()
    #expect(await code(first) == nil)
    #expect(await code(others[0]) == nil)
    #expect(await code(others[1]) == nil)
    #expect(await code(others[2]) == .outcomeUnknown)
    #expect(engine.durableSequence == engine.visibleSequence)
    try await engine.async.close()
  }

  @Test func `a call after the close throws closed`() async throws {
    let engine = try Engine.open(at: "/db", environment: .inMemory())
    try await engine.async.close()
    var codes: [EngineError.Code] = []
    do throws(EngineError) { _ = try await engine.async.get([1]) } catch { codes.append(error.code) }
    do throws(EngineError) { try await engine.async.put([1], [1]) } catch { codes.append(error.code) }
    do throws(EngineError) { try await engine.async.flush() } catch { codes.append(error.code) }
    #expect(codes == [.closed, .closed, .closed])
    // A second close does nothing.
    try await engine.async.close()
  }

  @Test func `a close waits for calls that have begun, and cancels calls that wait for a thread`() async throws {
    let world = try World()
    let engine = world.engine
    let begun = await world.occupyAllThreads()
    let waiting = (0..<5).map { _ in Task { try await engine.async.get([1]) } }
    while engine.core.callThreads.waitingCount < 5 { await Task.yield() }
    let closing = Task { try await engine.async.close() }
    for task in waiting { #expect(await code(task) == .canceled) }
    world.gate.open()
    for task in begun { #expect(await code(task) == nil) }
    try await closing.value
  }
}

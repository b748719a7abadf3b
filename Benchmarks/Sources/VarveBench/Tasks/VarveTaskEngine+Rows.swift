import Foundation
import Synchronization
import Varve
import VarveEngine
import VarveTasks

/// Workloads that show guarantees of Varve's scheduler, for which queues without timers or snapshots have no
/// counterpart.
extension VarveTaskEngine {
  private func enqueueOne(_ number: Int, at date: Date? = nil, sync: Bool = false) async throws {
    var options = TaskOptions(queue: Self.queue(0))
    if let date { options.start = .at(date) }
    let chosen = options
    let task = BenchTask(data: Data(TaskText.bytes(number)))
    _ = try await database.write(durability: sync ? .power : .process) { tx in try tx.enqueue(task, chosen) }
  }

  /// Enqueues tasks, one per transaction, from `tasks` Swift tasks at once.
  func enqueueAtOnce(_ count: Int, tasks: Int, sync: Bool) throws {
    try wait { [self] in
      try await withThrowingTaskGroup { group in
        for first in 0..<tasks {
          group.addTask { [self] in
            for number in stride(from: first, to: count, by: tasks) { try await enqueueOne(number, sync: sync) }
          }
        }
        try await group.waitForAll()
      }
    }
  }

  /// Enqueues tasks, one per durable commit, from `tasks` Swift tasks at once, in ten parts. After each part, a single
  /// Swift task does the same for as long, so that both have the same database and the same state of the device.
  ///
  /// Returns the time of the former, and their tasks per second divided by those of the latter.
  func enqueueInGroups(_ count: Int, tasks: Int) throws -> (seconds: Double, timesSingle: Double) {
    // The first commit creates the queue.
    try enqueueAtOnce(1, tasks: 1, sync: true)
    let parts = min(10, count)
    var (seconds, singleSeconds, singleCount) = (0.0, 0.0, 0)
    for part in 0..<parts {
      let begun = Clock.now()
      try enqueueAtOnce(count * (part + 1) / parts - count * part / parts, tasks: tasks, sync: true)
      let middle = Clock.now()
      singleCount += try enqueueSingly(until: middle + (middle - begun))
      seconds += Double(middle - begun) / 1e9
      singleSeconds += Double(Clock.now() - middle) / 1e9
    }
    return (seconds, Double(count) / seconds * singleSeconds / Double(singleCount))
  }

  /// Enqueues tasks from one Swift task, one per durable commit and at least one, until a time. Returns their number.
  private func enqueueSingly(until end: UInt64) throws -> Int {
    let result = Mutex(0)
    try wait { [self] in
      var count = 0
      repeat {
        try await enqueueOne(count, sync: true)
        count += 1
      } while Clock.now() < end
      let enqueued = count
      result.withLock { $0 = enqueued }
    }
    return result.withLock { $0 }
  }

  /// Enqueues `count` tasks of which `perSecond` are due each second, runs them, and returns how late their handlers
  /// began, in nanoseconds.
  func lateness(_ count: Int, perSecond: Int) throws -> [UInt64] {
    let begin = Date().addingTimeInterval(2)
    // The scheduler stores dates in milliseconds.
    let dates = (0..<count).map { number in
      Date(
        timeIntervalSince1970: ((begin.timeIntervalSince1970 + Double(number) / Double(perSecond)) * 1_000).rounded(.up)
          / 1_000)
    }
    try database.write { tx in
      for number in 0..<count {
        var options = TaskOptions(queue: Self.queue(0))
        options.start = .at(dates[number])
        var bytes = TaskText.bytes(0)
        withUnsafeBytes(of: UInt64(number)) { bytes.replaceSubrange(0..<8, with: $0) }
        try tx.enqueue(BenchTask(data: Data(bytes)), options)
      }
    }
    let times = Mutex<[UInt64]>([])
    let scheduler = try scheduler(workers: 8, isSerial: false)
    try scheduler.register(BenchTask.self) { task, _ in
      let now = Date()
      let number = Int(task.data.withUnsafeBytes { $0.loadUnaligned(as: UInt64.self) })
      let late = now.timeIntervalSince(dates[number])
      guard late > -1e-6 else { throw EngineFailure("a task began \(-late) s before its date") }
      times.withLock { $0.append(UInt64(max(0, late) * 1e9)) }
      return .done
    }
    try wait { [self] in
      try await scheduler.start()
      while try countAll() > 0 { try await Task.sleep(for: .milliseconds(50)) }
      await scheduler.stop()
    }
    return times.withLock { $0 }
  }

  private func countAll() throws -> Int {
    try database.read { tx in
      try tx.taskQueues().reduce(0) { sum, queue in
        try sum + [.ready, .scheduled, .retryWait, .running].reduce(0) { try $0 + tx.taskCount(in: queue, $1) }
      }
    }
  }

  /// Starts a scheduler whose queue is paused, and stops it when it is idle.
  func startPaused() throws {
    try database.write { tx in try tx.pause(Self.queue(0)) }
    let scheduler = try scheduler(workers: 8, isSerial: false)
    try scheduler.register(BenchTask.self) { _, _ in .done }
    try wait {
      try await scheduler.start()
      await scheduler.waitUntilIdle()
      await scheduler.stop()
    }
  }

  /// Enqueues tasks that are due at one time, and returns when all are ready.
  ///
  /// The result has the duration of each of the transactions that put an entry meanwhile, one per millisecond, in
  /// nanoseconds.
  func writersWhileDue(_ count: Int) throws -> (seconds: Double, writes: [UInt64]) {
    let date = Date().addingTimeInterval(0.5 + Double(count) / 150_000)
    for first in stride(from: 0, to: count, by: 10_000) {
      try database.write { tx in
        var options = TaskOptions(queue: Self.queue(0))
        options.start = .at(date)
        for number in first..<min(count, first + 10_000) {
          try tx.enqueue(BenchTask(data: Data(TaskText.bytes(number))), options)
        }
      }
    }
    guard Date() < date else { throw EngineFailure("the tasks were due before all of them were enqueued") }
    let scheduler = try scheduler(workers: 8, isSerial: false)
    let result = Mutex<(seconds: Double, writes: [UInt64])>((0, []))
    try wait { [self] in
      try await scheduler.start()
      while Date() < date { try await Task.sleep(for: .milliseconds(1)) }
      let begun = Clock.now()
      var writes: [UInt64] = []
      var number = 0
      while try await database.read({ tx in try tx.taskCount(in: Self.queue(0), .ready) }) < count {
        let start = Clock.now()
        let other = QueueName("other-\(number % 100)")
        try await database.write { tx in try tx.pause(other) }
        writes.append(Clock.now() - start)
        number += 1
        try await Task.sleep(for: .milliseconds(1))
      }
      let seconds = Double(Clock.now() - begun) / 1e9
      let found = writes
      result.withLock { $0 = (seconds, found) }
      await scheduler.stop()
    }
    return result.withLock { $0 }
  }

  /// Runs the waiting tasks while an earlier snapshot is open, and returns the duration of each 1,000 tasks in
  /// nanoseconds.
  func runPinned() throws -> [UInt64] {
    let scheduler = try scheduler(workers: 8, isSerial: false)
    let state = Mutex<(count: Int, last: UInt64, times: [UInt64])>((0, Clock.now(), []))
    try scheduler.register(BenchTask.self) { _, _ in
      state.withLock { state in
        state.count += 1
        guard state.count.isMultiple(of: 1_000) else { return }
        let now = Clock.now()
        state.times.append(now - state.last)
        state.last = now
      }
      return .done
    }
    let snapshot = backend.engine.snapshot()
    try wait {
      try await scheduler.start()
      await scheduler.waitUntilIdle()
      await scheduler.stop()
    }
    withExtendedLifetime(snapshot) {}
    return state.withLock { $0.times }
  }

  /// Returns the nanoseconds from the commit of a task to the start of its handler, for `count` tasks of one limit key
  /// of a serial queue that runs one task at a time, while thousands of tasks of another key wait, a millisecond each.
  func turnTimes(_ count: Int) throws -> [UInt64] {
    var configuration = TaskScheduler.Configuration()
    configuration.queues = [.all: QueueRules(order: .serial(), concurrency: 1)]
    let scheduler = try TaskScheduler(database, configuration: configuration)
    let (stream, continuation) = AsyncStream.makeStream(of: UInt64.self)
    try scheduler.register(BenchTask.self) { task, _ in
      if task.data.first == 0 {
        continuation.yield(Clock.now())
      } else {
        // Tasks of a millisecond are claimed one by one, so that each end decides which key is next.
        try await Task.sleep(for: .milliseconds(1))
      }
      return .done
    }
    let times = Mutex<[UInt64]>([])
    let cold = BenchTask(data: Data([0] + TaskText.bytes(0).dropFirst()))
    try wait { [self] in
      try await enqueue(5_000, BenchTask(data: Data(TaskText.bytes(0))), key: "hot")
      try await scheduler.start()
      var starts = stream.makeAsyncIterator()
      for _ in 0..<count {
        let waiting = try await database.read { tx in try tx.taskCount(in: Self.queue(0), .ready) }
        if waiting < 2_500 { try await enqueue(5_000, BenchTask(data: Data(TaskText.bytes(0))), key: "hot") }
        try await enqueue(1, cold, key: "cold")
        let committed = Clock.now()
        let begun = await starts.next() ?? committed
        times.withLock { $0.append(begun > committed ? begun - committed : 0) }
      }
      await scheduler.stop()
      _ = try await database.write { tx in try tx.delete(.all) }
    }
    return times.withLock { $0 }
  }

  private func enqueue(_ count: Int, _ task: BenchTask, key: String) async throws {
    var options = TaskOptions(queue: Self.queue(0))
    options.limitKey = key
    let chosen = options
    _ = try await database.write { tx in
      try tx.enqueue(contentsOf: repeatElement(task, count: count), chosen)
    }
  }

  /// Returns how much later than its deadline `run(until:)` returned in each of `count` runs, with enough tasks, and
  /// handlers that work until they are cancelled.
  func overruns(_ count: Int) throws -> [UInt64] {
    let times = Mutex<[UInt64]>([])
    try wait { [self] in
      for number in 0..<8 { try await enqueueOne(number) }
      for _ in 0..<count {
        let scheduler = try scheduler(workers: 8, isSerial: false)
        try scheduler.register(BenchTask.self) { _, context in
          var step = 0
          while true {
            try await Task.sleep(for: .milliseconds(1))
            step += 1
            if step.isMultiple(of: 10) { try await context.checkpoint(step) }
          }
        }
        let clock = SystemSchedulerClock()
        let deadline = clock.continuousNow + .milliseconds(100)
        try await scheduler.run(until: deadline)
        let over = (clock.continuousNow - deadline).components
        times.withLock { $0.append(UInt64(over.seconds) * 1_000_000_000 + UInt64(over.attoseconds / 1_000_000_000)) }
      }
    }
    return times.withLock { $0 }
  }
}

import Foundation
import Synchronization
import Varve
import VarveEngine
import VarveTasks

/// A payload that consists of bytes already, because the cost of encoding depends on the program and is not measured.
struct BenchTask: TaskPayload {
  static let kind = "bench"
  let data: Data

  init(data: Data) { self.data = data }
  func encoded() throws -> Data { data }
  init(encoded data: Data) throws { self.data = data }
}

/// Varve's scheduler through its public API.
final class VarveTaskEngine: TaskEngine {
  let database: Database
  let backend: EngineBackend

  static var version: String { VarveAdapter.version }
  static func fileUse(_ name: String) -> FileUse { VarveAdapter.fileUse(name) }

  init(path: String, settings: EngineSettings) throws {
    backend = try EngineBackend(VarveAdapter.openEngine(path: path, settings: settings))
    let definition: DatabaseDefinition
    if settings.indexes == nil {
      definition = DatabaseDefinition { TaskStorage.handle }
    } else {
      definition = DatabaseDefinition {
        Book.self
        Indexes(count: 1).named("index")
        Listener().named("listener")
        TaskStorage.handle
      }
    }
    database = try Database.open(backend, path: path, definition: definition)
  }

  static func queue(_ number: Int) -> QueueName { QueueName("queue-\(number)") }

  func enqueue(_ count: Int, queues: Int, first: Int, sync: Bool) throws {
    try database.write(durability: sync ? .power : .process) { tx in
      var options = TaskOptions(queue: Self.queue(0))
      for number in first..<(first + count) {
        if queues > 1 { options.queue = Self.queue(number % queues) }
        try tx.enqueue(BenchTask(data: Data(TaskText.bytes(number))), options)
      }
    }
  }

  func enqueueLater(_ count: Int, first: Int) throws {
    try database.write { tx in
      var options = TaskOptions(queue: Self.queue(0))
      options.start = .at(Date().addingTimeInterval(86_400))
      for number in first..<(first + count) {
        try tx.enqueue(BenchTask(data: Data(TaskText.bytes(number))), options)
      }
    }
  }

  func scheduler(workers: Int, isSerial: Bool) throws -> TaskScheduler {
    var configuration = TaskScheduler.Configuration()
    configuration.workers = workers
    configuration.queues = [
      .all: isSerial ? QueueRules(order: .serial()) : QueueRules(order: .standard, concurrency: workers)
    ]
    return try TaskScheduler(database, configuration: configuration)
  }

  func runAll(_ count: Int, workers: Int, isSerial: Bool) throws {
    let scheduler = try scheduler(workers: workers, isSerial: isSerial)
    try scheduler.register(BenchTask.self) { _, _ in .done }
    try wait {
      try await scheduler.start()
      await scheduler.waitUntilIdle()
      await scheduler.stop()
    }
  }

  func startEndless(_ count: Int) throws {
    let scheduler = try scheduler(workers: count, isSerial: false)
    let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
    try scheduler.register(BenchTask.self) { _, _ in
      continuation.yield()
      while true { try await Task.sleep(for: .seconds(86_400)) }
    }
    try wait {
      try await scheduler.start()
      var starts = stream.makeAsyncIterator()
      for _ in 0..<count { _ = await starts.next() }
    }
  }

  func runFirstOrphan() throws -> UInt64 {
    let scheduler = try scheduler(workers: 8, isSerial: false)
    let (stream, continuation) = AsyncStream.makeStream(of: UInt64.self)
    try scheduler.register(BenchTask.self) { _, context in
      // The attempt that the process was killed in counts.
      if context.attempt > 1 { continuation.yield(Clock.now()) }
      return .done
    }
    let time = Mutex<UInt64>(0)
    try wait {
      try await scheduler.start()
      let end = Task {
        await scheduler.waitUntilIdle()
        continuation.finish()
      }
      var starts = stream.makeAsyncIterator()
      let first = await starts.next()
      end.cancel()
      await scheduler.stop()
      guard let first else { throw EngineFailure("no task ran that was running when the process was killed") }
      time.withLock { $0 = first }
    }
    return time.withLock { $0 }
  }

  /// Returns the bytes of the log's records. The files are larger, because their space is allocated in advance.
  static func bytesToReplay(path: String) throws -> UInt64 {
    var bytes: UInt64 = 0
    for name in try FileManager.default.contentsOfDirectory(atPath: path) where name.hasSuffix(".log") {
      try EngineInspector.dumpLog(at: path + "/" + name, verify: false) { line in
        // The last line of a segment with records.
        if line.hasPrefix("ends at ") { bytes += UInt64(line.dropFirst(8)) ?? 0 }
      }
    }
    return bytes
  }

  func startTimes(_ count: Int) throws -> [UInt64] {
    let scheduler = try scheduler(workers: 8, isSerial: false)
    let (stream, continuation) = AsyncStream.makeStream(of: UInt64.self)
    try scheduler.register(BenchTask.self) { _, _ in
      continuation.yield(Clock.now())
      return .done
    }
    let times = Mutex<[UInt64]>([])
    let database = database
    try wait {
      try await scheduler.start()
      var starts = stream.makeAsyncIterator()
      for number in 0..<count {
        try await Task.sleep(for: .milliseconds(1))
        let task = BenchTask(data: Data(TaskText.bytes(number)))
        _ = try await database.write { tx in try tx.enqueue(task, TaskOptions(queue: Self.queue(0))) }
        let committed = Clock.now()
        let begun = await starts.next() ?? committed
        // The handler may begin before the call to the writer has returned.
        times.withLock { $0.append(begun > committed ? begun - committed : 0) }
      }
      await scheduler.stop()
    }
    return times.withLock { $0 }
  }

  func countWaiting() throws -> Int {
    try database.read { tx in
      try tx.taskQueues().reduce(0) { $0 + (try tx.taskCount(in: $1, .ready)) }
    }
  }

  /// Runs asynchronous work, and returns when it has ended.
  func wait(_ body: @escaping @Sendable () async throws -> Void) throws {
    let ended = DispatchSemaphore(value: 0)
    let failure = Mutex<(any Error)?>(nil)
    Task.detached {
      do { try await body() } catch { failure.withLock { $0 = error } }
      ended.signal()
    }
    ended.wait()
    if let error = failure.withLock({ $0 }) { throw error }
  }

  func compact() throws { try backend.engine.compact() }

  func waitForCompaction() throws -> UInt64 {
    try backend.engine.waitForCompaction()
    return 0
  }

  func counters() -> EngineCounters { VarveAdapter.counters(backend.engine) }
  func close() throws { try database.close() }
}

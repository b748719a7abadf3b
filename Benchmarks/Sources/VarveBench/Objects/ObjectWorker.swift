import Foundation
import Synchronization

/// A thread of an object row: its session, its sequence of books, and its measurements.
///
/// Concurrency: used by one thread, or by one task while the thread that created it waits for the task. The tasks of
/// `objectinserttasks` have a recorder each, and share the session's asynchronous API and the counter of books.
final class ObjectWorker<Session: ObjectSession>: @unchecked Sendable {
  private let session: Session
  private let settings: RunSettings
  private let workload: Workload
  private let operations: Int
  private let source: BookSource
  /// The number of existing books, which have the numbers `0..<bookCount`.
  private let bookCount: Int
  private var random: SplitMix64
  private let recorder: Recorder
  /// All recorders: `recorder`, or for `objectinserttasks` one for each task.
  let recorders: [Recorder]
  private(set) var found = 0
  /// For `objectinserttasks`, the first number that no task has taken.
  private let nextNumber = Atomic<UInt64>(0)

  /// The number of ids in a call of `objectreadbatch`.
  static var idsPerBatch: Int { 100 }

  /// Creates worker number `thread` of `threads` workers that share the operations.
  init(
    _ session: Session, _ settings: RunSettings, _ workload: Workload, bookCount: Int, thread: Int = 0, threads: Int = 1
  ) {
    self.session = session
    self.settings = settings
    self.workload = workload
    self.bookCount = bookCount
    operations = settings.duration > 0 ? .max : workload.operationCount(settings) / threads
    source = BookSource(settings)
    recorders = (0..<(workload == .objectinserttasks ? settings.tasks : 1)).map { _ in
      Recorder(recordsLatency: settings.latency, duration: settings.duration)
    }
    recorder = recorders[0]
    random = SplitMix64(seed: settings.seed, stream: workload.rawValue, thread: thread)
  }

  var start: UInt64 { recorders.map(\.start).min() ?? 0 }
  var end: UInt64 { recorders.map(\.end).max() ?? 0 }

  func run() throws {
    if workload == .objectinserttasks { return try runTask { try await self.insertByTasks() } }
    recorder.begin()
    defer { recorder.stop() }
    switch workload {
    case .objectinsert: try insert(each: settings.rowsPerTransaction)
    case .objectinsertone: try insert(each: 1)
    case .objectinsertasync: try runTask { try await self.insertSuspended() }
    case .objectread, .objectreadthreads: try read { try session.read($0, $1) }
    case .objectreadraw: try read { try session.readRaw($0, $1) }
    case .objectreadbatch: try readBatches()
    case .objectreadasync: try runTask { try await self.readSuspended() }
    case .objectscan: try scan()
    case .indexlookup, .indexlookupdirect:
      try read { try session.find($0, direct: workload.isDirect, $1) }
    case .indexrange: try scan { try session.scanDates(from: $0, count: $1) }
    case .indexrangedecoded: try scan { try session.readByDate(from: $0, count: $1, direct: false) }
    case .fetch1000, .fetch1000direct: try fetch()
    case .indexcount:
      found = try session.countDates(from: .distantPast)
      _ = recorder.finish(found)
    default: throw EngineFailure("\(workload.rawValue) is not a row of objects")
    }
  }

  /// Inserts books in transactions of `size`; the latency is that of a transaction.
  private func insert(each size: Int) throws {
    var number: UInt64 = 0
    while number < UInt64(operations) {
      let count = min(size, operations - Int(number))
      try session.insert(count) {
        defer { number &+= 1 }
        return source.book(number)
      }
      guard recorder.finish(count) else { break }
    }
  }

  private func insertSuspended() async throws {
    var number: UInt64 = 0
    while number < UInt64(operations) {
      try await session.insertSuspended(source.book(number))
      number &+= 1
      guard recorder.finish() else { break }
    }
  }

  private func insertByTasks() async throws {
    try await withThrowingTaskGroup(of: Void.self) { [self] group in
      for task in recorders.indices { group.addTask { [self] in try await insertInTurn(recorders[task]) } }
      try await group.waitForAll()
    }
  }

  /// Runs one of the tasks, which inserts the next number that no other task has taken.
  private func insertInTurn(_ recorder: Recorder) async throws {
    recorder.begin()
    defer { recorder.stop() }
    while true {
      let number = nextNumber.wrappingAdd(1, ordering: .relaxed).oldValue
      guard number < UInt64(operations) else { break }
      try await session.insertSuspended(source.book(number))
      guard recorder.finish() else { break }
    }
  }

  private func read(_ body: (Int, () -> UUID) throws -> Int) throws {
    let range = UInt64(bookCount)
    var index = 0
    while index < operations {
      let count = min(settings.readsPerTransaction, operations - index)
      found &+= try body(count) { source.id(random.next(below: range)) }
      index &+= count
      guard recorder.finish(count) else { break }
    }
  }

  private func readSuspended() async throws {
    let range = UInt64(bookCount)
    for _ in 0..<operations {
      if try await session.readSuspended(source.id(random.next(below: range))) { found &+= 1 }
      guard recorder.finish() else { break }
    }
  }

  /// Reads batches by different ids, because a peer returns one row for two equal ids. They are evenly spaced in the
  /// order of insertion, which scatters them over the order of the keys.
  private func readBatches() throws {
    guard bookCount >= Self.idsPerBatch else { throw EngineFailure("objectreadbatch needs \(Self.idsPerBatch) books") }
    let range = UInt64(bookCount)
    let step = range / UInt64(Self.idsPerBatch)
    var ids: [UUID] = []
    var index = 0
    while index < operations {
      ids.removeAll(keepingCapacity: true)
      let first = random.next(below: range)
      for location in 0..<UInt64(Self.idsPerBatch) { ids.append(source.id((first &+ location &* step) % range)) }
      found &+= try session.readBatch(ids)
      index &+= ids.count
      guard recorder.finish(ids.count) else { break }
    }
  }

  /// Scans all books by their dates, in one call.
  private func scan(_ body: (Date, Int) throws -> Int) throws {
    found = try body(.distantPast, operations)
    _ = recorder.finish(found)
  }

  /// Reads 1,000 books from random dates on, so that they differ from those of the previous call.
  private func fetch() throws {
    let limit = min(1_000, bookCount)
    while found < operations {
      // The date is far enough before the last ones that enough books follow.
      let share = random.nextUnit() * (1 - Double(min(2 * limit, bookCount)) / Double(bookCount))
      let date = Date(timeIntervalSinceReferenceDate: 8e8 * share)
      let count = try session.readByDate(from: date, count: min(limit, operations - found), direct: workload.isDirect)
      guard count > 0 else { throw EngineFailure("no book from \(date) on") }
      found &+= count
      guard recorder.finish(count) else { break }
    }
  }

  private func scan() throws {
    try session.scan {
      found &+= 1
      return recorder.finish() && found < operations
    }
  }

  /// Checks that a sample of the books exists unchanged. Called outside of the measured time.
  func checkSample() throws {
    let count = min(bookCount, 200)
    for index in 0..<count {
      let expected = source.book(UInt64(index * (bookCount / count)))
      guard try session.book(expected.id) == expected else {
        throw EngineFailure("\(expected.id) is not what was inserted")
      }
    }
  }

  /// Runs `body` in one task, and waits for it.
  private func runTask(_ body: @escaping @Sendable () async throws -> Void) throws {
    let outcome = Outcome()
    Task {
      do {
        try await body()
        outcome.finish(.success(()))
      } catch {
        outcome.finish(.failure(error))
      }
    }
    try outcome.wait()
  }
}

/// The threads of `objectreadthreads`.
enum ObjectThreads {
  private static let count = 16

  /// Runs workers on separate threads, and returns them.
  static func run<Engine: ObjectEngine>(
    _ engine: Engine, _ settings: RunSettings, bookCount: Int
  ) throws -> [ObjectWorker<Engine.Session>] {
    var sessions: [Engine.Session] = []
    defer { for session in sessions { session.close() } }
    let workers = try (0..<count).map { thread in
      let session = try engine.makeSession(sync: settings.sync)
      sessions.append(session)
      return ObjectWorker(
        session, settings, .objectreadthreads, bookCount: bookCount, thread: thread, threads: count)
    }
    let outcome = Outcome(of: count)
    WorkerThreads.run(count) { index in outcome.finish(Result { try workers[index].run() }) }
    try outcome.wait()
    return workers
  }
}

/// The result of a task or of several threads, for the thread that waits for them.
private final class Outcome: Sendable {
  private let failure = Mutex<(any Error)?>(nil)
  private let isDone = DispatchSemaphore(value: 0)
  private let count: Int

  init(of count: Int = 1) { self.count = count }

  func finish(_ value: Result<Void, any Error>) {
    if case .failure(let error) = value { failure.withLock { $0 = $0 ?? error } }
    isDone.signal()
  }

  func wait() throws {
    for _ in 0..<count { isDone.wait() }
    if let error = failure.withLock({ $0 }) { throw error }
  }
}

import Foundation
import Synchronization

/// One thread of a row: its session, its generators and its measurements.
///
/// Concurrency: created by the row's thread, used by one thread, and read after that thread was joined.
final class Worker<Session: KeyValueSession>: @unchecked Sendable {
  let session: Session
  let settings: RunSettings
  let workload: Workload
  let thread: Int
  let operations: Int
  let keys: KeyWriter
  let values: ValueSource
  let recorder: Recorder
  var sequence: KeySequence
  var random: SplitMix64
  var found = 0
  /// The number of puts of a row that also reads.
  var putCount = 0
  var inserted: UInt64 = 0
  var bytesTouched = 0
  var failure: (any Error)?

  init(_ session: Session, _ settings: RunSettings, _ workload: Workload, thread: Int) {
    self.session = session
    self.settings = settings
    self.workload = workload
    self.thread = thread
    let total = workload.operationCount(settings)
    let share = total / settings.threads + (thread < total % settings.threads ? 1 : 0)
    operations = settings.duration > 0 ? .max : share
    keys = KeyWriter(keySize: settings.keySize)
    values = ValueSource(
      valueSize: settings.valueSize, compressionRatio: settings.compressionRatio,
      seed: settings.seed &+ UInt64(thread))
    recorder = Recorder(recordsLatency: settings.latency, duration: settings.duration)
    sequence = Self.sequence(workload, settings, thread: thread)
    random = SplitMix64(seed: settings.seed, stream: workload.rawValue + ".mix", thread: thread)
  }

  static func sequence(_ workload: Workload, _ settings: RunSettings, thread: Int) -> KeySequence {
    KeySequence(
      workload.keyOrder, range: workload.keyRange(settings), thread: thread, threads: settings.threads,
      random: SplitMix64(seed: settings.seed, stream: workload.rawValue, thread: thread))
  }

  func run(_ zipfian: Zipfian?) {
    recorder.begin()
    do {
      try dispatch(zipfian)
    } catch {
      failure = error
    }
    recorder.stop()
  }

  private func dispatch(_ zipfian: Zipfian?) throws {
    switch workload {
    case .readrandom, .readwhilewriting: try readRandom()
    case .readmissing: try readMissing()
    case .readseq: try readInOrder(reverse: false)
    case .readreverse: try readInOrder(reverse: true)
    case .seekrandom: try seekRandom()
    case .deleterandom: try deleteRandom()
    case .queue: try runQueue()
    case .ycsba, .ycsbb, .ycsbc, .ycsbd, .ycsbe, .ycsbf:
      guard let zipfian else { fatalError("a YCSB row is given its distribution") }
      try runYCSB(zipfian)
    case .compact, .waitforcompaction, .syncloop: fatalError("\(workload) is not an operation of a session")
    default: if settings.batchSize > 1 { try putBatches() } else { try putSingly() }
    }
  }
}

/// Runs one closure per worker on separate threads, or on the caller's thread if there is only one.
enum WorkerThreads {
  static func run(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) {
    guard count > 1 else {
      if count == 1 { body(0) }
      return
    }
    let group = DispatchGroup()
    for index in 0..<count {
      group.enter()
      let thread = Thread {
        body(index)
        group.leave()
      }
      thread.stackSize = 8 << 20
      thread.start()
    }
    group.wait()
  }
}

final class StopFlag: Sendable {
  private let flag = Atomic<Bool>(false)
  var isSet: Bool { flag.load(ordering: .relaxed) }
  func set() { flag.store(true, ordering: .relaxed) }
}

/// Identifies the last of a number of threads to arrive.
final class CountDown: Sendable {
  private let left: Atomic<Int>
  init(_ count: Int) { left = Atomic(count) }
  /// Returns true for the last arrival.
  func arrive() -> Bool { left.subtract(1, ordering: .relaxed).newValue == 0 }
}

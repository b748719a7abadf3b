import Foundation
import Synchronization
import VarveEngine

/// The workload `memoryunderreaders`: threads that read without a pause while one writes.
///
/// It is for Varve only. Each case has its own directory, which is removed afterwards.
extension EngineRun {
  /// The operation that the readers repeat.
  enum ReaderKind: String, CaseIterable, Codable {
    case get, multiget, withvalue, cursor
  }

  struct Readers: Codable {
    var kind: ReaderKind
    var threads: Int
  }

  static let readerBudget = 64 << 20
  static let readerThreadCounts = [1, 16, 64, 128]

  /// Runs every case in its own process, so that memory that the allocator keeps after one case is not counted for the
  /// next.
  func runReaders() throws -> [Row] {
    guard settings.engine == .varve else { throw EngineFailure("memoryunderreaders is a row of varve alone") }
    var rows: [Row] = []
    for kind in ReaderKind.allCases {
      for threads in Self.readerThreadCounts {
        var child = settings
        child.steps = [Step(.memoryunderreaders, readers: Readers(kind: kind, threads: threads))]
        rows += try ChildProcess.run(child)
      }
    }
    return rows
  }

  func readers(_ readers: Readers) throws -> Row {
    let (kind, threads) = (readers.kind, readers.threads)
    let path = enginePath + "-memoryunderreaders"
    try? FileManager.default.removeItem(atPath: path)
    defer { try? FileManager.default.removeItem(atPath: path) }
    var options = EngineOptions()
    options.memoryBudget = Self.readerBudget
    let engine = try Engine.open(at: path, options: options)
    let load = ReaderLoad(engine, kind, putCount: settings.underReadersNum ?? 4_200_000, seed: settings.seed)
    try load.fill()
    PeakMemory.reset()
    let usage = ProcessUsage.now()
    let start = Clock.now()
    let milliseconds = try load.run(threads: threads)
    var row = Row()
    row.engine = settings.engine.rawValue
    row.version = VarveAdapter.version
    row.workload = Workload.memoryunderreaders.rawValue
    row.variant = kind.rawValue
    row.round = settings.round
    row.threads = threads
    row.seconds = Double(Clock.now() - start) / 1e9
    row.ops = load.readCount
    row.found = row.ops
    row.writerOps = load.putCount
    row.microsPerOp = row.seconds * 1e6 / Double(max(row.ops, 1))
    row.opsPerSecond = Double(row.ops) / row.seconds
    row.cpuSeconds = Double(ProcessUsage.now().cpuNanoseconds - usage.cpuNanoseconds) / 1e9
    row.peakResidentBytes = PeakMemory.read()
    row.peakAccountedBytes = UInt64(load.usedMaximum)
    row.budgetBytes = UInt64(Self.readerBudget)
    if settings.prints {
      func mebibytes(_ bytes: UInt64) -> Double { Double(bytes) / 1_048_576 }
      print(
        String(
          format:
            "  %@, %d threads: accounted at most %.1f MiB of %.0f, resident %.1f MiB, obsolete files gone after %d ms",
          kind.rawValue as NSString, threads, mebibytes(row.peakAccountedBytes ?? 0), mebibytes(row.budgetBytes ?? 0),
          mebibytes(row.peakResidentBytes), milliseconds))
    }
    try engine.close()
    return row
  }
}

/// One writer of 1,000 bytes per put over 200,000 keys, and its readers.
private final class ReaderLoad: Sendable {
  private let engine: Engine
  private let kind: EngineRun.ReaderKind
  private let seed: UInt64
  let putCount: Int
  private let readersEnd = StopFlag()
  private let samplesEnd = StopFlag()
  private let reads = Atomic<Int>(0)
  private let usedHighest = Atomic<Int>(0)
  private let failure = Mutex<(any Error)?>(nil)

  private static let keyCount = 200_000
  private static let value = [UInt8](repeating: 7, count: 984)

  var readCount: Int { reads.load(ordering: .relaxed) }
  /// The maximum number of bytes that the engine accounted for, sampled each millisecond.
  var usedMaximum: Int { usedHighest.load(ordering: .relaxed) }

  init(_ engine: Engine, _ kind: EngineRun.ReaderKind, putCount: Int, seed: UInt64) {
    self.engine = engine
    self.kind = kind
    self.putCount = putCount
    self.seed = seed
  }

  func fill() throws {
    for number in 0..<Self.keyCount { try engine.put(Self.key(number), Self.value) }
    try engine.waitForCompaction()
  }

  /// Returns the number of milliseconds after which all obsolete files were gone, while the threads continued to read.
  func run(threads: Int) throws -> Int {
    let gone = Atomic<Int>(0)
    WorkerThreads.run(threads + 2) { [self] index in
      do {
        switch index {
        case threads: gone.store(try write(), ordering: .relaxed)
        case threads + 1: sample()
        default: try read(index)
        }
      } catch {
        failure.withLock { $0 = $0 ?? error }
      }
      if index == threads {
        readersEnd.set()
        samplesEnd.set()
      }
    }
    if let failure = failure.withLock({ $0 }) { throw failure }
    return gone.load(ordering: .relaxed)
  }

  private func write() throws -> Int {
    var random = SplitMix64(seed: seed)
    for _ in 0..<putCount {
      try engine.put(Self.key(Int(random.next() % UInt64(Self.keyCount))), Self.value)
    }
    try engine.waitForCompaction()
    let start = Clock.now()
    while engine.statistics.readers.keptFileCount > 0, Clock.now() - start < 10_000_000_000 { usleep(5_000) }
    return Int((Clock.now() - start) / 1_000_000)
  }

  private func sample() {
    while !samplesEnd.isSet {
      usedHighest.max(engine.statistics.memory.used, ordering: .relaxed)
      usleep(1_000)
    }
  }

  private func read(_ index: Int) throws {
    var random = SplitMix64(seed: seed &+ UInt64(index))
    func draw() -> [UInt8] { Self.key(Int(random.next() % UInt64(Self.keyCount))) }
    while !readersEnd.isSet {
      var isFound = true
      switch kind {
      case .get: isFound = try engine.get(draw()) != nil
      case .multiget:
        let keys = (0..<100).map { _ in draw() }
        isFound = try engine.multiGet(keys).allSatisfy { $0 != nil }
      case .withvalue:
        let key = draw()
        isFound = try engine.withValue(forKey: key.span.bytes) { _ in usleep(1_000) } != nil
      case .cursor:
        var cursor = try engine.cursor()
        try cursor.seek(draw())
        isFound = cursor.isValid
        for _ in 0..<50 where cursor.isValid { try cursor.next() }
      }
      guard isFound else { throw EngineFailure("a key is gone that was never deleted") }
      reads.add(1, ordering: .relaxed)
    }
  }

  private static func key(_ number: Int) -> [UInt8] {
    let digits = String(number)
    return Array((String(repeating: "0", count: 16 - digits.count) + digits).utf8)
  }
}

import Foundation
import Histogram
import VarveEngine

/// Workloads of range deletes, for Varve only. Each has its own directory, which is removed afterwards.
extension EngineRun {
  func runRanges(_ workload: Workload) throws -> Row {
    let (begun, path) = try beginOwnRow(workload)
    defer { try? FileManager.default.removeItem(atPath: path) }
    var row = begun
    var options = EngineOptions()
    options.memoryBudget = 512 << 20
    var engine = try Engine.open(at: path, options: options)
    try memoryOfOneBatch(engine, &row)
    try engine.close()
    try Engine.destroy(at: path)
    engine = try Engine.open(at: path, options: options)
    try engine.put(key(0), key(0))
    try rangesInTurn(engine)
    try rangesInOneBatch(engine, &row)
    try engine.close()
    return row
  }

  private func key(_ number: UInt64) -> [UInt8] { withUnsafeBytes(of: number.bigEndian) { Array($0) } }

  private func note(_ text: String) {
    if settings.prints { print("  " + text) }
  }

  private static func milliseconds(_ start: UInt64) -> Double { Double(Clock.now() - start) / 1e6 }

  /// Writes 16,000 range deletes at random keys, each followed by a `get` and a seek beside it, into their own
  /// memtable.
  private func rangesInTurn(_ engine: Engine) throws {
    var random = SplitMix64(seed: settings.seed)
    let before = PeakMemory.current()
    let start = Clock.now()
    for _ in 0..<16_000 {
      let location = random.next() >> 1
      try engine.deleteRange(from: key(location), to: key(location + 10))
      guard try engine.get(key(location + 5)) == nil else { throw EngineFailure("a key is there that never was") }
      var cursor = try engine.cursor()
      try cursor.seek(key(location + 5))
    }
    note(
      String(
        format: "16,000 range deletes, each with a get and a seek: %.1f ms, %.1f MiB", Self.milliseconds(start),
        Double(PeakMemory.current() - before) / 1_048_576))
    try engine.flush()
  }

  private var rangeDeleteCount: Int { settings.tombstoneCount ?? 400_000 }

  /// Measures the memory that a batch of as many range deletes takes in addition to itself.
  ///
  /// The engine does no other work, because the log and the memtable of another writer would be included.
  private func memoryOfOneBatch(_ engine: Engine, _ row: inout Row) throws {
    var random = SplitMix64(seed: settings.seed)
    var ranges = WriteBatch()
    for _ in 0..<rangeDeleteCount {
      let location = random.next() >> 1
      try ranges.deleteRange(from: key(location), to: key(location + 1_000))
    }
    let before = PeakMemory.current()
    PeakMemory.reset()
    let start = Clock.now()
    try engine.write(ranges)
    row.peakResidentBytes = PeakMemory.read()
    note(
      String(
        format: "%d range deletes with nothing beside them: %.3f s, %.1f MiB above the batch", rangeDeleteCount,
        Self.milliseconds(start) / 1e3, Double(Int(row.peakResidentBytes) - before) / 1_048_576))
  }

  /// Commits one batch of `num` range deletes at random keys while another thread puts, and before it a batch of as
  /// many puts of the same bytes for comparison.
  ///
  /// An operation is a range delete; the latencies are those of the other thread's puts.
  private func rangesInOneBatch(_ engine: Engine, _ row: inout Row) throws {
    let count = rangeDeleteCount
    var random = SplitMix64(seed: settings.seed)
    var puts = WriteBatch()
    var ranges = WriteBatch()
    for _ in 0..<count {
      let location = random.next() >> 1
      try puts.put(key(location), key(location))
      try ranges.deleteRange(from: key(location), to: key(location + 1_000))
    }
    let forPuts = try besideWriter(engine) { try engine.write(puts) }
    try engine.flush()
    let usage = ProcessUsage.now()
    let forRanges = try besideWriter(engine) { try engine.write(ranges) }
    row.cpuSeconds = Double(ProcessUsage.now().cpuNanoseconds - usage.cpuNanoseconds) / 1e9
    let start = Clock.now()
    _ = try engine.get(key(random.next() >> 1))
    let getMilliseconds = Self.milliseconds(start)
    note(
      String(
        format:
          "%d range deletes: %.3f s, the other writer waited for at most %.1f ms; the get after them %.1f ms",
        count, forRanges.seconds, Double(forRanges.recorder.histogram.max) / 1e6, getMilliseconds))
    note(
      String(
        format: "as many puts: %.3f s, the other writer waited for at most %.1f ms", forPuts.seconds,
        Double(forPuts.recorder.histogram.max) / 1e6))
    row.ops = count
    row.seconds = forRanges.seconds
    row.microsPerOp = row.seconds * 1e6 / Double(count)
    row.opsPerSecond = Double(count) / row.seconds
    row.writerOps = forRanges.recorder.operations
    row.take(forRanges.recorder.histogram)
  }

  /// Runs `body` while another thread puts one key after the other.
  private func besideWriter(
    _ engine: Engine, _ body: () throws -> Void
  ) throws -> (seconds: Double, recorder: Recorder) {
    let recorder = Recorder(recordsLatency: true, duration: 0)
    let writer = RangeWriter(engine, recorder)
    let thread = Thread { writer.run() }
    thread.start()
    writer.started.wait()
    let start = Clock.now()
    try body()
    let seconds = Double(Clock.now() - start) / 1e9
    writer.stop.set()
    writer.ended.wait()
    if let failure = writer.failure { throw failure }
    return (seconds, recorder)
  }
}

/// Puts 100 keys repeatedly until it is stopped.
private final class RangeWriter: @unchecked Sendable {
  // Sendable: `recorder` and `failure` are read after `ended`.
  private let engine: Engine
  private let recorder: Recorder
  let started = DispatchSemaphore(value: 0)
  let ended = DispatchSemaphore(value: 0)
  let stop = StopFlag()
  private(set) var failure: (any Error)?

  init(_ engine: Engine, _ recorder: Recorder) {
    self.engine = engine
    self.recorder = recorder
  }

  func run() {
    recorder.begin()
    do {
      var index: UInt8 = 0
      while !stop.isSet {
        try engine.put([0xff, index % 100], [index])
        index &+= 1
        if recorder.operations == 1_000 { started.signal() }
        guard recorder.finish() else { break }
      }
    } catch {
      failure = error
      started.signal()
    }
    recorder.stop()
    ended.signal()
  }
}

import Histogram

/// The latencies and the throughput per second of one thread of a row.
///
/// The clock is read once per operation: the end of one is the beginning of the next, so the time in which the harness
/// creates the next key and value is part of the latency (the cost of the empty loop is printed). Without latencies the
/// clock is read every 64 operations.
final class Recorder {
  private(set) var histogram: Histogram<UInt64>
  private(set) var operations = 0
  /// Operations completed in each full second.
  private(set) var perSecond: [UInt64] = []
  private(set) var start: UInt64 = 0
  private(set) var end: UInt64 = 0

  private let recordsLatency: Bool
  private let durationNanoseconds: UInt64
  private var last: UInt64 = 0
  private var boundary: UInt64 = 0
  private var deadline: UInt64 = .max
  private var countedBefore = 0
  private var sinceClock = 0

  /// - Parameter duration: seconds after which `finish` returns false; 0 for no limit.
  init(recordsLatency: Bool, duration: Double) {
    self.recordsLatency = recordsLatency
    durationNanoseconds = UInt64(duration * 1e9)
    // The range is an hour with three digits: 36 bits of nanoseconds, of which few pages are ever touched.
    histogram = Histogram(highestTrackableValue: 3_600_000_000_000, numberOfSignificantValueDigits: .three)
  }

  func begin() {
    last = Clock.now()
    start = last
    boundary = last + 1_000_000_000
    if durationNanoseconds > 0 { deadline = last + durationNanoseconds }
    boundary = min(boundary, deadline)
  }

  /// Records an operation, or a batch of `count`. Returns false when the row's time is over.
  @inline(__always)
  func finish(_ count: Int = 1) -> Bool {
    operations &+= count
    if recordsLatency {
      let now = Clock.now()
      histogram.record(now &- last)
      last = now
      return now < boundary || cross(now)
    }
    sinceClock &+= 1
    guard sinceClock & 63 == 0 else { return true }
    let now = Clock.now()
    return now < boundary || cross(now)
  }

  /// Counts an operation whose time is not recorded. Returns false when the row's time is over.
  @inline(__always)
  func count() -> Bool {
    operations &+= 1
    guard operations & 63 == 0 else { return true }
    let now = Clock.now()
    return now < boundary || cross(now)
  }

  /// Records the time that `body` takes without counting it as an operation.
  func time(_ body: () throws -> Void) rethrows {
    let begin = Clock.now()
    try body()
    histogram.record(Clock.now() &- begin)
  }

  /// Records a latency that other code has measured.
  func note(_ nanoseconds: UInt64) {
    histogram.record(nanoseconds)
    operations &+= 1
  }

  func stop() { end = Clock.now() }

  @inline(never)
  private func cross(_ now: UInt64) -> Bool {
    while boundary <= now && boundary < deadline {
      perSecond.append(UInt64(operations - countedBefore))
      countedBefore = operations
      boundary = min(boundary + 1_000_000_000, deadline)
    }
    return now < deadline
  }

  /// Returns the cost of the harness itself per operation in nanoseconds: the loop with key, value, clock and
  /// histogram, without an engine.
  static func emptyLoopCost(settings: RunSettings) -> Double {
    let count = 1_000_000
    let recorder = Recorder(recordsLatency: settings.latency, duration: 0)
    let keys = KeyWriter(keySize: settings.keySize)
    let values = ValueSource(
      valueSize: settings.valueSize, compressionRatio: settings.compressionRatio, seed: settings.seed)
    var sequence = KeySequence(
      .uniform, range: settings.num, thread: 0, threads: 1, random: SplitMix64(seed: settings.seed))
    var sink: UInt8 = 0
    recorder.begin()
    let start = Clock.now()
    for _ in 0..<count {
      let key = keys.key(sequence.next())
      let value = values.next()
      sink ^= key[key.count - 1] ^ value[0]
      guard recorder.finish() else { break }
    }
    let elapsed = Clock.now() - start
    return Double(elapsed) / Double(count) + (sink == 0 ? 0 : 0)
  }

  /// Returns the cost of the harness per operation of the object workloads: the loop that creates books.
  static func emptyObjectLoopCost(settings: RunSettings) -> Double {
    let count: UInt64 = 200_000
    let recorder = Recorder(recordsLatency: settings.latency, duration: 0)
    let source = BookSource(settings)
    var sink = 0
    recorder.begin()
    let start = Clock.now()
    for number in 0..<count {
      sink &+= source.book(number).touched
      guard recorder.finish() else { break }
    }
    let elapsed = Clock.now() - start
    return Double(elapsed) / Double(count) + (sink == 0 ? 0 : 0)
  }
}

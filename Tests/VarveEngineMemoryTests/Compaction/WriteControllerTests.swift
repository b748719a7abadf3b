import Testing

@testable import VarveEngine

struct WriteControllerTests {
  /// A simulated machine with continuous and discrete work: a writer, a flush thread and a compaction thread on
  /// simulated time.
  struct Machine {
    var controller: WriteController
    let memoryBudget: UInt64
    /// The bytes per second of the writer alone, of the flush, and of the compaction's writes.
    let writer, flush, compaction: Double
    /// The bytes that compactions write for each byte flushed.
    let amplification: Double
    let commitSize = 16 << 10
    let memtableSize: UInt64 = 64 << 20

    private(set) var now: UInt64 = 1
    private(set) var accepted: UInt64 = 0
    private(set) var active: UInt64 = 0
    private(set) var frozen: [Double] = []
    private(set) var debt = 0.0
    private(set) var levelZeroCount = 0
    private(set) var job: (rest: Double, whole: Double, count: Int)?
    /// The part of the debt that the running job has written.
    private var done: Double { debt > 0 ? (job.map { min($0.whole - $0.rest, debt) } ?? 0) : 0 }
    private var lastUpdate: UInt64 = 0
    private(set) var tenths: [Double] = []
    private(set) var stopCount = 0
    private(set) var longestDelay: UInt64 = 0
    private(set) var pressures: [Double] = []

    init(
      _ options: WriteController.Options = WriteController.Options(), writer: Double, flush: Double,
      compaction: Double, amplification: Double
    ) {
      controller = WriteController(options)
      memoryBudget = options.memoryBudget
      self.writer = writer
      self.flush = flush
      self.compaction = compaction
      self.amplification = amplification
    }

    var input: WriteController.Input {
      WriteController.Input(
        now: now, acceptedBytes: accepted, debtBytes: UInt64(max(debt - done, 0)),
        levelZeroDepth: Double(levelZeroCount) - (job.map { Double($0.count) * (1 - $0.rest / $0.whole) } ?? 0),
        unflushedBytes: active + UInt64(frozen.reduce(0, +)))
    }

    mutating func run(seconds: Double) {
      let end = now + UInt64(seconds * 1e9)
      while now < end {
        let delay = controller.delay(bytes: commitSize, now: now)
        // The simulated writer waits for a flush at once; in an engine it continues until its memtable is full.
        if delay == WriteController.unpaced {
          stopCount += 1
          advance(1_000_000)
          continue
        }
        longestDelay = max(longestDelay, delay)
        advance(delay + UInt64(Double(commitSize) / writer * 1e9))
        accepted += UInt64(commitSize)
        active += UInt64(commitSize)
        let tenth = Int(now / 100_000_000)
        while tenths.count <= tenth { tenths.append(0) }
        tenths[tenth] += Double(commitSize)
        if active >= memtableSize {
          frozen.append(Double(active))
          active = 0
          controller.update(input)
        }
      }
    }

    /// Performs the background work of an interval. Flushed tables and finished compactions arrive as discrete steps.
    private mutating func advance(_ nanoseconds: UInt64) {
      now += nanoseconds
      let seconds = Double(nanoseconds) / 1e9
      if !frozen.isEmpty {
        frozen[0] -= flush * seconds
        if frozen[0] <= 0 {
          frozen.removeFirst()
          levelZeroCount += 1
          if levelZeroCount > 4 { debt += Double(memtableSize) * amplification }
          controller.update(input)
        }
      }
      if job == nil, levelZeroCount >= 4 {
        let whole = Double(levelZeroCount) * Double(memtableSize) * amplification
        job = (whole, whole, levelZeroCount)
      }
      guard let running = job else { return }
      let rest = running.rest - compaction * seconds
      job?.rest = rest
      if rest <= 0 {
        levelZeroCount -= running.count
        debt = Double(max(levelZeroCount - 4, 0)) * Double(memtableSize) * amplification
        job = nil
        controller.update(input)
      } else if now - lastUpdate > 50_000_000 {
        lastUpdate = now
        controller.update(input)
      }
    }

    func seconds(from start: Int, to end: Int) -> [Double] {
      (start..<end).map { second in tenths[(second * 10)..<(second * 10 + 10)].reduce(0, +) }
    }
  }

  @Test(arguments: [
    (230e6, 600e6, 300e6, 2.5), (230e6, 600e6, 150e6, 2.5), (400e6, 300e6, 200e6, 3.0), (230e6, 600e6, 100e6, 5.0),
  ]) func `an overload is paced without stops or sudden changes, and settles at the sustainable rate`(
    writer: Double, flush: Double, compaction: Double, amplification: Double
  ) {
    var machine = Machine(writer: writer, flush: flush, compaction: compaction, amplification: amplification)
    machine.run(seconds: 121)
    let sustainable = compaction / amplification
    let seconds = machine.seconds(from: 1, to: 120)
    let median = seconds.sorted()[seconds.count / 2]
    let worst = seconds.min() ?? 0
    let steps = zip(machine.tenths[10..<1_200], machine.tenths[11..<1_200]).map { $1 / max($0, 1) }
    #expect(machine.stopCount == 0)
    #expect(worst >= 0.7 * median)
    #expect((steps.min() ?? 0) >= 0.8)
    #expect((steps.max() ?? 9) <= 1.2)
    #expect(machine.longestDelay <= 100_000_000)
    let last = machine.seconds(from: 90, to: 120).reduce(0, +) / 30
    #expect(last >= 0.8 * sustainable && last <= 1.05 * sustainable)
  }

  @Test func `no write waits while the background work keeps up`() {
    var machine = Machine(writer: 100e6, flush: 500e6, compaction: 500e6, amplification: 2)
    machine.run(seconds: 30)
    #expect(machine.longestDelay == 0)
    #expect(machine.controller.isFree)
  }

  @Test func `a flush that is slower than the writer leads to pacing and not to stops`() {
    var machine = Machine(writer: 230e6, flush: 60e6, compaction: 1e9, amplification: 1)
    machine.run(seconds: 60)
    let last = machine.seconds(from: 30, to: 60).reduce(0, +) / 30
    #expect(machine.stopCount == 0)
    #expect(last > 50e6 && last < 66e6)
  }

  @Test func `writes at the memory budget are not paced without a rate, and are free after a flush`() {
    let controller = WriteController()
    var input = WriteController.Input(
      now: 1, acceptedBytes: 0, debtBytes: 0, levelZeroDepth: 0, unflushedBytes: 256 << 20)
    controller.update(input)
    #expect(controller.delay(bytes: 100, now: 2) == WriteController.unpaced)
    input.unflushedBytes = 64 << 20
    controller.update(input)
    #expect(controller.delay(bytes: 100, now: 3) == 0)
  }
}

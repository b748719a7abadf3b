import EngineTestSupport
import Testing

@testable import VarveEngine

/// The picker under whole workloads, with real keys and imagined bytes at a fiftieth of the size.
struct CompactionSimulationTests {
  static let scale = 50

  static var options: CompactionPickerOptions {
    var options = CompactionPickerOptions()
    options.memtableSize /= UInt64(scale)
    options.targetFileSize /= UInt64(scale)
    return options
  }

  /// Entries of 116 bytes with some overhead in 64 MiB.
  static let memtableCount = (64 << 20) / 134 / scale

  static func fill(_ simulator: inout CompactionSimulator, from start: Int, count: Int, _ key: (Int) -> UInt32) throws {
    var memtable: [UInt64] = []
    for index in start..<(start + count) {
      memtable.append(CompactionSimulator.entry(key(index), UInt32(index + 1)))
      if memtable.count == memtableCount {
        try simulator.flush(memtable)
        memtable = []
      }
    }
    if !memtable.isEmpty { try simulator.flush(memtable) }
  }

  @Test func explore() throws {
    for (name, change) in [
      ("default", { _ in }), ("m10", { $0.levelMultiplierMaximum = 10 }), ("m6", { $0.levelMultiplierMaximum = 6 }),
      ("trigger 8", { $0.levelZeroDepthTrigger = 8 }), ("trigger 6", { $0.levelZeroDepthTrigger = 6 }),
    ] as [(String, (inout CompactionPickerOptions) -> Void)] {
      var options = Self.options
      change(&options)
      for speed in [nil, 3.0] as [Double?] {
        for total in [5_000_000, 20_000_000, 80_000_000] {
          let count = total / Self.scale
          var random = SeededRandom(seed: 1)
          var simulator = CompactionSimulator(
            options, bytesPerMemtable: speed.map { UInt64($0 * Double(Self.memtableCount) * 60 / 2) })
          try Self.fill(&simulator, from: 0, count: count) { _ in UInt32(random.below(count)) }
          try simulator.settle()
          print(name, speed ?? 0, total, "random:", simulator.report)
          try Self.fill(&simulator, from: count, count: count) { _ in UInt32(random.below(count)) }
          try simulator.settle()
          print(name, speed ?? 0, total, "+ overwrite:", simulator.report)
        }
      }
    }
  }
}

import EngineTestSupport
import Testing

@testable import VarveEngine

struct LatencyHistogramTests {
  @Test func `every time is in the bucket whose bounds hold it`() {
    var random = SeededRandom(seed: 7)
    var times: [UInt64] = Array(0..<2_000)
    for exponent in 4..<42 {
      let power = UInt64(1) << UInt64(exponent)
      times += [power - 1, power, power + 1, power + UInt64(random.below(Int(power)))]
    }
    for time in times {
      let index = LatencyBuckets.index(time)
      #expect(time <= LatencyBuckets.last(index), "\(time)")
      #expect(index == 0 || time > LatencyBuckets.last(index - 1), "\(time)")
    }
    for index in 1..<LatencyBuckets.count { #expect(LatencyBuckets.last(index) > LatencyBuckets.last(index - 1)) }
  }

  @Test func `a time above the last bucket counts there, and as the longest`() {
    var histogram = LatencyHistogram()
    histogram.record(.max)
    #expect(histogram.percentile(50) == .max)
    #expect(histogram.maximumNanoseconds == .max)
    #expect(LatencyBuckets.index(1 << 42) == LatencyBuckets.count - 1)
  }

  @Test(arguments: [11, 12, 13] as [UInt64])
  func `a percentile is not below the true one, and less than a sixteenth above`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var histogram = LatencyHistogram()
    // The times are spread over all magnitudes.
    let times = (0..<5_000).map { _ in UInt64(random.below(1 << (4 + random.below(36)))) }.sorted()
    for time in times { histogram.record(time) }
    for percent in [0, 1, 50, 90, 99, 99.9, 100] {
      let rank = max(Int((percent / 100 * Double(times.count)).rounded(.up)), 1)
      let exact = times[rank - 1]
      let found = histogram.percentile(percent)
      #expect(found >= exact, "\(percent) of seed \(seed)")
      #expect(found <= exact + exact / 16, "\(percent) of seed \(seed)")
    }
    #expect(histogram.count == 5_000)
    #expect(histogram.totalNanoseconds == times.reduce(0, +))
    #expect(histogram.maximumNanoseconds == times.last)
    #expect(histogram.nonEmptyBuckets.reduce(0) { $0 + $1.count } == 5_000)
  }

  @Test func `merging two histograms equals recording all times, and subtracting one reverses it`() {
    var random = SeededRandom(seed: 3)
    var (first, second, both) = (LatencyHistogram(), LatencyHistogram(), LatencyHistogram())
    for index in 0..<1_000 {
      let time = UInt64(random.below(1 << 20))
      if index % 3 == 0 { first.record(time) } else { second.record(time) }
      both.record(time)
    }
    var merged = first
    merged.merge(second)
    #expect(merged == both)
    merged.merge(LatencyHistogram())
    #expect(merged == both)
    let rest = merged.subtracting(first)
    #expect(rest.count == second.count)
    #expect(rest.totalNanoseconds == second.totalNanoseconds)
    #expect(rest.percentile(50) == second.percentile(50))
  }

  @Test func `an empty histogram has no percentiles`() {
    let empty = LatencyHistogram()
    #expect(empty.isEmpty && empty.percentile(99) == 0 && empty.meanNanoseconds == 0)
    #expect(LatencyRecorder().histogram == empty)
  }

  @Test func `threads that record at once lose nothing`() async {
    let recorder = LatencyRecorder()
    await withTaskGroup(of: Void.self) { group in
      for thread in 0..<4 {
        group.addTask { for index in 0..<10_000 { recorder.record(UInt64(index * (thread + 1))) } }
      }
    }
    let histogram = recorder.histogram
    #expect(histogram.count == 40_000)
    #expect(histogram.totalNanoseconds == 10 * (0..<10_000).reduce(0) { $0 + UInt64($1) })
    #expect(histogram.maximumNanoseconds == 4 * 9_999)
  }

  @Test(arguments: [1, 2, 3, 63, 64, 65, 1_000, 4_096] as [UInt64])
  func `whatever the step of the sequences, about one in 64 is timed`(step: UInt64) {
    let count: UInt64 = 64_000
    let timed = (0..<count).filter { OperationLatencies.isSample(SequenceNumber($0 * step)) }.count
    #expect((900...1_100).contains(timed), "\(timed) of \(count)")
  }
}

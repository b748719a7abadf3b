/// The distribution of an operation's durations, as counts in buckets that are a sixteenth of their value wide.
///
/// ```swift
/// let get = engine.statistics.latencies.get
/// print("p50 \(get.percentile(50)) ns, p99.9 \(get.percentile(99.9)) ns")
/// ```
///
/// A histogram is a value: those of several engines, or of one engine at several times, are combined by `merge`. The
/// durations recorded between two readings are `later.subtracting(earlier)`.
///
/// Complexity: `record` is O(1), everything else O(buckets), of which there are 624. All times are in nanoseconds;
/// durations over 73 minutes are in one bucket, whose percentiles are the longest duration.
public struct LatencyHistogram: Sendable, Hashable {
  /// The number of recorded durations.
  public private(set) var count: UInt64 = 0
  /// The sum of the durations, in nanoseconds.
  public private(set) var totalNanoseconds: UInt64 = 0
  /// The longest duration, in nanoseconds; after `subtracting`, that of the later reading or of the earlier one.
  public private(set) var maximumNanoseconds: UInt64 = 0
  /// The counts by bucket. The array is empty until a duration is recorded.
  private var buckets: [UInt64] = []

  /// Creates an empty histogram.
  public init() {}

  init(buckets: [UInt64], totalNanoseconds: UInt64, maximumNanoseconds: UInt64) {
    count = buckets.reduce(0, &+)
    guard count > 0 else { return }
    self.buckets = buckets
    self.totalNanoseconds = totalNanoseconds
    self.maximumNanoseconds = maximumNanoseconds
  }

  /// A Boolean value that indicates whether the histogram is empty.
  public var isEmpty: Bool { count == 0 }

  /// The arithmetic mean in nanoseconds, or 0 for an empty histogram.
  public var meanNanoseconds: Double { count == 0 ? 0 : Double(totalNanoseconds) / Double(count) }

  /// Records one operation that took `nanoseconds`.
  public mutating func record(_ nanoseconds: UInt64) {
    if buckets.isEmpty { buckets = [UInt64](repeating: 0, count: LatencyBuckets.count) }
    buckets[LatencyBuckets.index(nanoseconds)] &+= 1
    count &+= 1
    totalNanoseconds &+= nanoseconds
    maximumNanoseconds = max(maximumNanoseconds, nanoseconds)
  }

  /// Adds the counts of another histogram.
  public mutating func merge(_ other: LatencyHistogram) {
    guard other.count > 0 else { return }
    if buckets.isEmpty { buckets = [UInt64](repeating: 0, count: LatencyBuckets.count) }
    for index in buckets.indices { buckets[index] &+= other.buckets[index] }
    count &+= other.count
    totalNanoseconds &+= other.totalNanoseconds
    maximumNanoseconds = max(maximumNanoseconds, other.maximumNanoseconds)
  }

  /// Returns the durations recorded after `earlier`, an earlier reading of the same recorder. A bucket with a lower
  /// count than in `earlier` counts as 0.
  public func subtracting(_ earlier: LatencyHistogram) -> LatencyHistogram {
    guard earlier.count > 0, count > 0 else { return self }
    var rest = buckets
    for index in rest.indices { rest[index] -= min(rest[index], earlier.buckets[index]) }
    return LatencyHistogram(
      buckets: rest, totalNanoseconds: totalNanoseconds - min(totalNanoseconds, earlier.totalNanoseconds),
      maximumNanoseconds: maximumNanoseconds)
  }

  /// Returns the time in nanoseconds within which `percent` percent of the operations ended.
  ///
  /// The result is never below the true value, and less than a sixteenth above it up to 73 minutes. It is 0 for an
  /// empty histogram. `percent` is clamped to 0 through 100.
  public func percentile(_ percent: Double) -> UInt64 {
    guard count > 0 else { return 0 }
    let share = min(max(percent, 0), 100) / 100
    let rank = max(UInt64((share * Double(count)).rounded(.up)), 1)
    var sum: UInt64 = 0
    for (index, value) in buckets.enumerated() where value > 0 {
      sum &+= value
      if sum >= rank { return min(LatencyBuckets.last(index), maximumNanoseconds) }
    }
    return maximumNanoseconds
  }

  /// The nonempty buckets, ascending, each with its longest duration and its count.
  public var nonEmptyBuckets: [(upToNanoseconds: UInt64, count: UInt64)] {
    buckets.enumerated().filter { $1 > 0 }.map { (LatencyBuckets.last($0), $1) }
  }
}

/// The buckets of a histogram, whose widths are log-linear.
///
///     0 ..< 16         one a nanosecond
///     2^e ..< 2^(e+1)  sixteen of equal width, for e from 4 to 41
enum LatencyBuckets {
  private static let subdivisionBits = 4
  private static let subdivisions = 1 << subdivisionBits
  private static let exponentMaximum = 41
  static let count = (exponentMaximum - subdivisionBits + 2) * subdivisions

  /// Returns the index of the bucket of a duration.
  @inline(__always)
  static func index(_ nanoseconds: UInt64) -> Int {
    if nanoseconds < UInt64(subdivisions) { return Int(truncatingIfNeeded: nanoseconds) }
    let exponent = 63 &- nanoseconds.leadingZeroBitCount
    if exponent > exponentMaximum { return count &- 1 }
    let shift = exponent &- subdivisionBits
    let low = Int(truncatingIfNeeded: nanoseconds &>> UInt64(truncatingIfNeeded: shift)) & (subdivisions &- 1)
    return (shift &+ 1) &* subdivisions &+ low
  }

  /// Returns the longest duration of a bucket.
  static func last(_ index: Int) -> UInt64 {
    guard index >= subdivisions else { return UInt64(index) }
    guard index < count - 1 else { return .max }
    let shift = UInt64(index / subdivisions - 1)
    return (UInt64(index % subdivisions + subdivisions + 1) << shift) - 1
  }
}

/// The code of a histogram: the buckets that are not empty, so that a reader can subtract an earlier code, and the
/// usual percentiles for those who only show them.
///
///     {"samples":64,"total":9120,"mean":142,"p50":135,"p90":159,"p99":199,"p999":199,"max":187,
///      "buckets":[[135,40],[159,22],[199,2]]}
///
/// Each bucket is its longest duration and its count. Times are in nanoseconds.
extension LatencyHistogram: Codable {
  private enum CodingKeys: String, CodingKey {
    case samples, total, mean, p50, p90, p99, p999, max, buckets
  }

  /// Decodes a histogram from its total, its longest duration and its buckets. The other members follow from them.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    let total = try container.decode(UInt64.self, forKey: .total)
    let maximum = try container.decode(UInt64.self, forKey: .max)
    var buckets = [UInt64](repeating: 0, count: LatencyBuckets.count)
    for bucket in try container.decode([[UInt64]].self, forKey: .buckets) {
      guard bucket.count == 2 else {
        throw DecodingError.dataCorruptedError(
          forKey: .buckets, in: container,
          debugDescription: "a bucket has \(bucket.count) numbers; expected are a duration and a count")
      }
      buckets[LatencyBuckets.index(bucket[0])] &+= bucket[1]
    }
    self.init(buckets: buckets, totalNanoseconds: total, maximumNanoseconds: maximum)
  }

  /// Encodes the histogram.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(count, forKey: .samples)
    try container.encode(totalNanoseconds, forKey: .total)
    try container.encode(meanNanoseconds.rounded(), forKey: .mean)
    try container.encode(percentile(50), forKey: .p50)
    try container.encode(percentile(90), forKey: .p90)
    try container.encode(percentile(99), forKey: .p99)
    try container.encode(percentile(99.9), forKey: .p999)
    try container.encode(maximumNanoseconds, forKey: .max)
    try container.encode(nonEmptyBuckets.map { [$0.upToNanoseconds, $0.count] }, forKey: .buckets)
  }
}

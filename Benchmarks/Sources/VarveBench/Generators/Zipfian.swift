import Foundation

/// YCSB's zipfian distribution (constant 0.99), optionally scrambled so that the popular keys are spread over the
/// range.
struct Zipfian {
  private static let theta = 0.99

  private let count: UInt64
  private let alpha: Double
  private let zeta: Double
  private let eta: Double
  private let scrambled: Bool

  /// - Complexity: O(`count`) once, outside the measured time.
  init(count: Int, scrambled: Bool) {
    let count = max(count, 2)
    var zeta = 0.0
    for rank in 1...count { zeta += 1 / pow(Double(rank), Self.theta) }
    let zetaOfTwo = 1 + 1 / pow(2, Self.theta)
    self.count = UInt64(count)
    self.zeta = zeta
    self.scrambled = scrambled
    alpha = 1 / (1 - Self.theta)
    eta = (1 - pow(2 / Double(count), 1 - Self.theta)) / (1 - zetaOfTwo / zeta)
  }

  /// Returns a rank in `0..<count`, where 0 is the most popular, or a hash of it if scrambled.
  func next(_ random: inout SplitMix64) -> UInt64 {
    let unit = random.nextUnit()
    let scaled = unit * zeta
    let rank: UInt64
    if scaled < 1 {
      rank = 0
    } else if scaled < 1 + pow(0.5, Self.theta) {
      rank = 1
    } else {
      rank = min(count - 1, UInt64(Double(count) * pow(eta * unit - eta + 1, alpha)))
    }
    guard scrambled else { return rank }
    var hash = SplitMix64(seed: rank)
    return hash.next() % count
  }
}

/// The delays after failures of a task.
///
/// The value is stored with the task: the one that a task was enqueued with applies to it, even if the program uses
/// another one later.
public enum Retry: Hashable, Codable, Sendable {
  /// The task is not run again: its first failure makes it dead.
  case never
  /// The same delay after each failure.
  case fixed(Duration)
  /// The delays after the first failure, the second and so on; the last one is repeated. Without delays this is
  /// `.never`.
  case steps([Duration])
  /// A delay of `base` after the first failure, `factor` times as much after each further failure, and at most `cap`.
  ///
  /// A random part of up to `jitter` of the delay is then added or subtracted, so that tasks which failed together do
  /// not run again together: 0.1 is a tenth.
  case exponential(
    base: Duration = .seconds(1), factor: Double = 2, cap: Duration = .seconds(3_600), jitter: Double = 0.1)

  /// Returns the delay after a number of failures, from 1, or `nil` if the task is not run again. `chance` is from 0 to
  /// 1.
  func delay(failures: UInt32, chance: Double) -> Duration? {
    switch self {
    case .never: return nil
    case .fixed(let delay): return max(delay, .zero)
    case .steps(let delays):
      if delays.isEmpty { return nil }
      return max(delays[min(Int(max(failures, 1)), delays.count) - 1], .zero)
    case .exponential(let base, let factor, let cap, let jitter):
      let (base, cap) = (max(base, .zero).secondCount, max(cap, .zero).secondCount)
      // The power may be infinite and the product not a number; both mean the cap.
      let grown = base * Double.pow(max(factor, 1), Int(min(max(failures, 1) - 1, 10_000)))
      let delay = grown < cap ? grown : cap
      let part = min(max(jitter, 0), 1) * (chance * 2 - 1)
      return .milliseconds(Int64((max(0, delay * (1 + part)) * 1_000).rounded()))
    }
  }

  /// The reason why the value can't be used, or `nil` if it can.
  var refusal: String? {
    let delays: [Duration] =
      switch self {
      case .never: []
      case .fixed(let delay): [delay]
      case .steps(let delays): delays
      case .exponential(let base, _, let cap, _): [base, cap]
      }
    if let delay = delays.first(where: { $0 < .zero }) { return "a delay of \(delay) is negative" }
    guard case .exponential(_, let factor, _, let jitter) = self else { return nil }
    if !(factor >= 1 && factor.isFinite) { return "the factor \(factor) is not at least 1" }
    return jitter >= 0 && jitter <= 1 ? nil : "the jitter \(jitter) is not from 0 to 1"
  }
}

extension Double {
  /// Returns a power, computed by repeated squaring.
  fileprivate static func pow(_ base: Double, _ exponent: Int) -> Double {
    var (result, square, left) = (1.0, base, exponent)
    while left > 0 {
      if left & 1 == 1 { result *= square }
      square *= square
      left >>= 1
    }
    return result
  }
}

extension Duration {
  /// The longest duration that is used: the time from 1970 to the end of the year 9999.
  static let longest = Duration.milliseconds(WallTime.latest)

  /// The duration, or the longest one if it is longer: sums of two and numbers of their seconds can be computed.
  var clipped: Duration { min(max(self, Duration.zero - .longest), .longest) }

  /// The duration in seconds, at most those of the longest duration.
  var secondCount: Double {
    let (seconds, attoseconds) = clipped.components
    return Double(seconds) + Double(attoseconds) * 1e-18
  }

  /// The duration in whole milliseconds, rounded up so that no task is due too early, and at most those of the longest
  /// duration.
  var milliseconds: Int64 {
    let (seconds, attoseconds) = clipped.components
    let (whole, rest) = attoseconds.quotientAndRemainder(dividingBy: 1_000_000_000_000_000)
    return seconds * 1_000 + whole + (rest > 0 ? 1 : 0)
  }
}

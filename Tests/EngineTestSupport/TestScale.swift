#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// How much longer than in CI the random and exhaustive suites run: `VARVE_TEST_SCALE`, 1 where it is
/// not set. Below 1 those that count by `count` are shorter, for runs under a sanitizer.
public enum TestScale {
  /// At least 1.
  public static let value: Int = max(1, Int(factor))

  /// `count` times the scale, at least 1.
  public static func count(_ count: Int) -> Int { max(1, Int(Double(count) * factor)) }

  /// `count` times the scale where that is less, at least 1: for suites of threads, which are long enough in CI.
  public static func atMost(_ count: Int) -> Int { min(count, self.count(count)) }

  /// Whether suites are at least as long as in CI: only then is what they draw a fair sample.
  public static var isWhole: Bool { factor >= 1 }

  private static let factor: Double = {
    // Safety: the environment is not changed while tests run.
    guard let text = unsafe getenv("VARVE_TEST_SCALE"), let number = unsafe Double(String(cString: text)),
      number > 0, number <= 1_000_000
    else { return 1 }
    return number
  }()
}

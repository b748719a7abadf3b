#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// The factor by which the random and exhaustive suites run longer than in CI.
///
/// It is read from `VARVE_TEST_SCALE`, and is 1 if that is not set. Below 1, the suites that use `count` are shorter,
/// for runs under a sanitizer.
public enum TestScale {
  /// The factor as a whole number, at least 1.
  public static let value: Int = max(1, Int(factor))

  /// Returns `count` multiplied by the factor, at least 1.
  public static func count(_ count: Int) -> Int { max(1, Int(Double(count) * factor)) }

  /// Returns the smaller of `count` and `count` multiplied by the factor, at least 1.
  ///
  /// Suites of threads use it: they are long enough in CI.
  public static func atMost(_ count: Int) -> Int { min(count, self.count(count)) }

  /// Whether suites are at least as long as in CI. Only then are their random draws a fair sample.
  public static var isWhole: Bool { factor >= 1 }

  /// The only seed that a random suite is to run, from `VARVE_TEST_SEED`, or `nil`.
  public static let seed: UInt64? = {
    // Safety: the environment is not changed while tests run.
    guard let text = unsafe getenv("VARVE_TEST_SEED") else { return nil }
    return unsafe UInt64(String(cString: text))
  }()

  private static let factor: Double = {
    // Safety: the environment is not changed while tests run.
    guard let text = unsafe getenv("VARVE_TEST_SCALE"), let number = unsafe Double(String(cString: text)),
      number > 0, number <= 1_000_000
    else { return 1 }
    return number
  }()
}

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// How much longer than in CI the random and exhaustive suites run: `VARVE_TEST_SCALE`, 1 where it is
/// not set.
public enum TestScale {
  /// At least 1.
  public static let value: Int = {
    // Safety: the environment is not changed while tests run.
    guard let text = unsafe getenv("VARVE_TEST_SCALE") else { return 1 }
    return max(1, unsafe Int(String(cString: text)) ?? 1)
  }()
}

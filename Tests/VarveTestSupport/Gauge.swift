internal import Synchronization

/// The present and the greatest number of things that happen at once, by a key. Safe from any thread.
public final class Gauge: Sendable {
  private let counts = Mutex<[String: (now: Int, most: Int)]>([:])

  /// Creates a gauge whose numbers are 0.
  public init() {}

  /// Adds to the present number of a key, and returns it.
  @discardableResult
  public func add(_ number: Int, _ key: String = "") -> Int {
    counts.withLock { counts in
      var count = counts[key] ?? (0, 0)
      count.now += number
      count.most = max(count.most, count.now)
      counts[key] = count
      return count.now
    }
  }

  /// Returns the greatest number of a key so far.
  public func most(_ key: String = "") -> Int { counts.withLock { $0[key]?.most ?? 0 } }

  /// The keys that were added to.
  public var keys: Set<String> { counts.withLock { Set($0.keys) } }
  /// The greatest number of any key so far.
  public var maximum: Int { counts.withLock { $0.values.map(\.most).max() ?? 0 } }
  /// The present numbers of all keys together.
  public var total: Int { counts.withLock { $0.values.reduce(0) { $0 + $1.now } } }
}

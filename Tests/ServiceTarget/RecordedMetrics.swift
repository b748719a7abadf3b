#if Service
  import MetricsTestKit
  import Synchronization

  /// The error for a metric or a trace that is not as it should be.
  struct Wrong: Error, CustomStringConvertible { let description: String }

  func require(_ isSo: Bool, _ what: String) throws {
    if !isSo { throw Wrong(description: what) }
  }

  /// The metrics that were reported. Each method takes those with a name that have all of some dimensions.
  struct RecordedMetrics: Sendable {
    let factory = TestMetrics()

    private func has(_ dimensions: [(String, String)], _ wanted: [String: String]) -> Bool {
      wanted.allSatisfy { name, value in dimensions.contains { $0.0 == name && $0.1 == value } }
    }

    /// Returns the sum of counters.
    func count(_ name: String, _ wanted: [String: String] = [:]) -> Int64 {
      factory.counters.filter { $0.label == name && has($0.dimensions, wanted) }.reduce(0) { $0 + $1.totalValue }
    }

    /// Returns the values of timers, in nanoseconds.
    func values(_ name: String, _ wanted: [String: String] = [:]) -> [Int64] {
      factory.timers.filter { $0.label == name && has($0.dimensions, wanted) }.flatMap(\.values)
    }

    /// Returns the last value of a gauge, or `nil` if it was never set.
    func gauge(_ name: String, _ wanted: [String: String] = [:]) -> Double? {
      factory.recorders.first { $0.label == name && has($0.dimensions, wanted) }?.lastValue
    }

    /// Waits until a counter has a value. An event is counted after the change that it reports.
    func reach(_ name: String, _ value: Int64, _ wanted: [String: String] = [:]) async {
      await wait { count(name, wanted) == value }
    }

    /// Waits until a condition holds that other threads bring about.
    func wait(_ condition: () -> Bool) async { while !condition() { await Task.yield() } }
  }

  /// A gate at which handlers wait while it is closed, even if they are cancelled.
  final class Hold: Sendable {
    private struct State {
      var isClosed = false
      var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    /// The number of handlers that wait.
    var count: Int { state.withLock { $0.waiters.count } }

    func close() { state.withLock { $0.isClosed = true } }

    func open() {
      let waiters = state.withLock { state in
        state.isClosed = false
        defer { state.waiters = [] }
        return state.waiters
      }
      for waiter in waiters { waiter.resume() }
    }

    func wait() async {
      await withCheckedContinuation { continuation in
        let isClosed = state.withLock { state in
          if state.isClosed { state.waiters.append(continuation) }
          return state.isClosed
        }
        if !isClosed { continuation.resume() }
      }
    }
  }
#endif

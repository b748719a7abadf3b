internal import Synchronization

/// Counts the attempts that have ended in the last minute, by queue and kind, in steps of 5 seconds.
///
/// Safe from any thread.
final class TaskRates: Sendable {
  struct Key: Hashable, Sendable {
    let queue: QueueName
    let kind: String
  }

  /// Numbers of attempts: those that have ended their task, and those that have failed. An attempt that makes its task
  /// dead counts as both.
  struct Counts: Hashable, Sendable {
    var settled = 0
    var failed = 0

    static func + (left: Counts, right: Counts) -> Counts {
      Counts(settled: left.settled + right.settled, failed: left.failed + right.failed)
    }
  }

  /// The counts of the last steps. That of a step is at its number modulo their count.
  struct Window: Sendable {
    private var steps = [Counts](repeating: Counts(), count: TaskRates.stepCount)
    private(set) var last: Int64

    init(at step: Int64) { last = step }

    mutating func move(to step: Int64) {
      if step <= last { return }
      for number in max(last + 1, step - Int64(TaskRates.stepCount) + 1)...step { steps[Self.index(number)] = Counts() }
      last = step
    }

    mutating func add(_ counts: Counts) {
      let index = Self.index(last)
      steps[index] = steps[index] + counts
    }

    var sum: Counts { steps.reduce(Counts(), +) }

    private static func index(_ step: Int64) -> Int { Int(step % Int64(TaskRates.stepCount)) }
  }

  private struct State {
    var windows: [Key: Window] = [:]
    var begin: Duration?
  }

  /// The length of a step in seconds.
  private static let stepSeconds: Int64 = 5
  static let stepCount = 12
  /// The number of windows from which on those without attempts in the last minute are removed.
  private static let windowMaximum = 4_096

  private let state = Mutex(State())

  private static func step(_ now: Duration) -> Int64 { max(0, now.components.seconds) / stepSeconds }

  /// Notes from when on attempts are counted.
  func begin(_ now: Duration) { state.withLock { $0.begin = $0.begin ?? now } }

  /// Adds attempts that have ended.
  func note(_ ends: some Sequence<(key: Key, counts: Counts)>, at now: Duration) {
    let step = Self.step(now)
    state.withLock { state in
      for (key, counts) in ends {
        var window = state.windows.removeValue(forKey: key) ?? Window(at: step)
        window.move(to: step)
        window.add(counts)
        state.windows[key] = window
      }
      if state.windows.count > Self.windowMaximum {
        state.windows = state.windows.filter { $0.value.last > step - Int64(Self.stepCount) }
      }
    }
  }

  /// Returns the counts of the last minute, without those that are 0, and the time for which attempts have been
  /// counted.
  func counts(_ now: Duration) -> (counts: [Key: Counts], time: Duration) {
    let step = Self.step(now)
    return state.withLock { state in
      for key in Array(state.windows.keys) { state.windows[key]?.move(to: step) }
      let counts = state.windows.mapValues(\.sum).filter { $0.value != Counts() }
      return (counts, state.begin.map { max(.zero, now - $0) } ?? .zero)
    }
  }
}

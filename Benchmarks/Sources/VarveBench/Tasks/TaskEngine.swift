import Foundation

/// A persistent task queue. Its handlers do no work.
protocol TaskEngine: MeasuredEngine {
  /// Enqueues tasks in one transaction, each with a payload of 200 bytes, into the queues in turn.
  ///
  /// With `sync` they survive a power loss.
  func enqueue(_ count: Int, queues: Int, first: Int, sync: Bool) throws
  /// Runs all waiting tasks by `workers` workers, and returns when the end of each is written.
  ///
  /// With `isSerial`, the tasks of a queue run one after the other.
  func runAll(_ count: Int, workers: Int, isSerial: Bool) throws
  /// Returns the nanoseconds from the commit of a task to the start of its handler on an idle engine, for `count`
  /// tasks.
  func startTimes(_ count: Int) throws -> [UInt64]
  /// Starts to run tasks, and stops. Returns the time at which the first task began, by `Clock`.
  func runFirst() throws -> UInt64
  /// Returns the number of waiting tasks.
  func countWaiting() throws -> Int
}

/// The payload of a task, 200 bytes.
struct TaskText {
  static let size = 200

  /// Returns the payload with a number, followed by letters.
  static func bytes(_ number: Int) -> [UInt8] {
    var bytes = template
    for index in 0..<8 { bytes[index] = UInt8(48 + (number >> (4 * index)) & 15) }
    return bytes
  }

  private static let template = (0..<size).map { UInt8(97 + $0 * 7 % 26) }
}

import Foundation

/// A queue of tasks that outlives its process. Handlers do nothing.
protocol TaskEngine: MeasuredEngine {
  /// Enqueues tasks in one transaction, each with a payload of 200 bytes, in queues by turn; with `sync` they survive a loss of power.
  func enqueue(_ count: Int, queues: Int, first: Int, sync: Bool) throws
  /// Runs all tasks that are there, by so many workers; returns when the end of each is written. `isSerial`: those of a queue one
  /// after the other.
  func runAll(_ count: Int, workers: Int, isSerial: Bool) throws
  /// The nanoseconds from the commit of a task to the start of its handler, on an idle engine, of so many tasks.
  func startTimes(_ count: Int) throws -> [UInt64]
  /// Begins to run tasks, and stops. Returns when the first began, by the clock.
  func runFirst() throws -> UInt64
  /// How many tasks wait.
  func countWaiting() throws -> Int
}

/// What a task is given: 200 bytes, half of them text of a book.
struct TaskText {
  static let size = 200

  /// A number, and then letters.
  static func bytes(_ number: Int) -> [UInt8] {
    var bytes = template
    for index in 0..<8 { bytes[index] = UInt8(48 + (number >> (4 * index)) & 15) }
    return bytes
  }

  private static let template = (0..<size).map { UInt8(97 + $0 * 7 % 26) }
}

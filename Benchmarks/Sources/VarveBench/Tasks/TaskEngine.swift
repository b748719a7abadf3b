import Foundation

/// A persistent task queue. Its handlers do no work.
protocol TaskEngine: MeasuredEngine {
  /// Enqueues tasks in one transaction, each with a payload of 200 bytes, into the queues in turn.
  ///
  /// With `sync` they survive a power loss.
  func enqueue(_ count: Int, queues: Int, first: Int, sync: Bool) throws
  /// Enqueues tasks that are due in a day, in one transaction, if the engine has such tasks.
  func enqueueLater(_ count: Int, first: Int) throws
  /// Runs all waiting tasks by `workers` workers, and returns when the end of each is written.
  ///
  /// With `isSerial`, the tasks of a queue run one after the other.
  func runAll(_ count: Int, workers: Int, isSerial: Bool) throws
  /// Returns the nanoseconds from the commit of a task to the start of its handler on an idle engine, for `count`
  /// tasks.
  func startTimes(_ count: Int) throws -> [UInt64]
  /// Starts `count` tasks whose handlers do not return. Returns when all of them run.
  func startEndless(_ count: Int) throws
  /// Starts to run tasks, and stops when one was started that an earlier process was running when it was killed.
  /// Returns the time at which the handler of that task began, by `Clock`.
  func runFirstOrphan() throws -> UInt64
  /// Returns the number of waiting tasks.
  func countWaiting() throws -> Int

  /// Kills what a process that was killed has left running of its engine.
  static func killRest(path: String) throws
  /// Returns the bytes of the log that the next opening replays. By default, they are those of the log's files.
  static func bytesToReplay(path: String) throws -> UInt64
}

extension TaskEngine {
  static func killRest(path: String) throws {}

  static func bytesToReplay(path: String) throws -> UInt64 {
    DirectoryUsage(path: path, use: fileUse).logBytes
  }
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

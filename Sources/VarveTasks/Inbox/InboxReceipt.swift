internal import Foundation
internal import Synchronization

/// What a process that applies commands of the inbox does with those of one call of `TaskInbox.sendForAnswer(_:)`.
///
/// The process writes its answer when it has applied the commands, in the file `inbox/ID.answer`: a JSON object with
/// the member `applied`, an array with the number of tasks, queues or rows that each command has changed. An answer
/// that no one reads within a day is removed.
///
/// ```swift
/// let receipt = try TaskInbox(path).sendForAnswer { $0.cancel(.tag("campaign-7")) }
/// if case .applied(let counts) = try await receipt.wait() { print("\(counts[0]) tasks are cancelled") }
/// ```
/// Safe from any thread and any process.
public struct InboxReceipt: Sendable {
  /// The answer to commands.
  public enum Answer: Sendable, Hashable {
    /// The commands were applied. For each of them, the number of tasks, queues or objects that it has changed.
    ///
    /// It is 0 for an `enqueue` whose unique key another task has, unless that one has received the payload; 0 or 1 for
    /// `remove` and `releaseTasks`; and 1 for `set`, `pause`, `resume` and `drain`.
    case applied([Int])
    /// The commands can't be applied, and none of them was.
    case refused(reason: String)
  }

  /// The answer once it was read. The copies of a receipt share it.
  private final class Kept: Sendable {
    let answer = Mutex<Answer?>(nil)
  }

  let id: [UInt8]
  let inbox: TaskInbox
  private let fileName: String
  private let kept = Kept()

  init(id: [UInt8], fileName: String, inbox: TaskInbox) {
    self.id = id
    self.fileName = fileName
    self.inbox = inbox
  }

  private var answerPath: String { inbox.directory + "/" + InboxFile.answerName(id) }
  private var refusedPath: String { inbox.refusedDirectory + "/" + fileName }

  /// Returns the answer. Returns `nil` as long as no process has applied the commands.
  ///
  /// The first call that finds the answer removes its file, and the receipt keeps the answer. Throws errors of the file
  /// system, and `TaskError.invalidValue` for an answer that is damaged.
  public func answer() throws -> Answer? {
    try kept.answer.withLock { kept in
      if kept == nil { kept = try read() }
      return kept
    }
  }

  /// Returns the answer when a process has applied the commands, which it does when it runs a scheduler.
  ///
  /// The call looks for the answer a hundred times a second. Throws as `answer()` does, and `CancellationError` if the
  /// Swift task of the caller is cancelled.
  public func wait() async throws -> Answer {
    let clock = SystemSchedulerClock()
    while true {
      if let answer = try answer() { return answer }
      try await clock.sleep(until: clock.continuousNow + .milliseconds(10))
    }
  }

  /// Reads the answer, and removes its file.
  private func read() throws -> Answer? {
    let files = inbox.files
    if files.exists(answerPath) {
      let bytes = try files.read(answerPath)
      guard let record = try? JSONDecoder().decode(AnswerRecord.self, from: Data(bytes)) else {
        throw TaskError.invalidValue("the answer \"\(answerPath)\" is damaged")
      }
      try files.remove(answerPath)
      return .applied(record.applied)
    }
    // The reason is there before the file is.
    guard files.exists(refusedPath) else { return nil }
    let reason = try files.read(refusedPath + ".txt")
    return .refused(reason: String(decoding: reason, as: UTF8.self).trimmingCharacters(in: .newlines))
  }
}

/// The content of a file `.answer`. On disk: names never change.
struct AnswerRecord: Codable, Sendable {
  let applied: [Int]
}

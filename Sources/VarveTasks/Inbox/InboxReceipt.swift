internal import Foundation

/// What a process that applies commands of the inbox does with those of one call of `TaskInbox.sendForAnswer(_:)`.
///
/// The process writes its answer when it has applied the commands, in the file `inbox/ID.answer`: a JSON object with
/// the member `applied`, an array with the number of tasks, queues or rows that each command has changed. An answer
/// that no one reads within a day is removed.
///
/// Safe from any thread and any process.
public struct InboxReceipt: Sendable {
  /// The answer to commands.
  public enum Answer: Sendable, Hashable {
    /// The commands were applied. For each of them, the number of tasks that it has changed: 1 for a command that does
    /// not concern tasks, such as `pause`; 0 or 1 for `releaseTasks`.
    case applied([Int])
    /// The commands can't be applied, and none of them was.
    case refused(reason: String)
  }

  let id: [UInt8]
  let inbox: TaskInbox

  private var answerPath: String { inbox.directory + "/" + InboxFile.answerName(id) }
  private var refusedPath: String { inbox.refusedDirectory + "/" + InboxFile.name(id) }

  /// Returns the answer, and removes its file. Returns `nil` as long as no process has applied the commands.
  ///
  /// After it has returned an answer, it returns `nil`. Throws errors of the file system, and `TaskError.invalidValue`
  /// for an answer that is damaged.
  public func answer() throws -> Answer? {
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

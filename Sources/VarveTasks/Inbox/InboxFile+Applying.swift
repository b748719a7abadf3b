internal import Foundation
internal import Varve

/// The operations that set and remove an object of a collection by commands of the inbox.
struct AcceptedType: Sendable {
  let set: @Sendable (Data, WriteTransaction) throws -> Void
  /// Returns whether the object existed.
  let remove: @Sendable (Data, WriteTransaction) throws -> Bool
}

/// The error for a file that can't be applied.
struct InboxRefusal: Error { let cause: any Error }

extension InboxFile {
  /// The errors of a transaction that say nothing about the commands. The file stays.
  private static let passingErrors: Set<DatabaseError.Code> = [
    .conflict, .storage, .notReadableNow, .outcomeUnknown, .closed, .notReady, .readOnly, .corruption,
  ]

  /// Applies the commands in a transaction, unless they were applied before. Returns what each has changed.
  ///
  /// Throws `InboxRefusal` for commands that can't be applied.
  func apply(to tx: WriteTransaction, _ accepted: [String: AcceptedType], _ now: Int64) throws -> [Int] {
    let (config, key) = (try tx.tasks.config, ConfigKeys.inbox(id))
    if let value = try config.get(key) { return try ConfigKeys.changed(ofInbox: value) }
    var changed: [Int] = []
    do {
      for command in commands {
        if let count = try Self.apply(command, accepted, tx) { changed.append(count) }
      }
    } catch let error as DatabaseError where Self.passingErrors.contains(error.code) { throw error } catch {
      throw InboxRefusal(cause: error)
    }
    try config.put(key, ConfigKeys.inbox(now, changed: wantsAnswer ? changed : []))
    return changed
  }

  /// Applies a command. Returns the number of tasks, queues or rows that it has changed, or `nil` if it changes
  /// nothing.
  private static func apply(
    _ command: InboxCommand, _ accepted: [String: AcceptedType], _ tx: WriteTransaction
  ) throws -> Int? {
    func type(_ collection: String) throws -> AcceptedType {
      if let type = accepted[collection] { return type }
      throw TaskError.invalidValue("no type was accepted for the objects of collection \"\(collection)\"")
    }
    switch command {
    case .enqueue(let kind, let version, let payload, var options):
      let tasks = try tx.tasks
      try tasks.dispatcher.middleware?.enqueuing(kind, &options, in: tx)
      if case .duplicate = try tasks.enqueue(kind, version: version, Array(payload), options) { return 0 }
    case .cancel(let query): return try tx.cancel(query)
    case .retry(let query): return try tx.retryNow(query)
    case .revive(let query): return try tx.revive(query)
    case .delete(let query):
      let tasks = try tx.tasks
      let ids = try tasks.ids(query)
      // None of those that do not run begins before its deletion, which would then throw.
      try tasks.hold(ids)
      var count = 0
      for id in ids where tasks.dispatcher.run(id) == nil { count += try tx.delete(.id(id)) }
      // No task has the unique key any more, so only the key is released.
      if ids.isEmpty { _ = try tasks.forgetKey(query) }
      return count
    case .signal(let text): return try tx.signal(WakeSignal(text))
    case .pause(let queue): try tx.pause(queue)
    case .resume(let queue): try tx.resume(queue)
    case .drain(let queue): try tx.drain(queue)
    case .release: return try tx.releaseTasks() ? 1 : 0
    case .set(let collection, let object): try type(collection).set(object, tx)
    case .remove(let collection, let id): return try type(collection).remove(id, tx) ? 1 : 0
    case .answer: return nil
    }
    return 1
  }
}

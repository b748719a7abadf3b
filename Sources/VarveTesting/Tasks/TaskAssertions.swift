internal import Foundation
public import Varve
public import VarveTasks

/// The error of a failed assertion about tasks.
public struct TaskAssertionFailed: Error, Hashable, Sendable, CustomStringConvertible {
  /// A sentence that describes the failure.
  public let description: String

  /// Creates a failure with a description.
  public init(_ description: String) { self.description = description }
}

extension ReadTransaction {
  /// Returns the payloads of a type that are enqueued and have not ended, in a queue or in all.
  ///
  /// Throws `TaskAssertionFailed` if the number of payloads for which `condition` is true is not `count`, or if there
  /// is none and `count` is `nil`.
  ///
  /// ```swift
  /// try database.read { tx in
  ///   try tx.assertEnqueued(SendMessage.self, count: 1) { $0.messageKey == "m1" }
  /// }
  /// ```
  @discardableResult
  public func assertEnqueued<Payload: TaskPayload>(
    _ type: Payload.Type, in queue: QueueName? = nil, count: Int? = nil,
    where condition: (Payload) throws -> Bool = { _ in true }
  ) throws -> [Payload] {
    var query = TaskQuery.kind(Payload.kind)
    if let queue { query = query.and(.queue(queue)) }
    let tasks = try tasks(query).filter { !$0.progress.state.isSettled }
    let payloads = try tasks.map { try Payload(encoded: .init($0.payload)) }.filter(condition)
    if let count, payloads.count == count { return payloads }
    if count == nil, !payloads.isEmpty { return payloads }
    let others = Set(try self.tasks(.all).filter { !$0.progress.state.isSettled }.map(\.kind)).sorted()
    throw TaskAssertionFailed(
      "\(payloads.count) tasks of kind \"\(Payload.kind)\" fit\(queue.map { " in queue \"\($0)\"" } ?? ""), "
        + "expected \(count.map { "\($0)" } ?? "one or more"); \(tasks.count) of that kind are enqueued, and tasks of "
        + "the kinds \(others)")
  }

  /// Throws `TaskAssertionFailed` if a task of a type for which `condition` is true is enqueued and has not ended.
  public func assertNotEnqueued<Payload: TaskPayload>(
    _ type: Payload.Type, in queue: QueueName? = nil, where condition: (Payload) throws -> Bool = { _ in true }
  ) throws {
    try assertEnqueued(type, in: queue, count: 0, where: condition)
  }
}

extension Database {
  /// Runs a handler once as an attempt of a task, without a scheduler. See `TestWorker`.
  public func perform<Payload: TaskPayload>(
    _ payload: Payload, attempt: Int = 1,
    _ body: @escaping @Sendable (Payload, TaskContext) async throws -> TaskOutcome
  ) async throws -> TaskOutcome {
    try await TestWorker(self).perform(payload, attempt: attempt, body)
  }
}

/// Code of the program that an extension runs outside of transactions, such as the handler of a task, and whose end the
/// extension commits.
///
/// The code can't close the database, because its end could not be committed then.
package protocol WorkerCall: AnyObject, Sendable {
  /// What the code is, for errors: "the handler of task 7".
  var callName: String { get }
  /// Whether the code has returned, or is not waited for any more. Swift tasks that it has begun may still run.
  var isOver: Bool { get }
}

extension DatabaseWorker {
  /// A call that runs the current code, and its database.
  fileprivate struct Frame: Sendable {
    let call: any WorkerCall
    let database: ObjectIdentifier?
  }

  @TaskLocal fileprivate static var frame: Frame?

  /// Runs the code of a call. In this code, and in Swift tasks that it begins, `call` is the call until it is over.
  package func run<Result>(
    _ call: any WorkerCall, _ body: () async throws -> Result
  ) async rethrows -> Result {
    try await Self.$frame.withValue(Frame(call: call, database: database)) { try await body() }
  }

  /// The call that runs the current code, or `nil` if none does.
  package static var call: (any WorkerCall)? { frame.flatMap { $0.call.isOver ? nil : $0.call } }

  /// Lets each call that closes the database wait before it has any effect, until `endDelay` is called. Returns false if
  /// a close has begun.
  package func delayClose() -> Bool { core.value?.delayClose() ?? false }

  /// Ends a delay that has begun.
  package func endDelay() { core.value?.endDelay() }
}

extension DatabaseCore {
  /// Throws if the caller is code that an extension of this database runs, and whose end it commits.
  func requireNoCall() throws {
    guard DatabaseWorker.frame?.database == ObjectIdentifier(self), let call = DatabaseWorker.call else { return }
    throw DatabaseError(
      .writerBusy, "the database is closed by \(call.callName), whose end could not be stored then; close it after that"
    )
  }
}

/// Runs an extension's work outside transactions, such as removing files after a commit or running the tasks of a
/// queue. It may outlive the database, and does not keep it open.
public final class DatabaseWorker: Sendable {
  private let core: WeakCore
  /// What distinguishes the database from all others that are open.
  private let database: ObjectIdentifier?

  init(_ core: DatabaseCore?) {
    self.core = WeakCore(core)
    database = core.map { ObjectIdentifier($0) }
  }

  /// Whether this program writes the database. In followers and read-only databases, the work is left to the process
  /// that writes.
  @_spi(Extensions) public var isOfWriter: Bool { core.value.map { !$0.backend.isReadOnly } ?? false }

  /// Whether work that continues should end, because the database is being closed.
  ///
  /// The value becomes false again if `Database.close` throws `.writerBusy` because transactions run.
  public var isStopping: Bool { core.value.map { $0.isClosing || $0.builds.isPausing } ?? true }

  /// Runs work on a thread of its own, and returns false without running it if the database is closed or being closed.
  ///
  /// Closing the database waits for the work, so it has to return soon after `isStopping` becomes true, and must not
  /// close the database itself.
  ///
  /// May be called from `DatabaseExtension.didAcknowledge`, which must not wait itself.
  @discardableResult
  public func run(_ body: @escaping @Sendable (Database) -> Void) -> Bool {
    guard let core = core.value, core.builds.beginWork() else { return false }
    Task.detached(executorPreference: core.writerExecutor) {
      body(Database(core))
      core.builds.endWork()
    }
    return true
  }

  /// Runs work that suspends: it occupies a thread only while it executes. See `run` for the rules.
  @discardableResult
  @_spi(Extensions) public func runAsync(_ body: @escaping @Sendable (Database) async -> Void) -> Bool {
    guard let core = core.value, core.builds.beginWork() else { return false }
    Task.detached(executorPreference: core.writerExecutor) {
      await body(Database(core))
      core.builds.endWork()
    }
    return true
  }

  /// Runs work as `runAsync` does. While the database is being closed by a call that may fail, the work waits for the
  /// end of that call. Calls `closed` instead of running the work if the database is closed.
  @_spi(Extensions) public func runIfOpen(
    _ body: @escaping @Sendable (Database) async -> Void, orElse closed: @escaping @Sendable () -> Void
  ) {
    guard let core = core.value, !core.isClosing else { return closed() }
    if runAsync(body) { return }
    core.builds.whenResumed { [self] in runIfOpen(body, orElse: closed) }
  }

  /// Sets what the last commit writes, which is made when the database is closed. It replaces what was set before.
  ///
  /// A close that throws without an effect makes no such commit. After the commit the database is closed for this
  /// program, even if the close throws an error of the storage. The commit is not made if the storage can't be written.
  @_spi(Extensions) public func writeAtClose(_ body: @escaping @Sendable (IndependentParts) throws -> Void) {
    core.value?.writeAtClose(body)
  }

  /// Adds a closure that is called once, on any thread, after the database was closed, also if the close has thrown an
  /// error of the storage.
  @_spi(Extensions) public func whenClosed(_ body: @escaping @Sendable () -> Void) { core.value?.whenClosed(body) }
}

/// A weak reference to a database.
private final class WeakCore: Sendable {
  private weak let core: DatabaseCore?

  init(_ core: DatabaseCore?) { self.core = core }

  var value: DatabaseCore? { core }
}

extension SharedView {
  /// A worker with which the extension runs work outside transactions for as long as the database is open.
  public var worker: DatabaseWorker { DatabaseWorker(core) }
}

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

  /// Lets each call that closes the database wait before it has any effect, until `endDelay` is called. Returns false
  /// if a close has begun.
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

/// Runs an extension's work outside transactions, such as removing files after a commit or running the tasks of a
/// queue. It may outlive the database, and does not keep it open.
public final class DatabaseWorker: Sendable {
  let core: WeakCore
  /// What distinguishes the database from all others that are open.
  let database: ObjectIdentifier?

  init(_ core: DatabaseCore?) {
    self.core = WeakCore(core)
    database = core.map { ObjectIdentifier($0) }
  }

  /// Whether this program writes the database. In followers and read-only databases, the work is left to the process
  /// that writes.
  public var isOfWriter: Bool { core.value.map { !$0.backend.isReadOnly } ?? false }

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
  public func runAsync(_ body: @escaping @Sendable (Database) async -> Void) -> Bool {
    guard let core = core.value, core.builds.beginWork() else { return false }
    Task.detached(executorPreference: core.writerExecutor) {
      await body(Database(core))
      core.builds.endWork()
    }
    return true
  }

  /// Runs work as `runAsync` does. While the database is being closed by a call that may fail, the work waits for the
  /// end of that call. Calls `closed` instead of running the work if the database is closed.
  public func runIfOpen(
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
  public func writeAtClose(_ body: @escaping @Sendable (AsideParts) throws -> Void) {
    core.value?.writeAtClose(body)
  }
}

/// A weak reference to a database.
final class WeakCore: Sendable {
  private weak let core: DatabaseCore?

  init(_ core: DatabaseCore?) { self.core = core }

  var value: DatabaseCore? { core }
}

extension SharedView {
  /// A worker with which the extension runs work outside transactions for as long as the database is open.
  public var worker: DatabaseWorker { DatabaseWorker(core) }
}

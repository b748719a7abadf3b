/// Lets an extension work beside transactions: remove files after a commit, run what a queue has. It may outlive the database,
/// and does not keep it open.
public final class DatabaseWorker: Sendable {
  private let core: WeakCore

  init(_ core: DatabaseCore?) { self.core = WeakCore(core) }

  /// Whether the database is one that this program writes. Followers and databases that are read leave the work to who does.
  public var isOfWriter: Bool { core.value.map { !$0.backend.isReadOnly } ?? false }

  /// Whether work that continues should end, because the database is being closed.
  public var isStopping: Bool { core.value?.builds.isPausing ?? true }

  /// Runs work on a thread of its own. Closing the database waits for it: so it returns soon after `isStopping`, and does not
  /// close the database itself. False: the database is closed or being closed, and nothing is run.
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

  /// The same for work that suspends: it has a thread only while it has something to do.
  @discardableResult
  public func runAsync(_ body: @escaping @Sendable (Database) async -> Void) -> Bool {
    guard let core = core.value, core.builds.beginWork() else { return false }
    Task.detached(executorPreference: core.writerExecutor) {
      await body(Database(core))
      core.builds.endWork()
    }
    return true
  }
}

/// A database that is not kept.
private final class WeakCore: Sendable {
  private weak let core: DatabaseCore?

  init(_ core: DatabaseCore?) { self.core = core }

  var value: DatabaseCore? { core }
}

extension SharedView {
  /// What lets the extension work beside transactions, for as long as the database is open.
  public var worker: DatabaseWorker { DatabaseWorker(core) }
}

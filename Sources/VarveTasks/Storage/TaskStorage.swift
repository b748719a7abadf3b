public import Varve

/// What a database keeps of tasks: an extension that every program which enqueues tasks registers, by ``handle``.
///
/// ```swift
/// let database = try Database.open(at: path) {
///   Message.self
///   TaskStorage.handle
/// }
/// try database.write { tx in
///   try message.persist(in: tx)
///   try tx.enqueue(SendMessage(messageKey: message.id))   // both are committed, or neither
/// }
/// ```
/// A `TaskScheduler` registers it by itself.
///
/// # Parts
/// | part | form | what |
/// |---|---|---|
/// | `live` | write-once, independent | tasks that have not ended: their rows, by id, claims, checkpoints |
/// | `config` | values, independent | queues and their numbers, unique keys, schedules, tokens |
/// | `ended` | values, independent | tasks that are dead, and those that are kept after they were done |
/// | `counts` | sums, independent | tasks by queue and state |
/// | `events` | values, independent | the last events that a person may want to see |
/// | `numbers` | maxima, independent | the last number of each kind that was given |
///
/// A value: safe from any thread.
public struct TaskStorage: DatabaseExtension {
  /// What it does in a transaction.
  public typealias Transaction = TaskStorageTransaction
  /// The tasks that are next, in memory.
  public typealias Shared = TaskDispatcher
  /// The tasks of one commit.
  public typealias Delta = TaskDelta
  /// "varve.tasks".
  public static let kind = "varve.tasks"
  /// It is registered as "tasks".
  public static let handle = TaskStorage().named("tasks")

  init() {}

  /// Independent parts, so that no transaction of the program delays claims.
  public var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.events = []
    configuration.build = .none
    configuration.keepsState = true
    configuration.isConcurrent = true
    var live = PartDefinition("live", .writeOnce)
    live.memtableSize = 8 << 20
    live.hasUniqueKeys = true
    var parts = [
      live, PartDefinition("config"), PartDefinition("ended"), PartDefinition("counts", .counters(.sum)),
      PartDefinition("numbers", .counters(.maximum)), PartDefinition("events"),
    ]
    for index in parts.indices {
      parts[index].isDerived = false
      parts[index].isIndependent = true
    }
    configuration.parts = parts
    return configuration
  }

  /// What a transaction does with tasks.
  public func makeTransaction(_ context: ExtensionContext<TaskStorage>) throws -> TaskStorageTransaction {
    try TaskStorageTransaction(context)
  }

  /// The queues, as of one commit. Tasks are read where a scheduler runs them.
  public func makeShared(_ view: borrowing SharedView) throws -> TaskDispatcher {
    let dispatcher = TaskDispatcher(worker: view.worker, incarnation: view.incarnation)
    try load(view, into: dispatcher)
    return dispatcher
  }

  /// The tasks of a commit are next, or have gone.
  public func didAcknowledge(_ version: CommitVersion, _ delta: TaskDelta?, _ shared: TaskDispatcher) {
    if let delta { shared.acknowledge(delta, version) }
  }

  /// In a program that only reads nothing is kept in memory.
  public func didSkip(to view: borrowing SharedView, _ shared: TaskDispatcher) throws {
    try load(view, into: shared)
  }

  private func load(_ view: borrowing SharedView, into dispatcher: TaskDispatcher) throws {
    let config = try view.part("config")
    dispatcher.load(
      try TaskNames(config), lastID: try view.part("numbers").counter(TaskNumbers.id),
      areHeld: try TaskStorageTransaction.areHeld(config, dispatcher.incarnation))
  }
}

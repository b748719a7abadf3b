@_spi(Extensions) public import Varve

/// The extension that stores the tasks of a database. Every program that enqueues tasks registers it by ``handle``.
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
/// A `TaskScheduler` registers the extension itself.
///
/// # Parts
/// | part | form | content |
/// |---|---|---|
/// | `live` | write-once, independent | the tasks that have not ended: rows, rows by id, claims, checkpoints |
/// | `config` | values, independent | queues and their numbers, unique keys, schedules, tokens |
/// | `ended` | values, independent | the tasks that are dead, and those that are kept after they were done |
/// | `counts` | sums, independent | the numbers of tasks by queue and state |
/// | `events` | values, independent | the last events that the scheduler is configured to keep |
/// | `numbers` | maxima, independent | the last number of each kind that was assigned |
///
/// It is a value, and is safe from any thread.
public struct TaskStorage: DatabaseExtension {
  /// The extension's object in a transaction.
  @_spi(Extensions) public typealias Transaction = TaskStorageTransaction
  /// The tasks that run next, in memory.
  @_spi(Extensions) public typealias Shared = TaskDispatcher
  /// The effect of one commit on the tasks in memory.
  @_spi(Extensions) public typealias Delta = TaskDelta
  /// The kind of the extension, `"varve.tasks"`.
  public static let kind = "varve.tasks"
  /// The handle of the extension, which is registered as `"tasks"`.
  public static let handle = TaskStorage().named("tasks")

  init() {}

  /// The configuration. All parts are independent, so that no transaction of the program delays claims.
  @_spi(Extensions) public var configuration: ExtensionConfiguration {
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

  /// Makes the object that reads and changes tasks in a transaction.
  @_spi(Extensions) public func makeTransaction(_ context: ExtensionContext<TaskStorage>) throws
    -> TaskStorageTransaction
  {
    try TaskStorageTransaction(context)
  }

  /// Makes the dispatcher with the queues as of one commit. Tasks are read only when a scheduler runs them.
  @_spi(Extensions) public func makeShared(_ view: borrowing SharedView) throws -> TaskDispatcher {
    let dispatcher = TaskDispatcher(worker: view.worker, incarnation: view.incarnation)
    try loadNames(view, into: dispatcher)
    view.worker.whenClosed { [weak dispatcher] in dispatcher?.noteClosed() }
    return dispatcher
  }

  /// Passes the tasks that a commit has added or removed to the dispatcher.
  @_spi(Extensions) public func didAcknowledge(_ version: CommitVersion, _ delta: TaskDelta?, _ shared: TaskDispatcher)
  {
    if let delta { shared.acknowledge(delta, version) }
  }

  /// Loads the queues as of a commit for which there is no delta. A program that only reads holds no tasks in memory.
  @_spi(Extensions) public func didSkip(to view: borrowing SharedView, _ shared: TaskDispatcher) throws {
    try loadNames(view, into: shared)
  }

  private func loadNames(_ view: borrowing SharedView, into dispatcher: TaskDispatcher) throws {
    let config = try view.part("config")
    dispatcher.loadNames(
      try TaskNames(config), lastID: try view.part("numbers").counter(TaskNumbers.id),
      areHeld: try TaskStorageTransaction.areHeld(config, dispatcher.incarnation))
  }
}

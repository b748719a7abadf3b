public import Varve
@_spi(TaskQueue) internal import VarveTasks

/// The extension that queues actions when they are saved.
///
/// ```swift
/// let actions = TaskQueueActions(MessageSendAction.self).named("actions")
/// let database = try Database.open(at: path) {
///   MessageSendAction.collection
///   TaskStorage.handle
///   actions
/// }
/// ```
///
/// Safe from any thread, because it is a value.
public struct TaskQueueActions: DatabaseExtension {
  /// The type that handles changes in a transaction.
  @_spi(Extensions) public typealias Transaction = TaskQueueTransaction
  /// The brokers that run the actions.
  @_spi(Extensions) public typealias Shared = TaskQueueBrokers
  /// The kind of the extension, "varve.taskqueue".
  public static let kind = "varve.taskqueue"

  let types: [String: any TaskQueueAction.Type]

  /// Creates the extension for actions of some types.
  public init(_ types: any TaskQueueAction.Type...) {
    self.types = Dictionary(types.map { ($0.actionCollection, $0) }) { first, _ in first }
  }

  /// The configuration of the extension: it receives the rows of its types, and stores the id of each row's task.
  @_spi(Extensions) public var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.scope = .only(Set(types.keys))
    configuration.dependencies = [TaskStorage.handle.name]
    configuration.parts = [PartDefinition("tasks")]
    return configuration
  }

  /// Creates the state of the extension in a transaction.
  @_spi(Extensions) public func makeTransaction(_ context: ExtensionContext<TaskQueueActions>) throws
    -> TaskQueueTransaction
  {
    try TaskQueueTransaction(self, context)
  }

  /// Creates the state that is shared by all transactions: no broker at first.
  @_spi(Extensions) public func makeShared(_ view: borrowing SharedView) throws -> TaskQueueBrokers {
    TaskQueueBrokers()
  }
}

/// The payload of an action's task: the collection and the key of its row.
struct ActionPayload: TaskPayload {
  static let kind = "varve.taskqueue.action"
  var collection: String
  var key: String
}

/// The tasks of actions in one transaction.
///
/// The part `tasks` maps the number of the collection (4 bytes, big-endian) and the key to the id of the task (8 bytes,
/// big-endian).
@_spi(Extensions) public final class TaskQueueTransaction: ExtensionTransaction {
  /// The extension.
  public typealias Definition = TaskQueueActions
  private let definition: TaskQueueActions
  private let context: ExtensionContext<TaskQueueActions>
  private let tasks: Part
  /// The closure to call when the storage has accepted the commit, or `nil` if there is none.
  private var atCommit: (() -> Void)?

  init(_ definition: TaskQueueActions, _ context: ExtensionContext<TaskQueueActions>) throws {
    self.definition = definition
    self.context = context
    tasks = try context.part("tasks")
  }

  /// The brokers that run the actions.
  var brokers: TaskQueueBrokers { context.shared }

  /// Calls `body` when the storage has accepted the commit of this transaction, before another one begins. It is not
  /// called if the transaction fails, or changes nothing.
  func whenCommitted(_ body: @escaping () -> Void) { atCommit = body }

  /// Adds the broker whose setup the transaction is, if it is one.
  public func takeDelta(_ version: CommitVersion) -> Never? {
    atCommit?()
    atCommit = nil
    return nil
  }

  /// Returns the names of the queues that have actions, and the names that `accepts` accepts of the queues that have
  /// tasks of actions without rows.
  ///
  /// A row may be removed while its action runs. If the process dies before the attempt has ended, the task is left. It
  /// ends when a broker takes it.
  ///
  /// Complexity: O(actions), and that of `ReadTransaction.taskQueues(withTasksOf:where:)`.
  func queues(_ accepts: (String) -> Bool) throws -> Set<String> {
    var queues: Set<String> = []
    let transaction = try context.transaction
    var cursor = try tasks.cursor()
    while let (_, value) = try cursor.next() {
      if let task = try transaction.task(Self.id(value)) { queues.insert(task.queue.text) }
    }
    let known = queues
    let others = try transaction.taskQueues(withTasksOf: ActionPayload.kind) { queue in
      !known.contains(queue.text) && accepts(queue.text)
    }
    return queues.union(others.map(\.text))
  }

  private static func entry(_ collection: UInt32, _ key: String) -> [UInt8] {
    stride(from: 24, through: 0, by: -8).map { UInt8(truncatingIfNeeded: collection >> UInt32($0)) } + Array(key.utf8)
  }

  /// Returns the id of an action's task, or `nil` if the row is not an action or was removed.
  func task(_ key: String, in collection: String) throws -> TaskID? {
    guard let number = try context.transaction.collectionNumber(of: collection) else { return nil }
    return try task(Self.entry(number, key))
  }

  private func task(_ entry: [UInt8]) throws -> TaskID? { try tasks.get(entry).map { Self.id($0) } }

  private static func id(_ value: [UInt8]) -> TaskID { TaskID(rawValue: value.reduce(0) { $0 << 8 | UInt64($1) }) }

  /// Queues an action that is saved, and cancels the task of one that is removed or replaced.
  public func didChange(_ change: borrowing RowChange) throws {
    guard let writer = context.writeTransaction, let type = definition.types[change.collection] else { return }
    let key: String = try change.key.key()
    let entry = Self.entry(change.collectionNumber, key)
    // A running task is not cancelled: its handler may be what removes the row, and an action that was saved meanwhile
    // runs after it.
    if let old = try task(entry), try writer.task(old)?.progress.state != .running { try writer.cancel(.id(old)) }
    if change.event == .removed { return try tasks.delete(entry) }
    let id = try enqueue(type, change, ActionPayload(collection: change.collection, key: key), writer)
    try tasks.put(
      entry, stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: id.rawValue >> UInt64($0)) })
  }

  private func enqueue<Action: TaskQueueAction>(
    _ type: Action.Type, _ change: borrowing RowChange, _ payload: ActionPayload, _ writer: WriteTransaction
  ) throws -> TaskID {
    let options = try change.withObject(as: Action.self) { action in
      var options = TaskOptions(queue: QueueName(action.queueName))
      options.sortKey = action.sortKey
      options.maxAttempts = nil
      return options
    }
    // A row that was set as bytes of another type does not decode as an action, so it has no queue.
    guard let options else {
      throw DatabaseError(
        .decodingFailed, "the row is not a \(Action.self)", collection: payload.collection, key: payload.key)
    }
    let id = try writer.enqueue(payload, options).id
    try brokers.meet(options.queue.text)
    return id
  }
}

import Foundation
import Synchronization
import Testing
import Varve
import VarveTaskQueue
import VarveTasks
import VarveTesting

/// The example of YapTaskQueue's README, in the spelling of this module: an action that names a message, a handler that
/// sends it, and both forms of a broker.
struct YapExampleTests {
  /// An action holds what its handler needs to know, and no more.
  struct MessageSendAction: TaskQueueAction {
    static let actionCollection = "actions.messages"
    let key: String
    let messageToSendKey: String
    let messageToSendCollection: String
    let queue: String
    let date: Date

    var actionKey: String { key }
    var queueName: String { queue }
    var sortKey: SortKey { SortKey(date) }
  }

  /// A server that accepts some messages only at a later call, and records those that it has accepted.
  final class Wire: Sendable {
    private let state = Mutex((refusals: [String: Int](), sent: [String]()))

    init(refusing refusals: [String: Int] = [:]) { state.withLock { $0.refusals = refusals } }

    func send(_ message: String) async -> Bool {
      state.withLock { state in
        if let count = state.refusals[message], count > 0 {
          state.refusals[message] = count - 1
          return false
        }
        state.sent.append(message)
        return true
      }
    }

    func take() -> [String] {
      state.withLock { state in
        defer { state.sent = [] }
        return state.sent
      }
    }
  }

  struct MessageHandler: TaskQueueActionHandler {
    let database: Database
    let wire: Wire

    func handleNextItem(_ action: any TaskQueueAction) async -> ActionResult {
      guard let action = action as? MessageSendAction else { return .failure(retryTimeout: -1) }
      // 1. The message is read from the database.
      let (key, collection) = (action.messageToSendKey, action.messageToSendCollection)
      let message = try? await database.read { tx in try tx.object(String.self, key: key, in: collection) }
      guard let message else {
        // Without the message, there is no point in another attempt before someone asks for it.
        return .failure(retryTimeout: -1)
      }
      // 2. It is sent. 3. The result decides whether the action is removed, or when it runs again.
      return await wire.send(message) ? .success : .failure(retryTimeout: 5)
    }
  }

  /// The forms of a broker.
  enum Form: String, CaseIterable, Sendable {
    /// Its queues are those whose names begin with its own.
    case prefix
    /// Its queues are those that a closure accepts.
    case closure
  }

  private struct Program {
    let database: Database
    let clock = ManualSchedulerClock()
    let scheduler: TaskScheduler
    let broker: TaskQueueBroker

    init(_ form: Form, _ wire: Wire) async throws {
      let actions = TaskQueueActions(MessageSendAction.self).named("actions")
      database = try await Database.inMemory(
        definition: DatabaseDefinition {
          CollectionDefinition("messages", String.self, key: String.self)
          MessageSendAction.collection
          TaskStorage.handle
          actions
        })
      scheduler = try TaskScheduler(database, clock: clock)
      let handler = MessageHandler(database: database, wire: wire)
      switch form {
      case .prefix:
        broker = try TaskQueueBroker.setup(scheduler, actions, name: "handler1", handler: handler)
      case .closure:
        broker = try TaskQueueBroker.setup(scheduler, actions, name: "handler1", handler: handler) { queueName in
          // True for each queue that this handler understands.
          queueName == "handler1" || queueName.hasPrefix("handler1-")
        }
      }
      try await scheduler.start()
    }

    /// Saves a message and the action that sends it, or only the action.
    func save(_ message: String, at seconds: Double, queue: String = "handler1-queue2", isThere: Bool = true) throws {
      try database.write { tx in
        if isThere { try store(message, tx) }
        let action = MessageSendAction(
          key: "send \(message)", messageToSendKey: message, messageToSendCollection: "messages", queue: queue,
          date: Date(timeIntervalSince1970: seconds))
        try action.save(in: tx)
      }
    }

    func store(_ message: String, _ tx: WriteTransaction) throws { try tx.set(message, key: message, in: "messages") }
    func store(_ message: String) throws { try database.write { tx in try store(message, tx) } }

    func left() throws -> Int { try database.read { tx in try tx.count(in: MessageSendAction.actionCollection) } }
  }

  @Test(arguments: Form.allCases)
  func `saving an action sends its message, in the order of the dates, and the broker removes the action`(
    form: Form
  ) async throws {
    let wire = Wire()
    let program = try await Program(form, wire)
    #expect(program.broker.queueName(suffix: "queue2") == "handler1-queue2")
    try await program.database.write { tx in try tx.pause("handler1-queue2") }
    for (message, seconds) in [("third", 3.0), ("first", 1.0), ("second", 2.0)] {
      try program.save(message, at: seconds)
    }
    try program.save("alone", at: 9, queue: "handler1")
    try program.save("not mine", at: 0, queue: "handler10")
    await program.scheduler.waitUntilIdle()
    #expect(wire.take() == ["alone"])
    try await program.database.write { tx in try tx.resume("handler1-queue2") }
    await program.scheduler.waitUntilIdle()
    #expect(wire.take() == ["first", "second", "third"])
    #expect(try program.left() == 1)
    await program.scheduler.stop()
  }

  @Test(arguments: Form.allCases)
  func `a message that is not accepted is sent again after 5 seconds, and the rest of its queue waits`(
    form: Form
  ) async throws {
    let wire = Wire(refusing: ["first": 2])
    let program = try await Program(form, wire)
    try program.save("first", at: 1)
    try program.save("second", at: 2)
    try program.save("elsewhere", at: 3, queue: "handler1-queue3")
    await program.scheduler.waitUntilIdle()
    #expect(wire.take() == ["elsewhere"])
    await program.scheduler.advance(program.clock, by: .seconds(5))
    #expect(wire.take() == [])
    await program.scheduler.advance(program.clock, by: .seconds(4))
    #expect(wire.take() == [])
    await program.scheduler.advance(program.clock, by: .seconds(1))
    #expect(wire.take() == ["first", "second"])
    #expect(try program.left() == 0)
    await program.scheduler.stop()
  }

  @Test(arguments: Form.allCases)
  func `an action with a retryTimeout of -1 waits until the program restarts its queue`(form: Form)
    async throws
  {
    let wire = Wire()
    let program = try await Program(form, wire)
    try program.save("missing", at: 1, isThere: false)
    try program.save("next", at: 2)
    await program.scheduler.advance(program.clock, by: .seconds(1_000_000))
    #expect(wire.take() == [])
    // The message arrives, and the program finds that the conditions are better now.
    try program.store("missing")
    await program.scheduler.waitUntilIdle()
    #expect(wire.take() == [])
    try await program.broker.restartQueues(["handler1-queue2"])
    await program.scheduler.waitUntilIdle()
    #expect(wire.take() == ["missing", "next"])
    #expect(try program.left() == 0)
    await program.scheduler.stop()
  }
}

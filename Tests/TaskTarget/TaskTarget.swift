import Foundation
import Logging
import Varve
import VarveTasks

/// The processes of tests with several.
///
/// `varve-task-target <database> <first order> <count> <crashes>` is killed by the kill tests of tasks.
///
/// Enqueues orders, each with a task, in transactions of several, and runs the tasks of the database. A task counts
/// its order in the transaction that ends it. The standard output has a line for each order that was committed (`+
/// 7`), and for each that was counted (`- 7`); the bytes in a pipe survive the writer. The process ends when all
/// tasks are settled. A task is dead after `<crashes>` crashes; 0 means never.
@main
struct TaskTarget {
  struct Order: TaskPayload {
    static let kind = "order"
    var number: Int
  }

  /// A task that makes the process die.
  struct Poison: TaskPayload {
    static let kind = "poison"
  }

  static func main() async throws {
    let arguments = CommandLine.arguments
    if arguments.count == 3, arguments[1] == "write-ledger" { try LedgerWriting(path: arguments[2]).run() }
    if arguments.count == 4, arguments[1] == "read-ledger", let turns = Int(arguments[3]) {
      let reading = LedgerReading(path: arguments[2])
      do { return try reading.run(turns: turns) } catch {
        FileHandle.standardError.write(Data("reader: \(error)\n".utf8))
        exit(1)
      }
    }
    guard arguments.count == 5, let first = Int(arguments[2]), let count = Int(arguments[3]),
      let crashes = Int(arguments[4])
    else {
      say("usage: varve-task-target <database> <first order> <count> <crashes>, see the source for others")
      exit(2)
    }
    let database = try await Database.open(at: arguments[1]) { TaskStorage.handle }
    var configuration = TaskScheduler.Configuration()
    configuration.workers = 4
    configuration.maxCrashes = crashes
    configuration.queues = [.prefix("serial"): QueueRules(order: .serial())]
    let scheduler = try TaskScheduler(
      database, configuration: configuration, logger: Logger(label: "target") { _ in SwiftLogNoOpLogHandler() })
    try register(scheduler)
    try await scheduler.start()
    for number in stride(from: first, to: first + count, by: 10) { try await enqueue(number, in: database) }
    // Tasks that wait for a retry must be waited for, too.
    while try await database.read({ tx in try tx.tasks(.all).contains { !$0.progress.state.isSettled } }) {
      await scheduler.waitUntilIdle()
    }
    await scheduler.stop()
    try await database.close()
    say("end")
  }

  /// Writes a line to the standard output at once, without a buffer.
  private static func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

  /// Writes a number to the standard output, as eight bytes little-endian.
  static func acknowledge(_ number: Int) {
    FileHandle.standardOutput.write(Data((0..<8).map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) }))
  }

  private static func register(_ scheduler: TaskScheduler) throws {
    struct Broken: Error {}
    var options = HandlerOptions()
    options.retry = .fixed(.milliseconds(1))
    try scheduler.register(Order.self, options: options) { order, context in
      if order.number % 7 == 0, context.failures == 0 { throw Broken() }
      if order.number % 5 == 0 { try await context.checkpoint(order.number) }
      let key = "\(order.number)"
      try await context.complete { tx in
        try tx.set((try tx.object(Int.self, key: key, in: "effects") ?? 0) + 1, key: key, in: "effects")
      }
      say("- \(order.number)")
      return .done
    }
    try scheduler.register(Poison.self) { _, _ in fatalError("poison") }
  }

  /// Enqueues ten orders: in standard and serial queues, some dependent on others, some with the same key.
  private static func enqueue(_ first: Int, in database: Database) async throws {
    try await database.write { tx in
      var last: TaskID?
      for number in first..<(first + 10) {
        try tx.set(number, key: "\(number)", in: "orders")
        var options = TaskOptions(queue: ["standard", "serial-1", "serial-2"][number % 3])
        if number % 4 == 0 { options.limitKey = "key \(number % 8)" }
        if number % 5 == 2, let last { options.dependsOn = [last] }
        if number % 6 == 1 { options.unique = Uniqueness(key: "\(number)") }
        last = try tx.enqueue(Order(number: number), options).id
      }
      if first == 1, try tx.object(Bool.self, key: "poisoned", in: "orders.flags") == true { try tx.enqueue(Poison()) }
    }
    say("+ \(first)")
  }
}

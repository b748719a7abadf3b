import ArgumentParser
import Foundation
import Logging
import Varve
import VarveEngine
import VarveTasks

/// A task that reads the row of one package.
struct CheckPackage: TaskPayload {
  static let kind = "check-package"
  static let queue: QueueName = "packages"
  static var defaults: TaskOptions { TaskOptions(queue: queue) }
  var name: String
  var version: String
}

/// The result of a task: the number of times that it was counted, and the values that it read from the row.
struct CheckedPackage: Persistable, Hashable {
  static let collection = "checked"
  let id: PackageID
  var count: Int
  var dependencies: Int
  var size: Int

  init(_ package: DebianPackage, count: Int) {
    id = package.id
    self.count = count
    dependencies = package.dependencies.count
    size = package.otherFields.utf8.count
  }
}

/// Runs a task for each package, by a process that is killed, and then by another one to the end.
struct PackageTasks {
  let database: String
  let packages: [PackageID: DebianPackage]
  let seed: UInt64

  func run() throws {
    let ids = packages.keys.sorted()
    let killAfter = ids.count * 2 / 5 + Int(seed % UInt64(max(1, ids.count * 2 / 5)))
    Report.step("tasks", "one for each of \(ids.count) packages; SIGKILL after \(killAfter)")
    let enqueueing = try ContinuousClock().measure { try enqueue(ids) }
    Report.line("enqueued in \(Report.seconds(enqueueing)) s, \(Report.rate(ids.count, enqueueing)) thousand a second")
    let killed = try process.run(from: 0, killAfter: killAfter)
    // A few more tasks may finish before the kill takes effect.
    Report.line("\(killed.acknowledged) were acknowledged before the kill")
    let clock = ContinuousClock()
    let start = clock.now
    _ = try process.run(from: 0, killAfter: nil)
    Report.line("the rest was run in \(Report.seconds(clock.now - start)) s")
    try check()
  }

  private var process: TaskProcess { TaskProcess(database: database) }

  private func enqueue(_ ids: [PackageID]) throws {
    let packages = try PackageDatabase(try Engine.open(at: database, options: WriterSettings.options), path: database)
    for begin in stride(from: 0, to: ids.count, by: 1_000) {
      try packages.database.write { tx in
        for id in ids[begin..<min(begin + 1_000, ids.count)] {
          try tx.enqueue(CheckPackage(name: id.name, version: id.version))
        }
      }
    }
    try packages.close()
  }

  /// Checks that every package was counted once with the values of its stanza, and that no task is left.
  private func check() throws {
    let packages = try PackageDatabase(try Engine.open(at: database, options: WriterSettings.options), path: database)
    try packages.database.read { tx in
      for package in self.packages.values {
        let found = try CheckedPackage.load(package.id, in: tx)
        guard found == CheckedPackage(package, count: 1) else {
          throw JobError("the task of \(package.id) left \(found.map { "\($0)" } ?? "nothing")")
        }
      }
      let count = try tx.count(in: CheckedPackage.collection)
      guard count == self.packages.count else { throw JobError("\(count) packages were counted") }
      let left = try tx.tasks(.all, limit: 10)
      guard left.isEmpty else { throw JobError("tasks are left: \(left.map(\.id))") }
    }
    try packages.close()
    Report.line("all were counted exactly once")
  }
}

/// The child process: runs tasks until none are left, and acknowledges each on standard output.
struct TasksCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "tasks", abstract: "Run the tasks of packages (the job starts this).", shouldDisplay: false)

  @Option var database: String

  func run() async throws {
    let packages = try PackageDatabase(try Engine.open(at: database, options: WriterSettings.options), path: database)
    let scheduler = try TaskScheduler(
      packages.database, logger: Logger(label: "quickstart") { _ in SwiftLogNoOpLogHandler() })
    try scheduler.register(CheckPackage.self) { task, context in
      let id = PackageID(name: task.name, version: task.version)
      try await context.complete { tx in
        guard let package = try packages.store.load(id, in: tx) else { return }
        let before = try CheckedPackage.load(id, in: tx)?.count ?? 0
        try CheckedPackage(package, count: before + 1).persist(in: tx)
      }
      Acknowledgements.send(1)
      return .done
    }
    try await scheduler.start()
    await scheduler.waitUntilIdle()
    await scheduler.stop()
    try await packages.database.close()
  }
}

/// The parent's view of the child process that runs tasks.
private struct TaskProcess {
  let database: String

  /// Runs the child, and returns the number of tasks that were acknowledged.
  func run(from first: Int, killAfter: Int?) throws -> (acknowledged: Int, wasKilled: Bool) {
    let process = Process()
    let pipe = Pipe()
    process.executableURL = URL(fileURLWithPath: CommandLine.arguments[0])
    process.arguments = ["tasks", "--database", database]
    process.standardOutput = pipe
    try process.run()
    var (bytes, isKilled) = (0, false)
    while true {
      let data = pipe.fileHandleForReading.availableData
      if data.isEmpty { break }
      bytes += data.count
      if let killAfter, bytes / Acknowledgements.size >= killAfter, !isKilled {
        kill(process.processIdentifier, SIGKILL)
        isKilled = true
      }
    }
    process.waitUntilExit()
    guard isKilled || process.terminationStatus == 0 && process.terminationReason == .exit else {
      throw JobError("the process that runs tasks ended with status \(process.terminationStatus)")
    }
    return (bytes / Acknowledgements.size, isKilled)
  }
}

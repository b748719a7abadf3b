import ArgumentParser
import Foundation
import VarveEngine

/// `varve-quickstart`: the main job of the database on real input, checked against a model that the
/// database never sees. `./tools/quickstart` builds and starts it.
///
/// 1. Load a Debian package index through a `Store`: each package is an object, which indexes find by
///    maintainer, by section and installed size, and by the beginning of its name. A view and a counted index have the
///    order in which lists show packages.
/// 2. Run a task for each package, by a child process that is killed by SIGKILL, and then by another one: each task has
///    its effect once.
/// 3. A child process writes generated batches, and is killed by SIGKILL in the middle.
/// 4. Reopen: every acknowledged write exists, and only whole batches.
/// 5. A second child continues to the end.
/// 6. Compact and verify with `varve`.
/// 7. Read everything again.
///
/// The exit status is 0 only if everything that was read back is right.
@main
struct QuickstartCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "varve-quickstart",
    abstract: "Write, kill, reopen, check, compact, verify.",
    subcommands: [RunCommand.self, WriterCommand.self, TasksCommand.self],
    defaultSubcommand: RunCommand.self
  )
}

/// Runs the whole job.
struct RunCommand: ParsableCommand {
  static let configuration = CommandConfiguration(commandName: "run", abstract: "Run the whole job.")

  @Option(help: "An empty directory for the database.") var directory: String
  @Option(help: "A Debian package index (a Packages file).") var packages: String
  @Option(help: "The varve program.") var varve: String
  @Option(help: "How many generated writes.") var writes = 2_000_000
  @Option(help: "Seed of the generated writes and of the moment of the kill.") var seed: UInt64 = 42

  func run() throws {
    let job = Job(
      database: directory + "/quickstart.varve", packagesFile: packages, varve: varve,
      workload: Workload(seed: seed, writeCount: writes))
    try job.run()
  }
}

/// The child process: writes batches from a number on, and acknowledges each on standard output.
struct WriterCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "write", abstract: "Write the generated batches (the job starts this).", shouldDisplay: false)

  @Option var database: String
  @Option var seed: UInt64
  @Option var writes: Int
  @Option(help: "The first batch to write.") var firstBatch: Int
  @Option(help: "A file for the engine's statistics at the end.") var metrics: String

  func run() throws {
    let workload = Workload(seed: seed, writeCount: writes)
    let engine = try Engine.open(at: database, options: WriterSettings.options)
    let writes = try engine.openFamily(WriterSettings.writes)
    let marks = try engine.openFamily(WriterSettings.marks)
    var batch = WriteBatch()
    var userBytes: UInt64 = 0
    for number in firstBatch..<workload.batchCount {
      batch.removeAll()
      for index in workload.batch(number) {
        let write = workload.write(index)
        userBytes += UInt64(write.key.count + (write.value?.count ?? 0))
        if let value = write.value {
          try batch.put(write.key, value, in: writes)
        } else {
          try batch.delete(write.key, in: writes)
        }
      }
      // The mark is part of the batch, in another family, and counts the complete batches.
      try batch.put(WriterSettings.mark, Array(String(number + 1).utf8), in: marks)
      try engine.write(batch)
      Acknowledgements.send(number + 1)
    }
    try engine.waitForCompaction()
    let metrics = WriterMetrics(engine.statistics, userBytes: userBytes)
    try engine.close()
    try JSONEncoder().encode(metrics).write(to: URL(fileURLWithPath: self.metrics))
  }
}

/// The settings that the writing process and the checks share.
enum WriterSettings {
  static let writes = "writes"
  static let marks = "marks"
  static let mark = Array("batches".utf8)

  /// The memtables are small, so that a job of minutes reaches the states that a large database reaches in hours:
  /// flushes, level 0 and several levels below it.
  static var options: EngineOptions {
    var options = EngineOptions()
    options.memtableSize = 4 << 20
    options.cacheSize = 64 << 20
    options.raisesDescriptorLimit = true
    return options
  }
}

/// The counters of the engine in the second writing process.
struct WriterMetrics: Codable {
  let userBytes: UInt64
  let bytesFlushed: UInt64
  let bytesCompactionRead: UInt64
  let bytesCompactionWritten: UInt64

  init(_ statistics: EngineStatistics, userBytes: UInt64) {
    self.userBytes = userBytes
    bytesFlushed = statistics.bytesFlushed
    bytesCompactionRead = statistics.bytesCompactionRead
    bytesCompactionWritten = statistics.bytesCompactionWritten
  }
}

import Foundation
import VarveEngine

/// Runs the steps of the job in their order; `QuickstartCommand` lists them.
struct Job {
  let database: String
  let packagesFile: String
  let varve: String
  let workload: Workload

  func run() throws {
    let clock = ContinuousClock()
    let start = clock.now
    let packages = try loadPackages()
    try PackageTasks(database: database, packages: packages, seed: workload.seed).run()
    var model = Model(workload)

    let killed = try writeAndKill()
    try check("after the kill", &model, acknowledged: killed.acknowledged, packages)
    let metrics = try writeRest(from: model.batchCount)
    try check("after the second writer", &model, acknowledged: workload.batchCount, packages)

    let before = try sizes()
    Report.step("compact", "with varve compact")
    try runVarve("compact", "compact", database)
    Report.step("verify", "with varve verify")
    try runVarve("verify", "verify", database)
    let after = try sizes()
    let live = try check("after compaction", &model, acknowledged: workload.batchCount, packages)

    report(live, metrics, before, after)
    Report.line("all of it was read back and is right; \(Report.seconds(clock.now - start)) s")
  }

  // MARK: - Packages

  private func loadPackages() throws -> [PackageID: DebianPackage] {
    let index = try PackageIndex(contentsOf: packagesFile)
    Report.step("packages", "load \(packagesFile), \(Report.bytes(UInt64(index.byteCount)))")
    let clock = ContinuousClock()
    let start = clock.now
    let database = try PackageDatabase(
      try Engine.open(at: self.database, options: WriterSettings.options), path: self.database)
    let loaded = try database.load(index)
    try database.close()
    guard loaded.stanzaCount > 0 else { throw JobError("\(packagesFile) has no stanza with Package and Version") }
    let seconds = (clock.now - start) / .seconds(1)
    Report.line("\(loaded.stanzaCount) stanzas under \(loaded.packages.count) keys in \(Report.fixed(seconds, 1)) s")
    Report.line(
      "stored as objects in \(loaded.transactionCount) transactions, \(Report.seconds(loaded.writing)) s of that, "
        + "\(Report.rate(loaded.stanzaCount, loaded.writing)) thousand a second")
    return loaded.packages
  }

  // MARK: - Generated writes

  /// Runs the writing process and kills it after two to four fifths of the batches, as the seed determines.
  private func writeAndKill() throws -> WriterProcess.Outcome {
    let batches = workload.batchCount
    let killAfter = batches * 2 / 5 + Int(workload.seed % UInt64(max(1, batches * 2 / 5)))
    Report.step("write", "\(workload.writeCount) writes in \(batches) batches; SIGKILL after batch \(killAfter)")
    let outcome = try writer.run(from: 0, killAfter: killAfter)
    guard outcome.wasKilled else { throw JobError("the writing process ended before it was killed") }
    Report.writes(workload.start(outcome.acknowledged), outcome.seconds, "acknowledged before the kill")
    return outcome
  }

  private func writeRest(from batch: Int) throws -> WriterMetrics {
    Report.step("write on", "from batch \(batch) to the end")
    let outcome = try writer.run(from: batch, killAfter: nil)
    guard outcome.acknowledged == workload.batchCount else {
      throw JobError("\(outcome.acknowledged) batches were acknowledged instead of \(workload.batchCount)")
    }
    let count = workload.writeCount - workload.start(batch)
    Report.writes(count, outcome.seconds, "acknowledged, flushes and compactions included")
    return try JSONDecoder().decode(WriterMetrics.self, from: try Data(contentsOf: URL(fileURLWithPath: metricsFile)))
  }

  private var metricsFile: String { database + ".metrics.json" }
  private var writer: WriterProcess {
    WriterProcess(database: database, workload: workload, metrics: metricsFile)
  }

  // MARK: - Checks

  /// Opens the database, determines how many batches it contains, and compares everything with the model of that many.
  ///
  /// Every acknowledged batch must exist. One more may exist if the child was killed between its commit and its
  /// acknowledgement, but not more, because the child writes one batch at a time.
  ///
  /// Returns the size of all live data in bytes.
  @discardableResult
  private func check(
    _ title: String, _ model: inout Model, acknowledged: Int, _ packages: [PackageID: DebianPackage]
  ) throws -> UInt64 {
    Report.step("check", title)
    let clock = ContinuousClock()
    let start = clock.now
    let engine = try Engine.open(at: database, options: WriterSettings.options)
    let packageDatabase = try PackageDatabase(engine, path: database)
    let opened = clock.now
    let checks = Checks(engine: engine)
    let found = try checks.batchCount()
    guard found == acknowledged || found == acknowledged + 1 else {
      throw JobError("\(acknowledged) batches were acknowledged, and \(found) are there")
    }
    model.advance(to: found)
    try checks.compare(model)
    let outcome = try PackageChecks(packageDatabase, packages).run()
    let edges = try PackageEdgeChecks(packageDatabase, packages).run()
    let lists = try PackageListChecks(packageDatabase).run()
    let compared = clock.now
    let liveSize = try checks.liveSize()
    try packageDatabase.close()
    Report.line(
      "opened in \(Report.seconds(opened - start)) s; \(found) batches, \(model.keyCount) keys, "
        + "\(model.liveCount) live, and \(packages.count) packages compared in \(Report.seconds(compared - opened)) s")
    Report.packages(packages.count, outcome)
    Report.edges(edges)
    Report.lists(lists)
    return liveSize
  }

  // MARK: - Compaction, verification, results

  private func runVarve(_ title: String, _ arguments: String...) throws {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: varve)
    process.arguments = arguments
    try process.run()
    process.waitUntilExit()
    guard process.terminationReason == .exit, process.terminationStatus == 0 else {
      throw JobError("varve \(title) ended with status \(process.terminationStatus)")
    }
  }

  private struct Sizes {
    let tables: UInt64
    let log: UInt64
  }

  private func sizes() throws -> Sizes {
    let files = FileManager.default
    var tables: UInt64 = 0
    var log: UInt64 = 0
    for name in try files.contentsOfDirectory(atPath: database) {
      let size = try files.attributesOfItem(atPath: database + "/" + name)[.size] as? UInt64 ?? 0
      if name.hasSuffix(".sst") { tables += size }
      if name.hasSuffix(".log") || name.hasSuffix(".pool") { log += size }
    }
    return Sizes(tables: tables, log: log)
  }

  private func report(_ live: UInt64, _ metrics: WriterMetrics, _ before: Sizes, _ after: Sizes) {
    let written = metrics.bytesFlushed + metrics.bytesCompactionWritten
    Report.step("results", "")
    Report.line("live keys and values          \(Report.bytes(live))")
    Report.line("tables before, after compact  \(Report.bytes(before.tables)), \(Report.bytes(after.tables))")
    Report.line("log                           \(Report.bytes(after.log))")
    Report.line(
      "space amplification           \(Report.quotient(before.tables, live)) before, "
        + "\(Report.quotient(after.tables, live)) after (blocks are compressed)")
    Report.line(
      "write amplification           \(Report.quotient(written, metrics.userBytes)) "
        + "(flushed and compacted to written, second writer, without the log)")
  }
}

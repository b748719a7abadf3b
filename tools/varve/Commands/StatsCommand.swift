import ArgumentParser
import VarveEngine

/// Prints metrics of a database, even if another process writes to it.
struct StatsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "stats",
    abstract: "Print live statistics: work, memory, cache, stalls, latencies.",
    discussion: """
      A process that has the database open for writing publishes its statistics about once a second; they are \
      printed without opening anything. Without such a process the database is opened read-only, and what it \
      contains is printed once.

      With --watch the statistics are printed again at each interval, until the process closes the database \
      (status 0) or dies (status 1).

      With --fresh the process is asked for its statistics as they are now. Without such a process it makes no \
      difference.

      With --space the space that the database takes is printed instead, by what takes it.

      Example: varve stats /data/example.varve --watch --interval 5
      """
  )

  @OptionGroup var database: DatabaseArgument
  @Flag(help: "Print again at each interval, as long as a process has the database open.") var watch = false
  @Flag(help: "Print the space that the database takes: live data, garbage, what readers and checkpoints keep.")
  var space = false
  @Flag(help: "Ask the process that has the database open, instead of printing what it published last.")
  var fresh = false
  @OptionGroup var patience: PatienceOption
  @Option(help: "Seconds between two outputs of --watch, from 0.1. (default: 1.0)") var interval: Double?
  @Option(help: "End --watch after so many outputs.") var count: Int?
  @OptionGroup var output: OutputOption

  func validate() throws {
    if let interval, !(0.1...86_400 ~= interval) {
      throw ValidationError("--interval is from 0.1 to 86400 seconds")
    }
    if fresh, watch || space { throw ValidationError("--fresh excludes --watch and --space") }
    if space, watch { throw ValidationError("--space and --watch exclude each other") }
    guard fresh || patience.answerWithin == nil else {
      throw ValidationError("--answer-within is about the process that is asked: use it with --fresh")
    }
    if let count, count < 1 { throw ValidationError("--count is at least 1") }
    guard watch || (count == nil && interval == nil) else {
      throw ValidationError("--count and --interval are about repeated outputs: use them with --watch")
    }
  }

  func run() throws {
    let sink = try ByteSink.standardOutput()
    if space {
      try printSpace(to: sink)
      return try sink.finish()
    }
    if fresh { return try printFresh(to: sink) }
    guard let published = try PublishedStatistics.read(at: database.path) else {
      try printResting(nil, to: sink)
      return try sink.finish()
    }
    if published.isRunning {
      try follow(published, sink)
    } else {
      try printResting(published, to: sink)
    }
    try sink.finish()
  }

  /// Prints the statistics that the process which has the database open gives on request.
  private func printFresh(to sink: ByteSink) throws {
    // A database that no process has open is not opened for writing to ask it.
    let published = try PublishedStatistics.read(at: database.path)
    let outcome = try RequestSender(at: database.path, patience: patience.nanoseconds).send(.statistics)
    guard case .answer(let answer) = outcome else {
      try printResting(published.flatMap { $0.isRunning ? nil : $0 }, to: sink)
      return try sink.finish()
    }
    if case .failed(let error) = answer { throw error }
    guard case .statistics(let json) = answer,
      let metrics = try? JSONText.decode(EngineStatistics.self, json.utf8)
    else { throw ToolError(.cannotOpen, "the process that has the database open has answered another question") }
    if output.json {
      try sink.writeJSON(StatsRow(path: database.path, published: nil, diedProcess: nil, metrics: metrics))
    } else {
      try sink.writeLine("database  \(database.path)")
      for line in StatisticsTable(metrics: metrics).lines { try sink.writeLine(line) }
    }
    try sink.finish()
  }

  /// Prints the space that a database takes, which may be open in another process.
  private func printSpace(to sink: ByteSink) throws {
    try database.reading { engine in
      let row = SpaceRow(path: database.path, try engine.space())
      if output.json { return try sink.writeJSON(row) }
      try sink.writeLine("database  \(database.path)")
      for line in TextTable.lines(row.table) { try sink.writeLine(line) }
    }
  }

  /// Prints the state on disk of a database that no process writes to.
  ///
  /// `left` is the statistics that a process left when it ended without closing the database.
  private func printResting(_ left: PublishedStatistics?, to sink: ByteSink) throws {
    if let left {
      StandardError.write(
        "varve: process \(left.processID) ended without closing the database; these are the statistics that it left\n")
    }
    try database.reading { engine in
      let metrics = engine.statistics
      if output.json {
        try sink.writeJSON(
          StatsRow(path: database.path, published: nil, diedProcess: left?.processID, metrics: metrics))
      } else {
        try sink.writeLine("database  \(database.path), not open for writing in any process")
        for line in StatisticsTable(metrics: metrics).lines { try sink.writeLine(line) }
      }
    }
  }

  /// Prints the statistics that a process publishes: once, or with `--watch` as long as it publishes them.
  private func follow(_ first: PublishedStatistics, _ sink: ByteSink) throws {
    var published = first
    var before: (metrics: EngineStatistics, nanoseconds: UInt64)?
    var outputs = 0
    while true {
      let metrics = try published.decoded(path: database.path)
      var table = StatisticsTable(metrics: metrics)
      if let before, published.nanoseconds > before.nanoseconds {
        table.before = (before.metrics, Double(published.nanoseconds - before.nanoseconds) / 1e9)
      }
      try show(published, table, sink)
      if before.map({ $0.nanoseconds < published.nanoseconds }) ?? true { before = (metrics, published.nanoseconds) }
      outputs += 1
      if !watch || outputs == count { return }
      SystemClock().pause(UInt64((interval ?? 1) * 1e9))
      guard let next = try PublishedStatistics.read(at: database.path) else {
        StandardError.write("varve: the database was closed\n")
        return
      }
      guard next.isRunning else {
        StandardError.write("varve: process \(next.processID) ended without closing the database\n")
        try sink.finish()
        throw ExitStatus.answerIsNo.asError
      }
      published = next
    }
  }

  private func show(_ published: PublishedStatistics, _ table: StatisticsTable, _ sink: ByteSink) throws {
    if output.json {
      try sink.writeJSON(
        StatsRow(path: database.path, published: published, diedProcess: nil, metrics: table.metrics))
    } else {
      // In a terminal the table is printed over the previous one: move the cursor home, and clear the screen below it.
      if watch && StandardOutput.isTerminal { try sink.write("\u{1b}[H\u{1b}[J") }
      try sink.writeLine("database  \(database.path), process \(published.processID), update \(published.updateCount)")
      for line in table.lines { try sink.writeLine(line) }
      if watch && !StandardOutput.isTerminal { try sink.writeLine("") }
    }
    try sink.flush()
  }
}

extension PublishedStatistics {
  /// Decodes the statistics. Throws if they were not written by a compatible version of the engine.
  fileprivate func decoded(path: String) throws -> EngineStatistics {
    do {
      return try JSONText.decode(EngineStatistics.self, json.utf8)
    } catch {
      throw ToolError(.cannotOpen, "the statistics are those of another version of the engine: \(error)", file: path)
    }
  }
}

/// Metrics with their source, as `--json` prints them.
private struct StatsRow: Encodable {
  let path: String
  /// Whether a process that has the database open has published the metrics.
  let isLive: Bool
  let process: UInt64?
  let updateCount: UInt64?
  let nanoseconds: UInt64?
  /// The process that left the database without closing it.
  let diedProcess: UInt64?
  let statistics: EngineStatistics

  init(path: String, published: PublishedStatistics?, diedProcess: UInt64?, metrics: EngineStatistics) {
    self.path = path
    isLive = published != nil
    process = published?.processID
    updateCount = published?.updateCount
    nanoseconds = published?.nanoseconds
    self.diedProcess = diedProcess
    statistics = metrics
  }
}

/// The space of a database, as `--space` prints it.
private struct SpaceRow: Encodable {
  let path: String
  let tableBytes: UInt64
  let liveBytes: UInt64
  let garbageFoundBytes: UInt64
  let garbageEstimatedBytes: UInt64
  let heldBytes: UInt64
  let keptBytes: UInt64
  let sharedBytes: UInt64
  let logBytes: UInt64
  let reserveBytes: UInt64
  let freeBytes: UInt64?

  init(path: String, _ space: EngineSpace) {
    self.path = path
    tableBytes = space.tableBytes
    liveBytes = space.liveBytes
    garbageFoundBytes = space.garbageFoundBytes
    garbageEstimatedBytes = space.garbageEstimatedBytes
    heldBytes = space.heldBytes
    keptBytes = space.keptBytes
    sharedBytes = space.sharedBytes
    logBytes = space.logBytes
    reserveBytes = space.reserveBytes
    freeBytes = space.freeBytes
  }

  /// The rows of a table for people.
  var table: [[String]] {
    var rows = [
      ["space", "bytes", ""],
      ["tables", "\(tableBytes)", ""],
      ["  live", "\(liveBytes)", "estimated"],
      ["  garbage", "\(garbageFoundBytes)", "found: under range deletes"],
      ["  garbage", "\(garbageEstimatedBytes)", "estimated: under deletes"],
      ["  held", "\(heldBytes)", "estimated: overwritten or deleted, and kept for a snapshot when last compacted"],
      ["  shared", "\(sharedBytes)", "has another name, as in a checkpoint; deletes do not return it"],
      ["replaced tables", "\(keptBytes)", "kept for readers, or not removed yet"],
      ["log", "\(logBytes)", ""],
      ["reserve", "\(reserveBytes)", "given up when the disk is full"],
    ]
    if let freeBytes { rows.append(["free", "\(freeBytes)", "on the device"]) }
    return rows
  }
}

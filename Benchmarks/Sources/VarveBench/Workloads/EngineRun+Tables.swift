import Foundation
import VarveEngine

/// Workloads of many tables, which show the cost of opening, level 0 and range tombstones by the number of tables.
///
/// They are for Varve only. Each has its own directory, which is removed afterwards.
extension EngineRun {
  func runTables(_ workload: Workload) throws -> Row {
    let (begun, path) = try beginOwnRow(workload)
    defer { try? FileManager.default.removeItem(atPath: path) }
    var row = begun
    PeakMemory.reset()
    switch workload {
    case .coveredtables: try runCoveredTables(path, &row)
    case .levelzero: try runLevelZero(path, &row)
    default: try runOpenTables(path, &row)
    }
    row.microsPerOp = row.ops > 0 ? row.seconds * 1e6 / Double(row.ops) : 0
    row.opsPerSecond = row.seconds > 0 ? Double(row.ops) / row.seconds : 0
    row.peakResidentBytes = PeakMemory.read()
    row.diskBytes = DirectoryUsage(path: path, use: VarveAdapter.fileUse).tableBytes
    return row
  }

  private func openTables(_ path: String, compacts: Bool, budget: Int = 512 << 20) throws -> Engine {
    var options = EngineOptions()
    options.raisesDescriptorLimit = true
    options.memoryBudget = budget
    options.compactsInBackground = compacts
    options.backgroundThreads = settings.engineSettings.backgroundThreads
    options.deadRunMinimum = 0
    return try Engine.open(at: path, options: options)
  }

  private func key(_ number: Int) -> [UInt8] {
    let digits = Array(String(number).utf8)
    return [UInt8](repeating: 0x30, count: max(16 - digits.count, 0)) + digits
  }

  private func note(_ text: String) {
    if settings.prints { print("  " + text) }
  }

  private static func seconds(_ start: UInt64) -> Double { Double(Clock.now() - start) / 1e9 }

  /// Creates tables of one entry each in ascending order, which compactions move to the last level, abandons the engine
  /// without a close, and opens the database.
  ///
  /// `seconds` is the opening; an operation is a table.
  private func runOpenTables(_ path: String, _ row: inout Row) throws {
    let count = settings.tableCount ?? 20_000
    var engine: Engine? = try openTables(path, compacts: true)
    let load = Clock.now()
    for index in 0..<count {
      try engine?.put(key(index), Array("value".utf8))
      try engine?.flush()
    }
    try engine?.waitForCompaction()
    note(String(format: "%d tables made in %.1f s", count, Self.seconds(load)))
    engine = nil
    try timeOpen(path, compacts: true, tableCount: count, &row)
    for budget in [512 << 20, 8 << 30] { try timeGets(path, budget: budget, tableCount: count) }
  }

  /// Measures a get of a random key once every table was read, with a memory budget.
  private func timeGets(_ path: String, budget: Int, tableCount: Int) throws {
    let engine = try openTables(path, compacts: true, budget: budget)
    for index in 0..<tableCount { _ = try engine.get(key(index)) }
    var random = SplitMix64(seed: settings.seed)
    let gets = 200_000
    let start = Clock.now()
    for _ in 0..<gets { _ = try engine.get(key(Int(random.next() % UInt64(tableCount)))) }
    let micros = Self.seconds(start) * 1e6 / Double(gets)
    let open = engine.statistics.memory.openTableCount
    note(String(format: "a get with a budget of %d MiB: %.2f us, %d tables open", budget >> 20, micros, open))
    try engine.close()
  }

  /// Opens a database that was not closed, flushes 100 more tables, closes it, and opens it again.
  private func timeOpen(_ path: String, compacts: Bool, tableCount: Int, _ row: inout Row) throws {
    let usage = ProcessUsage.now()
    var start = Clock.now()
    var engine = try openTables(path, compacts: compacts)
    row.seconds = Self.seconds(start)
    row.cpuSeconds = Double(ProcessUsage.now().cpuNanoseconds - usage.cpuNanoseconds) / 1e9
    row.ops = tableCount
    row.levels = VarveAdapter.counters(engine).levels
    row.found = row.levels.reduce(0) { $0 + $1.files }
    let before = ProcessUsage.now()
    start = Clock.now()
    let flushes = 100
    for index in 0..<flushes {
      try engine.put(key(tableCount + index), Array("value".utf8))
      try engine.flush()
    }
    let cpu = Double(ProcessUsage.now().cpuNanoseconds - before.cpuNanoseconds) / 1e3 / Double(flushes)
    note(
      String(
        format: "a flush of one entry while they are open: %.0f us, %.0f us of processor time with all that it causes",
        Self.seconds(start) * 1e6 / Double(flushes), cpu))
    start = Clock.now()
    try engine.close()
    let closing = Self.seconds(start)
    start = Clock.now()
    engine = try openTables(path, compacts: compacts)
    note(String(format: "close %.3f s, open after it %.3f s", closing, Self.seconds(start)))
    try engine.close()
  }

  /// Creates tables on level 0 that overlap at random, without compactions, and opens them.
  private func runLevelZero(_ path: String, _ row: inout Row) throws {
    let count = settings.tableCount ?? 3_000
    var engine: Engine? = try openTables(path, compacts: false)
    var random = SplitMix64(seed: settings.seed)
    let load = Clock.now()
    var last = load
    for index in 0..<count {
      if index == count - 100 { last = Clock.now() }
      for _ in 0..<10 { try engine?.put(key(Int(random.next() % 1_000_000_000)), Array("value".utf8)) }
      try engine?.flush()
    }
    note(
      String(
        format: "%d tables made in %.1f s, the last 100 at %.0f us each", count, Self.seconds(load),
        Self.seconds(last) * 1e4))
    engine = nil
    try timeOpen(path, compacts: false, tableCount: count, &row)
  }

  /// Writes ascending puts with a range delete for every four, 8 puts per table, so that each table has its own range
  /// tombstones.
  ///
  /// An operation is a table; `seconds` end when no compaction is due; `found` is the maximum number of tables in level
  /// 0.
  private func runCoveredTables(_ path: String, _ row: inout Row) throws {
    let count = settings.tableCount ?? 30_000
    let engine = try openTables(path, compacts: true)
    let usage = ProcessUsage.now()
    let start = Clock.now()
    var deepest = 0
    for index in 0..<count {
      for offset in 0..<8 {
        try engine.put(key(index * 16 + offset), Array("value".utf8))
        if offset % 4 == 3 {
          try engine.deleteRange(from: key(index * 16 + offset - 1), to: key(index * 16 + offset))
        }
      }
      try engine.flush()
      if index % 250 == 249 { deepest = max(deepest, Int(engine.statistics.levels[0].fileCount)) }
    }
    let loaded = Self.seconds(start)
    try engine.waitForCompaction()
    row.seconds = Self.seconds(start)
    row.cpuSeconds = Double(ProcessUsage.now().cpuNanoseconds - usage.cpuNanoseconds) / 1e9
    row.ops = count
    row.found = deepest
    row.levels = VarveAdapter.counters(engine).levels
    note(
      String(
        format: "at most %d tables on level 0; %.2f s after the last put until nothing was to compact", deepest,
        row.seconds - loaded))
    try engine.close()
  }
}

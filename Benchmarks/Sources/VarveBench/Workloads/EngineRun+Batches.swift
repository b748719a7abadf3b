import Foundation
import VarveEngine

/// Workloads of indexed batches and of ingestion, for Varve only. Each has its own directory, which is removed
/// afterwards.
extension EngineRun {
  func runBatches(_ workload: Workload) throws -> Row {
    let (begun, path) = try beginOwnRow(workload)
    defer { try? FileManager.default.removeItem(atPath: path) }
    var row = begun
    var options = EngineOptions()
    options.memoryBudget = 512 << 20
    let engine = try Engine.open(at: path, options: options)
    PeakMemory.reset()
    let usage = ProcessUsage.now()
    switch workload {
    case .ingest: try runIngest(engine, &row)
    case .indexedput1x4: try runFourFamilies(engine, &row)
    case .indexedrollback: try runRollback(engine, &row)
    default: try runIndexedPut(engine, &row)
    }
    row.cpuSeconds = Double(ProcessUsage.now().cpuNanoseconds - usage.cpuNanoseconds) / 1e9
    row.peakResidentBytes = PeakMemory.read()
    row.microsPerOp = row.ops > 0 ? row.seconds * 1e6 / Double(row.ops) : 0
    row.opsPerSecond = row.seconds > 0 ? Double(row.ops) / row.seconds : 0
    row.diskBytes = DirectoryUsage(path: path, use: VarveAdapter.fileUse).tableBytes
    try engine.close()
    return row
  }

  /// Returns the key of a number, 20 bytes.
  private func key(_ number: UInt64) -> [UInt8] {
    withUnsafeBytes(of: number.bigEndian) { Array($0) } + [UInt8](repeating: 0x6b, count: 12)
  }

  private static func seconds(_ start: UInt64) -> Double { Double(Clock.now() - start) / 1e9 }

  /// Writes `num` sorted entries of 20 + 40 bytes (1,000,000) into tables, ingests and syncs them. An operation is an
  /// entry.
  private func runIngest(_ engine: Engine, _ row: inout Row) throws {
    let count = settings.entryCount ?? 1_000_000
    let family = try engine.createFamily("ingested")
    let value = [UInt8](repeating: 0x76, count: 40)
    let keys = (0..<UInt64(count)).map(key)
    let start = Clock.now()
    let writer = try engine.makeTableWriter(for: family)
    for key in keys { try writer.put(key, value) }
    try engine.ingest(writer.finish(), into: family)
    row.seconds = Self.seconds(start)
    row.ops = count
    guard try engine.get(keys[count / 2], in: family) != nil else {
      throw EngineFailure("an ingested key is not there")
    }
  }

  /// Puts entries of 20 + 40 bytes with random keys into batches of 1,000, measured before their commits. An operation
  /// is a put.
  private func runIndexedPut(_ engine: Engine, _ row: inout Row) throws {
    var random = SplitMix64(seed: settings.seed)
    let value = [UInt8](repeating: 0x76, count: 40)
    let keys = (0..<1_000).map { _ in key(random.next()) }
    for _ in 0..<(settings.entryCount ?? 500_000) / keys.count {
      let start = Clock.now()
      var batch = IndexedWriteBatch(engine)
      for key in keys { try batch.put(key, value) }
      row.seconds += Self.seconds(start)
      row.ops += keys.count
      try engine.write(batch)
    }
  }

  /// Creates and commits batches of one put in each of four families, a thousand in turn with a thousand plain batches.
  ///
  /// An operation is an indexed batch.
  private func runFourFamilies(_ engine: Engine, _ row: inout Row) throws {
    let families = try engine.createFamilies(["a", "b", "c", "d"])
    let value = [UInt8](repeating: 0x76, count: 40)
    let keys = (0..<1_000).map { key(UInt64($0)) }
    var plain = 0.0
    for _ in 0..<max((settings.entryCount ?? 100_000) / keys.count, 1) {
      var start = Clock.now()
      for key in keys {
        var batch = IndexedWriteBatch(engine)
        for family in families { try batch.put(key, value, in: family) }
        try engine.write(batch)
      }
      row.seconds += Self.seconds(start)
      row.ops += keys.count
      start = Clock.now()
      for key in keys {
        var batch = WriteBatch()
        for family in families { try batch.put(key, value, in: family) }
        try engine.write(batch)
      }
      plain += Self.seconds(start)
    }
    if settings.prints {
      let count = Double(row.ops)
      print(String(format: "  indexed %.3f us, plain %.3f us a batch", row.seconds * 1e6 / count, plain * 1e6 / count))
    }
  }

  /// Sets a savepoint, puts and rolls back, first among 1,000 and then among 16,000 pending entries.
  ///
  /// An operation is one of the latter.
  private func runRollback(_ engine: Engine, _ row: inout Row) throws {
    let value = [UInt8](repeating: 0x76, count: 40)
    for pending in [1_000, 16_000] {
      var random = SplitMix64(seed: settings.seed)
      var batch = IndexedWriteBatch(engine)
      for _ in 0..<pending { try batch.put(key(random.next()), value) }
      let count = settings.entryCount ?? 100_000
      let start = Clock.now()
      for _ in 0..<count {
        batch.setSavepoint()
        try batch.put(key(random.next()), value)
        try batch.rollbackToSavepoint()
      }
      row.seconds = Self.seconds(start)
      row.ops = count
      if settings.prints {
        print(String(format: "  among %d: %.3f us", pending, row.seconds * 1e6 / Double(count)))
      }
    }
  }
}

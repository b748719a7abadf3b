import Foundation
import VarveEngine

/// The workload `idlespace`: deletes rows, does nothing, and measures when their space is returned.
///
/// It is for Varve only, and has its own directory, which is removed afterwards.
extension EngineRun {
  private enum IdleVariant: String, CaseIterable {
    /// Each key is deleted by itself, and the memtable is flushed.
    case deletes
    /// As `deletes`, of every second key.
    case everysecond
    /// One range delete, and a flush.
    case range
    /// As `deletes`, without a flush: the engine flushes the memtable by itself after 30 seconds.
    case unflushed

    /// The share of the bytes before that may be left.
    var shareLeft: Double { self == .everysecond ? 0.6 : 0.05 }
  }

  /// The number of rows from which the variant that waits for the engine's flush is measured.
  private static let unflushedMinimum = 20_000
  /// The seconds in which the space must be returned, and those after which the row ends.
  private static let idleAllowed = 120.0
  private static let idleMaximum = 600.0

  func runIdle(_ workload: Workload) throws {
    for variant in IdleVariant.allCases where variant != .unflushed || settings.num >= Self.unflushedMinimum {
      var (row, path) = try beginOwnRow(workload)
      defer { try? FileManager.default.removeItem(atPath: path) }
      row.variant = variant.rawValue
      let engine = try Engine.open(at: path)
      try loadIdle(engine)
      row.diskBytesBefore = DirectoryUsage(path: path, use: VarveAdapter.fileUse).tableBytes
      row.ops = try deleteIdle(engine, variant)
      let written = engine.statistics.work
      let usage = ProcessUsage.now()
      try waitForSpace(engine, path, variant, &row)
      let work = engine.statistics.work
      row.bytesWritten =
        work.bytesCompactionWritten + work.bytesFlushed - written.bytesCompactionWritten - written.bytesFlushed
      row.cpuSeconds = Double(ProcessUsage.now().cpuNanoseconds - usage.cpuNanoseconds) / 1e9
      row.microsPerOp = row.seconds * 1e6 / Double(row.ops)
      row.opsPerSecond = Double(row.ops) / row.seconds
      let start = Clock.now()
      var cursor = try engine.cursor()
      try cursor.seekToFirst()
      row.max = Double(Clock.now() - start) / 1e3
      row.found = cursor.isValid ? 1 : 0
      try report(row)
      try engine.close()
    }
  }

  private func loadIdle(_ engine: Engine) throws {
    var state = settings.seed | 1
    var value = [UInt8](repeating: 0, count: 8_192)
    for number in 0..<settings.num {
      // Random bytes, so that no codec makes the rows smaller.
      for offset in stride(from: 0, to: value.count, by: 8) {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        for byte in 0..<8 { value[offset + byte] = UInt8(truncatingIfNeeded: state >> UInt64(8 * byte)) }
      }
      try engine.put(Self.idleKey(number), value)
    }
    try engine.flush()
    try engine.waitForCompaction()
  }

  /// Deletes the rows of a variant, and returns their number.
  private func deleteIdle(_ engine: Engine, _ variant: IdleVariant) throws -> Int {
    var count = settings.num
    if variant == .range {
      try engine.deleteRange(from: Self.idleKey(0), to: Self.idleKey(count))
    } else {
      let step = variant == .everysecond ? 2 : 1
      for number in stride(from: 0, to: settings.num, by: step) { try engine.delete(Self.idleKey(number)) }
      count = (settings.num + step - 1) / step
    }
    if variant != .unflushed { try engine.flush() }
    return count
  }

  /// Waits until the tables have no more bytes than the variant allows.
  private func waitForSpace(_ engine: Engine, _ path: String, _ variant: IdleVariant, _ row: inout Row) throws {
    let start = Clock.now()
    let goal = UInt64(Double(row.diskBytesBefore ?? 0) * variant.shareLeft)
    repeat {
      Thread.sleep(forTimeInterval: 0.05)
      row.seconds = Double(Clock.now() - start) / 1e9
      row.diskBytes = DirectoryUsage(path: path, use: VarveAdapter.fileUse).tableBytes
    } while row.diskBytes > goal && row.seconds < Self.idleMaximum
    row.allowedSeconds = Self.idleAllowed
    row.meetsGoal = row.diskBytes <= goal && row.seconds <= Self.idleAllowed
  }

  private static func idleKey(_ number: Int) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - $0 * 8)) }
  }
}

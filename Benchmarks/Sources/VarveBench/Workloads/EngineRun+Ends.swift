import Foundation
import VarveEngine

/// The workload `endsread`: looks at the ends of a consumed range.
///
/// It is for Varve only, and has its own directory, which is removed afterwards.
extension EngineRun {
  func runEnds(_ workload: Workload) throws {
    let (begun, path) = try beginOwnRow(workload)
    defer { try? FileManager.default.removeItem(atPath: path) }
    let count = settings.num
    let middle = count / 2
    var options = EngineOptions()
    options.compactsInBackground = false
    options.deadRunMinimum = 0
    let writer = try Engine.open(at: path, options: options)
    var batch = WriteBatch()
    for pass in 0..<2 {
      for number in 0..<count where pass == 0 || abs(number - middle) >= 5 {
        let key = Self.endKey(number)
        if pass == 0 { try batch.put(key, [1, 2, 3, 4]) } else { try batch.delete(key) }
        if batch.count == 1_000 {
          try writer.write(batch)
          batch.removeAll()
        }
      }
    }
    try writer.write(batch)
    try writer.flush()
    try reportEnds(writer, "writer", begun)
    let follower = try Engine.follow(at: path)
    try reportEnds(follower.engine, "follower", begun)
    try follower.close()
    try writer.close()
    options.readOnly = true
    let reader = try Engine.open(at: path, options: options)
    try reportEnds(reader, "readonly", begun)
    try reader.close()
  }

  private static func endKey(_ number: Int) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - $0 * 8)) }
  }

  /// Reports the looks after the first one at either end. `max` is the first look.
  private func reportEnds(_ engine: Engine, _ variant: String, _ begun: Row) throws {
    var row = begun
    row.variant = variant
    row.ops = 200
    var first = 0.0
    let usage = ProcessUsage.now()
    for look in 0...row.ops / 2 {
      let start = Clock.now()
      for isFirst in [true, false] {
        var cursor = try engine.cursor(snapshot: engine.snapshot())
        if isFirst { try cursor.seekToFirst() } else { try cursor.seekToLast() }
        if cursor.isValid { row.found = (row.found ?? 0) + 1 }
      }
      let seconds = Double(Clock.now() - start) / 1e9
      if look == 0 { first = seconds } else { row.seconds += seconds }
    }
    row.cpuSeconds = Double(ProcessUsage.now().cpuNanoseconds - usage.cpuNanoseconds) / 1e9
    row.microsPerOp = row.seconds * 1e6 / Double(row.ops)
    row.opsPerSecond = Double(row.ops) / row.seconds
    row.max = first * 1e6 / 2
    try report(row)
  }
}

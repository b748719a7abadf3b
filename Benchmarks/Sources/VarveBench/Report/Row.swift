import Foundation
import Histogram

/// One row of the report: one workload of one engine in one round.
///
/// The names of the fields and their order up to `found` are fixed; further fields may be added after it.
struct Row: Codable {
  var engine = ""
  var version = ""
  var workload = ""
  var ops = 0
  /// The number of threads that ran the operations, or of Swift tasks for the workloads that have `--tasks`.
  var threads = 1
  var seconds = 0.0
  var opsPerSecond = 0.0
  /// The wall time of the row per operation, whatever the number of threads.
  var microsPerOp = 0.0
  var p50: Double?
  var p99: Double?
  var p999: Double?
  var p9999: Double?
  var max: Double?
  /// The CPU time of the whole process within the row, including the engine's background threads.
  var cpuSeconds = 0.0
  /// The largest resident set within the row, including mapped files that were touched.
  var peakResidentBytes: UInt64 = 0
  var diskBytes: UInt64 = 0
  var logBytes: UInt64 = 0
  /// Bytes written to tables by flushes and compactions within the row (LMDB: pages).
  var bytesWritten: UInt64 = 0
  /// Bytes that read system calls returned within the row, without reads through mapped files.
  var bytesRead: UInt64 = 0
  /// The table bytes written per byte of user data, both since the first row of this run, so that the row
  /// `waitforcompaction` after a fill has that of the fill and all its compactions.
  var writeAmplification: Double?
  /// The table bytes per byte of live keys and values.
  var spaceAmplification: Double?
  var found: Int?

  var round = 1
  var userBytes: UInt64 = 0
  /// Bytes of pages that the process made dirty within the row, tables and log, by any means.
  var bytesDirtied: UInt64 = 0
  /// Read and write system calls within the row.
  var ioCalls: UInt64 = 0
  /// The number of operations of the writer that runs during `readwhilewriting`.
  var writerOps: Int?
  /// The variant of the workload, if it has several.
  var variant: String?
  /// For `memoryunderreaders`, the maximum number of bytes that the engine accounted for, and its budget.
  var peakAccountedBytes: UInt64?
  var budgetBytes: UInt64?
  /// For `taskreopen`, the bytes of the log that the opening replays; for `followopen` and `followcatchup`, the mean of
  /// those of the writer's log when an operation began.
  var replayedBytes: UInt64?
  /// For `followopen`, `followcatchup`, `idlespace`, and `taskreopen` with Varve, the time that the goal allows an
  /// operation for this log, and whether none took longer.
  var allowedSeconds: Double?
  var meetsGoal: Bool?
  /// For `followopen` and `followcatchup`, the median and the maximum of an operation's time divided by the time that
  /// the goal allows for the log that it found.
  var timesAllowed: Double?
  var maxTimesAllowed: Double?
  /// For `idlespace`, the bytes of tables before the deletes. `diskBytes` has those afterwards.
  var diskBytesBefore: UInt64?
  /// For `taskgroup`, the operations per second divided by those of a single Swift task.
  var timesSingle: Double?
  /// For workloads of views, the time of an operation beyond that of the same operation without an order.
  var microsBeyond: Double?
  /// For `viewmemory` and `viewdisk`, the bytes of a row.
  var bytesPerOp: Double?
  /// The goal of the row, for Varve.
  var goal: RowGoal?
  var perSecond: [UInt64] = []
  var levels: [LevelUsage] = []
  /// (percentile, microseconds) pairs for the plot.
  var percentiles: [[Double]] = []

  enum CodingKeys: String, CodingKey {
    case engine, version, workload, ops, threads, seconds
    case opsPerSecond = "ops_per_sec"
    case microsPerOp = "micros_per_op"
    case p50 = "p50_us"
    case p99 = "p99_us"
    case p999 = "p999_us"
    case p9999 = "p9999_us"
    case max = "max_us"
    case cpuSeconds = "cpu_seconds"
    case peakResidentBytes = "peak_rss_bytes"
    case diskBytes = "disk_bytes"
    case logBytes = "log_bytes"
    case bytesWritten = "bytes_written"
    case bytesRead = "bytes_read"
    case writeAmplification = "write_amplification"
    case spaceAmplification = "space_amplification"
    case found, round
    case userBytes = "user_bytes"
    case bytesDirtied = "bytes_dirtied"
    case ioCalls = "io_calls"
    case writerOps = "writer_ops"
    case variant
    case peakAccountedBytes = "peak_accounted_bytes"
    case budgetBytes = "budget_bytes"
    case replayedBytes = "replayed_bytes"
    case allowedSeconds = "allowed_seconds"
    case meetsGoal = "meets_goal"
    case timesAllowed = "times_allowed"
    case maxTimesAllowed = "max_times_allowed"
    case diskBytesBefore = "disk_bytes_before"
    case timesSingle = "times_single"
    case microsBeyond = "micros_beyond"
    case bytesPerOp = "bytes_per_op"
    case goal
    case perSecond = "ops_by_second"
    case levels
    case percentiles
  }

  mutating func take(_ histogram: Histogram<UInt64>) {
    guard histogram.totalCount > 0 else { return }
    func micros(_ percentile: Double) -> Double {
      Double(histogram.valueAtPercentile(percentile)) / 1000
    }
    p50 = micros(50)
    p99 = micros(99)
    p999 = micros(99.9)
    p9999 = micros(99.99)
    max = Double(histogram.max) / 1000
    percentiles = [0, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99, 99.995, 99.999, 100].map {
      [$0, micros($0)]
    }
  }

  /// The row as text, such as `fillrandom   :   0.912 micros/op  1096491 ops/sec  4.56 seconds  5000000 operations`.
  var line: String {
    let name = workload.padding(toLength: Swift.max(12, workload.count), withPad: " ", startingAt: 0)
    var text = String(
      format: "%@ : %7.3f micros/op %9.0f ops/sec %8.2f seconds %9d operations", name as NSString, microsPerOp,
      opsPerSecond, seconds, ops)
    if let found { text += found > ops ? "  (\(found) found)" : "  (\(found) of \(ops) found)" }
    if let writerOps { text += String(format: "  (writer %.0f/sec)", Double(writerOps) / Swift.max(seconds, 1e-9)) }
    if let replayedBytes { text += String(format: "  (log %.1f MB)", Double(replayedBytes) / 1e6) }
    if let allowedSeconds, let meetsGoal {
      text += String(format: "  (%.3f s allowed: ", allowedSeconds) + (meetsGoal ? "met)" : "not met)")
    }
    if let variant, workload.hasPrefix("view") { text += "  (\(variant))" }
    if let microsBeyond { text += String(format: "  (%.2f micros beyond)", microsBeyond) }
    if let bytesPerOp { text += String(format: "  (%.2f bytes/op)", bytesPerOp) }
    if let goal { text += "  (\(goal.text): \(goal.isMet(self) ?? false ? "met" : "not met"))" }
    if let timesSingle { text += String(format: "  (%.2f times as many as one task)", timesSingle) }
    return text
  }

  /// The row as one line of JSON, with its fields in the documented order.
  var jsonLine: String {
    var fields: [String] = []
    func add(_ key: CodingKeys, _ text: String) { fields.append("\"\(key.rawValue)\":\(text)") }
    func number(_ value: Double?) -> String {
      guard let value, value.isFinite else { return "null" }
      return String(format: "%.6g", value)
    }
    add(.engine, Self.quoted(engine))
    add(.version, Self.quoted(version))
    add(.workload, Self.quoted(workload))
    add(.ops, "\(ops)")
    add(.threads, "\(threads)")
    add(.seconds, String(format: "%.6f", seconds))
    add(.opsPerSecond, String(format: "%.1f", opsPerSecond))
    add(.microsPerOp, String(format: "%.4f", microsPerOp))
    add(.p50, number(p50))
    add(.p99, number(p99))
    add(.p999, number(p999))
    add(.p9999, number(p9999))
    add(.max, number(max))
    add(.cpuSeconds, String(format: "%.6f", cpuSeconds))
    add(.peakResidentBytes, "\(peakResidentBytes)")
    add(.diskBytes, "\(diskBytes)")
    add(.logBytes, "\(logBytes)")
    add(.bytesWritten, "\(bytesWritten)")
    add(.bytesRead, "\(bytesRead)")
    add(.writeAmplification, number(writeAmplification))
    add(.spaceAmplification, number(spaceAmplification))
    add(.found, found.map { "\($0)" } ?? "null")
    add(.round, "\(round)")
    add(.userBytes, "\(userBytes)")
    add(.bytesDirtied, "\(bytesDirtied)")
    add(.ioCalls, "\(ioCalls)")
    add(.writerOps, writerOps.map { "\($0)" } ?? "null")
    if let variant { add(.variant, Self.quoted(variant)) }
    if let peakAccountedBytes { add(.peakAccountedBytes, "\(peakAccountedBytes)") }
    if let budgetBytes { add(.budgetBytes, "\(budgetBytes)") }
    if let replayedBytes { add(.replayedBytes, "\(replayedBytes)") }
    if let allowedSeconds { add(.allowedSeconds, number(allowedSeconds)) }
    if let meetsGoal { add(.meetsGoal, "\(meetsGoal)") }
    if let timesAllowed { add(.timesAllowed, number(timesAllowed)) }
    if let maxTimesAllowed { add(.maxTimesAllowed, number(maxTimesAllowed)) }
    if let timesSingle { add(.timesSingle, number(timesSingle)) }
    if let microsBeyond { add(.microsBeyond, number(microsBeyond)) }
    if let bytesPerOp { add(.bytesPerOp, number(bytesPerOp)) }
    if let goal {
      add(.goal, "{\"result\":\(Self.quoted(goal.result.rawValue)),\"limit\":\(number(goal.limit))}")
    }
    add(.perSecond, "[" + perSecond.map { "\($0)" }.joined(separator: ",") + "]")
    add(
      .levels,
      "["
        + levels.map { "{\"level\":\($0.level),\"files\":\($0.files),\"bytes\":\($0.bytes)}" }.joined(separator: ",")
        + "]")
    add(
      .percentiles,
      "[" + percentiles.map { "[\(number($0[0])),\(number($0[1]))]" }.joined(separator: ",") + "]")
    return "{" + fields.joined(separator: ",") + "}"
  }

  private static func quoted(_ text: String) -> String {
    let escaped = text.replacingOccurrences(of: "\\", with: "\\\\").replacingOccurrences(of: "\"", with: "\\\"")
    return "\"\(escaped)\""
  }
}

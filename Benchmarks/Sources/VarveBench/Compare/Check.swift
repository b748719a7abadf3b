import Foundation

/// A line of the comparison: a metric of each engine, and the limits for Varve's.
///
/// Results are costs, so lower is better. The gates must be read as in the engine's specification.
struct Check: Sendable {
  enum Gate: Sendable {
    /// The peer's metric must be at least this many times Varve's.
    case timesFaster(Double, than: EngineKind)
    /// Varve's metric must be at most this many times the peer's.
    case atMost(Double, of: EngineKind)
    /// Varve's metric must be at most this many times another metric of Varve's run.
    case atMostOwn(Double, of: @Sendable (Run) -> Double?, named: String)
    /// Varve's metric must be at most this.
    case absolute(Double)
    /// The metric is shown, but not judged.
    case none
  }

  var name: String
  var title: String
  var unit: String
  var scenario: String
  var gates: [Gate]
  var metric: @Sendable (Run) -> Double?

  /// The rows of one scenario, engine and round, in order.
  struct Run {
    var rows: [Row]

    /// Returns the wall time of a row and of the wait after it, divided by the row's operations.
    func microsUntilCompacted(_ index: Int) -> Double? {
      guard rows.count > index + 1, rows[index].ops > 0 else { return nil }
      return (rows[index].seconds + rows[index + 1].seconds) * 1e6 / Double(rows[index].ops)
    }

    /// Returns the time per operation over all rows of one workload.
    func meanMicros(_ workload: String) -> Double? {
      let chosen = rows.filter { $0.workload == workload }
      let operations = chosen.reduce(0) { $0 + $1.ops }
      return operations > 0 ? chosen.reduce(0) { $0 + $1.seconds } * 1e6 / Double(operations) : nil
    }

    func micros(_ index: Int) -> Double? { rows.count > index ? rows[index].microsPerOp : nil }
    func row(_ index: Int) -> Row? { rows.count > index ? rows[index] : nil }
  }
}

extension Check {
  /// All checks in the order of the table. The name of every row can be given to `--only`.
  static let all: [Check] = writes + syncs + reads + costs + long

  private static let writes: [Check] = [
    Check(
      name: "putalone", title: "put into log and memtable alone, random", unit: "µs", scenario: "alone",
      gates: [.absolute(0.6)], metric: { $0.micros(0) }),
    Check(
      name: "putaloneseq", title: "put into log and memtable alone, ascending", unit: "µs", scenario: "alone",
      gates: [.absolute(0.4)], metric: { $0.micros(1) }),
    Check(
      name: "fillseq", title: "fillseq, until compaction is done", unit: "µs", scenario: "seq",
      gates: [.timesFaster(4, than: .rocksdb)], metric: { $0.microsUntilCompacted(0) }),
    Check(
      name: "fillseq", title: "fillseq, foreground", unit: "µs", scenario: "seq",
      gates: [.timesFaster(4, than: .rocksdb)], metric: { $0.micros(0) }),
    Check(
      name: "fillrandom", title: "fillrandom, until compaction is done", unit: "µs", scenario: "random",
      gates: [.timesFaster(3.5, than: .rocksdb)], metric: { $0.microsUntilCompacted(0) }),
    Check(
      name: "overwrite", title: "overwrite, until compaction is done", unit: "µs", scenario: "random",
      gates: [.timesFaster(3.5, than: .rocksdb)], metric: { $0.microsUntilCompacted(2) }),
    Check(
      name: "overwritehot", title: "overwritehot (100 keys)", unit: "µs", scenario: "random",
      gates: [.atMostOwn(1, of: { $0.micros(2) }, named: "overwrite")], metric: { $0.micros(4) }),
    Check(
      name: "fillclustered", title: "fillclustered, until compaction is done", unit: "µs", scenario: "clustered",
      gates: [.timesFaster(4, than: .rocksdb)], metric: { $0.microsUntilCompacted(0) }),
    Check(
      name: "threads", title: "fillrandom, 4 threads, until compaction is done", unit: "µs", scenario: "threads",
      gates: [.timesFaster(3.5, than: .rocksdb)], metric: { $0.microsUntilCompacted(0) }),
    Check(
      name: "large", title: "fillrandom, values of 4 KiB, until compaction is done", unit: "µs", scenario: "large",
      gates: [.timesFaster(1.1, than: .rocksdb)], metric: { $0.microsUntilCompacted(0) }),
    Check(
      name: "large", title: "  table bytes written by user bytes", unit: "×", scenario: "large",
      gates: [.none], metric: { $0.row(1)?.writeAmplification }),
  ]

  private static let syncs: [Check] = [
    Check(
      name: "fillsync", title: "fillsync", unit: "µs", scenario: "sync",
      gates: [
        .atMostOwn(1.1, of: { $0.meanMicros("syncloop") }, named: "raw append + fdatasync"),
        .timesFaster(1.2, than: .rocksdb),
      ], metric: { $0.meanMicros("fillsync") }),
    Check(
      name: "syncloop", title: "  raw append + fdatasync in the same run", unit: "µs", scenario: "sync",
      gates: [.none], metric: { $0.meanMicros("syncloop") }),
    Check(
      name: "fillmixed", title: "fillmixed (1 in 100 synced)", unit: "µs", scenario: "mixed",
      gates: [.timesFaster(1.3, than: .rocksdb)], metric: { $0.micros(0) }),
  ]

  private static let reads: [Check] = [
    Check(
      name: "readrandom", title: "readrandom, cache holds all, warmed", unit: "µs", scenario: "reads",
      gates: [.timesFaster(1.5, than: .rocksdb)], metric: { $0.micros(4) }),
    Check(
      name: "smallcache", title: "readrandom, 8 MiB cache, data in the page cache", unit: "µs",
      scenario: "smallcache", gates: [.timesFaster(1, than: .rocksdb)], metric: { $0.micros(1) }),
    Check(
      name: "readmissing", title: "readmissing, warmed", unit: "µs", scenario: "reads", gates: [.none],
      metric: { $0.micros(5) }),
    Check(
      name: "readseq", title: "readseq, warmed, per entry", unit: "µs", scenario: "reads",
      gates: [.timesFaster(1, than: .leveldb)], metric: { $0.micros(2) }),
    Check(
      name: "seekrandom", title: "seekrandom + 10 next", unit: "µs", scenario: "reads",
      gates: [.timesFaster(2, than: .rocksdb)], metric: { $0.micros(6) }),
    Check(
      name: "readwhilewriting", title: "readwhilewriting, writer at 50,000 puts/s", unit: "µs", scenario: "writing",
      gates: [.timesFaster(1.5, than: .rocksdb)], metric: { $0.micros(1) }),
    Check(
      name: "readwhilewriting", title: "  the same, each writer at full speed", unit: "µs", scenario: "writing",
      gates: [.none], metric: { $0.micros(2) }),
    Check(
      name: "readwhilewriting", title: "  and what a put of that writer takes", unit: "µs", scenario: "writing",
      gates: [.none],
      metric: { run in run.row(2).flatMap { row in row.writerOps.map { row.seconds * 1e6 / Double(max($0, 1)) } } }),
  ]

  private static let costs: [Check] = [
    Check(
      name: "size", title: "tables after fillrandom, compaction done", unit: "MiB", scenario: "random",
      gates: [.atMost(1, of: .rocksdb)], metric: { $0.row(1).map { Double($0.diskBytes) / 1_048_576 } }),
    Check(
      name: "size", title: "tables after everything was compacted", unit: "MiB", scenario: "reads",
      gates: [.atMost(1, of: .rocksdb)], metric: { $0.row(0).map { Double($0.diskBytes) / 1_048_576 } }),
    Check(
      name: "amplification", title: "write amplification of fillrandom", unit: "×", scenario: "random",
      gates: [.atMost(1, of: .rocksdb)], metric: { $0.row(1)?.writeAmplification }),
    Check(
      name: "amplification", title: "write amplification of fillrandom and overwrite", unit: "×", scenario: "random",
      gates: [.atMost(1, of: .rocksdb)], metric: { $0.row(3)?.writeAmplification }),
    Check(
      name: "cpu", title: "process CPU, fillrandom until compacted", unit: "s", scenario: "random",
      gates: [.atMost(0.35, of: .rocksdb)],
      metric: { run in
        run.row(0).flatMap { fill in run.row(1).map { fill.cpuSeconds + $0.cpuSeconds } }
      }),
    Check(
      name: "latency", title: "put p99.99 under overwrite", unit: "µs", scenario: "random",
      gates: [.timesFaster(1, than: .rocksdb)], metric: { $0.row(2)?.p9999 }),
    Check(
      name: "memory", title: "peak resident memory of fillrandom", unit: "MiB", scenario: "random", gates: [.none],
      metric: { $0.row(0).map { Double($0.peakResidentBytes) / 1_048_576 } }),
  ]

  /// The check of `longoverwrite`, which runs only on request.
  private static let long: [Check] = [
    Check(
      name: "longoverwrite", title: "overwrite for long: median second by slowest second", unit: "×",
      scenario: "longoverwrite", gates: [.absolute(2.5)],
      metric: { run in
        guard let seconds = run.row(1)?.perSecond.sorted(), let slowest = seconds.first else { return nil }
        return Double(seconds[seconds.count / 2]) / Double(max(slowest, 1))
      }),
    Check(
      name: "longoverwrite", title: "  a put", unit: "µs", scenario: "longoverwrite", gates: [.none],
      metric: { $0.micros(1) }),
    Check(
      name: "longoverwrite", title: "  longest put", unit: "ms", scenario: "longoverwrite", gates: [.absolute(200)],
      metric: { $0.row(1)?.max.map { $0 / 1000 } }),
  ]
}

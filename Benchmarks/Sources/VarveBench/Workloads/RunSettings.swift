/// Everything a child process has to know to run its rows: one engine, one round.
struct RunSettings: Codable {
  var engine = EngineKind.varve
  var workloads: [Workload] = []
  var databasePath = ""
  var num = 1_000_000
  /// The number of puts of `putalone`, where it is not `num`.
  var aloneNum: Int?
  var reads: Int?
  var keySize = 16
  var valueSize = 100
  var compressionRatio = 0.5
  var threads = 1
  var batchSize = 1
  var sync = false
  var seed: UInt64 = 42
  var useExisting = false
  var latency = true
  /// Seconds after which a row ends, 0 for none; then its number of operations is not limited.
  var duration = 0.0
  /// Puts a second of the writer of `readwhilewriting`; 0 for full speed.
  var writeRate = 0
  var round = 1
  /// Where the child appends its rows.
  var reportPath = ""
  /// Whether rows are printed for people as they end.
  var prints = true
  var engineSettings = EngineSettings()

  var userBytesPerPut: UInt64 { UInt64(keySize + valueSize) }
}

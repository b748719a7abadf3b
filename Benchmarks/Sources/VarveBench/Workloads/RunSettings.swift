/// One row to run, with the settings that it overrides.
struct Step: Codable {
  var workload: Workload
  var reads: Int?
  var duration: Double?
  var writeRate: Int?
  /// For `memoryunderreaders`, the one case that a process measures.
  var readers: EngineRun.Readers?
  /// Whether the process is the one that another process starts and kills, for `taskreopen`, `followopen` and
  /// `followcatchup`.
  var isKilled: Bool

  init(
    _ workload: Workload, reads: Int? = nil, duration: Double? = nil, writeRate: Int? = nil,
    readers: EngineRun.Readers? = nil, isKilled: Bool = false
  ) {
    self.workload = workload
    self.reads = reads
    self.duration = duration
    self.writeRate = writeRate
    self.readers = readers
    self.isKilled = isKilled
  }
}

/// The settings that a child process needs to run its rows: one engine, one round.
struct RunSettings: Codable {
  var engine = EngineKind.varve
  /// The rows, in order on one database.
  var steps: [Step] = []
  var databasePath = ""
  var num = 1_000_000
  /// The number of puts of `putalone`, or `nil` for `num`.
  var aloneNum: Int?
  /// The number of tables of the workloads of many tables, or `nil` for the default.
  var tableCount: Int?
  /// The number of puts during the readers of `memoryunderreaders`, or `nil` for the default.
  var underReadersNum: Int?
  /// The number of range deletes of `rangebatch`, or `nil` for the default.
  var tombstoneCount: Int?
  /// The number of operations of the workloads of indexed batches and of `ingest`, and of keys of `followopen` and
  /// `followcatchup`, or `nil` for the default.
  var entryCount: Int?
  var reads: Int?
  var keySize = 16
  var valueSize = 100
  var compressionRatio = 0.5
  var threads = 1
  /// The number of Swift tasks of `objectinserttasks`, `taskenqueuetasks` and `taskgroup`.
  var tasks = 8
  var batchSize = 1
  /// The number of rows per transaction of `objectinsert`, and of reads per transaction of the reads of objects by id.
  var rowsPerTransaction = 1000
  var readsPerTransaction = 1
  /// The structure of the rows of `edgecascade`.
  var shape = GraphShape.star
  /// The number of queues of the task workloads.
  var queues = 1
  var sync = false
  var seed: UInt64 = 42
  var useExisting = false
  var latency = true
  /// The seconds after which a row ends, in which case its number of operations is not limited; 0 for no limit.
  var duration = 0.0
  /// The puts per second of the writer of `readwhilewriting`, or 0 for full speed.
  var writeRate = 0
  var round = 1
  /// The path of the file that the child appends its rows to.
  var reportPath = ""
  /// Whether rows are printed for people as they end.
  var prints = true
  var engineSettings = EngineSettings()

  /// Returns these settings with the values that `step` overrides.
  func applying(_ step: Step) -> RunSettings {
    var settings = self
    settings.reads = step.reads ?? reads
    settings.duration = step.duration ?? duration
    settings.writeRate = step.writeRate ?? writeRate
    if step.workload.isOfIndexes {
      settings.engineSettings.indexes = step.workload == .indexbuild ? .some(.none) : .lookups
    }
    return settings
  }

  var userBytesPerPut: UInt64 { UInt64(keySize + valueSize) }
}

/// One row to run, with what it overrides of the settings.
struct Step: Codable {
  var workload: Workload
  var reads: Int?
  var duration: Double?
  var writeRate: Int?
  /// Of `memoryunderreaders`: the one case that a process measures.
  var readers: EngineRun.Readers?

  init(
    _ workload: Workload, reads: Int? = nil, duration: Double? = nil, writeRate: Int? = nil,
    readers: EngineRun.Readers? = nil
  ) {
    self.workload = workload
    self.reads = reads
    self.duration = duration
    self.writeRate = writeRate
    self.readers = readers
  }
}

/// Everything a child process has to know to run its rows: one engine, one round.
struct RunSettings: Codable {
  var engine = EngineKind.varve
  /// The rows, in order on one database.
  var steps: [Step] = []
  var databasePath = ""
  var num = 1_000_000
  /// The number of puts of `putalone`, where it is not `num`.
  var aloneNum: Int?
  /// The number of tables of rows of many tables, where it is named.
  var tableCount: Int?
  /// The number of puts beside the readers of `memoryunderreaders`, where it is named.
  var underReadersNum: Int?
  /// The number of range deletes of `rangebatch`, where it is named.
  var tombstoneCount: Int?
  /// The number of operations of the rows of indexed batches and of `ingest`, where it is named.
  var entryCount: Int?
  var reads: Int?
  var keySize = 16
  var valueSize = 100
  var compressionRatio = 0.5
  var threads = 1
  /// Of `objectinserttasks`.
  var tasks = 8
  var batchSize = 1
  /// Of `objectinsert`, and of the reads of objects by id.
  var rowsPerTransaction = 1000
  var readsPerTransaction = 1
  /// Of `edgecascade`.
  var shape = GraphShape.star
  /// Of the rows of tasks: how many queues there are.
  var queues = 1
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

  /// These settings as `step` has them.
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

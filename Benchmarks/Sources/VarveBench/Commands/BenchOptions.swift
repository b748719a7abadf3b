import ArgumentParser
import Foundation

/// The options that every command of the harness takes.
struct BenchOptions: ParsableArguments {
  @Option(help: "An engine to measure: \(EngineKind.allCases.map(\.rawValue).joined(separator: ", ")). Repeatable.")
  var engine: [EngineKind] = []

  @Option(help: "Directory of the databases; each engine has its own in it.")
  var db = NSTemporaryDirectory() + "varve-bench"

  @Option(help: "Number of keys, and of puts of a fill (default 1000000; 600000 for putalone).")
  var num: Int?

  @Option(help: "Number of reads (default: num).")
  var reads: Int?

  @Option(help: "Bytes of a key: decimal digits, zero-padded.")
  var keySize = 16

  @Option(help: "Bytes of a value.")
  var valueSize = 100

  @Option(help: "Compression of tables. LevelDB has Snappy only and uses it for either codec.")
  var compression = EngineSettings.Compression.lz4

  @Option(help: "What a value compresses to, as a fraction.")
  var compressionRatio = 0.5

  @Option(help: "Threads; the operations are shared out over them.")
  var threads = 1

  @Option(help: "Swift tasks at once of objectinserttasks, taskenqueuetasks and taskgroup.")
  var tasks = 8

  @Option(help: "Puts a commit (default 1); rows a transaction of objectinsert (default 1000).")
  var batchSize: Int?

  @Option(help: "Reads a transaction of objectread and objectreadraw.")
  var readsPerTransaction = 1

  @Option(
    help:
      "Indexes of the books of objectinsert: 0, 2 or 5, on every engine; a typed store keeps them. Of the rows of tasks: whether Varve has an index and an extension that receives changes later."
  )
  var indexes: Int?

  @Option(help: "What hangs together in edgecascade: star, tree, treeordered, chain or chains.")
  var shape = GraphShape.star

  @Option(help: "How many queues the rows of tasks have.")
  var queues = 1

  @Flag(help: "Sync each put.")
  var sync = false

  @Option(help: "Memtable (write buffer) in MiB.")
  var memtableMb = 64

  @Option(help: "Block cache in MiB.")
  var cacheMb = 512

  @Option(help: "Bits a key of the Bloom filter; 0 for none.")
  var bloomBits = 10

  @Option(help: "Block size of tables in bytes; 0 for the engine's default.")
  var blockSize = 0

  @Option(help: "Background threads.")
  var backgroundThreads = 2

  @Option(help: "Seed of keys and values.")
  var seed: UInt64 = 42

  @Flag(help: "Record no latencies: the clock is read every 64 operations.")
  var noLatency = false

  @Option(help: "Puts a second of the writer of readwhilewriting; 0: full speed.")
  var writeRate = 0

  mutating func validate() throws {
    guard (2...64).contains(keySize) else { throw ValidationError("--key-size is 2 to 64") }
    guard valueSize >= 0, threads >= 1, tasks >= 1, batchSize ?? 1 >= 1, readsPerTransaction >= 1 else {
      throw ValidationError(
        "--value-size is at least 0; --threads, --tasks, --batch-size and --reads-per-transaction at least 1")
    }
    guard indexes.map({ $0 < 100 && BookIndexes(rawValue: $0) != nil }) ?? true else {
      throw ValidationError("--indexes is 0, 2 or 5, not \(indexes ?? 0)")
    }
    guard (num ?? 1) >= 1, (reads ?? 1) >= 1 else { throw ValidationError("--num and --reads are at least 1") }
    guard keySize >= 16 || Double(num ?? 1_000_000) <= pow(10, Double(keySize)) else {
      throw ValidationError("--num numbers don't fit into keys of --key-size digits")
    }
    guard memtableMb >= 1, cacheMb >= 0, backgroundThreads >= 1 else {
      throw ValidationError("--memtable-mb and --background-threads are at least 1")
    }
  }

  /// The engines named on the command line, or all engines of this build.
  var engines: [EngineKind] { engine.isEmpty ? EngineRegistry.available : engine }

  /// The engines named on the command line, or all engines of this build that have object workloads.
  var objectEngines: [EngineKind] { engine.isEmpty ? EngineRegistry.availableForObjects : engine }
  var taskEngines: [EngineKind] { engine.isEmpty ? EngineRegistry.availableForTasks : engine }

  func settings(_ steps: [Step]) -> RunSettings {
    var settings = RunSettings()
    settings.steps = steps
    settings.databasePath = db
    settings.num = num ?? 1_000_000
    settings.aloneNum = num ?? 600_000
    settings.tableCount = num
    settings.underReadersNum = num
    settings.tombstoneCount = num
    settings.entryCount = num
    settings.reads = reads
    settings.keySize = keySize
    settings.valueSize = valueSize
    settings.compressionRatio = compressionRatio
    settings.threads = threads
    settings.tasks = tasks
    settings.batchSize = batchSize ?? 1
    settings.rowsPerTransaction = batchSize ?? 1000
    settings.readsPerTransaction = readsPerTransaction
    settings.sync = sync
    settings.shape = shape
    settings.queues = queues
    settings.seed = seed
    settings.latency = !noLatency
    settings.writeRate = writeRate
    settings.engineSettings = EngineSettings(
      compression: compression, memtableBytes: memtableMb << 20, cacheBytes: cacheMb << 20, bloomBits: bloomBits,
      backgroundThreads: backgroundThreads, blockBytes: blockSize)
    settings.engineSettings.indexes = indexes.flatMap(BookIndexes.init(rawValue:))
    return settings
  }
}

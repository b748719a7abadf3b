import ArgumentParser
import Foundation

/// `varve-bench <workload>[,<workload>...]` runs workloads; it is the default command.
struct RunCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "run", abstract: "Run workloads in order on one database an engine (the default command).")

  @Argument(help: "Workloads, separated by commas: \(Workload.allCases.map(\.rawValue).joined(separator: " ")).")
  var workloads: String

  @Option(help: "Rounds; the engines take turns.")
  var rounds = 1

  @Option(help: "Seconds after which a row ends; 0: after its operations.")
  var duration = 0.0

  @Flag(help: "Open what is there; fail if nothing is.")
  var useExisting = false

  @OptionGroup var options: BenchOptions

  @Option(help: "Append a JSON object a row to this file (- is standard output, then nothing else is printed there).")
  var json: String?

  @Option(help: "Write a page with plots to this file.")
  var html: String?

  func run() throws {
    let list = try workloads.split(separator: ",").map { name in
      guard let workload = Workload(rawValue: String(name)) else {
        throw ValidationError("no workload is called \(name)")
      }
      return Step(workload)
    }
    guard !list.isEmpty else { throw ValidationError("name at least one workload") }
    let workloads = list.map(\.workload)
    let isObjects = workloads.contains(where: \.isObject)
    let isTasks = workloads.contains(where: \.isOfTasks)
    let engines = isTasks ? options.taskEngines : isObjects ? options.objectEngines : options.engines
    if isObjects { try checkObjects(workloads) }
    try requireEngines(engines, forObjects: isObjects, forTasks: isTasks)
    guard rounds >= 1 else { throw ValidationError("--rounds is at least 1") }
    var settings = options.settings(list)
    settings.duration = duration
    settings.useExisting = useExisting
    settings.prints = json != "-"
    if settings.prints { printHeader(settings, isObjects: isObjects) }

    var rows: [Row] = []
    for round in 1...rounds {
      for engine in engines {
        settings.engine = engine
        settings.round = round
        if settings.prints {
          let suffix = rounds > 1 ? ", round \(round)" : ""
          print("\(EngineRegistry.version(of: engine))\(suffix)")
          fflush(nil)
        }
        let fresh = try ChildProcess.run(settings)
        rows += fresh
        try JSONLines.append(fresh, to: json)
      }
    }
    if let html { try HTMLReport(rows: rows).page.write(toFile: html, atomically: true, encoding: .utf8) }
  }

  /// Checks that object workloads use one thread, begin with inserts, and are in a list without other workloads.
  private func checkObjects(_ workloads: [Workload]) throws {
    if let other = workloads.first(where: { !$0.isAllowedWithObjects }) {
      throw ValidationError("\(other.rawValue) is not an object workload; run it separately")
    }
    guard options.threads == 1 else { throw ValidationError("rows of objects choose their threads themselves") }
    if useExisting, let inserts = workloads.first(where: \.puts) {
      throw ValidationError("\(inserts.rawValue) starts from an empty database, so not with --use-existing")
    }
    if workloads.contains(where: \.isOfEdges), let other = workloads.first(where: { !$0.isOfEdges }) {
      throw ValidationError("\(other.rawValue) is not an edge workload; run it separately")
    }
    if workloads.contains(where: \.isOfTasks), let other = workloads.first(where: { !$0.isOfTasks }) {
      throw ValidationError("\(other.rawValue) is not a workload of tasks; run it separately")
    }
    if workloads.contains(where: \.isOfViews), let other = workloads.first(where: { !$0.isOfViews }) {
      throw ValidationError("\(other.rawValue) is not a workload of views; run it separately")
    }
    guard
      useExisting || workloads[0].isOfViews || workloads[0].puts || workloads[0].isOfTasks || workloads[0].isOfEdges
        || workloads[0].isOfIndexes
    else {
      throw ValidationError("begin with objectinsert, or say --use-existing")
    }
  }

  private func printHeader(_ settings: RunSettings, isObjects: Bool) {
    let cost =
      isObjects ? Recorder.emptyObjectLoopCost(settings: settings) : Recorder.emptyLoopCost(settings: settings)
    let what =
      isObjects
      ? "\(settings.num) books of 8 fields and \(Book.byteCount) bytes"
      : "\(settings.num) keys of \(settings.keySize) + \(settings.valueSize) bytes"
    print(
      "\(what), compressible to \(settings.compressionRatio), \(settings.threads) thread(s); the harness itself takes "
        + String(format: "%.3f micros/op", cost / 1000)
        + (settings.latency ? " (clock and histogram included)" : " (no latencies)"))
  }
}

/// Throws if this build does not include an engine, with the way to include it.
func requireEngines(_ engines: [EngineKind], forObjects: Bool = false, forTasks: Bool = false) throws {
  guard !engines.isEmpty else {
    throw ValidationError("this build holds no engine; build with --traits RocksDB,LevelDB,LMDB")
  }
  let isBuiltIn =
    forTasks
    ? EngineRegistry.isBuiltInForTasks
    : forObjects ? EngineRegistry.isBuiltInForObjects : EngineRegistry.isBuiltIn
  for engine in engines where !isBuiltIn(engine) {
    let remedy =
      switch engine {
      case .rocksdb where forObjects, .leveldb where forObjects, .lmdb where forObjects: "it has no objects"
      case .sqlite where !forObjects && !forTasks, .grdb where !forObjects && !forTasks:
        "it is measured with rows of objects and tasks only"
      case .rocksdb: "build with --traits RocksDB (needs librocksdb-dev)"
      case .leveldb: "build with --traits LevelDB (needs libleveldb-dev)"
      case .lmdb: "build with --traits LMDB (needs liblmdb-dev)"
      case .postgres where !forTasks: "it is measured with rows of tasks only"
      case .postgres: "build with --traits PostgreSQL (needs libpq-dev and postgresql)"
      case .sqlite: "build with --traits SQLite (needs libsqlite3-dev)"
      case .grdb: "build with --traits GRDB (needs libsqlite3-dev)"
      case .varve, .varvePwrite: "it always is"
      }
    throw ValidationError("\(engine.rawValue) is not in this build: \(remedy)")
  }
}

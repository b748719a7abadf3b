import Foundation
import Histogram

/// Runs the rows of one engine in one round, in order on one database, in a separate child process.
final class EngineRun {
  let settings: RunSettings
  private var userBytes: UInt64 = 0
  private var tableBytes: UInt64 = 0

  init(_ settings: RunSettings) {
    var settings = settings
    settings.engineSettings.mapsLog = settings.engine != .varvePwrite
    self.settings = settings
  }

  var enginePath: String { settings.databasePath + "/" + settings.engine.rawValue }

  func execute<Engine: KeyValueEngine>(_ type: Engine.Type) throws {
    let first = settings.steps.first?.workload
    if !settings.useExisting, let first, first.startsEmpty || first.isAlone {
      try? FileManager.default.removeItem(atPath: enginePath)
    }
    try prepareDirectory()
    var engine: Engine?
    let live = LiveKeys(range: settings.num, isKnown: !settings.useExisting && first?.startsEmpty == true)
    for step in settings.steps {
      let settings = settings.applying(step)
      if step.workload == .syncloop {
        try report(rawSyncLoop(settings))
      } else if step.workload.isOfTables {
        try report(runTables(step.workload))
      } else if step.workload == .memoryunderreaders {
        if let one = step.readers {
          try report(readers(one))
        } else {
          // The child processes that measured these rows have printed them.
          for row in try runReaders() { try append(row) }
        }
      } else if step.workload == .rangebatch {
        try report(runRanges(step.workload))
      } else if step.workload == .endsread {
        try runEnds(step.workload)
      } else if step.workload == .idlespace {
        try runIdle(step.workload)
      } else if step.workload == .largepeak {
        try runLarge(step.workload)
      } else if step.workload.isOfBatches {
        try report(runBatches(step.workload))
      } else if step.workload.follows {
        try runFollowed(step)
      } else if step.workload.isAlone {
        try report(runAlone(type, step.workload))
      } else {
        let open = try engine ?? openEngine(type, path: enginePath, settings.engineSettings)
        engine = open
        try report(row(open, step.workload, settings, path: enginePath, live: live))
      }
    }
    try engine?.close()
  }

  func prepareDirectory() throws {
    if settings.useExisting, !FileManager.default.fileExists(atPath: enginePath) {
      throw EngineFailure("--use-existing, but there is no \(enginePath)")
    }
    try FileManager.default.createDirectory(atPath: settings.databasePath, withIntermediateDirectories: true)
  }

  func openEngine<Engine: MeasuredEngine>(
    _ type: Engine.Type, path: String, _ options: EngineSettings
  ) throws -> Engine {
    var options = options
    options.createIfMissing = !settings.useExisting
    return try type.init(path: path, settings: options)
  }

  /// Runs a workload in its own database, which is removed afterwards.
  private func runAlone<Engine: KeyValueEngine>(_ type: Engine.Type, _ workload: Workload) throws -> Row {
    let path = enginePath + "-" + workload.rawValue
    try? FileManager.default.removeItem(atPath: path)
    defer { try? FileManager.default.removeItem(atPath: path) }
    var options = settings.engineSettings
    if workload.holdsAllInMemory {
      // The memtable is four times the data, because no engine needs more in addition to a record.
      let bytes = workload.operationCount(settings) * (settings.keySize + settings.valueSize)
      options.memtableBytes = max(options.memtableBytes, bytes * 4)
    }
    options.compacts = workload != .queue
    let engine = try type.init(path: path, settings: options)
    let live = LiveKeys(range: settings.num, isKnown: workload.holdsAllInMemory)
    let row = try row(engine, workload, settings, path: path, live: live)
    try engine.close()
    return row
  }

  private func row<Engine: KeyValueEngine>(
    _ engine: Engine, _ workload: Workload, _ settings: RunSettings, path: String, live: LiveKeys
  ) throws -> Row {
    let zipfian = workload.isYCSB ? Zipfian(count: settings.num, scrambled: workload != .ycsbd) : nil
    return try measured(engine, workload, settings, path: path) {
      live.isKnown ? UInt64(live.count) * settings.userBytesPerPut : nil
    } work: { row in
      try runWorkers(engine, workload, settings, zipfian, live, into: &row)
    }
  }

  /// Returns a row with the resources that the process used during it, and the disk usage after it.
  ///
  /// `work` sets the operations and their time; `liveBytes` returns the size of the live data in the database then, if
  /// it is known.
  func measured<Engine: MeasuredEngine>(
    _ engine: Engine, _ workload: Workload, _ settings: RunSettings, path: String, liveBytes: () -> UInt64?,
    work: (inout Row) throws -> Void
  ) throws -> Row {
    var row = Row()
    row.engine = settings.engine.rawValue
    row.version = Engine.version
    row.workload = workload.rawValue
    row.round = settings.round
    row.threads = settings.threads
    let countersBefore = engine.counters()
    PeakMemory.reset()
    let usageBefore = ProcessUsage.now()
    let start = Clock.now()

    switch workload {
    case .compact:
      try engine.compact()
      row.seconds = Double(Clock.now() - start) / 1e9
      row.ops = 1
      row.threads = 1
    case .waitforcompaction:
      let idle = try engine.waitForCompaction()
      row.seconds = max(Double(Clock.now() - start) - Double(idle), 0) / 1e9
      row.ops = 1
      row.threads = 1
    default:
      try work(&row)
    }

    let usage = ProcessUsage.now()
    row.peakResidentBytes = PeakMemory.read()
    let counters = engine.counters()
    finish(&row, usageBefore, usage)
    // Work that opens the engine again begins its counters again.
    let isSameEngine = counters.tableBytesWritten >= countersBefore.tableBytesWritten
    row.bytesWritten = counters.tableBytesWritten - (isSameEngine ? countersBefore.tableBytesWritten : 0)
    row.levels = counters.levels
    let disk = DirectoryUsage(path: path, use: Engine.fileUse)
    row.diskBytes = disk.tableBytes
    row.logBytes = disk.logBytes
    userBytes += row.userBytes
    tableBytes += row.bytesWritten
    if userBytes > 0, counters.countsTableBytes { row.writeAmplification = Double(tableBytes) / Double(userBytes) }
    if let live = liveBytes(), live > 0 { row.spaceAmplification = Double(disk.tableBytes) / Double(live) }
    return row
  }

  private func finish(_ row: inout Row, _ before: ProcessUsage, _ after: ProcessUsage) {
    row.microsPerOp = row.ops > 0 ? row.seconds * 1e6 / Double(row.ops) : 0
    row.opsPerSecond = row.seconds > 0 ? Double(row.ops) / row.seconds : 0
    row.cpuSeconds = Double(after.cpuNanoseconds - before.cpuNanoseconds) / 1e9
    row.bytesRead = after.bytesRead - before.bytesRead
    row.ioCalls = after.systemCalls - before.systemCalls
    row.bytesDirtied = after.bytesDirtied - before.bytesDirtied
  }

  private func runWorkers<Engine: KeyValueEngine>(
    _ engine: Engine, _ workload: Workload, _ settings: RunSettings, _ zipfian: Zipfian?, _ live: LiveKeys,
    into row: inout Row
  ) throws {
    let workers = try (0..<settings.threads).map { thread in
      Worker(try engine.makeSession(), settings, workload, thread: thread)
    }
    let stop = StopFlag()
    var writer: Worker<Engine.Session>?
    if workload == .readwhilewriting {
      writer = Worker(try engine.makeSession(), settings, .overwrite, thread: 0)
    }
    let start = Clock.now()
    if let writer {
      // The writer is the last thread; it ends when the readers have ended.
      let readersLeft = CountDown(workers.count)
      WorkerThreads.run(workers.count + 1) { [workers] index in
        if index < workers.count {
          workers[index].run(zipfian)
          if readersLeft.arrive() { stop.set() }
        } else {
          do { try writer.writeUntil(stop) } catch { writer.failure = error }
        }
      }
      row.writerOps = writer.recorder.operations
    } else {
      WorkerThreads.run(workers.count) { [workers] index in workers[index].run(zipfian) }
    }
    let end = workers.map(\.recorder.end).max() ?? start
    row.seconds = Double(end - start) / 1e9
    for worker in workers + (writer.map { [$0] } ?? []) {
      worker.session.close()
      if let failure = worker.failure { throw failure }
    }
    collect(workers, workload, into: &row)
    row.userBytes += UInt64(row.writerOps ?? 0) * settings.userBytesPerPut
    follow(workers, workload, live)
  }

  private func collect<Session: KeyValueSession>(
    _ workers: [Worker<Session>], _ workload: Workload, into row: inout Row
  ) {
    var histogram = workers[0].recorder.histogram
    for worker in workers.dropFirst() { histogram.add(worker.recorder.histogram) }
    row.take(histogram)
    row.ops = workers.reduce(0) { $0 + $1.recorder.operations }
    let seconds = workers.map(\.recorder.perSecond.count).min() ?? 0
    row.perSecond = (0..<seconds).map { second in workers.reduce(0) { $0 + $1.recorder.perSecond[second] } }
    if workload.puts {
      row.userBytes = UInt64(row.ops) * settings.userBytesPerPut
    } else if workload == .deleterandom {
      row.userBytes = UInt64(row.ops * settings.keySize)
    } else {
      row.found = workers.reduce(0) { $0 + $1.found }
      row.userBytes = UInt64(workers.reduce(0) { $0 + $1.putCount }) * settings.userBytesPerPut
    }
  }

  /// Applies the row's keys to the bitmap of live keys.
  private func follow<Session: KeyValueSession>(
    _ workers: [Worker<Session>], _ workload: Workload, _ live: LiveKeys
  ) {
    if workload.isYCSB && workload != .ycsbc { live.isKnown = false }
    guard live.isKnown, workload.puts || workload == .deleterandom else { return }
    for worker in workers {
      var sequence = Worker<Session>.sequence(workload, settings, thread: worker.thread)
      for _ in 0..<worker.recorder.operations {
        let number = sequence.next()
        if workload.puts { live.insert(number) } else { live.remove(number) }
      }
    }
  }

  private func rawSyncLoop(_ settings: RunSettings) throws -> Row {
    var row = Row()
    row.engine = "raw"
    row.version = "append and fdatasync"
    row.workload = Workload.syncloop.rawValue
    row.round = settings.round
    let recorder = Recorder(recordsLatency: settings.latency, duration: settings.duration)
    let before = ProcessUsage.now()
    try SyncLoop.run(directory: settings.databasePath, settings: settings, recorder: recorder)
    row.take(recorder.histogram)
    row.ops = recorder.operations
    row.seconds = Double(recorder.end - recorder.start) / 1e9
    row.perSecond = recorder.perSecond
    finish(&row, before, ProcessUsage.now())
    return row
  }

  func report(_ row: Row) throws {
    if settings.prints {
      print(row.line)
      fflush(nil)
    }
    try append(row)
  }

  private func append(_ row: Row) throws {
    guard !settings.reportPath.isEmpty else { return }
    guard let file = fopen(settings.reportPath, "a") else {
      throw EngineFailure("can't write \(settings.reportPath): errno \(errno)")
    }
    fputs(row.jsonLine + "\n", file)
    fclose(file)
  }
}

import Foundation
import Histogram

/// The task workloads of one engine in one round.
///
/// Each starts from an empty database; the tasks that a workload runs are enqueued before its measured time.
extension EngineRun {
  func executeTasks<Engine: TaskEngine>(_ type: Engine.Type) throws {
    try prepareDirectory()
    for step in settings.steps where step.workload.isOfTasks {
      if step.isKilled { return try leaveOrphans(type) }
      try? FileManager.default.removeItem(atPath: enginePath)
      if step.workload == .taskreopen {
        try report(reopenRow(type))
        continue
      }
      var options = settings.engineSettings
      options.compacts = step.workload != .taskpinned
      let engine = try openEngine(type, path: enginePath, options)
      if step.workload.isOfVarvesTasks {
        guard let varve = engine as? VarveTaskEngine else {
          try engine.close()
          continue
        }
        try reportOwnTasks(varve, step.workload)
        continue
      }
      try report(taskRow(engine, step.workload))
      try engine.close()
    }
  }

  private func taskRow<Engine: TaskEngine>(_ engine: Engine, _ workload: Workload) throws -> Row {
    if workload == .taskrun || workload == .taskserial { try fill(engine) }
    var left = 0
    let row = try measured(engine, workload, settings, path: enginePath) {
      UInt64(left * TaskText.size)
    } work: { row in
      let recorder = Recorder(recordsLatency: settings.latency, duration: 0)
      recorder.begin()
      switch workload {
      case .taskenqueue: try enqueue(engine, recorder, settings.rowsPerTransaction)
      case .taskenqueueone: try enqueue(engine, recorder, 1)
      case .taskstart:
        for time in try engine.startTimes(settings.num) { recorder.note(time) }
      default:
        try engine.runAll(settings.num, workers: 8, isSerial: workload == .taskserial)
        _ = recorder.finish(settings.num)
      }
      recorder.stop()
      row.take(recorder.histogram)
      row.ops = recorder.operations
      row.seconds = Double(recorder.end - recorder.start) / 1e9
      left = try engine.countWaiting()
    }
    let expected = workload == .taskenqueue || workload == .taskenqueueone ? settings.num : 0
    guard left == expected else { throw EngineFailure("\(left) tasks wait, and \(expected) should") }
    return row
  }

  func fill<Engine: TaskEngine>(_ engine: Engine) throws {
    try enqueueWaiting(engine, settings.num)
    _ = try engine.waitForCompaction()
  }

  private func enqueueWaiting<Engine: TaskEngine>(_ engine: Engine, _ count: Int) throws {
    for first in stride(from: 0, to: count, by: 1_000) {
      try engine.enqueue(min(1_000, count - first), queues: settings.queues, first: first, sync: false)
    }
  }

  private func enqueue<Engine: TaskEngine>(_ engine: Engine, _ recorder: Recorder, _ batch: Int) throws {
    for first in stride(from: 0, to: settings.num, by: batch) {
      let count = min(batch, settings.num - first)
      try engine.enqueue(count, queues: settings.queues, first: first, sync: settings.sync)
      _ = recorder.finish(count)
    }
  }

  /// The number of tasks of `taskreopen` that run when their process is killed.
  private var orphanCount: Int { min(1_000, settings.num) }

  /// Fills the database of `taskreopen`, starts handlers that do not return, and waits until the process is killed.
  ///
  /// Reports on standard output that the handlers run. If the process that would kill this one has ended, standard
  /// input ends, and so does this process.
  private func leaveOrphans<Engine: TaskEngine>(_ type: Engine.Type) throws {
    let engine = try openEngine(type, path: enginePath, settings.engineSettings)
    try enqueueWaiting(engine, settings.num + orphanCount)
    for first in stride(from: 0, to: settings.num, by: 1_000) {
      try engine.enqueueLater(min(1_000, settings.num - first), first: first)
    }
    _ = try engine.waitForCompaction()
    try engine.startEndless(orphanCount)
    FileHandle.standardOutput.write(Data([1]))
    try withExtendedLifetime(engine) { _ = try FileHandle.standardInput.read(upToCount: 1) }
  }

  /// Opens a database whose process was killed while tasks ran, and runs the first of these.
  private func reopenRow<Engine: TaskEngine>(_ type: Engine.Type) throws -> Row {
    var child = settings
    child.steps = [Step(.taskreopen, isKilled: true)]
    try ChildProcess.runUntilReady(child)
    try Engine.killRest(path: enginePath)
    let replayed = try Engine.bytesToReplay(path: enginePath)
    let begin = Clock.now()
    let engine = try openEngine(type, path: enginePath, settings.engineSettings)
    defer { try? engine.close() }
    return try measured(engine, .taskreopen, settings, path: enginePath) {
      nil
    } work: { row in
      let started = try engine.runFirstOrphan()
      row.ops = 1
      row.seconds = Double(started - begin) / 1e9
      row.replayedBytes = replayed
      guard engine is VarveTaskEngine else { return }
      let allowed = 0.2 + Double(replayed) / 300e6
      row.allowedSeconds = allowed
      row.meetsGoal = row.seconds <= allowed
    }
  }
}

import Foundation
import Histogram

/// The task workloads of one engine in one round.
///
/// Each starts from an empty database; the tasks that a workload runs are enqueued before its measured time.
extension EngineRun {
  func executeTasks<Engine: TaskEngine>(_ type: Engine.Type) throws {
    try prepareDirectory()
    for step in settings.steps where step.workload.isOfTasks {
      try? FileManager.default.removeItem(atPath: enginePath)
      var options = settings.engineSettings
      options.compacts = step.workload != .taskpinned
      let engine = try openEngine(type, path: enginePath, options)
      if step.workload == .taskreopen {
        try fill(engine)
        try engine.close()
        try report(reopenRow(type))
        continue
      }
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
    for first in stride(from: 0, to: settings.num, by: 1_000) {
      try engine.enqueue(min(1_000, settings.num - first), queues: settings.queues, first: first, sync: false)
    }
    _ = try engine.waitForCompaction()
  }

  private func enqueue<Engine: TaskEngine>(_ engine: Engine, _ recorder: Recorder, _ batch: Int) throws {
    for first in stride(from: 0, to: settings.num, by: batch) {
      let count = min(batch, settings.num - first)
      try engine.enqueue(count, queues: settings.queues, first: first, sync: settings.sync)
      _ = recorder.finish(count)
    }
  }

  /// Opens a database in which tasks wait, and runs the first of them.
  private func reopenRow<Engine: TaskEngine>(_ type: Engine.Type) throws -> Row {
    let begin = Clock.now()
    let engine = try openEngine(type, path: enginePath, settings.engineSettings)
    defer { try? engine.close() }
    return try measured(engine, .taskreopen, settings, path: enginePath) {
      UInt64(settings.num * TaskText.size)
    } work: { row in
      let started = try engine.runFirst()
      row.ops = 1
      row.seconds = Double(started - begin) / 1e9
    }
  }
}

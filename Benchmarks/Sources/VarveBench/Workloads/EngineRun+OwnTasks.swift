import Foundation
import Histogram

/// Task workloads for Varve only.
extension EngineRun {
  /// Measures a row, and closes the engine.
  func reportOwnTasks(_ engine: VarveTaskEngine, _ workload: Workload) throws {
    var engine = engine
    if workload == .taskpinned || workload == .taskwaiting { try fill(engine) }
    if workload == .taskwaiting {
      try engine.close()
      engine = try VarveTaskEngine(path: enginePath, settings: settings.engineSettings)
    }
    var left = 0
    let row = try measured(engine, workload, settings, path: enginePath) {
      UInt64(left * TaskText.size)
    } work: { row in
      let recorder = Recorder(recordsLatency: true, duration: 0)
      recorder.begin()
      row.ops = settings.num
      var seconds: Double?
      switch workload {
      case .taskenqueuetasks:
        row.threads = settings.tasks
        try engine.enqueueAtOnce(settings.num, tasks: settings.tasks, sync: settings.sync)
      case .taskgroup:
        row.threads = settings.tasks
        let (time, ratio) = try engine.enqueueInGroups(settings.num, tasks: settings.tasks)
        row.timesSingle = ratio
        seconds = time
      case .tasktimers: for time in try engine.lateness(settings.num, perSecond: 10_000) { recorder.note(time) }
      case .taskwaiting: try engine.startPaused()
      case .taskdue:
        let (time, writes) = try engine.writersWhileDue(settings.num)
        for time in writes { recorder.note(time) }
        seconds = time
      case .taskpinned:
        var (passed, second): (UInt64, UInt64) = (0, 0)
        for time in try engine.runPinned() {
          recorder.note(time)
          passed += time
          second += 1_000
          if passed < 1_000_000_000 { continue }
          row.perSecond.append(second * 1_000_000_000 / passed)
          (passed, second) = (0, 0)
        }
      case .turns: for time in try engine.turnTimes(settings.num) { recorder.note(time) }
      default:
        row.ops = min(settings.num, 100)
        for time in try engine.overruns(row.ops) { recorder.note(time) }
      }
      recorder.stop()
      row.take(recorder.histogram)
      row.seconds = seconds ?? Double(recorder.end - recorder.start) / 1e9
      left = try engine.countWaiting()
    }
    try report(row)
    try engine.close()
  }
}

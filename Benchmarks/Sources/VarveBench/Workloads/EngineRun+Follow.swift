import Foundation
import VarveEngine

/// The workloads of a reader in this process while another process writes, at full speed and at 50,000 puts per second.
///
/// They are for Varve only. Each has its own directory, which is removed afterwards. The goal is the time of replaying
/// the log once at 300 MB/s, and 100 ms.
extension EngineRun {
  private static let writeRates = [0, 50_000]

  /// Runs the step of a process: the writer's, or the reader's, which starts the writer.
  func runFollowed(_ step: Step) throws {
    if step.isKilled {
      return try FollowedLoad(settings.applying(step)).run(at: beginOwnRow(step.workload).path)
    }
    for rate in Self.writeRates {
      if step.workload == .followopen { try measureOpens(rate) } else { try measureCatchUps(rate) }
    }
  }

  private func measureOpens(_ rate: Int) throws {
    let (begun, path) = try beginOwnRow(.followopen)
    defer { try? FileManager.default.removeItem(atPath: path) }
    let writer = try FollowedWriter(settings, .followopen, rate: rate)
    defer { writer.end() }
    let load = FollowedLoad(settings)
    var readOnly = load.options
    readOnly.readOnly = true
    var follows = ReadTimes(row: begun, "follow", rate)
    var opens = ReadTimes(row: begun, "readonly", rate)
    for _ in 0..<(settings.reads ?? 5) {
      try writer.wait { $0.logBytes >= UInt64(load.logBytesMaximum / 2) }
      let follower = try follows.measure(writer) { try Engine.follow(at: path, options: load.options) }
      try follower.close()
      try writer.wait { $0.logBytes >= UInt64(load.logBytesMaximum / 2) }
      let engine = try opens.measure(writer) { try Engine.open(at: path, options: readOnly) }
      try engine.close()
    }
    try report(follows)
    try report(opens)
  }

  private func measureCatchUps(_ rate: Int) throws {
    let (begun, path) = try beginOwnRow(.followcatchup)
    defer { try? FileManager.default.removeItem(atPath: path) }
    let writer = try FollowedWriter(settings, .followcatchup, rate: rate)
    defer { writer.end() }
    let load = FollowedLoad(settings)
    let follower = try Engine.follow(at: path, options: load.options)
    var times = ReadTimes(row: begun, "catchup", rate)
    for _ in 0..<(settings.reads ?? 5) {
      // The lag begins at what the follower has, because reports arrive later than the commits that they name.
      let goal = try follower.catchUp().value + UInt64(load.lag)
      try writer.wait { $0.sequence >= goal }
      let after = try times.measure(writer) { try follower.catchUp() }
      guard after.value >= goal else { throw EngineFailure("the follower has commit \(after.value), and not \(goal)") }
    }
    try follower.close()
    try report(times)
  }

  private func report(_ times: ReadTimes) throws {
    if settings.prints { print(times.summary) }
    try report(times.row)
  }
}

/// The times of one kind of call, each with the bytes of the writer's log when it began.
private struct ReadTimes {
  private var begun: Row
  private let recorder = Recorder(recordsLatency: true, duration: 0)
  private var samples: [Sample] = []

  private struct Sample {
    var seconds: Double
    var cpuSeconds: Double
    var logBytes: UInt64
    var putCount: UInt64

    var allowedSeconds: Double { 0.1 + Double(logBytes) / 300e6 }
    var ratio: Double { seconds / allowedSeconds }
  }

  init(row: Row, _ kind: String, _ rate: Int) {
    begun = row
    begun.variant = rate > 0 ? "\(kind), writer at \(rate)/s" : "\(kind), writer at full speed"
  }

  mutating func measure<R>(_ writer: FollowedWriter, _ body: () throws -> R) throws -> R {
    let progress = try writer.progress()
    let usage = ProcessUsage.now().cpuNanoseconds
    let start = Clock.now()
    let result = try body()
    let time = Clock.now() - start
    recorder.note(time)
    samples.append(
      Sample(
        seconds: Double(time) / 1e9, cpuSeconds: Double(ProcessUsage.now().cpuNanoseconds - usage) / 1e9,
        logBytes: progress.logBytes, putCount: try writer.progress().putCount - progress.putCount))
    return result
  }

  /// The row of all calls. Log and allowed time are means.
  var row: Row {
    var row = begun
    row.take(recorder.histogram)
    row.ops = samples.count
    row.seconds = samples.reduce(0) { $0 + $1.seconds }
    row.cpuSeconds = samples.reduce(0) { $0 + $1.cpuSeconds }
    row.microsPerOp = row.seconds * 1e6 / Double(samples.count)
    row.opsPerSecond = Double(samples.count) / row.seconds
    row.writerOps = Int(samples.reduce(0) { $0 + $1.putCount })
    row.replayedBytes = samples.reduce(0) { $0 + $1.logBytes } / UInt64(samples.count)
    row.allowedSeconds = samples.reduce(0) { $0 + $1.allowedSeconds } / Double(samples.count)
    row.meetsGoal = samples.allSatisfy { $0.ratio <= 1 }
    row.timesAllowed = Self.median(samples.map(\.ratio))
    row.maxTimesAllowed = samples.map(\.ratio).max()
    return row
  }

  var summary: String {
    func text(_ name: String, _ values: [Double], _ format: String) -> String {
      "\(name) " + String(format: "\(format), at most \(format)", Self.median(values), values.max() ?? 0)
    }
    return "  \(begun.variant ?? ""), medians: "
      + [
        text("time", samples.map(\.seconds), "%.3f s"), text("CPU", samples.map(\.cpuSeconds), "%.3f s"),
        text("log", samples.map { Double($0.logBytes) / 1e6 }, "%.1f MB"),
        text("of the allowed time", samples.map(\.ratio), "%.2f"),
      ].joined(separator: "; ")
  }

  private static func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }
}

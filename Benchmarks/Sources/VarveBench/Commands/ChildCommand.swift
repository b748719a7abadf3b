import ArgumentParser
import Foundation

/// Runs one engine's round in a separate process, which the other commands start, so that memory, CPU and system calls
/// of the process are those of that engine and that round.
struct ChildCommand: ParsableCommand {
  static let configuration = CommandConfiguration(commandName: "child", shouldDisplay: false)

  @Argument(help: "The settings as JSON.")
  var settings: String

  func run() throws {
    let settings = try JSONDecoder().decode(RunSettings.self, from: Data(self.settings.utf8))
    let run = EngineRun(settings)
    if settings.steps.contains(where: \.workload.isOfTasks) {
      try EngineRegistry.runTasks(run, settings.engine)
    } else if settings.steps.contains(where: \.workload.isOfViews) {
      try EngineRegistry.runViews(run, settings.engine)
    } else if settings.steps.contains(where: \.workload.isOfEdges) {
      try EngineRegistry.runEdges(run, settings.engine)
    } else if settings.steps.contains(where: \.workload.isObject) {
      try EngineRegistry.runObjects(run, settings.engine)
    } else {
      try EngineRegistry.run(run, settings.engine)
    }
  }
}

enum ChildProcess {
  /// Runs the rows of `settings` in a child process, and returns them.
  static func run(_ settings: RunSettings) throws -> [Row] {
    var settings = settings
    let report = NSTemporaryDirectory() + "varve-bench-\(getpid())-\(UInt64.random(in: 0 ... .max)).json"
    settings.reportPath = report
    defer { unlink(report) }
    let process = try make(settings)
    try process.run()
    process.waitUntilExit()
    guard process.terminationStatus == 0 else {
      throw EngineFailure(
        "\(settings.engine.rawValue) ended with status \(process.terminationStatus) in round \(settings.round)")
    }
    // An engine that can't do any of the workloads writes no row, and so no file.
    guard FileManager.default.fileExists(atPath: report) else { return [] }
    let text = try String(contentsOfFile: report, encoding: .utf8)
    return try text.split(separator: "\n").map { try JSONDecoder().decode(Row.self, from: Data($0.utf8)) }
  }

  static func make(_ settings: RunSettings) throws -> Process {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
    let encoded = try JSONEncoder().encode(settings)
    process.arguments = ["child", String(decoding: encoded, as: UTF8.self)]
    return process
  }

  /// Runs a child process with `settings` until it has written a byte to standard output, and kills it (SIGKILL).
  ///
  /// The standard input of the child ends when this process ends, so that the child need not outlive it.
  static func runUntilReady(_ settings: RunSettings) throws {
    let process = try make(settings)
    let (input, output) = (Pipe(), Pipe())
    process.standardInput = input
    process.standardOutput = output
    try process.run()
    let report = try output.fileHandleForReading.read(upToCount: 1)
    if report?.count == 1 { kill(process.processIdentifier, SIGKILL) }
    process.waitUntilExit()
    guard process.terminationReason == .uncaughtSignal else {
      throw EngineFailure("\(settings.engine.rawValue) ended before it was killed, by \(process.terminationStatus)")
    }
    withExtendedLifetime(input) {}
  }
}

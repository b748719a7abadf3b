import ArgumentParser
import Foundation

/// `varve-bench compare` runs the table of the engine's specification against all peers of this build.
struct CompareCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "compare", abstract: "Run the table of the specification against every peer of this build.",
    discussion: """
      Example: varve-bench compare --only fillrandom --only cpu
      Exits with 1 when found counts differ, or with --strict when a row fails.
      """)

  @Flag(help: "A small smoke: 200000 keys, 8 MiB memtable, one round. Its ratios mean little.")
  var quick = false

  @Option(help: "Run this row only: \(Self.rowNames). Repeatable; longoverwrite runs only when named.")
  var only: [String] = []

  @Option(help: "Rounds; the engines take turns, results are medians (default 3).")
  var rounds: Int?

  @Option(help: "Seconds of longoverwrite.")
  var duration = 300.0

  @Flag(help: "Exit with 1 when a row fails.")
  var strict = false

  @Option(help: "Append a JSON object a row to this file.")
  var json: String?

  @Option(help: "Write a page with the table and plots to this file.")
  var html: String?

  @OptionGroup var options: BenchOptions

  private static var rowNames: String {
    var names: [String] = []
    for check in Check.all where !names.contains(check.name) { names.append(check.name) }
    return names.joined(separator: ", ")
  }

  func run() throws {
    let engines = options.engines
    try requireEngines(engines)
    let checks = try chosenChecks()
    let rounds = rounds ?? (quick ? 1 : 3)
    guard rounds >= 1 else { throw ValidationError("--rounds is at least 1") }
    let size = Scenario.Size(num: options.num ?? (quick ? 200_000 : 5_000_000), duration: duration)
    let scenarios = needed(by: checks, size)
    for engine in engines { print(EngineRegistry.version(of: engine)) }
    print("\(size.num) keys, \(rounds) round(s), databases under \(options.db)")

    var comparison = Comparison(engines: engines, rounds: rounds)
    var rows: [Row] = []
    let start = Clock.now()
    for round in 1...rounds {
      for scenario in scenarios {
        // Another engine is first in each round, so that drift of the machine affects all alike.
        for turn in engines.indices {
          let engine = engines[(turn + round - 1) % engines.count]
          let fresh = try ChildProcess.run(settings(scenario, engine, round, size))
          comparison.add(fresh, scenario: scenario.name, engine: engine, round: round)
          try JSONLines.append(fresh, to: json)
          rows += fresh
        }
        note("round \(round): \(scenario.name)", since: start)
        removeDatabases(after: scenario, in: scenarios)
      }
    }
    try finish(comparison, checks, rows)
  }

  private func chosenChecks() throws -> [Check] {
    for name in only where !Check.all.contains(where: { $0.name == name }) {
      throw ValidationError("no row is called \(name); there are \(Self.rowNames)")
    }
    return Check.all.filter { only.isEmpty ? $0.name != "longoverwrite" : only.contains($0.name) }
  }

  /// Returns the scenarios that the checks read, and those that create the databases for them.
  private func needed(by checks: [Check], _ size: Scenario.Size) -> [Scenario] {
    let all = Scenario.all(size) + [Scenario.long(size)]
    var names = Set(checks.map(\.scenario))
    for scenario in all.reversed() where names.contains(scenario.name) {
      if let required = scenario.requires { names.insert(required) }
    }
    return all.filter { names.contains($0.name) }
  }

  private func settings(_ scenario: Scenario, _ engine: EngineKind, _ round: Int, _ size: Scenario.Size) -> RunSettings
  {
    var settings = options.settings(scenario.steps)
    settings.engine = engine
    settings.round = round
    settings.num = size.num
    settings.prints = false
    settings.databasePath = options.db + "/" + scenario.database
    settings.useExisting = scenario.requires != nil
    if quick { settings.engineSettings.memtableBytes = 8 << 20 }
    scenario.adjust(&settings)
    return settings
  }

  private func note(_ text: String, since start: UInt64) {
    let seconds = Double(Clock.now() - start) / 1e9
    FileHandle.standardError.write(Data(String(format: "%7.1f s  %@\n", seconds, text as NSString).utf8))
  }

  /// Removes a database when no later scenario opens it.
  private func removeDatabases(after scenario: Scenario, in scenarios: [Scenario]) {
    let later = scenarios.drop { $0.name != scenario.name }.dropFirst()
    guard !later.contains(where: { $0.database == scenario.database }) else { return }
    try? FileManager.default.removeItem(atPath: options.db + "/" + scenario.database)
  }

  private func finish(_ comparison: Comparison, _ checks: [Check], _ rows: [Row]) throws {
    let (table, failures) = comparison.table(checks)
    print("\n\(table)\n")
    let differences = comparison.foundDifferences
    for line in differences { print("found counts differ: \(line)") }
    if differences.isEmpty { print("found counts are equal") }
    if comparison.engines.contains(.varve) { print(failures == 0 ? "every row passes" : "\(failures) row(s) fail") }
    if let html {
      let page = HTMLReport(rows: rows, title: "Varve and its peers", preamble: "<pre>\(escape(table))</pre>").page
      try page.write(toFile: html, atomically: true, encoding: .utf8)
    }
    if !differences.isEmpty || (strict && failures > 0) { throw ExitCode(1) }
  }
}

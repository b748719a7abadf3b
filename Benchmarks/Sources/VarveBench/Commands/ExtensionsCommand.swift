import ArgumentParser
import Foundation

/// `varve-bench extensions` measures the cost of extensions with one writing thread.
///
/// The results are CPU time of the writing thread, so they exclude other work of the machine and of Varve's background
/// threads; only `build` is CPU time of the process. The time to create the rows is never included.
struct ExtensionsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "extensions", abstract: "Measure what extensions cost a write.",
    discussion: """
      Rows: \(ExtensionCase.allCases.map(\.rawValue).joined(separator: ", ")).

      Example: varve-bench extensions --only insert,listener1,index2 --num 200000 --rounds 5
      """)

  @Option(help: "Rows that are written a round.")
  var num = 200_000

  @Option(help: "Rounds; the rows take turns, and the results are medians.")
  var rounds = 5

  @Option(help: "Seed of the rows.")
  var seed: UInt64 = 42

  @Option(help: "These rows only, separated by commas.")
  var only: String?

  @Flag(help: "Databases in memory, not in a directory for temporary files.")
  var inMemory = false

  @Option(help: "Append a JSON object a row to this file.")
  var json: String?

  func validate() throws {
    guard num >= 1, rounds >= 1 else { throw ValidationError("--num and --rounds are at least 1") }
    for name in names where ExtensionCase(rawValue: name) == nil {
      throw ValidationError("--only has \"\(name)\"; there are \(ExtensionCase.allCases.map(\.rawValue))")
    }
  }

  func run() throws {
    let shown = names.isEmpty ? ExtensionCase.allCases : ExtensionCase.allCases.filter { names.contains($0.rawValue) }
    var measured = shown
    // A result that is a difference needs the other side of the difference from the same round.
    if shown.contains(where: \.isDifference), !shown.contains(.insert) { measured.insert(.insert, at: 0) }
    let directory = NSTemporaryDirectory() + "varve-bench-extensions-\(getpid())"
    defer { try? FileManager.default.removeItem(atPath: directory) }
    let run = ExtensionRun(num: num, seed: seed, directory: inMemory ? nil : directory)
    // The first measurement of a process includes the cost of the pages that the allocator gets, so it is not used for
    // any row.
    _ = try run.measure(.insert)

    var rounds: [[ExtensionCase: ExtensionMeasurement]] = []
    for _ in 0..<self.rounds {
      var round: [ExtensionCase: ExtensionMeasurement] = [:]
      for one in measured { round[one] = try run.measure(one) }
      rounds.append(round)
    }
    let rows = shown.map { ExtensionRow($0, rounds, num: num, isInMemory: inMemory) }
    for row in rows { print(row.text) }
    if let json { try append(rows, to: json) }
  }

  private var names: [String] { only?.split(separator: ",").map(String.init) ?? [] }

  private func append(_ rows: [ExtensionRow], to json: String) throws {
    if !FileManager.default.fileExists(atPath: json) {
      _ = FileManager.default.createFile(atPath: json, contents: nil)
    }
    let file = try FileHandle(forWritingTo: URL(fileURLWithPath: json))
    try file.seekToEnd()
    for row in rows { try file.write(contentsOf: try JSONEncoder().encode(row) + [10]) }
    try file.close()
  }
}

import Foundation

/// The rows of all scenarios, engines and rounds, from which the table is computed.
struct Comparison {
  struct Key: Hashable {
    var scenario: String
    var engine: EngineKind
    var round: Int
  }

  let engines: [EngineKind]
  let rounds: Int
  private(set) var runs: [Key: Check.Run] = [:]

  init(engines: [EngineKind], rounds: Int) {
    self.engines = engines
    self.rounds = rounds
  }

  mutating func add(_ rows: [Row], scenario: String, engine: EngineKind, round: Int) {
    runs[Key(scenario: scenario, engine: engine, round: round)] = Check.Run(rows: rows)
  }

  /// Returns the median of a metric over the rounds.
  private func median(_ scenario: String, _ engine: EngineKind, _ metric: (Check.Run) -> Double?) -> Double? {
    let values = (1...rounds).compactMap { round in
      runs[Key(scenario: scenario, engine: engine, round: round)].flatMap(metric)
    }.sorted()
    guard !values.isEmpty else { return nil }
    let middle = values.count / 2
    return values.count % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2
  }

  // MARK: - Verdicts

  struct Verdict {
    var ratio: String
    var wanted: String
    /// Whether the gate passes, or `nil` if a metric is missing or the line is only shown.
    var passes: Bool?
  }

  private func verdict(_ check: Check, _ gate: Check.Gate) -> Verdict {
    let own = median(check.scenario, .varve, check.metric)
    func judged(_ ratio: Double?, _ wanted: String, _ passes: (Double) -> Bool) -> Verdict {
      Verdict(ratio: ratio.map { Self.short($0) + " ×" } ?? "-", wanted: wanted, passes: ratio.map(passes))
    }
    switch gate {
    case .timesFaster(let factor, let peer):
      let base = median(check.scenario, peer, check.metric)
      let ratio = own.flatMap { own in base.map { $0 / max(own, 1e-12) } }
      return judged(ratio, "≥ \(Self.short(factor)) × \(peer.rawValue)") { $0 >= factor }
    case .atMost(let factor, let peer):
      let base = median(check.scenario, peer, check.metric)
      let ratio = own.flatMap { own in base.map { own / max($0, 1e-12) } }
      return judged(ratio, "≤ \(Self.short(factor)) × \(peer.rawValue)") { $0 <= factor }
    case .atMostOwn(let factor, let other, let name):
      let base = median(check.scenario, .varve, other)
      let ratio = own.flatMap { own in base.map { own / max($0, 1e-12) } }
      // Both results are of the same engine, so noise of a few percent is not a failure.
      return judged(ratio, "≤ \(Self.short(factor)) × \(name)") { $0 <= factor * 1.03 }
    case .absolute(let limit):
      return Verdict(
        ratio: own.map { Self.short($0) } ?? "-", wanted: "≤ \(Self.short(limit)) \(check.unit)",
        passes: own.map { $0 <= limit })
    case .none: return Verdict(ratio: "", wanted: "", passes: nil)
    }
  }

  /// Returns the text of the table, and the number of its gates that fail.
  func table(_ checks: [Check]) -> (text: String, failures: Int) {
    var failures = 0
    let header =
      ["", "unit"] + engines.map(\.rawValue) + ["ratio", "at least", ""]
    var lines = [header]
    for check in checks {
      for (index, gate) in check.gates.enumerated() {
        let verdict = verdict(check, gate)
        if verdict.passes == false { failures += 1 }
        let results = engines.map { engine in
          median(check.scenario, engine, check.metric).map(Self.short) ?? "-"
        }
        let mark = verdict.passes.map { $0 ? "pass" : "FAIL" } ?? ""
        let lead = index == 0 ? [check.title, check.unit] + results : ["", ""] + engines.map { _ in "" }
        lines.append(lead + [verdict.ratio, verdict.wanted, mark])
      }
    }
    let widths = header.indices.map { column in lines.map { $0[column].count }.max() ?? 0 }
    let text = lines.map { cells in
      cells.enumerated().map { index, cell in
        let padding = String(repeating: " ", count: widths[index] - cell.count)
        let isText = index == 0 || index >= cells.count - 2
        return isText ? cell + padding : padding + cell
      }.joined(separator: "  ")
    }.joined(separator: "\n")
    return (text, failures)
  }

  static func short(_ value: Double) -> String {
    switch abs(value) {
    case 1000...: String(format: "%.0f", value)
    case 100...: String(format: "%.1f", value)
    case 10...: String(format: "%.2f", value)
    default: String(format: "%.3f", value)
    }
  }

  // MARK: - Found counts

  /// One line for each row that found another count than the same row of the first engine.
  var foundDifferences: [String] {
    var lines: [String] = []
    for (key, run) in runs.sorted(by: { ($0.key.scenario, $0.key.round) < ($1.key.scenario, $1.key.round) }) {
      guard let base = runs[Key(scenario: key.scenario, engine: engines[0], round: 1)] else { continue }
      for (row, expected) in zip(run.rows, base.rows) where row.found != expected.found {
        lines.append(
          "\(key.scenario) \(row.workload), round \(key.round): \(row.engine) found "
            + "\(row.found.map(String.init) ?? "nothing"), \(expected.engine) \(expected.found.map(String.init) ?? "nothing")"
        )
      }
    }
    return lines
  }
}

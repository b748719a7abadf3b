import Foundation

/// The rows of `varve-bench extensions`, in the order in which they are measured. `ExtensionRun` documents each.
enum ExtensionCase: String, CaseIterable {
  case insert, listener1, listener2, listener5, foreign50, nested
  case partput, logput, partfirst, index2, touchless, view, view10000, one, one4
  case aside, build, ingest, throwing, remove, ranges, rangeslook
  case typed0, typed2, typed5, typedone2, lookup, lookupdirect, indexkeys, indexrows, fetch1000, fetch1000direct,
    indexcount, filterstored, filterdecoded, observers,
    untouchedqueries, untouchedreads, observedall, update2, remove2, moved, cancelled
  case indexbuild

  /// Whether the goal is for the difference to `insert`.
  var isDifference: Bool {
    switch self {
    case .listener1, .listener2, .listener5, .foreign50, .nested: true
    default: false
    }
  }

  /// Whether the row is one operation, measured in milliseconds. Other rows are in microseconds per row or call.
  var isWhole: Bool { self == .ranges || self == .rangeslook || self == .moved || self == .cancelled }

  /// The goal in the unit of the row.
  var goal: Double? {
    switch self {
    case .insert: 1.5
    case .listener1: 0.10
    case .listener2: 0.15
    case .listener5: 0.30
    case .foreign50: 0.05
    case .nested: 0.6
    case .partput: 0.45
    case .logput: 0.12
    case .partfirst: 3.5
    case .index2: 4.4
    case .view, .view10000: 8
    case .one: 5.5
    case .one4: 7.5
    case .build: 2.6
    case .ingest: 2.0
    case .aside: 1_000
    case .remove: 5.0
    case .ranges: 80
    case .typed0: 2.86
    case .typed2: 5.0
    case .typed5: 10
    case .typedone2: 11.1
    case .lookup: 5.88
    case .lookupdirect: 3.57
    case .indexkeys: 0.25
    case .indexrows: 2.5
    case .indexcount: 0.125
    case .filterstored: 0.25
    case .indexbuild: 1.1
    case .untouchedqueries, .untouchedreads: 100
    case .observedall: 50
    case .remove2: 6.67
    case .moved: 20
    case .cancelled: 10
    case .touchless, .throwing, .rangeslook, .fetch1000, .fetch1000direct, .filterdecoded, .observers, .update2: nil
    }
  }

  /// The maximum growth of memory in bytes.
  var growthGoal: Int? { self == .ranges ? 48 << 20 : nil }
}

/// The result of one row in one round.
struct ExtensionMeasurement {
  /// The time in microseconds, or in milliseconds if the row `isWhole`.
  var time: Double
  /// The growth of resident memory in bytes, or `nil` if it is not measured.
  var growth: Int?
  /// Additional text about the round.
  var note: String?
}

/// The result of one row over all rounds, as medians.
struct ExtensionRow: Encodable {
  var workload = "extensions"
  let row: String
  let num: Int
  let rounds: Int
  let isInMemory: Bool
  let unit: String
  let time: Double
  /// The smallest and the largest time of the rounds, which show how reliable the median is.
  let least: Double
  let most: Double
  let goal: Double?
  let difference: Double?
  let growth: Int?
  /// The note of the last round.
  let note: String?

  private let kind: ExtensionCase

  enum CodingKeys: String, CodingKey {
    case workload, row, num, rounds, unit, time, least, most, goal, difference, note
    case isInMemory = "in_memory"
    case growth = "growth_bytes"
  }

  init(_ kind: ExtensionCase, _ rounds: [[ExtensionCase: ExtensionMeasurement]], num: Int, isInMemory: Bool) {
    let times = rounds.compactMap { $0[kind]?.time }
    // Differences are computed within a round first, because a disturbance of the machine in some rounds affects both
    // sides.
    let differences = rounds.compactMap { round in
      if let time = round[kind]?.time, let plain = round[.insert]?.time { time - plain } else { nil as Double? }
    }
    self.kind = kind
    row = kind.rawValue
    self.num = num
    self.rounds = rounds.count
    self.isInMemory = isInMemory
    unit = kind.isWhole ? "ms" : "us"
    time = Self.median(times) ?? 0
    least = times.min() ?? 0
    most = times.max() ?? 0
    goal = kind.goal
    difference = kind.isDifference ? Self.median(differences) : nil
    growth = Self.median(rounds.compactMap { $0[kind]?.growth })
    note = rounds.last?[kind]?.note
  }

  var text: String {
    let name = row.padding(toLength: 10, withPad: " ", startingAt: 0)
    let unit = kind.isWhole ? "ms" : "µs"
    let range = String(format: "(%.2f to %.2f)", least, most).padding(toLength: 18, withPad: " ", startingAt: 0)
    var text = "\(name) : " + String(format: "%8.3f ", time) + unit + " \(range) goal "
    text += goal.map { String(format: kind.isDifference ? "%+7.2f" : "%7.2f", $0) } ?? "      -"
    if let difference { text += String(format: ", to insert %+.3f", difference) }
    if let growth { text += String(format: ", memory %+.1f MiB", Double(growth) / 1_048_576) }
    if let note { text += ", \(note)" }
    if let goal = kind.growthGoal { text += ", goal \(goal >> 20)" }
    return text
  }

  private static func median<Number: Comparable>(_ numbers: [Number]) -> Number? {
    numbers.isEmpty ? nil : numbers.sorted()[numbers.count / 2]
  }
}

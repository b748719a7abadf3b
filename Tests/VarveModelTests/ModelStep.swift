import EngineTestSupport

/// The kinds of steps of the model suite.
///
/// Each is counted when it is made, and must be at least one percent of all.
enum ModelStep: Int, CaseIterable, Sendable {
  // In a write.
  case set, setWithMetadata, replaceObject, replaceMetadata, touchObject, touchMetadata, touchRow
  case remove, removeKeys, removeRange, removeCollection, removeEverything
  case nestedKept, nestedThrown, refusal
  // In a write or a read.
  case contains, row, object, metadata, rowsOfKeys, count, names
  case scan, scanRange, scanPrefix, scanEverything, holdCursor, moveCursor
  // Around transactions.
  case commit, throwOut, rollback, pinSnapshot, readPinned, concurrent, dropCollection, upkeep, reopen, abandon, follow

  /// How often the kind is drawn, relative to the others of its group.
  private var weight: Int {
    switch self {
    case .set: 90
    case .setWithMetadata: 70
    case .replaceObject, .replaceMetadata: 34
    case .touchObject, .touchMetadata, .touchRow: 18
    case .remove: 26
    case .removeKeys, .removeRange, .removeCollection: 14
    case .removeEverything: 13
    case .nestedKept, .nestedThrown: 20
    case .refusal: 14
    case .contains, .row, .object, .metadata, .rowsOfKeys, .count, .names: 14
    case .scan, .scanRange, .scanPrefix, .scanEverything: 13
    case .holdCursor, .moveCursor: 22
    case .commit: 190
    case .throwOut, .rollback: 48
    case .pinSnapshot: 36
    case .readPinned: 70
    case .concurrent, .dropCollection, .upkeep, .reopen, .abandon, .follow: 48
    }
  }

  static let inWrites = WeightedDraw(allCases.filter { $0.rawValue < ModelStep.commit.rawValue }, \.weight)
  static let inReads = WeightedDraw(
    allCases.filter { (ModelStep.contains.rawValue..<ModelStep.commit.rawValue).contains($0.rawValue) }, \.weight)
  static let around = WeightedDraw(allCases.filter { $0.rawValue >= ModelStep.commit.rawValue }, \.weight)
}

/// Draws kinds by the cumulative sums of their weights.
struct WeightedDraw<Kind: Sendable>: Sendable {
  private let kinds: [Kind]
  private let sums: [Int]

  init(_ kinds: [Kind], _ weight: (Kind) -> Int) {
    self.kinds = kinds
    var total = 0
    sums = kinds.map { kind in
      total += weight(kind)
      return total
    }
  }

  func callAsFunction(_ random: inout SeededRandom) -> Kind {
    let point = random.below(sums[sums.count - 1])
    return kinds[sums.firstIndex { point < $0 } ?? 0]
  }
}

/// The number of steps of each kind.
struct StepCounts<Kind: CaseIterable & RawRepresentable<Int> & Sendable>: Sendable {
  private var counts = Array(repeating: 0, count: Kind.allCases.count)
  private(set) var total = 0

  subscript(kind: Kind) -> Int {
    get { counts[kind.rawValue] }
    set {
      total += newValue - counts[kind.rawValue]
      counts[kind.rawValue] = newValue
    }
  }

  mutating func add(_ other: StepCounts) {
    for kind in Kind.allCases { self[kind] += other[kind] }
  }
}

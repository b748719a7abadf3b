import EngineTestSupport

/// The kinds of operations of the model suite.
///
/// Each is counted when it is performed, and must be at least one in a hundred of all.
enum OperationKind: Int, CaseIterable {
  case put, delete, singleDelete, deleteRange, merge, batch, putStamped, get, multiGet, contains, withValue
  case cursor, holdCursor, moveHeldCursor
  case takeSnapshot, readSnapshot, releaseSnapshot
  case sync, flush, compact, createFamily, dropFamily, reopen, refusal, follow

  /// The weight with which the kind is drawn, relative to the others.
  fileprivate var weight: Int {
    switch self {
    case .put: 240
    case .delete: 80
    case .batch: 80
    case .merge: 60
    case .singleDelete, .deleteRange, .putStamped: 30
    case .get: 120
    case .multiGet, .contains, .withValue: 45
    case .cursor: 70
    case .moveHeldCursor: 70
    case .readSnapshot: 60
    case .holdCursor, .takeSnapshot, .releaseSnapshot, .refusal, .sync, .follow: 25
    case .flush, .compact, .createFamily, .dropFamily, .reopen: 55
    }
  }

  /// Whether the kind interrupts background work that has accumulated.
  fileprivate var isUpkeep: Bool {
    switch self {
    case .flush, .compact, .createFamily, .dropFamily, .reopen: true
    default: false
    }
  }
}

/// The mix of operations of one phase of a run.
///
/// If upkeep operations were spread evenly, no memtable would ever fill by itself, and no cursor would live long. So
/// half of the phases have none of them, and each phase draws the other kinds with a quarter, the whole or three
/// times their weight.
struct OperationMix {
  /// The running sums of the weights, from which a kind is drawn.
  private var sums: [Int] = []
  /// The number of operations for which one background job is stepped, or 0 for none.
  let stepInterval: Int
  /// The number of operations that the mix is used for.
  let length: Int

  init(_ random: inout SeededRandom) {
    let isCalm = random.oneIn(2)
    var total = 0
    for kind in OperationKind.allCases {
      if kind.isUpkeep {
        total += isCalm ? 0 : kind.weight
      } else {
        total += kind.weight * [1, 4, 4, 12][random.below(4)] / 4
      }
      sums.append(total)
    }
    stepInterval = [0, 1, 4, 40][random.below(4)]
    length = isCalm ? 500 + random.below(2_000) : 500 + random.below(1_500)
  }

  func draw(_ random: inout SeededRandom) -> OperationKind {
    let point = random.below(sums[sums.count - 1])
    guard let index = sums.firstIndex(where: { point < $0 }), let kind = OperationKind(rawValue: index) else {
      fatalError("the last sum is above every point")
    }
    return kind
  }
}

/// The number of times that each kind was performed.
struct OperationCounts {
  private var counts = Array(repeating: 0, count: OperationKind.allCases.count)

  var total: Int { counts.reduce(0, +) }

  subscript(kind: OperationKind) -> Int {
    get { counts[kind.rawValue] }
    set { counts[kind.rawValue] = newValue }
  }

  mutating func add(_ other: OperationCounts) {
    for index in counts.indices { counts[index] += other.counts[index] }
  }
}

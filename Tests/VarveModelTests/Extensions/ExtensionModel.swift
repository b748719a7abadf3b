import VarveTestSupport

@testable import Varve

/// The kinds of steps of the extension model suite. Each is counted when it is made.
enum ExtensionStep: Int, CaseIterable, Sendable {
  // Rows, in a write.
  case set, setOther, remove, removeRange, removeCollection, readRow, readWritten
  // Parts, in a write.
  case putPart, addPart, deletePart, deletePartRange, getPart, firstOfPart, countPart, scanPart
  // Around these, in a write.
  case savepointKept, savepointUndone, independentInside, replaceInside, checkInside
  // Around transactions.
  case commit, throwOut, rollBack, conflict, independent, independentUndone, replaceBeside, settle, sideBySide
  case registerAgain, leaveOut, reopen, abandon, follow, readFollower, pin, readPinned, checkOutside

  /// How often the kind is drawn, relative to the others of its group. Kinds of weight 0 result from others.
  private var weight: Int {
    switch self {
    case .set: 60
    case .setOther: 20
    case .remove, .readRow, .readWritten: 22
    case .removeRange: 5
    case .removeCollection: 1
    case .putPart: 60
    case .addPart, .getPart: 40
    case .deletePart: 20
    case .deletePartRange: 6
    case .firstOfPart: 20
    case .countPart, .scanPart: 8
    case .savepointKept, .savepointUndone: 26
    case .independentInside: 4
    case .replaceInside, .checkInside: 1
    case .commit: 2_000
    case .throwOut, .rollBack: 130
    case .conflict, .settle: 0
    case .independent: 500
    case .independentUndone: 60
    case .replaceBeside: 20
    case .sideBySide: 5
    case .registerAgain, .leaveOut: 16
    case .reopen: 9
    case .abandon, .follow: 8
    case .readFollower: 110
    case .pin: 60
    case .readPinned: 100
    case .checkOutside: 60
    }
  }

  static let inWrites = WeightedDraw(allCases.filter { $0.rawValue < ExtensionStep.commit.rawValue }, \.weight)
  static let around = WeightedDraw(allCases.filter { $0.rawValue >= ExtensionStep.commit.rawValue }, \.weight)
}

/// The contents of a database of this suite: arrays by key.
struct ExtensionState: Equatable, Sendable {
  static let keyCount = 24
  static let partCount = ModelParts.Form.allCases.count * ModelParts.keyCount

  var rows: [Int?] = Array(repeating: nil, count: keyCount)
  var others: [Int?] = Array(repeating: nil, count: keyCount)
  var derived: [Int?] = Array(repeating: nil, count: keyCount)
  var chained: [Int?] = Array(repeating: nil, count: keyCount)
  /// The entries of all parts, one part after the other.
  private var parts: [Int64?] = Array(repeating: nil, count: partCount)
  /// The version of the derivation that is in force.
  var version = 1

  subscript(form: ModelParts.Form, key: Int) -> Int64? {
    get { parts[form.rawValue * ModelParts.keyCount + key] }
    set { parts[form.rawValue * ModelParts.keyCount + key] = newValue }
  }

  /// The entries of a part.
  subscript(form: ModelParts.Form) -> ArraySlice<Int64?> {
    let begin = form.rawValue * ModelParts.keyCount
    return parts[begin..<(begin + ModelParts.keyCount)]
  }

  mutating func empty(_ form: ModelParts.Form) {
    for key in 0..<ModelParts.keyCount { self[form, key] = nil }
  }

  /// Adds a number to a counter.
  mutating func add(_ number: Int64, to key: Int, of form: ModelParts.Form) {
    guard let old = self[form, key] else { return self[form, key] = number }
    self[form, key] = form == .maxima ? max(old, number) : old &+ number
  }

  // MARK: - Rows

  /// Derives the other rows after a change of a row of "rows" that the registered extensions have received.
  mutating func derive(_ key: Int) {
    derived[key] = rows[key].map { 2 * $0 }
    chain(key)
  }

  mutating func chain(_ key: Int) { chained[key] = derived[key].flatMap(ModelChain.chained) }

  /// The collections by name.
  var collections: [(name: String, rows: [Int?])] {
    [("chained", chained), ("derived", derived), ("others", others), ("rows", rows)]
  }
}

/// The use of independent parts by a write transaction.
struct IndependentUse {
  /// The writes, which are replayed on the parts as other commits have changed them meanwhile.
  enum Write {
    case put(ModelParts.Form, Int, Int64)
    case delete(ModelParts.Form, Int)
    case add(ModelParts.Form, Int, Int64)
  }

  var writes: [Write] = []
  /// Keys that it has read or written, except by additions, one bit each. Uses undone by a savepoint stay recorded.
  private var used: [ModelParts.Form: UInt32] = [:]
  /// Keys that independent commits have changed since the transaction began.
  private var changed: [ModelParts.Form: UInt32] = [:]

  mutating func use(_ form: ModelParts.Form, _ keys: Range<Int>) {
    for key in keys { used[form, default: 0] |= 1 << UInt32(key) }
  }

  mutating func change(_ form: ModelParts.Form, _ key: Int) { changed[form, default: 0] |= 1 << UInt32(key) }

  /// Whether the commit must be refused.
  var conflicts: Bool { used.contains { $0.value & changed[$0.key, default: 0] != 0 } }

  func apply(to state: inout ExtensionState) {
    for write in writes {
      switch write {
      case .put(let form, let key, let number): state[form, key] = number
      case .delete(let form, let key): state[form, key] = nil
      case .add(let form, let key, let number): state.add(number, to: key, of: form)
      }
    }
  }
}

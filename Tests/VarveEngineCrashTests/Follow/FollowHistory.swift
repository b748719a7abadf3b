@testable import VarveEngine

/// The commits of a writer, with which the states that readers show are compared.
///
/// A state is right if it equals the result of one prefix of the commits: the one that ends at its sequence.
///
/// # What is compared less strictly
/// - A reader may learn of the creation of a family early, and then sees it empty, or late, if it has no rows. Between
///   two commits it may learn of a drop early or late.
/// - A volatile family is empty in a reader.
/// - Commits with `Durability.none` are written to families of their own, the *loose* ones, in pairs of equal rows: a
///   reader sees both or neither.
struct FollowHistory {
  typealias Rows = [[UInt8]: [UInt8]]

  /// A change of one row or family.
  enum Change {
    case put(FamilyID, [UInt8], [UInt8])
    case append(FamilyID, [UInt8], [UInt8])
    case delete(FamilyID, [UInt8])
    case deleteRange(FamilyID, from: [UInt8], to: [UInt8])
    case create(FamilyID)
    case drop(FamilyID)
  }

  /// The rows of all logged families after a prefix of the commits.
  struct State {
    fileprivate(set) var rows: [FamilyID: Rows] = [.default: [:]]
    /// The number of steps that the state includes.
    fileprivate var count = 0

    fileprivate mutating func apply(_ change: Change) {
      switch change {
      case .put(let family, let key, let value): rows[family]?[key] = value
      case .append(let family, let key, let value): rows[family]?[key, default: []] += value
      case .delete(let family, let key): rows[family]?[key] = nil
      case .deleteRange(let family, let start, let end):
        rows[family] = rows[family]?.filter {
          $0.key.lexicographicallyPrecedes(start) || !$0.key.lexicographicallyPrecedes(end)
        }
      case .create(let family): rows[family] = [:]
      case .drop(let family): rows[family] = nil
      }
    }
  }

  private struct Step {
    let sequence: SequenceNumber
    let changes: [Change]

    var isChangeOfFamilies: Bool {
      !changes.isEmpty
        && changes.allSatisfy {
          switch $0 {
          case .create, .drop: true
          default: false
          }
        }
    }
  }

  private var steps: [Step] = []
  /// The number of steps that were removed from the beginning of `steps`, and the state after them.
  private var first = State()
  /// The state after all steps.
  private(set) var last = State()
  private var dropped: Set<FamilyID> = []
  /// The volatile families.
  var volatile: Set<FamilyID> = []
  /// The two families of commits that are not logged.
  var loose: [FamilyID] = []

  init() {}

  /// Adds a commit, or with the sequence of the last commit a change of families.
  mutating func add(_ changes: [Change], at sequence: SequenceNumber) {
    steps.append(Step(sequence: sequence, changes: changes))
    for change in changes {
      last.apply(change)
      if case .drop(let family) = change { dropped.insert(family) }
    }
    last.count += 1
  }

  /// The sequence of the last commit.
  var lastSequence: SequenceNumber { steps.last?.sequence ?? .zero }

  /// Forgets commits up to a sequence that every reader has passed.
  mutating func forget(before sequence: SequenceNumber) {
    var count = steps.prefix { $0.sequence < sequence }.count
    // Changes of families after the last of them may be unknown to a reader.
    while count > 0, steps[count - 1].isChangeOfFamilies { count -= 1 }
    for step in steps.prefix(count) { for change in step.changes { first.apply(change) } }
    first.count += count
    steps.removeFirst(count)
  }

  /// Returns the state at a sequence. `state` is an earlier one, from which it is computed.
  func state(at sequence: SequenceNumber, from state: State? = nil) -> State {
    var state = state ?? first
    if state.count < first.count { state = first }
    while state.count - first.count < steps.count {
      let step = steps[state.count - first.count]
      guard step.sequence <= sequence else { break }
      for change in step.changes { state.apply(change) }
      state.count += 1
    }
    return state
  }

  /// Returns what is wrong with the content that a reader shows instead of a state, or `nil` if nothing is.
  ///
  /// A snapshot that the reader has kept while it advanced lacks the families that were dropped since.
  func fault(in content: [FamilyID: Rows], _ expected: State, isKept: Bool = false) -> String? {
    let passed = isKept ? [] : droppedLast(expected)
    let next = isKept ? [] : droppedNext(expected)
    for (family, rows) in expected.rows where !volatile.contains(family) && !loose.contains(family) {
      guard let found = content[family] else {
        if rows.isEmpty || next.contains(family) || (isKept && dropped.contains(family)) { continue }
        return "family \(family) is missing"
      }
      if found != rows { return "family \(family): \(Self.difference(found, rows))" }
    }
    for (family, rows) in content {
      if volatile.contains(family), !rows.isEmpty { return "volatile family \(family) has \(rows.count) rows" }
      guard expected.rows[family] == nil, !loose.contains(family), !rows.isEmpty else { continue }
      if !passed.contains(family), !(isKept && dropped.contains(family)) {
        return "family \(family) has \(rows.count) rows before it was created, or after it was dropped"
      }
    }
    let pairs = loose.map { content[$0] ?? [:] }
    if let one = pairs.first, let other = pairs.last, one != other {
      return "half of a commit that was not logged: \(Self.difference(one, other))"
    }
    return nil
  }

  /// The families that are dropped after a state and before the next commit.
  private func droppedNext(_ state: State) -> [FamilyID] { drops(in: steps.dropFirst(state.count - first.count)) }

  /// The families that were dropped after the last commit of a state.
  private func droppedLast(_ state: State) -> [FamilyID] {
    drops(in: steps.prefix(state.count - first.count).reversed())
  }

  private func drops(in steps: some Sequence<Step>) -> [FamilyID] {
    steps.prefix { $0.isChangeOfFamilies }.flatMap(\.changes).compactMap {
      if case .drop(let family) = $0 { return family }
      return nil
    }
  }

  private static func difference(_ found: Rows, _ expected: Rows) -> String {
    let missing = expected.keys.filter { found[$0] == nil }
    let wrong = expected.filter { found[$0.key] != nil && found[$0.key] != $0.value }
    let extra = found.keys.filter { expected[$0] == nil }
    func text(_ keys: some Sequence<[UInt8]>) -> String {
      keys.map { String(decoding: $0, as: UTF8.self) }.sorted().prefix(3).joined(separator: ", ")
    }
    return
      "of \(expected.count) rows \(missing.count) are missing (\(text(missing))), \(wrong.count) have another value (\(text(wrong.keys))), \(extra.count) are too many (\(text(extra)))"
  }
}

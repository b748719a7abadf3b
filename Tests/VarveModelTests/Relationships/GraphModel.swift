import EngineTestSupport
import Varve
import VarveRelationships

@testable import RelationshipFixtures

/// A model of rows with edges as dictionaries, and of rules by their definition.
///
/// A row is removed if an edge with a rule that demands it was removed and, if the rule requires that of all edges,
/// none is left. Rows are removed one by one, in any order, until no rule applies.
struct GraphModel {
  /// The identity of an edge.
  struct Identity: Hashable {
    let name: String
    let source: String
    let destination: String
    let isManual: Bool
  }

  struct Edge: Hashable {
    let identity: Identity
    let rules: DeleteRules
    let dangling: Dangling
    let order: Int64
    var text: String {
      "\(identity.source) \(identity.isManual ? "+" : "")\(identity.name)>\(identity.destination) \(rules.rawValue) \(dangling) \(order)"
    }
  }

  /// An error for an edge that must not dangle and has no row at its end.
  struct IsDangling: Error {}

  let counting: Relationships.Counting
  let collectsCycles: Bool
  private(set) var rows: [String: Thing] = [:]
  /// The edges that rows declare, or declared before they were removed.
  private var declared: [String: [Identity: Edge]] = [:]
  private(set) var manual: [Identity: Edge] = [:]
  /// The edges when rules were last applied.
  private var before: [Identity: Edge] = [:]
  /// The rows when the transaction began, and whether rules were applied since then.
  private var begun: (rows: Set<String>, hasFlushed: Bool) = ([], false)
  /// Rows that were removed since rules were last applied.
  private var removed: Set<String> = []
  private var checked: Set<Identity> = []
  private var reasons: [Identity: EdgeRemoval] = [:]
  private var removedByRules: Set<String> = []
  private var remade: Set<String> = []
  /// The edges that were removed, and for each whether its source was removed.
  private var lost: [(edge: Edge, sourceWent: Bool)] = []
  /// The numbers of rows that rules have removed, and of those that they have notified.
  private(set) var ruleRemovals = 0
  private(set) var notified = 0

  init(counting: Relationships.Counting, collectsCycles: Bool) {
    self.counting = counting
    self.collectsCycles = collectsCycles
  }

  // MARK: - Reading

  private func isThere(_ end: String) -> Bool { end.contains(":") || rows[end] != nil }

  private var declaredEdges: [Edge] { declared.values.flatMap(\.values) }
  private var all: [Edge] { declaredEdges + Array(manual.values) }

  var live: [Edge] { all.filter { isThere($0.identity.source) && isThere($0.identity.destination) } }
  /// The dangling edges of existing rows.
  var dangling: [Edge] { declaredEdges.filter { isThere($0.identity.source) && !isThere($0.identity.destination) } }

  // MARK: - Changes

  mutating func set(_ key: String, _ thing: Thing) {
    if rows[key] == nil, removedByRules.contains(key) { remade.insert(key) }
    rows[key] = thing
    declare(key, thing)
  }

  private mutating func declare(_ key: String, _ thing: Thing) {
    let old = declared[key] ?? [:]
    var edges: [Identity: Edge] = [:]
    for link in thing.links {
      let edge = Self.edge(link, from: key, isManual: false)
      edges[edge.identity] = edge
    }
    for edge in edges.values where edge.dangling != .weak && old[edge.identity] != edge {
      checked.insert(edge.identity)
    }
    declared[key] = edges
  }

  static func edge(_ link: Thing.Link, from key: String, isManual: Bool) -> Edge {
    Edge(
      identity: Identity(name: link.name, source: key, destination: link.destination, isManual: isManual),
      rules: DeleteRules(rawValue: link.rules), dangling: link.dangling, order: link.order)
  }

  mutating func remove(_ key: String) {
    if rows.removeValue(forKey: key) != nil { removed.insert(key) }
  }

  mutating func add(_ link: Thing.Link, from key: String) {
    let edge = Self.edge(link, from: key, isManual: true)
    if manual[edge.identity] != edge { checked.insert(edge.identity) }
    manual[edge.identity] = edge
  }

  mutating func drop(_ identity: Identity, _ reason: EdgeRemoval) {
    if manual.removeValue(forKey: identity) != nil { reasons[identity] = reason }
  }

  // MARK: - Rules

  /// Applies the rules. Throws if an edge that must not dangle does; the model is unusable then.
  mutating func flush(_ random: inout SeededRandom) throws {
    lost = []
    let now = Set(all.map(\.identity))
    for (identity, edge) in before where !now.contains(identity) {
      switch identity.isManual ? reasons[identity] ?? .edgeOnly : .asIfSourceDeleted {
      case .edgeOnly: break
      case .asIfSourceDeleted: lose(edge, sourceWent: true)
      case .asIfDestinationDeleted: lose(edge, sourceWent: false)
      }
    }
    for key in removed where rows[key] == nil { die(key) }
    repeat {
      while let key = rows.keys.filter({ isToGo($0) }).sorted().randomElement(using: &random) { removeByRule(key) }
      let sources = checkedEdges.filter { $0.dangling == .deleteSource && !$0.identity.isManual && isDangling($0) }
        .map(\.identity.source).filter { rows[$0] != nil && !remade.contains($0) }
      if let source = sources.sorted().randomElement(using: &random) {
        removeByRule(source)
        continue
      }
      if checkedEdges.contains(where: { ($0.identity.isManual || $0.dangling == .error) && isDangling($0) }) {
        throw IsDangling()
      }
      let cycles = cycles()
      if cycles.isEmpty { break }
      for row in cycles.sorted() { removeByRule(row) }
    } while true
    settle()
  }

  // MARK: - Cycles

  /// Returns the edges that keep an owned row: those with a name that owns it, or all. Returns `nil` if the row is
  /// not owned.
  private func keeping(_ key: String) -> [Edge]? {
    let edges = all.filter { $0.identity.destination == key && $0.identity.source != key }
    let names = Set(edges.filter { $0.rules.contains(.deleteDestinationIfAllSourcesDeleted) }.map(\.identity.name))
    if names.isEmpty { return nil }
    return counting == .allNames ? edges : edges.filter { names.contains($0.identity.name) }
  }

  /// Returns the rows that only keep each other and lead to a row that has lost an owning edge.
  private func cycles() -> Set<String> {
    if !collectsCycles { return [] }
    var garbage = Set(rows.keys.filter { keeping($0) != nil })
    while let kept = garbage.first(where: { key in
      keeping(key)?.contains { !garbage.contains($0.identity.source) } ?? true
    }) {
      garbage.remove(kept)
    }
    let begins = lost.filter { edge, sourceWent in
      sourceWent && edge.rules.contains(.deleteDestinationIfAllSourcesDeleted)
        && edge.identity.source != edge.identity.destination
    }.map(\.edge.identity.destination)
    var found = Set(begins.filter { garbage.contains($0) })
    var queue = Array(found)
    while let key = queue.popLast() {
      for edge in keeping(key) ?? [] where found.insert(edge.identity.source).inserted {
        queue.append(edge.identity.source)
      }
    }
    return found.subtracting(remade)
  }

  private mutating func settle() {
    for key in removed where rows[key] == nil { declared[key] = nil }
    before = Dictionary(uniqueKeysWithValues: all.map { ($0.identity, $0) })
    (removed, checked, reasons, lost) = ([], [], [:], [])
    begun.hasFlushed = true
  }

  /// Ends the transaction.
  mutating func commit() {
    (removedByRules, remade) = ([], [])
    begun = (Set(rows.keys), false)
  }

  private var checkedEdges: [Edge] { all.filter { checked.contains($0.identity) } }

  private func isDangling(_ edge: Edge) -> Bool {
    !isThere(edge.identity.source) || !isThere(edge.identity.destination)
  }

  private mutating func removeByRule(_ key: String) {
    rows[key] = nil
    removed.insert(key)
    removedByRules.insert(key)
    ruleRemovals += 1
    die(key)
  }

  /// Removes the edges of a removed row, except those that other rows declare.
  private mutating func die(_ key: String) {
    let own = all.filter { $0.identity.source == key }
    declared[key] = nil
    manual = manual.filter { $0.key.source != key }
    for edge in own { lose(edge, sourceWent: true) }
    let others = all.filter { $0.identity.destination == key }
    manual = manual.filter { $0.key.destination != key }
    for edge in others {
      if !edge.identity.isManual, edge.dangling != .weak { checked.insert(edge.identity) }
      lose(edge, sourceWent: false)
    }
  }

  private mutating func lose(_ edge: Edge, sourceWent: Bool) {
    if edge.identity.source == edge.identity.destination { return }
    // The edge was dangling before, and its destination was created in this transaction.
    if sourceWent, !edge.identity.isManual, !begun.hasFlushed, before[edge.identity] != nil,
      !begun.rows.contains(edge.identity.destination)
    {
      return
    }
    lost.append((edge, sourceWent))
    let key = sourceWent ? edge.identity.destination : edge.identity.source
    guard edge.rules.contains(sourceWent ? .notifyIfSourceDeleted : .notifyIfDestinationDeleted), let thing = rows[key],
      !thing.isStubborn
    else { return }
    var copy = thing
    copy.notes.append(
      "\(edge.identity.name) \(sourceWent ? "from \(edge.identity.source)" : "to \(edge.identity.destination)")")
    if !sourceWent, !edge.identity.isManual {
      copy.links.removeAll { $0.name == edge.identity.name && $0.destination == edge.identity.destination }
    }
    rows[key] = copy
    declare(key, copy)
    notified += 1
  }

  private func isToGo(_ key: String) -> Bool {
    if remade.contains(key) { return false }
    return lost.contains { edge, sourceWent in
      let identity = edge.identity
      func counts(_ other: Edge) -> Bool { counting == .allNames || other.identity.name == identity.name }
      if sourceWent {
        guard identity.destination == key else { return false }
        if edge.rules.contains(.deleteDestinationIfSourceDeleted) { return true }
        // An edge that was added with a missing source counts until it is refused.
        return edge.rules.contains(.deleteDestinationIfAllSourcesDeleted)
          && !all.contains { $0.identity.destination == key && $0.identity.source != key && counts($0) }
      }
      guard identity.source == key else { return false }
      if edge.rules.contains(.deleteSourceIfDestinationDeleted) { return true }
      return edge.rules.contains(.deleteSourceIfAllDestinationsDeleted)
        && !live.contains { $0.identity.source == key && $0.identity.destination != key && counts($0) }
    }
  }
}

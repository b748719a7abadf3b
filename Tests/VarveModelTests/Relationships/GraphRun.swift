import EngineTestSupport
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import RelationshipFixtures
@testable import Varve
@_spi(Extensions) @testable import VarveRelationships

/// The kinds of steps of the relationship model.
enum GraphStep: Int, CaseIterable, Sendable {
  case set, remove, add, drop, clear, removeRange, flush, nested, nestedUndone, look, refused, reopen, rebuild, abandon,
    follow
}

/// A run of random changes of rows with edges, in a database and in a model.
final class GraphRun {
  private let site: StorageSite
  private var random: SeededRandom
  private var database: Database
  private var graph: ExtensionHandle<Relationships>
  /// A reader as in another process, which continues over reopenings of the database.
  private var follower: Database?
  private var model: GraphModel
  private var version = 1
  /// Whether the changes of each commit are observed.
  private let observes: Bool
  private var connection: Connection?
  private(set) var counts = StepCounts<GraphStep>()
  private(set) var trace: [String] = []

  init(_ kind: StorageKind, seed: UInt64) throws {
    site = try StorageSite(kind)
    random = SeededRandom(seed: seed)
    let counting: Relationships.Counting = seed % 3 == 0 ? .sameName : .allNames
    model = GraphModel(counting: counting, collectsCycles: seed % 4 == 1)
    observes = seed % 2 == 0
    graph = Relationships(version: "1", counting: counting, collectsCycles: seed % 4 == 1).named("graph")
    database = try Database.open(site.open(), path: "graph", definition: Self.definition(graph))
    try database.waitReady(graph)
    try observe()
  }

  private static let counts = [
    LinkCount(delivery: .immediate).named("immediate"), LinkCount(delivery: .afterCurrent).named("late"),
  ]

  /// Returns a definition with relationships, an index and two other extensions.
  private static func definition(_ graph: ExtensionHandle<Relationships>) throws -> DatabaseDefinition {
    try DatabaseDefinition {
      for name in GraphCase.collections.dropFirst() { CollectionDefinition(name, Thing.self, key: String.self) }
      try CollectionDefinition("a", Thing.self, key: String.self).indexed(by: linkIndex)
      graph
      for count in counts { count }
    }
  }

  private func observe() throws {
    connection = observes ? database.connection() : nil
    if let connection { _ = try begin(connection) }
  }

  /// These call the blocking forms, where overload resolution would select the asynchronous ones.
  private func begin(_ connection: Connection) throws -> [ChangeEvent] { try connection.beginLongLivedRead() }
  private func advance(_ connection: Connection) throws -> [ChangeEvent] { try connection.advance() }

  func close() throws {
    try endFollower()
    try database.close()
  }

  var ruleRemovals: Int { model.ruleRemovals }
  var notified: Int { model.notified }

  func run(_ count: Int) throws {
    while counts.total < count { try step() }
    try reopen()
  }

  private func step() throws {
    switch random.below(200) {
    case 0: try reopen()
    case 1: try rebuild()
    case 2: try abandon()
    case 3..<5: try follow()
    default: try write()
    }
  }

  // MARK: - Transactions

  private struct Undo: Error {}

  private func write() throws {
    trace.append("write")
    var changed = model
    var isRefused = false
    do {
      try database.core.write(WriteTerms()) { tx in
        for _ in 0...random.below(6) { try change(tx, &changed, depth: 0) }
        // The effect that the rules will have at the end of the transaction is computed beforehand.
        do { try changed.flush(&random) } catch { isRefused = true }
      }
      #expect(!isRefused, "an edge that has to lead somewhere leads nowhere, and the commit happened")
      changed.commit()
      try compareChanges(model, changed)
      model = changed
    } catch let error as DatabaseError where error.code == .danglingEdge {
      guard isRefused else { throw Difference(description: "the model does not refuse what was: \(error)") }
      counts[.refused] += 1
      trace.append("refused: \(error)")
    }
    if random.oneIn(4) { try database.core.read { tx in try look(tx, model) } }
  }

  private func change(_ tx: WriteTransaction, _ model: inout GraphModel, depth: Int) throws {
    switch random.below(100) {
    case 0..<44: try set(tx, &model)
    case 44..<62: try remove(tx, &model)
    case 62..<72: try add(tx, &model)
    case 72..<79: try drop(tx, &model)
    case 79..<80: try clear(tx, &model)
    case 80..<82: try removeRange(tx, &model)
    case 82..<86: try flush(tx, &model)
    case 86..<90 where depth < 3: try nested(tx, &model, depth, isUndone: false)
    case 90..<94 where depth < 3: try nested(tx, &model, depth, isUndone: true)
    default: try look(tx, model)
    }
  }

  private func note(_ step: GraphStep, _ text: String) {
    counts[step] += 1
    trace.append(text)
  }

  private static let keys = GraphCase.collections.flatMap { collection in (1...6).map { "\(collection)\($0)" } }

  private func key() -> String { Self.keys[random.below(Self.keys.count)] }

  private func link() -> Thing.Link {
    var text = "\(["x", "y", "z"][random.below(3)])>\(key())"
    if random.oneIn(4) { text += "@\(random.below(5) - 2)" }
    var link = Thing.Link(text[...])
    repeat {
      link.rules = random.oneIn(3) ? 0 : [1, 2, 4, 8, 16, 32].filter { _ in random.oneIn(3) }.reduce(0, |)
    } while DeleteRules(rawValue: link.rules).refusal(toFile: false) != nil
    if random.oneIn(12) { link.dangling = random.oneIn(2) ? .error : .deleteSource }
    return link
  }

  private func set(_ tx: WriteTransaction, _ model: inout GraphModel) throws {
    let key = key()
    var thing = Thing(links: (0..<random.below(4)).map { _ in link() })
    thing.isStubborn = random.oneIn(4)
    // Often the former row is used, with one edge more or less.
    if let old = model.rows[key], random.oneIn(2) {
      thing.links = old.links
      if random.oneIn(2) {
        thing.links.append(link())
      } else {
        thing.links = thing.links.filter { _ in !random.oneIn(3) }
      }
      thing.notes = old.notes
    }
    note(.set, "set \(key) \(thing.isStubborn ? "stubborn " : "")\(thing.links.map(\.text).joined(separator: " "))")
    try tx.set(thing, key: key, in: String(key.prefix(1)))
    model.set(key, thing)
  }

  private func remove(_ tx: WriteTransaction, _ model: inout GraphModel) throws {
    let key = key()
    note(.remove, "remove \(key)")
    try tx.remove(Thing.row(key))
    model.remove(key)
  }

  private func add(_ tx: WriteTransaction, _ model: inout GraphModel) throws {
    let (key, link) = (key(), link())
    // An edge to a missing row is an error, which is tried once in a while.
    if !random.oneIn(10), model.rows[key] == nil || model.rows[link.destination] == nil { return }
    note(.add, "add \(key) \(link.text)")
    try tx[graph].add(link.edge, from: Thing.row(key))
    model.add(link, from: key)
  }

  private func drop(_ tx: WriteTransaction, _ model: inout GraphModel) throws {
    guard let identity = model.manual.keys.sorted(by: { "\($0)" < "\($1)" }).randomElement(using: &random) else {
      return
    }
    let reason: EdgeRemoval = [.edgeOnly, .asIfSourceDeleted, .asIfDestinationDeleted][random.below(3)]
    note(.drop, "drop \(identity.source) \(identity.name)>\(identity.destination) \(reason)")
    let query = EdgeQuery(
      EdgeName(identity.name), from: try Thing.row(identity.source), to: try Thing.row(identity.destination))
    #expect(try tx[graph].remove(query, as: reason) == 1)
    model.drop(identity, reason)
  }

  private func clear(_ tx: WriteTransaction, _ model: inout GraphModel) throws {
    if random.oneIn(4) {
      note(.clear, "clear all")
      try tx.removeAll()
      for key in Self.keys { model.remove(key) }
      return
    }
    let collection = GraphCase.collections[random.below(4)]
    note(.clear, "clear \(collection)")
    try tx.removeAll(in: collection)
    for key in Self.keys where key.hasPrefix(collection) { model.remove(key) }
  }

  private func removeRange(_ tx: WriteTransaction, _ model: inout GraphModel) throws {
    let (first, second) = (key(), key())
    let collection = String(first.prefix(1))
    let range = min(first.suffix(1), second.suffix(1))...max(first.suffix(1), second.suffix(1))
    note(.removeRange, "remove range \(collection) \(range)")
    try tx.remove(in: collection, (collection + range.lowerBound)...(collection + range.upperBound))
    for key in Self.keys where key.hasPrefix(collection) && range.contains(key.suffix(1)) { model.remove(key) }
  }

  private func flush(_ tx: WriteTransaction, _ model: inout GraphModel) throws {
    note(.flush, "flush")
    var flushed = model
    do { try flushed.flush(&random) } catch {
      // The flush must have changed nothing.
      #expect(throws: DatabaseError.self) { try tx[graph].flush() }
      return
    }
    try tx[graph].flush()
    model = flushed
  }

  private func nested(_ tx: WriteTransaction, _ model: inout GraphModel, _ depth: Int, isUndone: Bool) throws {
    note(isUndone ? .nestedUndone : .nested, "begin")
    var inner = model
    do {
      try tx.savepoint {
        for _ in 0...random.below(4) { try change(tx, &inner, depth: depth + 1) }
        if isUndone { throw Undo() }
      }
      model = inner
    } catch is Undo {}
    trace.append(isUndone ? "undo" : "keep")
  }

  // MARK: - Reading

  private func look(_ tx: ReadTransaction, _ model: GraphModel) throws {
    counts[.look] += 1
    var query = EdgeQuery()
    var isMeant: (GraphModel.Identity) -> Bool = { _ in true }
    func narrow(_ more: @escaping (GraphModel.Identity) -> Bool) {
      let before = isMeant
      isMeant = { before($0) && more($0) }
    }
    if random.oneIn(2) {
      let name = ["x", "y", "z", "w"][random.below(4)]
      query.name = EdgeName(name)
      narrow { $0.name == name }
    }
    if random.oneIn(2) {
      let key = key()
      query.source = try Thing.row(key)
      narrow { $0.source == key }
    }
    if random.oneIn(2) {
      let key = key()
      query.destination = .row(try Thing.row(key))
      narrow { $0.destination == key }
    }
    let graph = try tx[graph]
    let found = try graph.edges(query).map { try Self.text($0) }
    let expected = model.live.filter { isMeant($0.identity) }.map(\.text)
    try compare(found, expected, "\(query)")
    try #require(try graph.count(query) == expected.count)
    try #require(try graph.hasEdge(query) == !expected.isEmpty)
    if random.oneIn(3) { try lookEverywhere(tx, model) }
    if random.oneIn(3) { try lookAround(tx, model) }
  }

  private func lookEverywhere(_ tx: ReadTransaction, _ model: GraphModel) throws {
    let graph = try tx[graph]
    func lines(_ rows: (String) throws -> Thing?) throws -> [String] {
      try Self.keys.map { key in
        guard var thing = try rows(key) else { return "\(key) gone" }
        thing.notes.sort()
        return "\(key) \(thing)"
      }
    }
    try compare(
      try lines { try tx.object(Thing.self, key: $0, in: String($0.prefix(1))) }, try lines { model.rows[$0] }, "rows")
    if !tx.isWritable { try lookBeside(tx, model) }
    try compare(try graph.edges().map { try Self.text($0) }, model.live.map(\.text), "all edges")
    try compare(
      try graph.danglingEdges().filter { !$0.isManual || !tx.isWritable }.map { try Self.text($0) },
      model.dangling.map(\.text), "dangling edges")
  }

  /// Compares all rows, edges and index entries that a follower sees with the committed ones.
  private func follow() throws {
    note(.follow, "follow")
    let follower = try self.follower ?? openFollower()
    self.follower = follower
    try follower.core.read { tx in try lookEverywhere(tx, model) }
    if random.oneIn(4) { try endFollower() }
  }

  private func openFollower() throws -> Database {
    var options = DatabaseOptions()
    options.follows = true
    return try Database.open(try site.follow(), path: "graph", definition: Self.definition(graph), options: options)
  }

  private func endFollower() throws {
    try follower?.close()
    follower = nil
  }

  /// Checks that the edges in the commit's change set are the difference of both models.
  private func compareChanges(_ before: GraphModel, _ after: GraphModel) throws {
    guard let connection else { return }
    var found: [String] = []
    for case .changes(let changeSet) in try advance(connection) {
      guard case .exact(let changes) = changeSet.changes(of: graph) else { continue }
      if !changes.isComplete { throw Difference(description: "the changes are not complete") }
      found += try changes.added.map { "+ " + (try Self.text($0)) } + changes.removed.map { "- " + (try Self.text($0)) }
      found +=
        try changes.changed.map { "* " + (try Self.text($0)) } + changes.dangling.map { "? " + (try Self.text($0)) }
    }
    let (old, new) = (
      Dictionary(grouping: before.live, by: \.identity), Dictionary(grouping: after.live, by: \.identity)
    )
    var expected: [String] = []
    for (identity, edges) in new {
      let known = old[identity]?[0]
      if known == nil { expected.append("+ " + edges[0].text) }
      if let known, known != edges[0] { expected.append("* " + edges[0].text) }
    }
    // An edge that dangles from now on may have other rules in the commit: it is listed with its current ones.
    let dangling = Dictionary(grouping: after.dangling, by: \.identity)
    for (identity, edges) in old where new[identity] == nil {
      expected.append("- " + (dangling[identity]?[0] ?? edges[0]).text)
    }
    let were = Set(before.dangling.map(\.identity))
    expected += after.dangling.filter { !were.contains($0.identity) }.map { "? " + $0.text }
    try compare(found, expected, "changes")
  }

  /// Checks the rows at a distance of several edges, and the rows that edges of a name lead to.
  private func lookAround(_ tx: ReadTransaction, _ model: GraphModel) throws {
    let start = key()
    if model.rows[start] == nil { return }
    let (isOutgoing, isIncoming) = [(true, false), (false, true), (true, true)][random.below(3)]
    let names: Set<String>? = random.oneIn(2) ? nil : ["x", "y"]
    let edges = model.live.filter { names?.contains($0.identity.name) ?? true }
    var depths = [start: 0]
    var queue = [start]
    while !queue.isEmpty {
      let end = queue.removeFirst()
      for edge in edges {
        let (source, destination) = (edge.identity.source, edge.identity.destination)
        for next in (isOutgoing && source == end ? [destination] : [])
          + (isIncoming && destination == end ? [source] : [])
        where depths[next] == nil {
          depths[next] = (depths[end] ?? 0) + 1
          queue.append(next)
        }
      }
    }
    let direction: EdgeDirection = isOutgoing && isIncoming ? .both : isOutgoing ? .outgoing : .incoming
    let bound = random.oneIn(2) ? nil : random.below(3)
    let graph = try tx[graph]
    let edgeNames = names.map { Set($0.map { EdgeName($0) }) }
    var traversal = try graph.traverse(from: [Thing.row(start)], direction, names: edgeNames, maxDepth: bound)
    var found: [String] = []
    while let step = try traversal.next() { found.append("\(Thing.text(step.end)) \(step.depth)") }
    depths[start] = nil
    try compare(
      found, depths.filter { $0.value <= bound ?? .max }.map { "\($0.key) \($0.value)" }, "a scan from \(start)")
    let target = key()
    let path = try graph.shortestPath(from: Thing.row(start), to: Thing.row(target), direction, names: edgeNames)
    try #require(path?.count == (target == start ? 0 : depths[target]))
  }

  /// Checks that the index and the other extensions agree with the rows.
  private func lookBeside(_ tx: ReadTransaction, _ model: GraphModel) throws {
    let expected = model.rows.map { key, thing in
      "\(key.prefix(1))/\"\(key)\" \(thing.links.count) \(thing.notes.count % 256)"
    }
    for count in Self.counts { try compare(try tx[count].lines(), expected, "what \(count.name) has") }
    for count in 0...3 {
      let found = try Array(tx.rows(.value(count), from: linkIndex)).map { Thing.text($0.key) }
      try compare(
        found, model.rows.filter { $0.key.hasPrefix("a") && $0.value.links.count == count }.map(\.key), "the index")
    }
  }

  private struct Difference: Error, CustomStringConvertible { let description: String }

  private func compare(_ found: [String], _ expected: [String], _ what: String) throws {
    let (found, expected) = (found.sorted(), expected.sorted())
    if found == expected { return }
    let more = found.filter { !expected.contains($0) }
    let less = expected.filter { !found.contains($0) }
    throw Difference(description: "\(what): found besides \(more), and not \(less); \(found.count), \(expected.count)")
  }

  private static func text(_ edge: RelationshipEdge) throws -> String {
    let source = edge.source.map { Thing.text($0) } ?? "?"
    return
      "\(source) \(edge.isManual ? "+" : "")\(edge.name)>\(Thing.text(edge.destination)) \(edge.rules.rawValue) \(edge.dangling) \(edge.order)"
  }

  // MARK: - Reopening

  private func reopen() throws {
    note(.reopen, "reopen")
    try database.close()
    try open()
  }

  /// Leaves the database in the state after the death of its process.
  private func abandon() throws {
    note(.abandon, "abandon")
    try endFollower()
    let before = database
    try site.abandon()
    if site.kind != .toy { try before.close() }
    try open()
  }

  /// Collects the edges of all rows again.
  private func rebuild() throws {
    note(.rebuild, "rebuild")
    version += 1
    graph = Relationships(version: "\(version)", counting: model.counting, collectsCycles: model.collectsCycles).named(
      "graph")
    // The follower has the former definition.
    try endFollower()
    try database.close()
    try open()
  }

  private func open() throws {
    connection = nil
    database = try Database.open(site.open(), path: "graph", definition: Self.definition(graph))
    try database.waitReady(graph)
    try database.core.read { tx in try lookEverywhere(tx, model) }
    try observe()
  }
}

@_spi(Extensions) internal import Varve

/// Applies the rules to the changes of a transaction, in waves, until there are no further effects.
///
/// # A wave
/// 1. The unprocessed changes are taken from the log: edges and rows that do not exist any more.
/// 2. The edges of the removed rows are scanned, in the order of the families, first those by source. Their entries are
///    removed, except those that existing rows declare, which dangle from now on. The effects of rules are collected.
/// 3. Ends are notified, and write their new values.
/// 4. Ends that are removed with their last edge are checked once each for another edge.
/// 5. Removals are applied. They are the unprocessed changes of the next wave.
///
/// When there are no unprocessed changes, edges that must not dangle are checked. Depth needs no stack: a chain of a
/// million rows takes a million waves.
///
/// # Why the result does not depend on the order
/// Within a wave, nothing is removed before all effects were collected. An end that another edge keeps is recorded, and
/// checked again when it loses that edge, whatever the edge's rules are: so it is removed exactly if an edge with such
/// a rule was removed, and no edge remains.
struct RuleRun {
  let graph: RelationshipsTransaction
  private let writer: WriteTransaction
  /// The ends that another edge has kept, by the key prefix of such edges.
  private var kept = KeptEnds()
  /// The rows that were removed in the previous wave.
  private var previous = PackedKeySet(PackedKeys())
  /// The entries that the scans of their ends remove, if those ends are removed.
  private var deferred = DeferredEntries()
  private var mirroredKey: [UInt8] = []
  /// The number of rows in `recreated` whose entries were repaired.
  private var repairedCount = 0
  /// The keys by destination of the edges that must not dangle.
  private var declaredChecks = PackedKeys()
  private var manualChecks = PackedKeys()
  private var notifiedCount = 0

  init(_ graph: RelationshipsTransaction, _ writer: WriteTransaction) {
    self.graph = graph
    self.writer = writer
  }

  private var counting: Relationships.Counting { graph.definition.counting }

  mutating func run() throws {
    repeat {
      while graph.log.hasUnprocessed { try wave() }
      try removeDeferred(PackedKeySet(PackedKeys()))
    } while try !(check() && collectCycles())
  }

  private mutating func wave() throws {
    let unprocessed = graph.log.takeUnprocessed()
    var effects = RuleEffects()
    try collectEnded(unprocessed, &effects)
    try collectDead(try dead(unprocessed.deaths), &effects)
    try notify(&effects)
    try examine(&effects)
    try remove(effects.removals)
  }

  /// Returns the ends that do not exist. A row that was set again after its removal counts as updated.
  private func dead(_ ends: PackedKeys) throws -> PackedKeys {
    if !graph.log.hasInsertionsAfterDeaths { return ends }
    var dead = PackedKeys()
    for index in 0..<ends.count where try !graph.exists(ends[index]) { dead.append(ends[index]) }
    return dead
  }

  // MARK: - Edges that were removed

  /// Collects the effects of edges that existed when rules were last applied, and do not any more.
  private mutating func collectEnded(_ unprocessed: EdgeLog.UnprocessedChanges, _ effects: inout RuleEffects) throws {
    var index = 0
    while index < unprocessed.changedKeys.count {
      let toKey = Array(unprocessed.changedKeys[index])
      // A declared edge and the same edge added by hand are two edges.
      var first: (declared: EdgeLog.Change?, manual: EdgeLog.Change?) = (nil, nil)
      var last = first
      while index < unprocessed.changedKeys.count, unprocessed.changedKeys[index] == toKey[...] {
        let change = unprocessed.changes[unprocessed.changedKeys.position(index)]
        if change.isManual {
          first.manual = first.manual ?? change
          last.manual = change
        } else {
          first.declared = first.declared ?? change
          last.declared = change
        }
        index += 1
      }
      for (first, last) in [(first.declared, last.declared), (first.manual, last.manual)] {
        guard let first, let last else { continue }
        try collectEnded(toKey, first, last, unprocessed.fresh, &effects)
      }
    }
  }

  private mutating func collectEnded(
    _ toKey: [UInt8], _ first: EdgeLog.Change, _ last: EdgeLog.Change, _ fresh: PackedKeys, _ effects: inout RuleEffects
  ) throws {
    let family = graph.families[isManual: first.isManual]
    if try family.to.get(toKey) != nil {
      guard last.isChecked else { return }
      return first.isManual ? manualChecks.append(toKey) : declaredChecks.append(toKey)
    }
    guard let before = first.before else { return }
    let key = try EdgeKey(toKey, bySource: false)
    // The edge was added and removed since rules were last applied.
    if !first.isManual, fresh.contains(key.second) { return }
    let edge = EndedEdge(
      source: key.second, name: key.name, destination: key.first, value: before, isManual: first.isManual)
    reexamine(edge, &effects)
    switch last.reason {
    case .edgeOnly: return
    case .asIfSourceDeleted: try collect(edge, sourceDeleted: true, &effects)
    case .asIfDestinationDeleted: try collect(edge, sourceDeleted: false, &effects)
    }
  }

  /// Collects the effects of an edge whose source, or else whose destination, was removed. An edge from a row to itself
  /// has none. Returns whether the rules are applied.
  @discardableResult
  private func collect(_ edge: EndedEdge, sourceDeleted: Bool, _ effects: inout RuleEffects) throws -> Bool {
    if edge.isSelf { return false }
    if sourceDeleted, try wasDangling(edge) { return false }
    let rules = edge.value.rules
    if sourceDeleted {
      let isFile = edge.destination.first == EdgeFormat.file
      if rules.contains(.deleteDestinationIfSourceDeleted), !isFile { effects.removals.append(edge.destination) }
      if isFile, !rules.isDisjoint(with: [.deleteDestinationIfSourceDeleted, .deleteDestinationIfAllSourcesDeleted]) {
        // A file is kept by any edge to it, whatever its rule and name.
        effects.withoutSource.insert(
          edge.destination + [EdgeFormat.endMark], ofEndOfSize: edge.destination.count)
        return true
      }
      if rules.contains(.deleteDestinationIfAllSourcesDeleted) {
        effects.withoutSource.insert(prefix(edge.destination, edge.name), ofEndOfSize: edge.destination.count)
      }
      if rules.contains(.notifyIfSourceDeleted) { try collect(edge, .asIfSourceDeleted, &effects) }
    } else {
      if rules.contains(.deleteSourceIfDestinationDeleted) { effects.removals.append(edge.source) }
      if rules.contains(.deleteSourceIfAllDestinationsDeleted) {
        effects.withoutDestination.insert(prefix(edge.source, edge.name), ofEndOfSize: edge.source.count)
      }
      if rules.contains(.notifyIfDestinationDeleted) { try collect(edge, .asIfDestinationDeleted, &effects) }
    }
    return true
  }

  /// Returns whether an edge dangled when the transaction began, and leads to a row that was inserted since, so that it
  /// has no effect.
  private func wasDangling(_ edge: EndedEdge) throws -> Bool {
    // After rules were applied, the edge may have existed.
    guard graph.log.hasInsertions, !graph.log.hasFlushed, !edge.isManual,
      let number = EdgeFormat.collection(edge.destination),
      try unsafe !writer.containedAtBeginning(EdgeFormat.key(edge.destination).span.bytes, inCollection: number)
    else { return false }
    var toKey: [UInt8] = []
    EdgeFormat.appendToKey(edge.destination, edge.name, edge.source, to: &toKey)
    return try graph.families.declared.to.committedValue(of: toKey) != nil
  }

  private func collect(_ edge: EndedEdge, _ reason: EdgeRemoval, _ effects: inout RuleEffects) throws {
    guard let from = try graph.row(of: edge.source), let to = try graph.end(of: edge.destination),
      let name = String(validating: edge.name, as: UTF8.self)
    else { return }
    let sourceDeleted = reason == .asIfSourceDeleted
    let removed = RelationshipEdge(
      EdgeName(name), from: from, to: to, edge.value.rules, edge.value.dangling, order: edge.value.order,
      attributeBytes: Array(edge.value.attributes), isManual: edge.isManual, domain: graph.definition.domain)
    effects.notifications.append(
      RuleNotification(
        end: Array(sourceDeleted ? edge.destination : edge.source), edge: removed, reason: reason,
        position: edge.name + [EdgeFormat.nameMark] + (sourceDeleted ? edge.source : edge.destination)))
  }

  /// Returns the key prefix of the edges that keep an end.
  private func prefix(_ end: ArraySlice<UInt8>, _ name: ArraySlice<UInt8>) -> [UInt8] {
    counting == .allNames
      ? end + [EdgeFormat.endMark] : end + [EdgeFormat.endMark] + name + [EdgeFormat.nameMark]
  }

  /// Notes the ends that were kept by an edge which is removed now, so that they are checked again.
  private mutating func reexamine(_ edge: EndedEdge, _ effects: inout RuleEffects) {
    if !kept.withoutSource.isEmpty {
      let prefix = prefix(edge.destination, edge.name)
      for prefix in [prefix, edge.destination + [EdgeFormat.endMark]] where kept.withoutSource[prefix] != nil {
        effects.withoutSource.insert(prefix, ofEndOfSize: edge.destination.count)
      }
    }
    if !kept.withoutDestination.isEmpty {
      let prefix = prefix(edge.source, edge.name)
      if kept.withoutDestination[prefix] != nil {
        effects.withoutDestination.insert(prefix, ofEndOfSize: edge.source.count)
      }
    }
  }

  // MARK: - Rows that were removed

  /// Removes the edges of removed rows, and collects the effects of their rules.
  ///
  /// An edge has two entries, and each end would be searched for both. So if the rules of an edge remove the other end
  /// in the next wave, the entry at that end is left to the scan of that end.
  private mutating func collectDead(_ ends: PackedKeys, _ effects: inout RuleEffects) throws {
    let dead = PackedKeySet(ends)
    try removeDeferred(dead)
    try repairRecreated()
    if ends.isEmpty { return }
    for family in graph.families.both { try collectBySource(ends, dead, family, &effects) }
    for family in graph.families.both { try collectByDestination(ends, dead, family, &effects) }
    previous = dead
  }

  private mutating func collectBySource(
    _ ends: PackedKeys, _ dead: PackedKeySet, _ family: EdgeFamily, _ effects: inout RuleEffects
  ) throws {
    var sweep = EdgeSweep(family.from, bySource: true, ends: ends, noteEntry: graph.noteEntry)
    var mirrored = PackedKeys()
    while try sweep.next() {
      try sweep.remove()
      if graph.observed != nil { noteObserved(sweep, bySource: true, isManual: family.isManual) }
      let destination = sweep.layout.second
      let rules = try EdgeValue.rules(sweep.value)
      // The other end's removal has removed this end, and the entry there with it.
      if rules.contains(.deleteSourceIfDestinationDeleted), previous.contains(sweep.key, destination),
        !isRecreated(sweep.key[sweep.layout.first])
      {
        continue
      }
      if dead.contains(sweep.key, destination) { continue }
      let isRow = sweep.key[destination.lowerBound] == EdgeFormat.row
      var isDeferred = isRow && rules.contains(.deleteDestinationIfSourceDeleted)
      if !kept.isEmpty || !isRow || graph.log.hasInsertions || !rules.isSubset(of: .deleteDestinationIfSourceDeleted) {
        let edge = try EndedEdge(sweep, bySource: true, isManual: family.isManual)
        reexamine(edge, &effects)
        // A dangling edge removes nothing, so no scan will reach its other entry.
        if try !collect(edge, sourceDeleted: true, &effects) { isDeferred = false }
      } else if !rules.isEmpty {
        effects.removals.append(sweep.key, destination)
      }
      EdgeFormat.mirror(sweep.key, sweep.layout, bySource: true, order: 0, into: &mirroredKey)
      if isDeferred {
        deferred[family.isManual, bySource: false].append(mirroredKey)
      } else {
        mirrored.append(mirroredKey)
      }
    }
    try sweep.finish()
    try remove(&mirrored, family.to)
  }

  private mutating func collectByDestination(
    _ ends: PackedKeys, _ dead: PackedKeySet, _ family: EdgeFamily, _ effects: inout RuleEffects
  ) throws {
    var sweep = EdgeSweep(family.to, bySource: false, ends: ends, noteEntry: graph.noteEntry)
    var mirrored = PackedKeys()
    while try sweep.next() {
      let source = sweep.layout.second
      if graph.observed != nil { noteObserved(sweep, bySource: false, isManual: family.isManual) }
      let value = try EdgeValue(sweep.value, bySource: false)
      if (value.rules.contains(.deleteDestinationIfSourceDeleted) && previous.contains(sweep.key, source))
        || dead.contains(sweep.key, source)
      {
        try sweep.remove()
        continue
      }
      let isDoomed =
        value.rules.contains(.deleteSourceIfDestinationDeleted) && !isRecreated(sweep.key[source])
      if !kept.isEmpty || !value.rules.isSubset(of: .deleteSourceIfDestinationDeleted) {
        var edge = try EndedEdge(sweep, bySource: false, isManual: family.isManual)
        if value.carries { edge.value = try graph.value(of: sweep.key, family) ?? edge.value }
        reexamine(edge, &effects)
        try collect(edge, sourceDeleted: false, &effects)
      } else if !value.rules.isEmpty {
        effects.removals.append(sweep.key, source)
      }
      if isDoomed || family.isManual {
        try sweep.remove()
      } else {
        // An edge that an existing row declares is kept, and dangles.
        try sweep.keep()
        if value.dangling != .weak { declaredChecks.append(sweep.key) }
      }
      guard family.isManual else { continue }
      EdgeFormat.mirror(sweep.key, sweep.layout, bySource: false, order: value.order, into: &mirroredKey)
      if isDoomed { deferred[true, bySource: true].append(mirroredKey) } else { mirrored.append(mirroredKey) }
    }
    try sweep.finish()
    try remove(&mirrored, family.from)
  }

  /// Returns whether no rule may remove a row, because one has and the row was created again.
  private func isRecreated(_ end: ArraySlice<UInt8>) -> Bool {
    if graph.log.recreated.isEmpty { return false }
    return (0..<graph.log.recreated.count).contains { graph.log.recreated.appended($0) == end }
  }

  /// Writes the entries by destination of rows that a hook has created again, which were left out because the row was
  /// to be removed.
  private mutating func repairRecreated() throws {
    while repairedCount < graph.log.recreated.count {
      let end = Array(graph.log.recreated.appended(repairedCount))
      repairedCount += 1
      for (key, value) in try graph.present(end) {
        var value = value
        value.order = key.order
        var toKey: [UInt8] = []
        EdgeFormat.appendToKey(key.second, key.name, key.first, to: &toKey)
        try graph.families.declared.to.put(toKey, value.toBytes)
      }
    }
  }

  private mutating func noteObserved(_ sweep: borrowing EdgeSweep, bySource: Bool, isManual: Bool) {
    if !bySource {
      graph.observed?.note(sweep.key, isManual: isManual)
    } else {
      EdgeFormat.mirror(sweep.key, sweep.layout, bySource: true, order: 0, into: &mirroredKey)
      graph.observed?.note(mirroredKey, isManual: isManual)
    }
  }

  private func remove(_ keys: inout PackedKeys, _ part: Part) throws {
    keys.sort()
    for index in 0..<keys.count { try part.delete(Array(keys[index])) }
  }

  /// Removes entries that were left to the scans of ends which were not removed after all.
  private mutating func removeDeferred(_ dead: PackedKeySet) throws {
    for (isManual, bySource) in [(false, false), (true, false), (true, true)] {
      let keys = deferred[isManual, bySource: bySource]
      if keys.isEmpty { continue }
      let family = graph.families[isManual: isManual]
      for index in 0..<keys.count {
        let key = Array(keys[index])
        if dead.contains(key, try EdgeLayout(key, bySource: bySource).first) { continue }
        try (bySource ? family.from : family.to).delete(key)
      }
      deferred[isManual, bySource: bySource].removeAll()
    }
  }

  // MARK: - Notifications

  /// Notifies remaining ends of the edges they have lost, and writes their new values.
  private mutating func notify(_ effects: inout RuleEffects) throws {
    if effects.notifications.isEmpty { return }
    effects.removals.sort()
    // These rows are not removed again.
    var recreated = graph.log.recreated
    recreated.sort()
    let notifications = effects.notifications.sorted { left, right in
      left.end == right.end
        ? left.position.lexicographicallyPrecedes(right.position) : left.end.lexicographicallyPrecedes(right.end)
    }
    var index = 0
    while index < notifications.count {
      let end = notifications[index].end
      var removed: [(edge: RelationshipEdge, reason: EdgeRemoval)] = []
      while index < notifications.count, notifications[index].end == end {
        removed.append((notifications[index].edge, notifications[index].reason))
        index += 1
      }
      guard let key = try graph.row(of: end[...]), let row = try writer.row(key) else { continue }
      guard let type = row.objectType else {
        throw DatabaseError(
          .typeNotDefined,
          "edge \"\(removed[0].edge.name)\" is to notify the row, and the program has not defined its collection",
          collection: key.collection, key: key.text)
      }
      let isKept = effects.removals.contains(end[...]) && !recreated.contains(end[...])
      guard let access = NodeAccess.of(type) else { continue }
      if try access.notify(row, removed, in: writer, isKept: isKept) { try noteReplaced(key) }
    }
  }

  private mutating func noteReplaced(_ key: RowKey) throws {
    notifiedCount += 1
    guard notifiedCount > Self.replacedMaximum else { return }
    throw DatabaseError(
      .doesNotSettle, "\(Self.replacedMaximum) rows have changed because edges of them were removed, the last one this",
      collection: key.collection, key: key.text)
  }

  private static let replacedMaximum = 10_000_000

  // MARK: - Ends that go with the last edge

  private static let fewMaximum = 16

  private mutating func examine(_ effects: inout RuleEffects) throws {
    effects.withoutSource.sort()
    for index in 0..<effects.withoutSource.count {
      let (end, prefix) = effects.withoutSource[index]
      if try hasSource(end, Array(prefix), isOneOfFew: effects.withoutSource.count <= Self.fewMaximum) {
        kept.withoutSource[Array(prefix)] = end.count
      } else {
        effects.removals.append(end)
      }
    }
    effects.withoutDestination.sort()
    for index in 0..<effects.withoutDestination.count {
      let (end, prefix) = effects.withoutDestination[index]
      if try hasDestination(
        end, Array(prefix), isOneOfFew: effects.withoutDestination.count <= Self.fewMaximum)
      {
        kept.withoutDestination[Array(prefix)] = end.count
      } else {
        effects.removals.append(end)
      }
    }
  }

  /// Returns whether an edge from another end leads to an end. All sources exist, because the edges of removed ones are
  /// gone.
  private func hasSource(_ end: ArraySlice<UInt8>, _ prefix: [UInt8], isOneOfFew: Bool) throws -> Bool {
    func keeps(_ key: [UInt8]) throws -> Bool {
      graph.noteEntry?()
      return try EdgeKey(key, bySource: false).second != end
    }
    return try hasEdge(prefix, bySource: false, isOneOfFew: isOneOfFew, keeps)
  }

  /// Returns whether an edge begins at an end, and leads to another one that exists.
  private func hasDestination(_ end: ArraySlice<UInt8>, _ prefix: [UInt8], isOneOfFew: Bool) throws -> Bool {
    func keeps(_ key: [UInt8]) throws -> Bool {
      graph.noteEntry?()
      let other = try EdgeKey(key, bySource: true).second
      return try other != end && graph.exists(other)
    }
    return try hasEdge(prefix, bySource: true, isOneOfFew: isOneOfFew, keeps)
  }

  /// Returns whether one of the entries with a prefix keeps their end. If there are few ends to check, an entry that
  /// was found before is tried first.
  private func hasEdge(
    _ prefix: [UInt8], bySource: Bool, isOneOfFew: Bool, _ keeps: ([UInt8]) throws -> Bool
  ) throws -> Bool {
    let retainingEdges = graph.context.shared.retainingEdges
    let range = StorageRange(prefix: prefix)
    for family in graph.families.both {
      let part = bySource ? family.from : family.to
      if isOneOfFew, let known = retainingEdges.edge(prefix, bySource: bySource), try part.get(known) != nil,
        try keeps(known)
      {
        return true
      }
      guard let (first, _) = try part.first(in: range) else { continue }
      if isOneOfFew, let (last, _) = try part.first(in: range, isReverse: true), first != last,
        let (found, _) = try part.first(
          in: StorageRange(lower: RetainingEdges.middle(first, last), upper: range.upper)), try keeps(found)
      {
        retainingEdges.set(found, prefix, bySource: bySource)
        return true
      }
      if try keeps(first) { return true }
      // The search proceeds from both sides: dangling entries are found where other ends were removed before.
      var forward = try part.cursor(range, keysOnly: true)
      var backward = try part.cursor(range, isReverse: true, keysOnly: true)
      while let (first, _) = try forward.next(), let (last, _) = try backward.next() {
        if try keeps(first) || keeps(last) { return true }
        if !first.lexicographicallyPrecedes(last) { break }
      }
    }
    return false
  }

  // MARK: - Cycles

  /// Removes ends that only edges from the rows they keep themselves have kept. Returns true if nothing is left to do.
  private mutating func collectCycles() throws -> Bool {
    guard graph.definition.collectsCycles, !kept.withoutSource.isEmpty else { return true }
    var cycles = EdgeCycles(graph)
    var removals = PackedKeys()
    // The ends are sorted, so that the choice of those that are checked before the limit is reached does not depend on
    // a hash.
    for (prefix, size) in kept.withoutSource.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
      if prefix.first != EdgeFormat.row || cycles.isExhausted { continue }
      for row in try cycles.rows(with: Array(prefix.prefix(size))) { removals.append(row) }
    }
    try remove(removals)
    return !graph.log.hasUnprocessed
  }

  // MARK: - Removing

  private static var chunk: Int { 1_000 }

  private func remove(_ ends: PackedKeys) throws {
    if ends.isEmpty { return }
    var ends = ends
    ends.sort()
    graph.isRemoving = true
    defer { graph.isRemoving = false }
    var recreated = graph.log.recreated
    recreated.sort()
    var rows: [RowKey] = []
    for index in 0..<ends.count {
      if !recreated.isEmpty, recreated.contains(ends[index]) { continue }
      if ends[index].first == EdgeFormat.file {
        try graph.noteRemoval(ofFile: ends[index])
        continue
      }
      guard let row = try graph.row(of: ends[index]) else { continue }
      rows.append(row)
      if rows.count == Self.chunk {
        try writer.remove(rows)
        rows.removeAll(keepingCapacity: true)
      }
    }
    if !rows.isEmpty { try writer.remove(rows) }
  }

  // MARK: - Edges that must not dangle

  /// Checks the edges that were set, or have lost an end. Returns true if nothing is left to do.
  private mutating func check() throws -> Bool {
    declaredChecks.sort()
    manualChecks.sort()
    // Sources that are deleted with their edges are removed first; the remaining edges then have to be correct.
    var removals = PackedKeys()
    for index in 0..<declaredChecks.count {
      let toKey = Array(declaredChecks[index])
      guard let (edge, sourceExists) = try missingEnd(toKey, graph.families.declared), sourceExists else { continue }
      if edge.dangling == .deleteSource { removals.append(try EdgeKey(toKey, bySource: false).second) }
    }
    try remove(removals)
    if graph.log.hasUnprocessed { return false }
    for (isManual, checks) in [(false, declaredChecks), (true, manualChecks)] {
      for index in 0..<checks.count { try requireEnds(Array(checks[index]), isManual) }
    }
    declaredChecks.removeAll()
    manualChecks.removeAll()
    return true
  }

  /// Returns an edge that lacks an end, or nil if it has both or was removed since.
  private func missingEnd(_ toKey: [UInt8], _ family: EdgeFamily) throws -> (EdgeValue, sourceExists: Bool)? {
    guard let bytes = try family.to.get(toKey) else { return nil }
    let key = try EdgeKey(toKey, bySource: false)
    let sourceExists = try graph.exists(key.second)
    if sourceExists, try graph.exists(key.first) { return nil }
    return (try EdgeValue(bytes, bySource: false), sourceExists)
  }

  private func requireEnds(_ toKey: [UInt8], _ isManual: Bool) throws {
    guard let (edge, sourceExists) = try missingEnd(toKey, graph.families[isManual: isManual]) else { return }
    guard isManual || edge.dangling == .error else { return }
    let key = try EdgeKey(toKey, bySource: false)
    let row = try graph.row(of: sourceExists ? key.first : key.second)
    throw DatabaseError(
      .danglingEdge,
      "edge \"\(try key.nameText)\" from \(try text(key.second)) to \(try text(key.first)) "
        + (sourceExists ? "leads to a row that is not there" : "begins at a row that is not there"),
      collection: row?.collection, key: row?.text)
  }

  private func text(_ end: ArraySlice<UInt8>) throws -> String {
    try graph.end(of: end).map { "\($0)" } ?? "a row of a collection that was dropped"
  }
}

/// The ends that another edge has kept, by the key prefix of such edges, with the size of the end in that prefix.
private struct KeptEnds {
  var withoutSource: [[UInt8]: Int] = [:]
  var withoutDestination: [[UInt8]: Int] = [:]

  var isEmpty: Bool { withoutSource.isEmpty && withoutDestination.isEmpty }
}

/// The keys of entries, by their families.
private struct DeferredEntries {
  private var keys = Array(repeating: PackedKeys(), count: 4)

  subscript(isManual: Bool, bySource bySource: Bool) -> PackedKeys {
    get { keys[(isManual ? 2 : 0) + (bySource ? 1 : 0)] }
    _modify { yield &keys[(isManual ? 2 : 0) + (bySource ? 1 : 0)] }
  }
}

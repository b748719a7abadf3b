internal import Varve

/// Stores the edges that rows declare.
extension RelationshipsTransaction {
  /// An edge that has to be stored, with the bytes of its destination.
  private struct Wanted {
    var destination: [UInt8]
    var edge: RelationshipEdge
  }

  /// Updates the declared edges of a source to a complete list. `isFresh` is true if the source has no stored edges,
  /// and had none when rules were last applied.
  func declare(_ edges: [RelationshipEdge], from source: [UInt8], isFresh: Bool, isNoted: Bool = true) throws {
    if isFresh, edges.isEmpty { return }
    let wanted = try wanted(edges, source)
    if isFresh {
      if wanted.isEmpty { return }
      log.noteFresh(source)
      for wanted in wanted { try put(wanted, source, before: nil, isLogged: wanted.edge.dangling != .weak) }
      return
    }
    let present = try self.present(source)
    if present.isEmpty, wanted.isEmpty { return }
    // Stored edges are found by their identity in a table, because lists may be long.
    var positions: [[UInt8]: Int] = [:]
    positions.reserveCapacity(present.count)
    for (index, old) in present.enumerated() {
      positions[old.key.name + [EdgeFormat.nameMark] + old.key.second] = index
    }
    for wanted in wanted {
      let identity = Array(wanted.edge.name.text.utf8) + [EdgeFormat.nameMark] + wanted.destination
      guard let position = positions.removeValue(forKey: identity) else {
        try put(wanted, source, before: nil, isLogged: isNoted)
        continue
      }
      let old = present[position]
      if old.value == EdgeValue(wanted.edge).bySource, old.key.order == wanted.edge.order { continue }
      if old.key.order != wanted.edge.order { try families.declared.from.delete(old.key.bytes) }
      try put(wanted, source, before: old.value, isLogged: isNoted)
    }
    for position in positions.values.sorted() {
      try drop(present[position].key, present[position].value, isNoted: isNoted)
    }
  }

  /// Returns the edges of the domain, each once. Of equal edges, the last one is used.
  private func wanted(_ edges: [RelationshipEdge], _ source: [UInt8]) throws -> [Wanted] {
    var wanted: [Wanted] = []
    wanted.reserveCapacity(edges.count)
    for edge in edges where edge.domain == definition.domain {
      let destination = try end(making: edge.destination)
      try check(edge, source, destination)
      wanted.append(Wanted(destination: destination, edge: edge))
    }
    if wanted.count < 2 || (wanted.count <= Self.comparedMaximum && Self.areDifferent(wanted)) { return wanted }
    return Self.different(wanted)
  }

  /// The maximum number of edges that are compared in pairs, without a table.
  private static let comparedMaximum = 8

  private static func areDifferent(_ wanted: [Wanted]) -> Bool {
    for later in wanted.indices.dropFirst() {
      for earlier in 0..<later
      where wanted[earlier].edge.name == wanted[later].edge.name
        && wanted[earlier].destination == wanted[later].destination
      { return false }
    }
    return true
  }

  private static func different(_ wanted: [Wanted]) -> [Wanted] {
    struct Identity: Hashable {
      let name: EdgeName
      let destination: [UInt8]
    }
    var last: [Identity: Int] = [:]
    for (index, wanted) in wanted.enumerated() {
      last[Identity(name: wanted.edge.name, destination: wanted.destination)] = index
    }
    if last.count == wanted.count { return wanted }
    return last.values.sorted().map { wanted[$0] }
  }

  /// Throws if both ends are too large for an entry.
  func check(_ edge: RelationshipEdge, _ source: [UInt8], _ destination: [UInt8]) throws {
    guard source.count + destination.count > EdgeFormat.endsSizeMaximum else { return }
    throw DatabaseError(
      .keyTooLong,
      "the ends of edge \"\(edge.name)\" have \(source.count + destination.count) bytes together; "
        + "at most \(EdgeFormat.endsSizeMaximum) are possible")
  }

  // MARK: - Entries

  /// Returns the stored edges that a source declares.
  func present(_ source: [UInt8]) throws -> [(key: EdgeKey, value: EdgeValue)] {
    var present: [(key: EdgeKey, value: EdgeValue)] = []
    var cursor = try families.declared.from.cursor(StorageRange(prefix: EdgeFormat.prefix(source[...], nil)))
    while let (key, value) = try cursor.next() {
      present.append((try EdgeKey(key, bySource: true), try EdgeValue(value, bySource: true)))
    }
    return present
  }

  private func put(_ wanted: Wanted, _ source: [UInt8], before: EdgeValue?, isLogged: Bool) throws {
    let edge = wanted.edge
    try write(edge, from: source, to: wanted.destination, families.declared)
    guard isLogged else { return }
    log.note(
      EdgeLog.Change(isManual: false, before: before, reason: .asIfSourceDeleted, isChecked: edge.dangling != .weak),
      of: entry.toKey[...])
  }

  /// Writes both entries of an edge. Their keys are in `entry` afterwards.
  func write(
    _ edge: borrowing RelationshipEdge, from source: [UInt8], to destination: [UInt8], _ family: EdgeFamily
  ) throws {
    // The buffers are moved out of the field, so that they are not copied, and exclusive access is not checked at each
    // use.
    if destination[0] == EdgeFormat.file { try takeUp(destination, edge.destination) }
    var entry = EntryMemory()
    swap(&entry, &self.entry)
    defer { swap(&entry, &self.entry) }
    let carries = !edge.attributeBytes.isEmpty
    EdgeFormat.replace(&entry.fromKey, by: source, edge.name, edge.order, destination)
    entry.value.removeAll(keepingCapacity: true)
    entry.value.append(edge.rules.rawValue)
    entry.value.append(edge.dangling.rawValue)
    if carries { entry.value.append(contentsOf: edge.attributeBytes) }
    try unsafe family.from.put(entry.fromKey.span.bytes, entry.value.span.bytes)
    EdgeFormat.replace(&entry.toKey, by: destination, edge.name, nil, source)
    if carries {
      entry.value.removeSubrange(2...)
      entry.value[1] |= EdgeFormat.carriesBit
    }
    if edge.order != 0 { EdgeFormat.appendOrder(edge.order, to: &entry.value) }
    try unsafe family.to.put(entry.toKey.span.bytes, entry.value.span.bytes)
    observed?.note(entry.toKey, isManual: family.isManual)
  }

  /// Removes both entries of a declared edge.
  private func drop(_ key: EdgeKey, _ value: EdgeValue, isNoted: Bool) throws {
    var toKey: [UInt8] = []
    EdgeFormat.appendToKey(key.second, key.name, key.first, to: &toKey)
    try families.declared.from.delete(key.bytes)
    try families.declared.to.delete(toKey)
    observed?.note(toKey, isManual: false)
    guard isNoted else { return }
    var before = value
    before.order = key.order
    log.note(
      EdgeLog.Change(isManual: false, before: before, reason: .asIfSourceDeleted, isChecked: false), of: toKey[...])
  }
}

extension EdgeValue {
  /// The value of the edge's entry by source.
  var bySource: EdgeValue {
    var copy = self
    copy.order = 0
    return copy
  }
}

/// Reusable buffers for an edge's entries.
struct EntryMemory {
  var fromKey: [UInt8] = []
  var toKey: [UInt8] = []
  var value: [UInt8] = []
}

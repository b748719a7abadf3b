internal import Varve

/// The edges that rows declare.
extension RelationshipsTransaction {
  /// An edge as it is to stand in the families.
  private struct Wanted {
    var destination: [UInt8]
    var edge: RelationshipEdge
  }

  /// Brings the declared edges of a source in line with a list, which is complete. `isFresh`: none is there, and none was
  /// when rules were applied last.
  func declare(_ edges: [RelationshipEdge], from source: [UInt8], isFresh: Bool, isNoted: Bool = true) throws {
    if isFresh, edges.isEmpty { return }
    let wanted = try wanted(edges, source)
    if isFresh {
      if wanted.isEmpty { return }
      log.noteFresh(source)
      for wanted in wanted { try put(wanted, source, before: nil, isLogged: wanted.edge.dangling != .weak) }
      return
    }
    var present = try self.present(source)
    if present.isEmpty, wanted.isEmpty { return }
    for wanted in wanted {
      let name = Array(wanted.edge.name.text.utf8)
      let place = present.firstIndex { $0.key.second == wanted.destination[...] && $0.key.name == name[...] }
      guard let place else {
        try put(wanted, source, before: nil, isLogged: isNoted)
        continue
      }
      let old = present.remove(at: place)
      if old.value == EdgeValue(wanted.edge).bySource, old.key.order == wanted.edge.order { continue }
      if old.key.order != wanted.edge.order { try families.declared.from.delete(old.key.bytes) }
      try put(wanted, source, before: old.value, isLogged: isNoted)
    }
    for old in present { try drop(old.key, old.value, isNoted: isNoted) }
  }

  /// Those of the domain, each once: of those that are the same edge the last counts.
  private func wanted(_ edges: [RelationshipEdge], _ source: [UInt8]) throws -> [Wanted] {
    var wanted: [Wanted] = []
    wanted.reserveCapacity(edges.count)
    for edge in edges where edge.domain == definition.domain {
      let destination = try end(making: edge.destination)
      try check(edge, source, destination)
      wanted.append(Wanted(destination: destination, edge: edge))
    }
    return wanted.count < 2 ? wanted : Self.different(wanted)
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

  /// Throws where no entry can have both ends.
  func check(_ edge: RelationshipEdge, _ source: [UInt8], _ destination: [UInt8]) throws {
    guard source.count + destination.count > EdgeFormat.endsSizeMaximum else { return }
    throw DatabaseError(
      .keyTooLong,
      "the ends of edge \"\(edge.name)\" have \(source.count + destination.count) bytes together; "
        + "at most \(EdgeFormat.endsSizeMaximum) are possible")
  }

  // MARK: - Entries

  /// What a source declares, as it stands in the families.
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
    let toKey = try write(edge, from: source, to: wanted.destination, families.declared)
    guard isLogged else { return }
    log.note(
      EdgeLog.Change(isManual: false, before: before, reason: .asIfSourceDeleted, isChecked: edge.dangling != .weak),
      of: toKey[...])
  }

  /// Writes both entries of an edge. Returns the key of that by destination.
  @discardableResult
  func write(
    _ edge: RelationshipEdge, from source: [UInt8], to destination: [UInt8], _ family: EdgeFamily
  ) throws -> [UInt8] {
    let name = Array(edge.name.text.utf8)
    let value = EdgeValue(edge)
    let size = source.count + name.count + destination.count + 16
    var fromKey: [UInt8] = []
    fromKey.reserveCapacity(size)
    EdgeFormat.appendFromKey(source[...], name[...], edge.order, destination[...], to: &fromKey)
    try family.from.put(fromKey, value.fromBytes)
    var toKey: [UInt8] = []
    toKey.reserveCapacity(size)
    EdgeFormat.appendToKey(destination[...], name[...], source[...], to: &toKey)
    try family.to.put(toKey, value.toBytes)
    return toKey
  }

  /// Removes both entries of a declared edge.
  private func drop(_ key: EdgeKey, _ value: EdgeValue, isNoted: Bool) throws {
    var toKey: [UInt8] = []
    EdgeFormat.appendToKey(key.second, key.name, key.first, to: &toKey)
    try families.declared.from.delete(key.bytes)
    try families.declared.to.delete(toKey)
    guard isNoted else { return }
    var before = value
    before.order = key.order
    log.note(
      EdgeLog.Change(isManual: false, before: before, reason: .asIfSourceDeleted, isChecked: false), of: toKey[...])
  }
}

extension EdgeValue {
  /// As the entry by source has it.
  var bySource: EdgeValue {
    var copy = self
    copy.order = 0
    return copy
  }
}

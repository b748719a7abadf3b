@_spi(Extensions) internal import Varve

/// The changes of a domain's edges by a commit, which `changeSet.changes(of: graph)` returns.
///
/// An edge exists if both of its ends do, so inserting and removing a row adds and removes the edges to it.
public struct EdgeChanges: Sendable {
  /// The edges that exist after the commit and did not before.
  public internal(set) var added: [RelationshipEdge] = []
  /// The edges that existed before the commit and do not exist after it.
  public internal(set) var removed: [RelationshipEdge] = []
  /// The edges whose rules, order or attribute have changed, with their new values.
  public internal(set) var changed: [RelationshipEdge] = []
  /// The declared edges whose destination does not exist since this commit. Those that have lost their destination are
  /// also in `removed`.
  public internal(set) var dangling: [RelationshipEdge] = []
  /// Whether all changes are listed. If there were more than `countMaximum`, this is false and nothing is listed.
  public internal(set) var isComplete = true

  /// The maximum number of listed edges.
  public static let countMaximum = 10_000

  /// Whether there are no changes.
  public var isEmpty: Bool {
    isComplete && added.isEmpty && removed.isEmpty && changed.isEmpty && dangling.isEmpty
  }
}

/// The edges that a transaction may have changed, if changes are observed.
struct ObservedEdges {
  private var keys = PackedKeys()
  private(set) var isComplete = true

  /// Notes an edge by the key of its entry by destination.
  mutating func note(_ toKey: [UInt8], isManual: Bool) {
    guard isComplete else { return }
    keys.append([isManual ? 1 : 0] + toKey)
    guard keys.count > 4 * EdgeChanges.countMaximum else { return }
    keys.sort()
    if keys.count > 2 * EdgeChanges.countMaximum {
      isComplete = false
      keys.removeAll()
    }
  }

  var isEmpty: Bool { isComplete && keys.isEmpty }

  /// Calls `body` with each edge once, in the order of destinations.
  func forEach(_ body: (_ toKey: [UInt8], _ isManual: Bool) throws -> Void) rethrows {
    var keys = keys
    keys.sort()
    for index in 0..<keys.count { try body(Array(keys[index].dropFirst()), keys[index].first == 1) }
  }
}

extension RelationshipsTransaction {
  /// Returns the changes of the transaction to its edges, or nil if there are none.
  @_spi(Extensions) public func takeChanges() -> EdgeChanges? {
    guard let observed, !observed.isEmpty, let writer = context.writeTransaction else { return nil }
    var changes = EdgeChanges()
    changes.isComplete = observed.isComplete
    do {
      try observed.forEach { toKey, isManual in try note(toKey, isManual, &changes, writer) }
    } catch {
      // Changes that cannot be read cannot be listed.
      changes = EdgeChanges()
      changes.isComplete = false
    }
    let count = changes.added.count + changes.removed.count + changes.changed.count + changes.dangling.count
    if count > EdgeChanges.countMaximum {
      changes = EdgeChanges()
      changes.isComplete = false
    }
    return changes.isEmpty ? nil : changes
  }

  private func note(
    _ toKey: [UInt8], _ isManual: Bool, _ changes: inout EdgeChanges, _ writer: WriteTransaction
  ) throws {
    let family = families[isManual: isManual]
    let key = try EdgeKey(toKey, bySource: false)
    let before = try committedValue(of: toKey, family)
    let after = try value(of: toKey, family)
    let wasThere = try before != nil && existed(key.second, writer) && existed(key.first, writer)
    let sourceExists = try after != nil && exists(key.second)
    let existsNow = try sourceExists && exists(key.first)
    guard let listed = existsNow || sourceExists ? after : before, let edge = try edge(key, listed, isManual) else {
      return
    }
    switch (wasThere, existsNow) {
    case (false, true): changes.added.append(edge)
    case (true, false): changes.removed.append(edge)
    case (true, true): if before != after { changes.changed.append(edge) }
    case (false, false): break
    }
    let wasDangling = try before != nil && existed(key.second, writer) && !existed(key.first, writer)
    if !isManual, sourceExists, !existsNow, !wasDangling { changes.dangling.append(edge) }
  }

  private func existed(_ end: ArraySlice<UInt8>, _ writer: WriteTransaction) throws -> Bool {
    guard let number = EdgeFormat.collection(end) else { return true }
    return try unsafe writer.containedAtBeginning(EdgeFormat.key(end).span.bytes, inCollection: number)
  }

  private func committedValue(of toKey: [UInt8], _ family: EdgeFamily) throws -> EdgeValue? {
    guard let bytes = try family.to.committedValue(of: toKey) else { return nil }
    var value = try EdgeValue(bytes, bySource: false)
    if value.carries, let more = try family.from.committedValue(of: try Self.fromKey(toKey, value.order)) {
      value.attributes = try EdgeValue(more, bySource: true).attributes
    }
    return value
  }

  private func edge(_ key: EdgeKey, _ value: EdgeValue, _ isManual: Bool) throws -> RelationshipEdge? {
    guard let from = try row(of: key.second), let to = try end(of: key.first) else { return nil }
    return RelationshipEdge(
      try key.nameText, from: from, to: to, value.rules, value.dangling, order: value.order,
      attributeBytes: Array(value.attributes), isManual: isManual, domain: definition.domain)
  }

  /// Notes the edges to a row that was inserted or removed. Edges to a row exist only while the row does.
  func noteEdges(toRow end: [UInt8]) throws {
    guard observed?.isComplete == true else { return }
    for family in families.both {
      try family.to.forEach(in: StorageRange(prefix: EdgeFormat.prefix(end[...], nil))) { key, _ in
        var bytes: [UInt8] = []
        bytes.replace(with: key)
        observed?.note(bytes, isManual: family.isManual)
        return observed?.isComplete == true
      }
    }
  }
}

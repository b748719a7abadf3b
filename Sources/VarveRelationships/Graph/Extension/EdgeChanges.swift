public import Varve

/// What a commit means for the edges of a domain: in `changeSet.changes(of: graph)`.
///
/// An edge is there where both of its ends are: so the insertion and the removal of a row add and remove the edges to it.
public struct EdgeChanges: Sendable {
  /// Edges that are there, and were not.
  public internal(set) var added: [RelationshipEdge] = []
  /// Edges that were there, and are not.
  public internal(set) var removed: [RelationshipEdge] = []
  /// Edges that have other rules, another order, or carry something else: as they are.
  public internal(set) var changed: [RelationshipEdge] = []
  /// Declared edges that lead to no row since this commit: those that have lost theirs are among `removed`, too.
  public internal(set) var dangling: [RelationshipEdge] = []
  /// False where there were more than `countMaximum`: then nothing is listed.
  public internal(set) var isComplete = true

  /// The most edges that are listed.
  public static let countMaximum = 10_000

  /// Whether nothing has changed.
  public var isEmpty: Bool {
    isComplete && added.isEmpty && removed.isEmpty && changed.isEmpty && dangling.isEmpty
  }
}

/// The edges that may be others after a transaction than before, where changes are observed.
struct ObservedEdges {
  private var keys = PackedKeys()
  private(set) var isComplete = true

  /// By the key by destination.
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

  /// Each edge once, in the order of destinations.
  func forEach(_ body: (_ toKey: [UInt8], _ isManual: Bool) throws -> Void) rethrows {
    var keys = keys
    keys.sort()
    for index in 0..<keys.count { try body(Array(keys[index].dropFirst()), keys[index].first == 1) }
  }
}

extension RelationshipsTransaction {
  /// What the transaction means for its edges; nil: nothing.
  public func takeChanges() -> EdgeChanges? {
    guard let observed, !observed.isEmpty, let writer = context.writeTransaction else { return nil }
    var changes = EdgeChanges()
    changes.isComplete = observed.isComplete
    do {
      try observed.forEach { toKey, isManual in try note(toKey, isManual, &changes, writer) }
    } catch {
      // What can't be read can't be listed.
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
    let isSourceThere = try after != nil && isThere(key.second)
    let isThereNow = try isSourceThere && isThere(key.first)
    guard let listed = isThereNow || isSourceThere ? after : before, let edge = try edge(key, listed, isManual) else {
      return
    }
    switch (wasThere, isThereNow) {
    case (false, true): changes.added.append(edge)
    case (true, false): changes.removed.append(edge)
    case (true, true): if before != after { changes.changed.append(edge) }
    case (false, false): break
    }
    let wasDangling = try before != nil && existed(key.second, writer) && !existed(key.first, writer)
    if !isManual, isSourceThere, !isThereNow, !wasDangling { changes.dangling.append(edge) }
  }

  private func existed(_ end: ArraySlice<UInt8>, _ writer: WriteTransaction) throws -> Bool {
    guard let number = EdgeFormat.collection(end) else { return true }
    return try unsafe writer.contained(EdgeFormat.key(end).span.bytes, inCollection: number)
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

  /// The edges to a row that was inserted or removed may be there since, or not any more.
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

internal import Varve

/// The effects of one wave of the rules, which are collected before any is applied, so that the result does not depend
/// on the order of edges.
struct RuleEffects {
  /// The rows and files that are removed.
  var removals = PackedKeys()
  /// The ends that are removed if no other edge leads to them, with the key prefix of such edges.
  var withoutSource = EndSet()
  /// The ends that are removed if no other edge begins at them.
  var withoutDestination = EndSet()
  /// The notifications of ends.
  var notifications: [RuleNotification] = []
}

/// The notification of an end about a removed edge.
struct RuleNotification {
  let end: [UInt8]
  let edge: RelationshipEdge
  let reason: EdgeRemoval
  /// The order of an end's notifications: by name, and then by the other end.
  let position: [UInt8]
}

/// A set of ends, each with the key prefix of certain edges.
struct EndSet {
  private var keys = PackedKeys()

  var isEmpty: Bool { keys.isEmpty }
  var count: Int { keys.count }

  /// Inserts an end by a prefix, whose first `size` bytes are the end.
  mutating func insert(_ prefix: [UInt8], ofEndOfSize size: Int) {
    keys.append(prefix + [UInt8(truncatingIfNeeded: size >> 8), UInt8(truncatingIfNeeded: size)])
  }

  mutating func sort() { keys.sort() }

  /// Returns an end and its prefix.
  subscript(_ index: Int) -> (end: ArraySlice<UInt8>, prefix: ArraySlice<UInt8>) {
    let key = keys[index]
    let size = Int(key[key.endIndex - 2]) << 8 | Int(key[key.endIndex - 1])
    return (key.prefix(size), key.dropLast(2))
  }
}

/// An edge that was removed, or has lost an end.
struct EndedEdge {
  let source: ArraySlice<UInt8>
  let name: ArraySlice<UInt8>
  let destination: ArraySlice<UInt8>
  var value: EdgeValue
  let isManual: Bool

  var isSelf: Bool { source == destination }
}

extension EndedEdge {
  /// Creates the edge of the entry that a scan has found.
  init(_ sweep: borrowing EdgeSweep, bySource: Bool, isManual: Bool) throws {
    let (key, layout) = (sweep.key, sweep.layout)
    var value = try EdgeValue(sweep.value, bySource: bySource)
    if bySource { value.order = layout.order }
    self.init(
      source: key[bySource ? layout.first : layout.second], name: key[layout.name],
      destination: key[bySource ? layout.second : layout.first], value: value, isManual: isManual)
  }
}

internal import Varve

/// What one wave of the rules wants, before any of it is done: so nothing depends on the order in which edges are met.
struct RuleEffects {
  /// Rows and files that are to go.
  var removals = PackedKeys()
  /// Ends that are to go if no other edge leads to them: what the keys of such edges begin with.
  var withoutSource = EndSet()
  /// Ends that are to go if no other edge begins at them.
  var withoutDestination = EndSet()
  /// Ends that are to be notified.
  var notifications: [RuleNotification] = []
}

/// An end that is to be notified of an edge that goes.
struct RuleNotification {
  let end: [UInt8]
  let edge: RelationshipEdge
  let reason: EdgeRemoval
  /// In which order an end is notified: by name, and then by the other end.
  let position: [UInt8]
}

/// Ends, each with what the keys of certain edges begin with.
struct EndSet {
  private var keys = PackedKeys()

  var isEmpty: Bool { keys.isEmpty }
  var count: Int { keys.count }

  /// `prefix` begins with `end`.
  mutating func insert(_ prefix: [UInt8], ofEndOfSize size: Int) {
    keys.append(prefix + [UInt8(truncatingIfNeeded: size >> 8), UInt8(truncatingIfNeeded: size)])
  }

  mutating func sort() { keys.sort() }

  /// An end, and the prefix.
  subscript(_ index: Int) -> (end: ArraySlice<UInt8>, prefix: ArraySlice<UInt8>) {
    let key = keys[index]
    let size = Int(key[key.endIndex - 2]) << 8 | Int(key[key.endIndex - 1])
    return (key.prefix(size), key.dropLast(2))
  }
}

/// An edge that went, or lost an end.
struct EndedEdge {
  let source: ArraySlice<UInt8>
  let name: ArraySlice<UInt8>
  let destination: ArraySlice<UInt8>
  var value: EdgeValue
  let isManual: Bool

  var isSelf: Bool { source == destination }
}

extension EndedEdge {
  /// The edge whose entry a traversal has found.
  init(_ sweep: borrowing EdgeSweep, bySource: Bool, isManual: Bool) throws {
    let (key, layout) = (sweep.key, sweep.layout)
    var value = try EdgeValue(sweep.value, bySource: bySource)
    if bySource { value.order = layout.order }
    self.init(
      source: key[bySource ? layout.first : layout.second], name: key[layout.name],
      destination: key[bySource ? layout.second : layout.first], value: value, isManual: isManual)
  }
}

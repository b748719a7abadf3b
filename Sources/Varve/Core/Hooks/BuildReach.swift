/// How far an extension is built, part by part. It determines for which parts a row counts.
struct BuildReach: Sendable {
  /// Whether the extension covers all rows.
  let isWhole: Bool
  /// Sets of parts, each with the last row that they were given, or `nil` if they have all rows. It is empty for an
  /// extension that is not being built, which receives nothing unless `isWhole` is true.
  private var marks: [(parts: PartSet, watermark: [UInt8]?)] = []

  /// Creates the reach that a record describes.
  init(_ record: ExtensionRecord) {
    isWhole = record.state == .ready
    guard case .building(let watermark) = record.state else { return }
    if record.keepsNoPart { marks = [(.all, watermark)] }
    // Scratch parts are never built, and parts that are not derived from rows have no watermark.
    for (index, part) in record.parts.enumerated() where part.form != .scratch {
      add(PartSet(part: index), part.watermark)
    }
  }

  /// Creates a reach in which some parts have all rows, and the others were never given one.
  init(whole parts: PartSet) {
    isWhole = false
    marks = [(parts, nil)]
  }

  /// Moves the parts that are at `watermark` to `position`.
  mutating func move(from watermark: [UInt8], to position: [UInt8]) {
    for index in marks.indices where marks[index].watermark == watermark { marks[index].watermark = position }
  }

  /// The parts that were given a row or have all rows. The others are empty, and may have no family.
  var startedParts: PartSet {
    if isWhole { return .all }
    return marks.reduce(into: []) { parts, mark in if mark.watermark != [] { parts.formUnion(mark.parts) } }
  }

  private mutating func add(_ parts: PartSet, _ watermark: [UInt8]?) {
    if let index = marks.firstIndex(where: { $0.watermark == watermark }) {
      marks[index].parts.formUnion(parts)
    } else {
      marks.append((parts, watermark))
    }
  }

  /// Returns the parts for which a row counts, by its position among the rows of all collections.
  func parts(at position: [UInt8]) -> PartSet {
    var parts: PartSet = []
    for mark in marks where mark.watermark.map({ !ByteOrder.precedes($0, position) }) ?? true {
      parts.formUnion(mark.parts)
    }
    return parts
  }
}

extension ExtensionRecord {
  /// Whether no part is derived from rows. The state alone then determines how far the extension is built.
  var keepsNoPart: Bool { !parts.contains(where: \.isBuilt) }

  /// A watermark after all rows.
  static var end: [UInt8] { [UInt8](repeating: 0xFF, count: 5) }

  /// The lowest watermark, and the parts that have it, or `nil` if nothing is being built.
  var frontier: (watermark: [UInt8], parts: PartSet)? {
    guard case .building(let watermark) = state else { return nil }
    if keepsNoPart { return (watermark, .all) }
    var group: PartSet = []
    for (index, part) in parts.enumerated() where part.watermark == watermark { group.insert(PartSet(part: index)) }
    return (watermark, group)
  }

  /// The last row that was passed to the extension, or `nil` if nothing is being built.
  var lastDelivered: [UInt8]? {
    if case .ingesting(let mark) = state { return mark.watermark }
    return frontier?.watermark
  }

  /// The lowest watermark above the frontier, or `nil` if there is none.
  var nextFrontier: [UInt8]? {
    guard let frontier else { return nil }
    return parts.compactMap(\.watermark).filter { $0 != frontier.watermark }.min(by: ByteOrder.precedes)
  }

  /// Moves the parts that have the lowest watermark. With `nil` they have all rows.
  mutating func advance(to watermark: [UInt8]?) {
    guard let frontier else { return }
    for index in parts.indices where frontier.parts.contains(PartSet(part: index)) {
      parts[index].watermark = watermark
    }
    if keepsNoPart {
      state = watermark.map { .building(watermark: $0) } ?? .ready
    } else {
      settle()
    }
  }

  /// Updates the state to match the watermarks of the parts.
  mutating func settle() {
    let lowest = parts.compactMap(\.watermark).min(by: ByteOrder.precedes)
    state = lowest.map { .building(watermark: $0) } ?? .ready
  }

  /// Resets the record to a build of all built parts from the first row.
  mutating func restart() {
    for index in parts.indices where parts[index].isBuilt { parts[index].watermark = [] }
    state = .building(watermark: [])
  }

  /// For each part, whether it can be read.
  var partsInUse: [Bool] {
    switch state {
    case .ready: parts.map { _ in true }
    case .building: parts.map { $0.watermark == nil }
    case .ingesting, .stale, .failed: parts.map { _ in false }
    }
  }

  /// The parts that have all rows.
  var wholeParts: PartSet {
    if keepsNoPart { return .all }
    var whole: PartSet = []
    for (index, part) in parts.enumerated() where part.watermark == nil { whole.insert(PartSet(part: index)) }
    return whole
  }
}

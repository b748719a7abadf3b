/// How far an extension is built, part by part: which of its parts a row counts for.
struct BuildReach: Sendable {
  /// Whether it has all rows.
  let isWhole: Bool
  /// Parts, and the last row that they were given; nil: they have all. Nothing here: it receives nothing, because it is
  /// stale.
  private var marks: [(parts: PartSet, watermark: [UInt8]?)] = []

  /// What a record says.
  init(_ record: ExtensionRecord) {
    isWhole = record.state == .ready
    guard case .building(let watermark) = record.state else { return }
    if record.keepsNoPart { marks = [(.all, watermark)] }
    // Scratch parts are never built, and those that are not made of rows have all.
    for (index, part) in record.parts.enumerated() where part.form != .scratch {
      add(PartSet(part: index), part.watermark)
    }
  }

  /// Some parts have all rows; others were never given one.
  init(whole parts: PartSet) {
    isWhole = false
    marks = [(parts, nil)]
  }

  /// The parts that were at `watermark` have come to `position`.
  mutating func move(from watermark: [UInt8], to position: [UInt8]) {
    for index in marks.indices where marks[index].watermark == watermark { marks[index].watermark = position }
  }

  /// The parts that were given a row, or have all: the others have nothing yet, and may have no family.
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

  /// The parts that a row counts for, by its position among the rows of all collections.
  func parts(at position: [UInt8]) -> PartSet {
    var parts: PartSet = []
    for mark in marks where mark.watermark.map({ !ByteOrder.precedes($0, position) }) ?? true {
      parts.formUnion(mark.parts)
    }
    return parts
  }
}

extension ExtensionRecord {
  /// Whether none of its parts is made of rows: the state alone says how far it is built then.
  var keepsNoPart: Bool { !parts.contains(where: \.isBuilt) }

  /// A watermark after all rows.
  static var end: [UInt8] { [UInt8](repeating: 0xFF, count: 5) }

  /// The lowest watermark, and the parts that have it; nil where nothing is being built.
  var frontier: (watermark: [UInt8], parts: PartSet)? {
    guard case .building(let watermark) = state else { return nil }
    if keepsNoPart { return (watermark, .all) }
    var group: PartSet = []
    for (index, part) in parts.enumerated() where part.watermark == watermark { group.insert(PartSet(part: index)) }
    return (watermark, group)
  }

  /// The last row that was given to it; nil where nothing is being built.
  var lastGiven: [UInt8]? {
    if case .ingesting(let mark) = state { return mark.watermark }
    return frontier?.watermark
  }

  /// The watermark of those that are next to them; nil where there are none.
  var nextFrontier: [UInt8]? {
    guard let frontier else { return nil }
    return parts.compactMap(\.watermark).filter { $0 != frontier.watermark }.min(by: ByteOrder.precedes)
  }

  /// Moves the parts that have the lowest watermark; nil: they have all rows.
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

  /// Brings the state in line with the parts.
  mutating func settle() {
    let lowest = parts.compactMap(\.watermark).min(by: ByteOrder.precedes)
    state = lowest.map { .building(watermark: $0) } ?? .ready
  }

  /// Nothing was given to it, or only to those of its parts that are kept.
  mutating func beginAnew() {
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

internal import Varve

/// The positions of the pieces of an entry's key.
struct EdgeLayout {
  /// The end by which the entry is stored: the source for an entry by source.
  let first: Range<Int>
  let name: Range<Int>
  /// The order of an entry by source; 0 for one by destination.
  let order: Int64
  /// The range of the other end.
  let second: Range<Int>

  /// Parses a key. Throws `.corruption` if the bytes are not the key of an edge.
  init(_ bytes: borrowing [UInt8], bySource: Bool) throws {
    guard let layout = EdgeLayout(of: bytes, bySource) else {
      throw DatabaseError(
        .corruption,
        "a key of \(bytes.count) bytes in the families of relationships was found where that of an edge was expected")
    }
    self = layout
  }

  private init?(of bytes: borrowing [UInt8], _ bySource: Bool) {
    let count = bytes.count
    guard count > 2 else { return nil }
    let end = count - 2
    let size = Int(bytes[end]) << 8 | Int(bytes[end + 1])
    guard size > 0, size + 2 < end, bytes[size] == EdgeFormat.endMark else { return nil }
    var mark = size + 1
    while mark < end, bytes[mark] != EdgeFormat.nameMark { mark += 1 }
    var rest = mark + 1
    var order: Int64 = 0
    if bySource, rest < end {
      if bytes[rest] == 0x30 {
        rest += 1
      } else {
        guard let found = EdgeFormat.order(bytes[rest..<end]) else { return nil }
        order = found.order
        rest += found.size
      }
    }
    guard rest < end, Self.isEnd(bytes[0], size), Self.isEnd(bytes[rest], end - rest) else { return nil }
    first = 0..<size
    name = (size + 1)..<mark
    self.order = order
    second = rest..<end
  }

  private static func isEnd(_ kind: UInt8, _ size: Int) -> Bool {
    kind == EdgeFormat.row ? size > 5 : kind == EdgeFormat.file && size > 3
  }
}

/// The key of an edge's entry with its pieces.
struct EdgeKey {
  let bytes: [UInt8]
  let layout: EdgeLayout

  /// Parses a key. Throws `.corruption` if the bytes are not the key of an edge.
  init(_ bytes: [UInt8], bySource: Bool) throws {
    layout = try EdgeLayout(bytes, bySource: bySource)
    self.bytes = bytes
  }

  var first: ArraySlice<UInt8> { bytes[layout.first] }
  var name: ArraySlice<UInt8> { bytes[layout.name] }
  var order: Int64 { layout.order }
  var second: ArraySlice<UInt8> { bytes[layout.second] }

  /// The name as text. Throws `.corruption`.
  var nameText: EdgeName {
    get throws {
      guard let text = String(validating: name, as: UTF8.self) else {
        throw DatabaseError(.corruption, "the name of an edge in the families of relationships is not UTF-8")
      }
      return EdgeName(text)
    }
  }
}

/// The value of an edge's entry.
struct EdgeValue: Equatable {
  var rules: DeleteRules
  var dangling: Dangling
  /// The attribute, in an entry by source.
  var attributes: ArraySlice<UInt8> = []
  /// The order, in an entry by destination.
  var order: Int64 = 0
  /// Whether the edge has an attribute in the entry by source.
  var carries = false

  init(_ edge: borrowing RelationshipEdge) {
    rules = edge.rules
    dangling = edge.dangling
    attributes = edge.attributeBytes[...]
    order = edge.order
    carries = !attributes.isEmpty
  }

  /// Parses a value. Throws `.corruption` if the bytes are not the value of an edge.
  init(_ bytes: [UInt8], bySource: Bool) throws {
    let damaged = DatabaseError(
      .corruption,
      "a value of \(bytes.count) bytes in the families of relationships was found where that of an edge was expected")
    guard bytes.count >= 2, bytes[0] <= DeleteRules.all.rawValue else { throw damaged }
    rules = DeleteRules(rawValue: bytes[0])
    guard let dangling = Dangling(rawValue: bytes[1] & ~EdgeFormat.carriesBit) else { throw damaged }
    self.dangling = dangling
    if bySource {
      attributes = bytes[2...]
      carries = !attributes.isEmpty
      guard bytes[1] & EdgeFormat.carriesBit == 0 else { throw damaged }
    } else {
      carries = bytes[1] & EdgeFormat.carriesBit != 0
      if bytes.count == 2 { return }
      guard let found = EdgeFormat.order(bytes[2...]), found.size == bytes.count - 2 else { throw damaged }
      order = found.order
    }
  }

  /// The encoding for the entry by destination.
  var toBytes: [UInt8] {
    var bytes = [rules.rawValue, dangling.rawValue | (carries ? EdgeFormat.carriesBit : 0)]
    if order != 0 { EdgeFormat.appendOrder(order, to: &bytes) }
    return bytes
  }

  /// Returns the rules in the value of an entry. Throws `.corruption`.
  static func rules(_ bytes: borrowing [UInt8]) throws -> DeleteRules {
    guard let first = bytes.first, first <= DeleteRules.all.rawValue else {
      throw DatabaseError(
        .corruption,
        "a value of \(bytes.count) bytes in the families of relationships was found where that of an edge was expected")
    }
    return DeleteRules(rawValue: first)
  }
}

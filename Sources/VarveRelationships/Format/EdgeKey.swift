internal import Varve

/// Where the pieces of an entry's key are in its bytes.
struct EdgeLayout {
  /// The end that the entry stands by: the source of an entry by source.
  let first: Range<Int>
  let name: Range<Int>
  /// Of an entry by source; 0 in one by destination.
  let order: Int64
  /// The other end.
  let second: Range<Int>

  /// Throws `.corruption` where the bytes are no key of an edge.
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

/// The key of an edge's entry, taken apart.
struct EdgeKey {
  let bytes: [UInt8]
  let layout: EdgeLayout

  /// Throws `.corruption` where the bytes are no key of an edge.
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
  /// Of an entry by source.
  var attributes: ArraySlice<UInt8> = []
  /// Of an entry by destination.
  var order: Int64 = 0
  /// Whether the entry by source has more.
  var carries = false

  init(_ edge: borrowing RelationshipEdge) {
    rules = edge.rules
    dangling = edge.dangling
    attributes = edge.attributeBytes[...]
    order = edge.order
    carries = !attributes.isEmpty
  }

  /// Throws `.corruption` where the bytes are no value of an edge.
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

  /// Of the entry by destination.
  var toBytes: [UInt8] {
    var bytes = [rules.rawValue, dangling.rawValue | (carries ? EdgeFormat.carriesBit : 0)]
    if order != 0 { EdgeFormat.appendOrder(order, to: &bytes) }
    return bytes
  }

  /// The rules in the value of an entry. Throws `.corruption`.
  static func rules(_ bytes: borrowing [UInt8]) throws -> DeleteRules {
    guard let first = bytes.first, first <= DeleteRules.all.rawValue else {
      throw DatabaseError(
        .corruption,
        "a value of \(bytes.count) bytes in the families of relationships was found where that of an edge was expected")
    }
    return DeleteRules(rawValue: first)
  }
}

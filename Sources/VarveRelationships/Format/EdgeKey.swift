internal import Varve

/// The key of an edge's entry, taken apart: where its pieces are in the bytes.
struct EdgeKey {
  let bytes: [UInt8]
  /// The end that the entry stands by: the source of an entry by source.
  let first: ArraySlice<UInt8>
  let name: ArraySlice<UInt8>
  /// Of an entry by source; 0 in one by destination.
  let order: Int64
  /// The other end.
  let second: ArraySlice<UInt8>

  /// Throws `.corruption` where the bytes are no key of an edge.
  init(_ bytes: [UInt8], bySource: Bool) throws {
    guard let parts = Self.parts(bytes, bySource) else {
      throw DatabaseError(
        .corruption, "a key of \(bytes.count) bytes in the families of relationships is none of an edge")
    }
    self.bytes = bytes
    (first, name, order, second) = parts
  }

  private static func parts(
    _ bytes: [UInt8], _ bySource: Bool
  ) -> (ArraySlice<UInt8>, ArraySlice<UInt8>, Int64, ArraySlice<UInt8>)? {
    guard bytes.count > 2 else { return nil }
    let end = bytes.count - 2
    let size = Int(bytes[end]) << 8 | Int(bytes[end + 1])
    guard size > 0, size + 2 < end, bytes[size] == EdgeFormat.endMark,
      let mark = bytes[(size + 1)..<end].firstIndex(of: EdgeFormat.nameMark)
    else { return nil }
    var rest = bytes[(mark + 1)..<end]
    var order: Int64 = 0
    if bySource {
      guard let found = EdgeFormat.order(rest) else { return nil }
      order = found.order
      rest = rest.dropFirst(found.size)
    }
    let first = bytes[..<size]
    guard isEnd(first), isEnd(rest) else { return nil }
    return (first, bytes[(size + 1)..<mark], order, rest)
  }

  private static func isEnd(_ bytes: ArraySlice<UInt8>) -> Bool {
    switch bytes.first {
    case EdgeFormat.row: bytes.count > 5
    case EdgeFormat.file: bytes.count > 3
    default: false
    }
  }

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
      .corruption, "a value of \(bytes.count) bytes in the families of relationships is none of an edge")
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

  /// Of the entry by source.
  var fromBytes: [UInt8] { [rules.rawValue, dangling.rawValue] + attributes }

  /// Of the entry by destination.
  var toBytes: [UInt8] {
    var bytes = [rules.rawValue, dangling.rawValue | (carries ? EdgeFormat.carriesBit : 0)]
    if order != 0 { EdgeFormat.appendOrder(order, to: &bytes) }
    return bytes
  }
}

/// The rows that had the same value of a unique index before it was built: the cause of `.notUnique`, which each use of
/// the index throws until a build finds none.
public struct IndexCollisions: Error, Sendable, CustomStringConvertible {
  /// Two rows with the same value.
  public struct Pair: Hashable, Sendable {
    /// The value, as the tool prints keys.
    public let value: String
    /// The row whose key comes first.
    public let first: RowKey
    /// Another row with the same value.
    public let second: RowKey
  }

  /// The name of the index.
  public let index: String
  /// The number of rows that have the value of an earlier row.
  public let count: Int
  /// The first of these rows, at most 100.
  public let pairs: [Pair]

  static var pairsMaximum: Int { 100 }

  /// The count and the first pair as a text.
  public var description: String {
    let first = pairs.first.map { "; \($0.first.text) and \($0.second.text) have \($0.value)" } ?? ""
    return "\(count) rows have the value of another\(first)"
  }
}

extension IndexCollisions {
  /// Encodes collisions.
  /// ```
  ///  8 bytes  count, big-endian
  ///  a pair   value, key of the first row, key of the second: each a varint with its size, and its bytes
  /// ```
  /// The format is stored on disk and must never change.
  static func bytes(count: Int, _ pairs: [[[UInt8]]]) -> [UInt8] {
    var bytes = BigEndian.bytes(UInt64(count))
    for field in pairs.joined() {
      Varint.append(UInt64(field.count), to: &bytes)
      bytes += field
    }
    return bytes
  }

  /// Decodes collisions. Throws `.corruption`.
  init(_ bytes: [UInt8], index: String, collection: String) throws {
    let damaged = DatabaseError(
      .corruption, "the collisions of index \"\(index)\" are damaged", collection: collection)
    guard let count = BigEndian.number(bytes, at: 0, as: UInt64.self).flatMap({ Int(exactly: $0) }) else {
      throw damaged
    }
    var offset = 8
    func field() throws -> [UInt8] {
      let size = try unsafe Varint.read(bytes.span.bytes, &offset)
      guard size <= bytes.count - offset else { throw damaged }
      defer { offset += Int(size) }
      return Array(bytes[offset..<(offset + Int(size))])
    }
    var pairs: [Pair] = []
    while offset < bytes.count {
      pairs.append(
        Pair(
          value: KeyText.text(of: try field()), first: RowKey(collection: collection, bytes: try field()),
          second: RowKey(collection: collection, bytes: try field())))
    }
    self.index = index
    self.count = count
    self.pairs = pairs
  }
}

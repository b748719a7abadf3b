/// The position of an instance in the order of a query, which can be stored or sent, and passed to an equal query
/// later.
///
/// It contains the fields of the instance that the query is sorted by, and its identifier, unencrypted.
///
/// # Format
/// ```
///  byte      1, the version of this format
///  8 bytes   FNV-1a of the query's condition and order, big-endian
///  8 bytes   FNV-1a of the types of its order, big-endian
///  varint    count of fields
///  each      varint size and the field's key, ascending; varint size and the field's key, descending
///  the rest  the key of the row
/// ```
///
/// A value. Safe from any thread.
public struct QueryCursor<Format: StoreFormat>: Hashable, Sendable {
  private let queryHash: UInt64
  private let types: UInt64
  let anchor: QueryPosition.Anchor

  private static var version: UInt8 { 1 }

  init(_ query: StoreQuery<Format>, _ anchor: QueryPosition.Anchor) {
    queryHash = query.queryHash
    types = query.typesHash
    self.anchor = anchor
  }

  /// The cursor as bytes.
  public var bytes: [UInt8] {
    var bytes = [Self.version] + BigEndian.bytes(queryHash) + BigEndian.bytes(types)
    Varint.append(UInt64(anchor.fields.count), to: &bytes)
    for field in anchor.fields {
      for part in [field.ascending, field.descending] {
        Varint.append(UInt64(part.count), to: &bytes)
        bytes += part
      }
    }
    return bytes + anchor.rowKey
  }

  /// Creates a cursor from its bytes. Throws `.invalidArgument` if they are not the bytes of a cursor.
  public init(bytes: [UInt8]) throws {
    guard bytes.first == Self.version, let queryHash = BigEndian.number(bytes, at: 1, as: UInt64.self),
      let types = BigEndian.number(bytes, at: 9, as: UInt64.self)
    else { throw Self.damaged }
    self.queryHash = queryHash
    self.types = types
    var offset = 17
    func size() throws -> Int {
      guard let size = try? unsafe Varint.read(bytes.span.bytes, &offset), size <= UInt64(bytes.count - offset) else {
        throw Self.damaged
      }
      return Int(size)
    }
    func part() throws -> [UInt8] {
      let size = try size()
      defer { offset += size }
      return Array(bytes[offset..<offset + size])
    }
    var fields: [QueryPosition.Anchor.Field] = []
    for _ in 0..<(try size()) { fields.append(.init(ascending: try part(), descending: try part())) }
    guard offset < bytes.count else { throw Self.damaged }
    anchor = QueryPosition.Anchor(fields: fields, rowKey: Array(bytes[offset...]))
  }

  private static var damaged: DatabaseError {
    DatabaseError(.invalidArgument, "the bytes are not those of a cursor of a query")
  }

  /// Throws if the cursor belongs to another query.
  func check(_ query: StoreQuery<Format>) throws {
    guard queryHash == query.queryHash else {
      throw DatabaseError(
        .invalidArgument, "the cursor belongs to a query with another condition or order",
        collection: query.store.collection)
    }
    guard types == query.typesHash, anchor.fields.count == query.order.count else {
      throw DatabaseError(
        .cursorExpired, "the fields that the query is sorted by had other types when the cursor was made",
        collection: query.store.collection)
    }
  }
}

extension StoreQuery {
  /// A hash that is the same for equal queries in each start of a program, provided that fields have names.
  fileprivate var queryHash: UInt64 {
    let order = order.map { "\($0.path.text) \($0.isDescending)" }
    let text = [store.collection, condition.map { $0.definition ?? "computed" } ?? ""] + order
    return FNV1a.hash(text.joined(separator: "\n"))
  }

  fileprivate var typesHash: UInt64 {
    FNV1a.hash(([Format.Identifier.keyType.name] + order.map(\.keyType.name)).joined(separator: "\n"))
  }
}

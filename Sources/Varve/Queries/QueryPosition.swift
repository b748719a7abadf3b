/// The position at which a page of a query begins.
struct QueryPosition: Sendable {
  /// The instance that the page follows, or nil if it begins with the first one.
  var start: Anchor?
  /// Whether the page has the instances before `start`, read from the end. The query is then the reversed one.
  var isBackward: Bool

  /// An instance, represented by its fields in the order of a query.
  struct Anchor: Sendable, Hashable {
    /// A field in its ascending and descending encodings.
    struct Field: Sendable, Hashable {
      let ascending: [UInt8]
      let descending: [UInt8]
    }

    /// The fields of the query's order.
    let fields: [Field]
    /// The key of the row, without the collection's prefix.
    let rowKey: [UInt8]

    /// Returns the bytes that the instance is sorted by, as `StoreQuery.order(of:)` does.
    func order<Format>(_ query: StoreQuery<Format>, prefix: [UInt8]) -> [UInt8] {
      var encoder = KeyEncoder(capacity: 64)
      for (field, order) in zip(fields, query.order) {
        encoder.append((order.isDescending ? field.descending : field.ascending)[...])
      }
      query.appendTie(prefix + rowKey, to: &encoder)
      return encoder.bytes
    }

    /// Returns the key of the instance's entry in an access in the order of the query, whether or not it exists.
    func entry<Format>(
      _ access: QueryPlan<Format>.Access, _ query: StoreQuery<Format>, _ info: CollectionInfo
    ) -> [UInt8] {
      guard access.source != .rows else { return info.prefix + rowKey }
      var bytes = access.fixed
      for field in access.orderFields {
        guard let index = query.order.firstIndex(where: { $0.path == field.path }) else { continue }
        bytes += field.isDescending ? fields[index].descending : fields[index].ascending
      }
      IndexEntry.append(rowKey, to: &bytes)
      return bytes
    }
  }
}

extension StoreQuery {
  /// Returns the position of an instance in the order.
  func anchor(_ instance: Format.Instance, rowKey: [UInt8]) -> QueryPosition.Anchor {
    let fields = order.map { order in
      func bytes(descending: Bool) -> [UInt8] {
        var encoder = KeyEncoder(capacity: 16)
        unsafe withUnsafePointer(to: instance) {
          order.append(unsafe InstanceAddress(UnsafeRawPointer($0)), descending: descending, to: &encoder)
        }
        return encoder.bytes
      }
      return QueryPosition.Anchor.Field(ascending: bytes(descending: false), descending: bytes(descending: true))
    }
    return QueryPosition.Anchor(fields: fields, rowKey: rowKey)
  }
}

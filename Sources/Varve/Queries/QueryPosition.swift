/// Where a page of a query begins.
struct QueryPosition: Sendable {
  /// The instance that the page follows; nil: it begins with the first.
  var start: Anchor?
  /// Whether the page has what is before, read from the end: then the query is the reversed one.
  var isBackward: Bool

  /// An instance, by its fields in the order of a query.
  struct Anchor: Sendable, Hashable {
    /// A field, as it sorts in both directions.
    struct Field: Sendable, Hashable {
      let ascending: [UInt8]
      let descending: [UInt8]
    }

    /// Those of the query's order.
    let fields: [Field]
    /// The key of the row, without the collection's prefix.
    let rowKey: [UInt8]

    /// What the instance is sorted by, as `StoreQuery.order(of:)` has it.
    func order<Format>(_ query: StoreQuery<Format>, prefix: [UInt8]) -> [UInt8] {
      var encoder = KeyEncoder(capacity: 64)
      for (field, order) in zip(fields, query.order) {
        encoder.append((order.isDescending ? field.descending : field.ascending)[...])
      }
      query.appendTie(prefix + rowKey, to: &encoder)
      return encoder.bytes
    }

    /// The entry that an access in the order of the query has of the instance, or would have.
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
  /// Where an instance stands in the order.
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

/// The result of a query with an order and a limit, kept in memory, so that a commit updates it from the rows that it
/// changes. The storage is only read if entries have left the window: by one seek after the last entry.
///
/// # Invariants
/// 1. The entries are in the order of the query, and at most as many as its limit.
/// 2. If there are fewer entries than the limit, they are the whole result. Otherwise every other row of the result is
///    after the last entry.
struct QueryWindow<Format: StoreFormat>: Sendable {
  struct Entry: Sendable {
    let anchor: QueryPosition.Anchor
    /// The encoded fields that the entry is sorted by, including the key of its row.
    let order: [UInt8]

    /// The key of the row, without the collection's prefix.
    var key: [UInt8] { anchor.rowKey }
  }

  private(set) var entries: [Entry]

  /// Returns whether the result of a query is kept in a window, which requires an order that determines the position of
  /// a row.
  static func keeps(_ query: StoreQuery<Format>) -> Bool {
    // A stand-in doesn't have the fields of its place.
    guard let maximum = query.maximum, Format.undecodable.standIn == nil else { return false }
    return !query.order.isEmpty && (1...QueryDifferences<Format>.windowMaximum).contains(maximum)
  }

  /// Reads the window from the storage.
  init(_ query: StoreQuery<Format>, _ tx: ReadTransaction) throws {
    entries = try Self.read(query, tx)
  }

  /// Returns the window after some rows have changed. `candidates` are the changed rows that fulfil the condition now.
  func changed(
    _ isChanged: (Entry) -> Bool, _ candidates: [Entry], _ query: StoreQuery<Format>, _ tx: ReadTransaction
  ) throws -> QueryWindow {
    let maximum = query.maximum ?? .max
    // Rows after the last entry of a full window were never read.
    let last = entries.count < maximum ? nil : entries.last
    var window = self
    window.entries = merged(
      entries.filter { !isChanged($0) },
      candidates.filter { candidate in last.map { !ByteOrder.precedes($0.order, candidate.order) } ?? true })
    if window.entries.count >= maximum {
      window.entries.removeSubrange(maximum...)
    } else if let last {
      var rest = query.limit(maximum - window.entries.count)
      rest.page = QueryPosition(start: last.anchor, isBackward: false)
      window.entries += try Self.read(rest, tx)
    }
    return window
  }

  /// Returns the entries of both lists in order. The first list is in order.
  private func merged(_ entries: [Entry], _ others: [Entry]) -> [Entry] {
    if others.isEmpty { return entries }
    let others = others.sorted { ByteOrder.precedes($0.order, $1.order) }
    var merged: [Entry] = []
    merged.reserveCapacity(entries.count + others.count)
    var next = others[...]
    for entry in entries {
      while let other = next.first, ByteOrder.precedes(other.order, entry.order) {
        merged.append(other)
        next.removeFirst()
      }
      merged.append(entry)
    }
    return merged + next
  }

  private static func read(_ query: StoreQuery<Format>, _ tx: ReadTransaction) throws -> [Entry] {
    try query.whileBuilt { query in
      guard let run = try QueryRun(query, tx) else { return [] }
      var scan = try run.begin()
      var entries: [Entry] = []
      while let (instance, key, _) = try scan.nextRow() { entries.append(Entry(instance, key, query, run.info)) }
      return entries
    }
  }
}

extension QueryWindow.Entry {
  /// Creates an entry for an instance. `key` is the key of its row in the collection's family.
  init(_ instance: Format.Instance, _ key: [UInt8], _ query: StoreQuery<Format>, _ info: CollectionInfo) {
    anchor = query.anchor(instance, rowKey: Array(key[info.prefix.count...]))
    order = anchor.order(query, prefix: info.prefix)
  }
}

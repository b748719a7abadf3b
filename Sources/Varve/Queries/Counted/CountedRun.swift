/// A query in one transaction that a counted index answers.
struct CountedRun<Format: StoreFormat> {
  let store: Store<Format>
  let info: CollectionInfo
  let transaction: ReadTransaction
  let indexes: IndexesTransaction<Format.Instance>
  /// The position of the index among those of the format.
  let slot: Int
}

extension CountedRun {
  /// Opens one of some indexes that can be used; `slots` has their positions. Returns nil if the collection does not
  /// exist.
  ///
  /// Throws the error of `refusal` if there are no indexes, and the reason why the first one can't be used, `.notReady`
  /// or `.notUnique`, if none can.
  init?(
    _ store: Store<Format>, anyOf slots: some Collection<Int>, _ tx: ReadTransaction, refusal: () -> DatabaseError
  ) throws {
    guard let first = slots.first else {
      _ = try store.access.collection(tx)
      throw refusal()
    }
    guard let (info, indexes) = try store.access.indexes(tx) else { return nil }
    var slot = first
    if try !indexes.isUsable(first) {
      guard let other = try slots.dropFirst().first(where: { try indexes.isUsable($0) }) else {
        _ = try indexes.readable(first)
        return nil
      }
      slot = other
    }
    self.init(store: store, info: info, transaction: tx, indexes: indexes, slot: slot)
  }

  private var part: Part { indexes.part(slot) }

  /// Returns the number of entries of some ranges. Complexity: O(log n) for each range.
  func count(_ ranges: [StorageRange]) throws -> Int {
    var count = 0
    for range in ranges { count += try part.count(range) }
    return count
  }

  /// Returns the entry of a row that is in one of some ranges, or nil if there is none. A row has at most one.
  func entry(of id: Format.Identifier, in ranges: [StorageRange]) throws -> [UInt8]? {
    try indexes.entries(of: try id.encoded(), in: slot).first { entry in ranges.contains { $0.holds(entry) } }
  }

  /// Returns the number of entries of a range that come before one of them.
  func offset(of entry: [UInt8], in range: StorageRange, isReverse: Bool) throws -> Int {
    isReverse ? try part.count(range.following(entry)) : try part.offset(of: entry, in: range)
  }

  /// Returns the identifiers of the rows at some offsets of a range. `offsets` begins at 0 or later.
  func ids(at offsets: Range<Int>, in range: StorageRange, isReverse: Bool) throws -> [Format.Identifier] {
    var ids: [Format.Identifier] = []
    if offsets.isEmpty { return ids }
    var cursor = try part.cursor(from: offsets.lowerBound, in: range, isReverse: isReverse, keysOnly: true)
    while ids.count < offsets.count {
      let id = try cursor.withNext { key, _ in
        try Format.Identifier.decoded(from: key.extracting(try IndexEntry.rowKey(in: key)))
      }
      guard let id else { break }
      ids.append(id)
    }
    return ids
  }

  /// Returns the instances at some offsets of a range. `offsets` begins at 0 or later.
  func instances(at offsets: Range<Int>, in range: StorageRange, isReverse: Bool) throws -> [Format.Instance] {
    var instances: [Format.Instance] = []
    if offsets.isEmpty { return instances }
    let isDirect = indexes.definition.plans[slot].isDirect
    let entries = try part.cursor(
      from: offsets.lowerBound, in: range, isReverse: isReverse, keysOnly: !isDirect)
    var scan = CountedScan(entries, isDirect: isDirect, limit: offsets.count, info, transaction.view(of: info.objects))
    let reading = AnswerReading(store.access, info, transaction)
    let source = transaction.view(of: info.objects)
    while let (key, bytes) = try scan.next() {
      if let instance = try reading.instance(key, bytes, source) { instances.append(instance) }
    }
    return instances
  }
}

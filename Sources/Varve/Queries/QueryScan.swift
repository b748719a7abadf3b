/// Iterates over the instances of a query.
///
/// # Invariants
/// 1. A row is returned once.
/// 2. Each instance fulfills the whole condition: because of the ranges of its access, or because it was tested.
struct QueryScan<Format: StoreFormat>: RowScan {
  private let reading: AnswerReading<Format>
  private let info: CollectionInfo
  private let source: any StorageReading
  private let filter: RowFilter<Format>?
  private let query: StoreQuery<Format>
  private let sorts: Bool
  /// Whether a sort ends if the task is cancelled.
  private let isCancellable: Bool

  private var entries: QueryEntries
  private var remaining: Int
  /// The keys of the sorted rows with the next one last, or nil before they were sorted.
  private var sorted: [[UInt8]]?
  /// The rows that were read and are returned from `position` on.
  private var rows: [(key: [UInt8], bytes: [UInt8])] = []
  private var position = 0
  private var batchSize: Int

  private static var batchSizeMaximum: Int { 256 }
  /// The maximum number of bytes of keys that are sorted in memory.
  static var sortSizeMaximum: Int { 64 << 20 }
  /// The mask that makes a sort check at every 4,096th comparison whether the task was cancelled.
  private static var checkMask: Int { 4_095 }

  init(
    _ query: StoreQuery<Format>, _ plan: QueryPlan<Format>, _ info: CollectionInfo, _ tx: ReadTransaction,
    _ entries: QueryEntries
  ) {
    let reading = AnswerReading(query.store.access, info, tx)
    self.reading = reading
    self.info = info
    self.query = query
    self.entries = entries
    let source = tx.view(of: info.objects)
    self.source = source
    filter = plan.filters ? query.condition.map { RowFilter($0, reading, source) } : nil
    sorts = plan.sorts
    isCancellable = tx.isCancellable
    remaining = query.maximum ?? .max
    batchSize = remaining == .max ? 8 : min(max(remaining, 1), Self.batchSizeMaximum)
  }

  // MARK: - Instances

  mutating func next() throws -> (element: Format.Instance, byteCount: Int)? {
    guard let (instance, key, size) = try nextRow() else { return nil }
    return (instance, key.count + size)
  }

  /// Returns the next instance, the key of its row in the collection's family, and the size of the row.
  mutating func nextRow() throws -> (instance: Format.Instance, key: [UInt8], size: Int)? {
    guard remaining > 0 else { return nil }
    if sorts, sorted == nil { try sort() }
    while true {
      if position == rows.count {
        try readBatch()
        if rows.isEmpty { return nil }
      }
      let (key, bytes) = rows[position]
      position += 1
      guard let instance = try instance(key, bytes) else { continue }
      remaining -= 1
      return (instance, key, bytes.count)
    }
  }

  /// Returns the instance of a row, or nil if it does not fulfil the condition or is left out.
  private func instance(_ key: [UInt8], _ bytes: [UInt8]) throws -> Format.Instance? {
    guard let filter, sorted == nil else { return try reading.instance(key, bytes, source) }
    return try filter.instance(key, bytes)
  }

  private mutating func readBatch() throws {
    rows.removeAll(keepingCapacity: true)
    position = 0
    let wanted = filter == nil || sorted != nil ? min(batchSize, remaining) : batchSize
    batchSize = min(batchSize * 4, Self.batchSizeMaximum)
    var keys: [[UInt8]] = []
    if sorted != nil {
      while keys.count < wanted, let key = sorted?.popLast() { keys.append(key) }
    } else {
      try withRows { scan, asked in
        while scan.rows.count + keys.count < wanted, let entry = try scan.entries.next(asking: asked) {
          // The rows of a direct index are interleaved with them, and keep their positions.
          if let row = entry.row, keys.isEmpty { scan.rows.append((entry.key, row)) } else { keys.append(entry.key) }
        }
      }
    }
    if keys.isEmpty { return }
    try info.read(keys, from: source) { rows.append(($0, $1)) }
  }

  /// Calls `body` with this scan and the tester of stored rows.
  private mutating func withRows<Result>(
    _ body: (inout QueryScan, RowFilter<Format>.StoredRows?) throws -> Result
  ) throws -> Result {
    guard let filter else { return try body(&self, nil) }
    return try filter.withReader { rows in try body(&self, rows) }
  }

  // MARK: - Keys

  /// Returns the key of the next row in the collection's family, or nil after the last. The keys are unordered if the
  /// plan sorts.
  mutating func nextKey() throws -> [UInt8]? {
    try withRows { scan, rows in try scan.nextKey(asking: rows) }
  }

  private mutating func nextKey(asking rows: RowFilter<Format>.StoredRows?) throws -> [UInt8]? {
    guard remaining > 0 else { return nil }
    while let entry = try entries.next(asking: rows) {
      if Format.decodesEachRow || (filter != nil && !entry.isKnown) {
        guard let bytes = try entry.row ?? source.value(of: entry.key, in: info.objects), try isIn(entry.key, bytes)
        else { continue }
      }
      remaining -= 1
      return entry.key
    }
    return nil
  }

  /// Returns whether a row fulfills the condition and is not left out.
  private func isIn(_ key: [UInt8], _ bytes: [UInt8]) throws -> Bool {
    guard let filter else { return try reading.instance(key, bytes, source) != nil }
    return try filter.fulfils(key, bytes)
  }

  /// Returns the key of the next row in the order of the query, or nil after the last.
  mutating func nextKeyInOrder() throws -> [UInt8]? {
    if !sorts { return try nextKey() }
    if sorted == nil { try sort() }
    guard remaining > 0, let key = sorted?.popLast() else { return nil }
    remaining -= 1
    return key
  }

  /// Returns the number of rows. Complexity: O(n) in the entries; rows are only read if the condition has to be tested
  /// on them.
  mutating func count() throws -> Int {
    if filter == nil, remaining == .max, !Format.decodesEachRow, let only = entries.only { return try only.count() }
    return try withRows { scan, rows in
      var count = 0
      while try scan.nextKey(asking: rows) != nil { count += 1 }
      return count
    }
  }

  // MARK: - Sorting

  /// Reads all rows and sorts their keys by the fields of the order. For a query with a limit, at most twice as many
  /// keys are kept. Throws `.sortTooLarge`.
  private mutating func sort() throws {
    var kept: [Sorted] = []
    var size = 0
    let start = query.page?.start?.order(query, prefix: info.prefix)
    let none: RowFilter<Format>.StoredRows? = nil
    while let entry = try entries.next(asking: none) {
      guard let bytes = try entry.row ?? source.value(of: entry.key, in: info.objects) else { continue }
      guard let instance = try instance(entry.key, bytes) else { continue }
      let order = query.order(of: instance, entry.key)
      if let start, ByteOrder.compare(order, start) <= 0 { continue }
      kept.append((order, entry.key))
      size += order.count + entry.key.count
      // The limit is not doubled, because it may be as large as an integer can be.
      if let maximum = query.maximum, kept.count / 2 >= maximum, kept.count >= 64 {
        try sort(&kept)
        kept.removeSubrange(maximum...)
        size = kept.reduce(0) { $0 + $1.order.count + $1.key.count }
      }
      if size > Self.sortSizeMaximum {
        let fields = query.order.map(\.path.text).joined(separator: ", ")
        throw DatabaseError(
          .sortTooLarge,
          "the keys of the instances that are sorted by \(fields) take more than \(Self.sortSizeMaximum) bytes; an index of these fields would have the order, and a limit would keep few",
          collection: info.name)
      }
    }
    try sort(&kept)
    sorted = kept.reversed().map(\.key)
  }

  private typealias Sorted = (order: [UInt8], key: [UInt8])

  /// Sorts rows by their fields. Throws `CancellationError` if the read ends with its task.
  private func sort(_ rows: inout [Sorted]) throws {
    var comparisons = 0
    try rows.sort {
      comparisons &+= 1
      if isCancellable, comparisons & Self.checkMask == 0 { try Task.checkCancellation() }
      return ByteOrder.precedes($0.order, $1.order)
    }
  }
}

extension StoreQuery {
  /// Returns the bytes that an instance is sorted by: the fields of the order, and the key of the row.
  func order(of instance: Format.Instance, _ key: [UInt8]) -> [UInt8] {
    var encoder = KeyEncoder(capacity: 64)
    unsafe withUnsafePointer(to: instance) { pointer in
      for next in order { next.append(unsafe InstanceAddress(UnsafeRawPointer(pointer)), to: &encoder) }
    }
    appendTie(key, to: &encoder)
    return encoder.bytes
  }

  /// Appends the key of a row, in the direction of the last field.
  func appendTie(_ key: [UInt8], to encoder: inout KeyEncoder) {
    if isTieDescending {
      encoder.append((key.map { ~$0 } + [KeyTag.escape])[...])
    } else {
      encoder.append(key[...])
    }
  }
}

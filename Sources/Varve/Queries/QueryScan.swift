/// The instances of a query, one after the other.
///
/// # Invariants
/// 1. A row comes once.
/// 2. Each instance fulfils the whole condition: by the ranges of its access, or because it was asked.
struct QueryScan<Format: StoreFormat>: RowScan {
  /// The entries of one range, still to be read, or being read.
  private struct Entries {
    let family: StorageFamily
    let range: StorageRange
    /// Nil: entries are the rows themselves.
    let isDirect: Bool?
  }

  private let access: RowAccess<Format>
  private let info: CollectionInfo
  private let source: any StorageReading
  /// What each family is read from: in a transaction that writes each has a view of its own.
  private let views: [UInt32: any StorageReading]
  private let condition: Condition<Format.Instance>?
  private let order: [QueryOrder<Format.Instance>]
  private let isReverse: Bool
  private let sorts: Bool
  private let maximum: Int?

  /// The next one last.
  private var rest: [Entries]
  private var cursor: FamilyCursor?
  private var isDirect: Bool?
  private var seen: Set<[UInt8]>?
  private var remaining: Int
  /// The keys of rows in order, once they were sorted, the next one last.
  private var sorted: [[UInt8]]?
  /// Rows that were read, from `position` on.
  private var rows: [(key: [UInt8], bytes: [UInt8])] = []
  private var position = 0
  private var batchSize: Int

  private static var batchSizeMaximum: Int { 256 }
  /// The most bytes of keys that are sorted in memory.
  static var sortSizeMaximum: Int { 64 << 20 }

  init(
    _ query: StoreQuery<Format>, _ plan: QueryPlan<Format>, _ planner: QueryPlanner<Format>,
    _ indexes: IndexesTransaction<Format.Instance>?, _ info: CollectionInfo, _ tx: ReadTransaction
  ) throws {
    access = query.store.access
    self.info = info
    source = tx.view(of: info.objects)
    condition = plan.filters ? query.condition : nil
    order = query.order
    sorts = plan.sorts
    maximum = query.maximum
    remaining = query.maximum ?? .max
    isReverse = !plan.sorts && plan.accesses.contains { $0.order == .reverse }
    seen = plan.repeatsRows ? [] : nil
    batchSize = remaining == .max ? 8 : min(max(remaining, 1), Self.batchSizeMaximum)
    var rest: [Entries] = []
    var views: [UInt32: any StorageReading] = [:]
    for access in plan.accesses {
      var isDirect: Bool?
      if case .index(let slot) = access.source { isDirect = indexes?.definition.plans[slot].isDirect ?? false }
      for range in isReverse ? access.ranges.reversed() : access.ranges {
        let (family, range) = try planner.location(range, access.source)
        guard let family else { continue }
        rest.append(Entries(family: family, range: range, isDirect: isDirect))
        if views[family.number] == nil { views[family.number] = tx.view(of: family) }
      }
    }
    self.rest = rest.reversed()
    self.views = views
  }

  // MARK: - Instances

  mutating func next() throws -> (element: Format.Instance, byteCount: Int)? {
    guard remaining > 0 else { return nil }
    if sorts, sorted == nil { try sort() }
    while true {
      if position == rows.count {
        try readBatch()
        if rows.isEmpty { return nil }
      }
      let (key, bytes) = rows[position]
      position += 1
      let instance = try instance(key, bytes)
      if sorted == nil, let condition, try !condition.holds(for: instance) { continue }
      remaining -= 1
      return (instance, key.count + bytes.count)
    }
  }

  private func instance(_ key: [UInt8], _ bytes: [UInt8]) throws -> Format.Instance {
    let row: StoredRow
    do { row = try StoredRow(key: key, bytes: bytes, info: info) } catch let error as DatabaseError {
      throw error.about(info.key(of: key))
    }
    return try access.instance(row) { [source, info] in try source.value(of: row.key, in: info.metadata) }
  }

  private mutating func readBatch() throws {
    rows.removeAll(keepingCapacity: true)
    position = 0
    let wanted = min(batchSize, remaining)
    batchSize = min(batchSize * 4, Self.batchSizeMaximum)
    var keys: [[UInt8]] = []
    while rows.count + keys.count < wanted {
      if sorted != nil {
        guard let key = sorted?.popLast() else { break }
        keys.append(key)
        continue
      }
      guard let (key, row) = try nextEntry(withRow: true) else { break }
      // Those of a direct index come in between, and keep their positions.
      if let row, keys.isEmpty { rows.append((key, row)) } else { keys.append(key) }
    }
    if keys.isEmpty { return }
    try access.read(keys, info, from: source) { rows.append(($0, $1)) }
  }

  // MARK: - Keys

  /// The key of the next row in the collection's family; nil after the last. In no order, if the plan sorts.
  mutating func nextKey() throws -> [UInt8]? {
    guard remaining > 0 else { return nil }
    guard condition == nil else {
      // It has to be asked.
      while let (key, bytes) = try nextEntry(withRow: true) {
        guard let bytes = try bytes ?? source.value(of: key, in: info.objects) else { continue }
        if let condition, try !condition.holds(for: try instance(key, bytes)) { continue }
        remaining -= 1
        return key
      }
      return nil
    }
    guard let (key, _) = try nextEntry(withRow: false) else { return nil }
    remaining -= 1
    return key
  }

  /// The same in the order of the query.
  mutating func nextKeyInOrder() throws -> [UInt8]? {
    if !sorts { return try nextKey() }
    if sorted == nil { try sort() }
    guard remaining > 0, let key = sorted?.popLast() else { return nil }
    remaining -= 1
    return key
  }

  /// How many rows there are. Complexity: O(n) of the entries; rows are read where the condition has to be asked of them.
  mutating func count() throws -> Int {
    if condition == nil, seen == nil {
      var count = 0
      while count < remaining, let entries = rest.popLast() {
        count += try cursor(entries, keysOnly: true).count()
      }
      return min(count, remaining)
    }
    var count = 0
    while try nextKey() != nil { count += 1 }
    return count
  }

  private func cursor(_ entries: Entries, keysOnly: Bool) -> FamilyCursor {
    FamilyCursor(
      entries.range, in: entries.family, of: views[entries.family.number] ?? source, isReverse: isReverse,
      keysOnly: keysOnly)
  }

  /// The next row, with its content where that is beside the key.
  private mutating func nextEntry(withRow: Bool) throws -> (key: [UInt8], row: [UInt8]?)? {
    let prefix = info.prefix
    while true {
      guard cursor != nil else {
        guard let entries = rest.popLast() else { return nil }
        isDirect = entries.isDirect
        cursor = cursor(entries, keysOnly: !withRow || entries.isDirect == false)
        continue
      }
      let isDirect = isDirect
      let entry = try cursor?.withNext { key, value -> (key: [UInt8], row: [UInt8]?) in
        guard let isDirect else { return (key.copied, withRow ? value.copied : nil) }
        let range = try IndexEntry.rowKey(in: key)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(prefix.count + range.count)
        bytes.append(contentsOf: prefix)
        bytes.append(key.extracting(range))
        return (bytes, isDirect && withRow ? value.copied : nil)
      }
      guard let entry else {
        cursor = nil
        continue
      }
      if seen == nil || seen?.insert(entry.key).inserted == true { return entry }
    }
  }

  // MARK: - Sorting

  /// Reads all rows and sorts their keys by the fields of the order. Of a query with a limit no more than twice as many are
  /// kept. Throws `.sortTooLarge`.
  private mutating func sort() throws {
    var kept: [(order: [UInt8], key: [UInt8])] = []
    var size = 0
    let isTieReverse = order.last?.isDescending ?? false
    while let (key, bytes) = try nextEntry(withRow: true) {
      guard let bytes = try bytes ?? source.value(of: key, in: info.objects) else { continue }
      let instance = try instance(key, bytes)
      if let condition, try !condition.holds(for: instance) { continue }
      let order = order(of: instance, key, isTieReverse)
      kept.append((order, key))
      size += order.count + key.count
      if let maximum, kept.count >= 2 * maximum + 64 {
        kept.sort { ByteOrder.precedes($0.order, $1.order) }
        kept.removeSubrange(maximum...)
        size = kept.reduce(0) { $0 + $1.order.count + $1.key.count }
      }
      if size > Self.sortSizeMaximum {
        let fields = self.order.map(\.path.text).joined(separator: ", ")
        throw DatabaseError(
          .sortTooLarge,
          "the keys of the instances that are sorted by \(fields) take more than \(Self.sortSizeMaximum) bytes; an index of these fields would have the order, and a limit would keep few",
          collection: info.name)
      }
    }
    kept.sort { ByteOrder.precedes($0.order, $1.order) }
    sorted = kept.reversed().map(\.key)
  }

  private func order(of instance: Format.Instance, _ key: [UInt8], _ isTieReverse: Bool) -> [UInt8] {
    var encoder = KeyEncoder(capacity: 64)
    unsafe withUnsafePointer(to: instance) { pointer in
      for next in order { next.append(unsafe InstanceAddress(UnsafeRawPointer(pointer)), to: &encoder) }
    }
    if isTieReverse {
      encoder.append((key.map { ~$0 } + [KeyTag.escape])[...])
    } else {
      encoder.append(key[...])
    }
    return encoder.bytes
  }
}

/// A row that a plan finds, with the key that led to it.
struct QueryEntry {
  /// The key of the row in the collection's family.
  let key: [UInt8]
  /// The row, if it is stored next to the key.
  let row: [UInt8]?
  /// The bytes by which entries of several accesses are compared: the values of the order and the row's key. Empty if
  /// they were not requested.
  var order: [UInt8] = []
  /// Whether the row was tested and fulfills the condition.
  var isKnown = false
}

/// Scans the entries of one access in its order.
struct AccessScan: Sendable {
  /// The order of entries with the same value.
  enum Ties {
    /// That of all entries.
    case same
    /// The opposite one. The scan begins after an entry, which need not exist, or with the first one.
    case turned(after: [UInt8]?)
  }

  private let family: StorageFamily
  private let source: any StorageReading
  /// Whether the index stores rows next to its keys, or nil if the entries are the rows themselves.
  let isDirect: Bool?
  private let isReverse: Bool
  /// The bytes that all entries begin with; for rows, the collection's prefix.
  private let fixed: [UInt8]
  private let prefix: [UInt8]
  private let keysOnly: Bool
  /// The maximum number of entries that are wanted, or nil if it is not known.
  private let wanted: Int?
  /// The ranges that remain, with the next one last.
  private var rest: [StorageRange]
  private var cursor: FamilyCursor?
  /// The scan of the ranges if ties are turned.
  private var turned: TurnedScan?

  init(
    _ ranges: [StorageRange], in family: StorageFamily, of source: any StorageReading, isDirect: Bool?,
    fixed: [UInt8], prefix: [UInt8], isReverse: Bool, ties: Ties, keysOnly: Bool, wanted: Int?
  ) {
    self.family = family
    self.source = source
    self.isDirect = isDirect
    self.isReverse = isReverse
    self.fixed = isDirect == nil ? prefix : fixed
    self.prefix = prefix
    self.keysOnly = keysOnly
    self.wanted = wanted
    rest = isReverse ? ranges : ranges.reversed()
    if case .turned(let start) = ties {
      turned = TurnedScan(
        rest, in: family, of: source, isReverse: isReverse, keysOnly: keysOnly, wanted: wanted, after: start)
    }
  }

  /// Calls `body` with the next entry and returns its result; nil after the last entry.
  mutating func withNext<Result>(_ body: (_ key: RawSpan, _ value: RawSpan) throws -> Result) throws -> Result? {
    if turned != nil { return try turned?.withNext(body) }
    while true {
      if let result = try cursor?.withNext(body) { return result }
      guard let range = rest.popLast() else { return nil }
      cursor = open(range)
    }
  }

  private func open(_ range: StorageRange) -> FamilyCursor {
    FamilyCursor(range, in: family, of: source, isReverse: isReverse, keysOnly: keysOnly, wanted: wanted)
  }

  /// Returns the next row that may fulfil the condition, or nil after the last. If rows are stored next to their keys,
  /// those that fail the condition are not copied.
  mutating func next<Format>(isOrdered: Bool, asking rows: RowFilter<Format>.StoredRows?) throws -> QueryEntry? {
    guard let rows, isDirect != false, !keysOnly else { return try next(isOrdered: isOrdered) }
    let (isDirect, prefix, fixed) = (isDirect, prefix, fixed)
    while true {
      var verdict = RowFilter<Format>.Verdict.unknown
      let entry: QueryEntry?? = try withNext { key, value in
        verdict = try rows.verdict(value) {
          isDirect == nil ? key.copied : prefix + key.extracting(try IndexEntry.rowKey(in: key)).copied
        }
        return verdict == .fails
          ? QueryEntry?.none : try Self.make(key, value, isDirect, prefix, fixed, isOrdered: isOrdered)
      }
      guard let entry else { return nil }
      guard var entry else { continue }
      entry.isKnown = verdict == .fulfils
      return entry
    }
  }

  /// Returns the next row, or nil after the last.
  mutating func next(isOrdered: Bool) throws -> QueryEntry? {
    let (isDirect, prefix, fixed) = (isDirect, prefix, fixed)
    return try withNext { key, value in
      try Self.make(key, value, isDirect, prefix, fixed, isOrdered: isOrdered)
    }
  }

  private static func make(
    _ key: RawSpan, _ value: RawSpan, _ isDirect: Bool?, _ prefix: [UInt8], _ fixed: [UInt8], isOrdered: Bool
  ) throws -> QueryEntry {
    guard let isDirect else {
      let order = isOrdered ? key.extracting(prefix.count..<key.byteCount).copied : []
      return QueryEntry(key: key.copied, row: value.byteCount == 0 ? nil : value.copied, order: order)
    }
    let range = try IndexEntry.rowKey(in: key)
    guard fixed.count <= range.lowerBound else { throw IndexEntry.damaged(key) }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(prefix.count + range.count)
    bytes.append(contentsOf: prefix)
    bytes.append(key.extracting(range))
    let order = isOrdered ? key.extracting(fixed.count..<range.upperBound).copied : []
    return QueryEntry(key: bytes, row: isDirect && value.byteCount > 0 ? value.copied : nil, order: order)
  }

  /// Moves to a row that is not before the last one. The access has a single range, in the order of the rows' keys.
  mutating func skip(toRow key: ArraySlice<UInt8>) {
    var target = fixed
    if isDirect == nil { target += key } else { IndexEntry.append(Array(key), to: &target) }
    if cursor == nil, let range = rest.popLast() { cursor = open(range) }
    cursor?.skip(to: target)
  }

  /// Returns the number of entries that remain.
  consuming func count() throws -> Int {
    if let turned { return try turned.count() }
    var count = try cursor?.count() ?? 0
    while let range = rest.popLast() { count += try open(range).count() }
    return count
  }
}

/// Scans the rows of one branch: the intersection of all its accesses.
struct BranchScan: Sendable {
  private(set) var accesses: [AccessScan]
  private let prefixSize: Int

  init(_ accesses: [AccessScan], prefixSize: Int) {
    self.accesses = accesses
    self.prefixSize = prefixSize
  }

  /// Returns the next row, or nil after the last.
  mutating func next<Format>(isOrdered: Bool, asking rows: RowFilter<Format>.StoredRows?) throws -> QueryEntry? {
    if accesses.count == 1 { return try accesses[0].next(isOrdered: isOrdered, asking: rows) }
    // Each access in turn moves to the row of the previous one. A row is in all accesses once as many in succession
    // have returned it.
    var candidate: QueryEntry?
    var agreed = 0
    var turn = 0
    while true {
      if let candidate { accesses[turn].skip(toRow: candidate.key[prefixSize...]) }
      guard let entry = try accesses[turn].next(isOrdered: false) else { return nil }
      if let known = candidate, known.key == entry.key {
        agreed += 1
        if known.row == nil, entry.row != nil { candidate = entry }
      } else {
        candidate = entry
        agreed = 1
      }
      if agreed == accesses.count, let candidate {
        return QueryEntry(
          key: candidate.key, row: candidate.row, order: isOrdered ? Array(candidate.key[prefixSize...]) : [])
      }
      turn = (turn + 1) % accesses.count
    }
  }
}

/// Scans the rows of all branches, each row once.
struct QueryEntries: Sendable {
  private var branches: [BranchScan]
  private let isReverse: Bool
  /// The next row of each branch, if they are merged.
  private var heads: [QueryEntry?]
  private let isMerged: Bool
  private var hasBegun = false
  /// The keys of the returned rows, if the branches are read one after the other or a row may have several entries.
  private var seen: Set<[UInt8]>?
  private var position = 0

  init(_ branches: [BranchScan], isMerged: Bool, isReverse: Bool, repeatsRows: Bool) {
    self.branches = branches
    self.isMerged = isMerged
    self.isReverse = isReverse
    heads = Array(repeating: nil, count: isMerged ? branches.count : 0)
    seen = isMerged || (branches.count <= 1 && !repeatsRows) ? nil : []
  }

  /// The only access of the plan, or nil if there are several, or if its entries are not one for each row.
  var only: AccessScan? {
    branches.count == 1 && branches[0].accesses.count == 1 && seen == nil ? branches[0].accesses[0] : nil
  }

  /// Returns the next row, or nil after the last. Rows that are known to fail the condition are left out.
  mutating func next<Format>(asking rows: RowFilter<Format>.StoredRows?) throws -> QueryEntry? {
    if isMerged { return try nextMerged(rows) }
    while position < branches.count {
      guard let entry = try branches[position].next(isOrdered: false, asking: rows) else {
        position += 1
        continue
      }
      if seen == nil || seen?.insert(entry.key).inserted == true { return entry }
    }
    return nil
  }

  private mutating func nextMerged<Format>(_ rows: RowFilter<Format>.StoredRows?) throws -> QueryEntry? {
    if !hasBegun {
      hasBegun = true
      for index in branches.indices { heads[index] = try branches[index].next(isOrdered: true, asking: rows) }
    }
    var first: QueryEntry?
    for case let head? in heads {
      guard let other = first else {
        first = head
        continue
      }
      let order = ByteOrder.compare(head.order, other.order)
      if isReverse ? order > 0 : order < 0 { first = head }
    }
    guard let first else { return nil }
    // All branches that have the same row have it with the same values.
    for index in heads.indices where heads[index]?.key == first.key {
      heads[index] = try branches[index].next(isOrdered: true, asking: rows)
    }
    return first
  }
}

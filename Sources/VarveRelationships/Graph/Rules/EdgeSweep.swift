internal import Varve

/// Scans the entries of many ends in one family, forward, and removes some of them.
///
/// Entries are read in batches from the beginning of the next end. If the ends are close to each other, a batch has the
/// entries of several ends and those in between; if they are far apart, a batch stops at the end of an end's entries,
/// so that nothing is read in vain. This is decided by the used fraction of the last batch. Consecutive entries that
/// are removed, without a kept entry in between, are removed by one range delete.
struct EdgeSweep {
  private let part: Part
  private let bySource: Bool
  /// The ends in order.
  private let ends: PackedKeys
  /// The index of the current end.
  private var index = 0
  /// The upper bound of the entries of all ends.
  private let upper: [UInt8]?
  /// The entries of the batch, of which those before `position` were returned.
  private var keys = PackedKeys()
  private var values = PackedKeys()
  private var position = 0
  /// Whether a batch was read.
  private var hasRead = false
  /// Whether the batch reached its limit, so that its range may have more entries.
  private var isFull = false
  /// The number of entries of the batch that belonged to the ends.
  private var usedCount = 0
  /// Whether the batch stops at the end of the current end's entries.
  private var isSparse = false
  /// The number of ends for which batches still stop at the end of the end's entries.
  private var sparseCount: Int
  private var batch = Self.batchMinimum
  private var run: EntryRun

  /// The key of the current entry, its layout, and its value.
  private(set) var key: [UInt8] = []
  private(set) var layout = EdgeLayout.none
  private(set) var value: [UInt8] = []

  private static let batchMinimum = 16
  private static let batchMaximum = 512
  /// The number of ends that are assumed to be far apart before it is checked again.
  private static let sparseMaximum = 64

  /// A closure that is called for each entry that is read.
  private let noteEntry: (() -> Void)?

  init(_ part: Part, bySource: Bool, ends: PackedKeys, noteEntry: (() -> Void)? = nil) {
    self.part = part
    self.noteEntry = noteEntry
    self.bySource = bySource
    self.ends = ends
    run = EntryRun(part)
    sparseCount = ends.count < 8 ? .max : 0
    upper = StorageRange(prefix: EdgeFormat.prefix(ends[ends.count - 1], nil)).upper
  }

  /// Moves to the next entry of the ends, and returns false if there is none.
  mutating func next() throws -> Bool {
    while index < ends.count {
      if position == keys.count { try read() }
      if position == keys.count { continue }
      let order = keys.compare(position, asEntryOf: ends, index)
      if order == 0 { return try give() }
      if order > 0 {
        index += 1
      } else {
        // The entry belongs to another end, which is not removed.
        try run.end()
        position += 1
      }
    }
    return false
  }

  private mutating func give() throws -> Bool {
    keys.copy(position, into: &key)
    values.copy(position, into: &value)
    position += 1
    layout = try EdgeLayout(key, bySource: bySource)
    return true
  }

  /// Reads the next batch, or moves to the next end if the current one has no more entries.
  private mutating func read() throws {
    if hasRead, !isFull {
      // The whole range of the batch was read.
      hasRead = false
      index = isSparse ? index + 1 : ends.count
      return try run.end()
    }
    let prefix = EdgeFormat.prefix(ends[index], nil)
    var lower = prefix
    if hasRead, keys.compare(keys.count - 1, asEntryOf: ends, index) == 0 {
      // The batch ended within the entries of this end.
      keys.copy(keys.count - 1, into: &lower)
      lower.append(0)
      batch = min(batch * 4, Self.batchMaximum)
    } else {
      try begin()
    }
    usedCount = 0
    let end = isSparse ? StorageRange(prefix: prefix).upper : upper
    var (keys, values) = (self.keys, self.values)
    (self.keys, self.values) = (PackedKeys(), PackedKeys())
    keys.removeAll()
    values.removeAll()
    let limit = batch
    var isFull = false
    try part.forEach(in: StorageRange(lower: lower, upper: end)) { key, value in
      noteEntry?()
      keys.append(key)
      values.append(value)
      isFull = keys.count == limit
      return !isFull
    }
    (self.keys, self.values, self.isFull) = (keys, values, isFull)
    (position, hasRead) = (0, true)
  }

  /// Begins a batch at an end instead of after the last batch, and determines its range.
  private mutating func begin() throws {
    try run.end()
    if sparseCount > 0 {
      if sparseCount != .max { sparseCount -= 1 }
    } else if hasRead {
      if usedCount * 4 < keys.count {
        sparseCount = Self.sparseMaximum
      } else {
        batch = min(batch * 2, Self.batchMaximum)
      }
    }
    isSparse = sparseCount > 0
    if isSparse { batch = Self.batchMinimum }
  }

  /// Removes the current entry.
  mutating func remove() throws {
    usedCount += 1
    try run.add(key)
  }

  /// Keeps the current entry.
  mutating func keep() throws {
    usedCount += 1
    try run.end()
  }

  /// Completes the removals. Must be called at the end.
  mutating func finish() throws { try run.end() }
}

/// Consecutive entries of a family that are removed, without a kept entry in between.
struct EntryRun {
  private let part: Part
  /// The first entries, as long as they may be too few for a range delete.
  private var keys = PackedKeys()
  private var count = 0
  private var last: [UInt8] = []

  /// The number of entries from which on a range delete is cheaper.
  private static let rangeMinimum = 32

  init(_ part: Part) { self.part = part }

  mutating func add(_ key: borrowing [UInt8]) throws {
    count += 1
    if count <= Self.rangeMinimum { return keys.append(key, 0..<key.count) }
    last.replace(with: unsafe key.span.bytes)
  }

  mutating func end() throws {
    if count == 0 { return }
    if count <= Self.rangeMinimum {
      for index in 0..<keys.count { try part.delete(Array(keys.appended(index))) }
    } else {
      // The range ends before the last entry, because a bound after it may be too long for a key.
      try part.deleteRange(StorageRange(lower: Array(keys.appended(0)), upper: last))
      try part.delete(last)
    }
    count = 0
    keys.removeAll()
  }
}

extension PackedKeys {
  /// Compares a key with the entries of an end: zero if it is one of them, negative if it is before them, and positive
  /// if it is after them.
  func compare(_ index: Int, asEntryOf ends: PackedKeys, _ end: Int) -> Int {
    let size = ends.size(end)
    let own = self.size(index)
    let order = compare(index, 0..<min(size, own), with: ends, end)
    if order != 0 { return order }
    // The common beginning is the end, which the mark follows.
    return own > size ? Int(self[index, size]) - Int(EdgeFormat.endMark) : -1
  }
}

extension EdgeLayout {
  /// The layout of no entry.
  static let none = EdgeLayout(first: 0..<0, name: 0..<0, order: 0, second: 0..<0)

  private init(first: Range<Int>, name: Range<Int>, order: Int64, second: Range<Int>) {
    self.first = first
    self.name = name
    self.order = order
    self.second = second
  }
}

extension [UInt8] {
  /// Replaces the content by the bytes of a span, and keeps the memory.
  @inline(__always)
  mutating func replace(with bytes: RawSpan) {
    removeAll(keepingCapacity: true)
    // Safety: the bytes are copied within the call.
    unsafe bytes.withUnsafeBytes { unsafe append(contentsOf: $0) }
  }
}

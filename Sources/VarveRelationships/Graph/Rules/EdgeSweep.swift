internal import Varve

/// Scans the entries of many ends in one family, forward, and removes some of them.
///
/// Entries are read in batches from where the next end begins. Where the ends lie close to each other a batch has those of
/// several, and what stands between; where they lie far from each other it stops where the end does, and nothing is read in
/// vain. Which of both it is shows by what was of use of the last batch. Entries that are removed one after the other, with none
/// between that stays, go by one range.
struct EdgeSweep {
  private let part: Part
  private let bySource: Bool
  /// In their order.
  private let ends: PackedKeys
  /// Which of them is scanned.
  private var index = 0
  /// The end of the range of all of them.
  private let upper: [UInt8]?
  /// What was read, and how much of it was given.
  private var keys = PackedKeys()
  private var values = PackedKeys()
  private var position = 0
  /// Whether there is a batch.
  private var hasRead = false
  /// Whether the last batch may end before its range does.
  private var isFull = false
  /// Of how many entries a batch was of the ends.
  private var usedCount = 0
  /// Whether the batch stops where the end does.
  private var isSparse = false
  /// For how many ends to come a batch stops where the end does.
  private var sparseCount: Int
  private var batch = Self.batchMinimum
  private var run: EntryRun

  /// The entry that was found: its key, where its pieces are, and its value.
  private(set) var key: [UInt8] = []
  private(set) var layout = EdgeLayout.none
  private(set) var value: [UInt8] = []

  private static let batchMinimum = 16
  private static let batchMaximum = 512
  /// So many ends lie far from each other before it is looked at again whether they do.
  private static let sparseMaximum = 64

  /// Called for each entry that is read.
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

  /// Goes to the next entry of the ends. False: there is none.
  mutating func next() throws -> Bool {
    while index < ends.count {
      if position == keys.count { try read() }
      if position == keys.count { continue }
      let order = keys.compare(position, asEntryOf: ends, index)
      if order == 0 { return try give() }
      if order > 0 {
        index += 1
      } else {
        // It is one of another end, which stays.
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

  /// Reads the next batch, or goes to the next end where this one has no more entries.
  private mutating func read() throws {
    if hasRead, !isFull {
      // All of its range was read.
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

  /// A batch begins at an end, and not on from the last one: chooses how far it reads.
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

  /// Removes the entry that was found.
  mutating func remove() throws {
    usedCount += 1
    try run.add(key)
  }

  /// The entry that was found stays.
  mutating func keep() throws {
    usedCount += 1
    try run.end()
  }

  /// To be called at the end.
  mutating func finish() throws { try run.end() }
}

/// Entries of a family that are removed one after the other, with none between that stays.
struct EntryRun {
  private let part: Part
  /// The first of them, as long as they may be too few for a range.
  private var keys = PackedKeys()
  private var count = 0
  private var last: [UInt8] = []

  /// From so many on a range costs less.
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
      // The range ends before the last, because one after it may be too long for a key.
      try part.deleteRange(StorageRange(lower: Array(keys.appended(0)), upper: last))
      try part.delete(last)
    }
    count = 0
    keys.removeAll()
  }
}

extension PackedKeys {
  /// Zero where a key is an entry of an end, below where it comes before those, above where it comes after.
  func compare(_ index: Int, asEntryOf ends: PackedKeys, _ end: Int) -> Int {
    let size = ends.size(end)
    let own = self.size(index)
    let order = compare(index, 0..<min(size, own), with: ends, end)
    if order != 0 { return order }
    // What comes first is the end and the mark.
    return own > size ? Int(self[index, size]) - Int(EdgeFormat.endMark) : -1
  }
}

extension EdgeLayout {
  /// Of no entry.
  static let none = EdgeLayout(first: 0..<0, name: 0..<0, order: 0, second: 0..<0)

  private init(first: Range<Int>, name: Range<Int>, order: Int64, second: Range<Int>) {
    self.first = first
    self.name = name
    self.order = order
    self.second = second
  }
}

extension [UInt8] {
  /// Takes the bytes of a span, in the memory that is there.
  @inline(__always)
  mutating func replace(with bytes: RawSpan) {
    removeAll(keepingCapacity: true)
    // Safety: the bytes are copied while they are lent.
    unsafe bytes.withUnsafeBytes { unsafe append(contentsOf: $0) }
  }
}

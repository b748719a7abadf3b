internal import Varve

/// Walks the entries of many ends in one family, forward, and removes some of them.
///
/// Where the ends lie close to each other the cursor steps from one to the next, and where they don't it seeks. Entries that
/// are removed one after the other, with none between that stays, go by one range.
struct EdgeSweep {
  private let part: Part
  private let bySource: Bool
  /// In their order.
  private let ends: PackedKeys
  /// Which of them is walked.
  private var index = 0
  private var cursor: PartCursor?
  /// Whether `key` is the next entry, and not one that was given.
  private var isAhead = false
  private var run: EntryRun

  /// The entry that was found: its key, where its pieces are, and its value.
  private(set) var key: [UInt8] = []
  private(set) var layout: EdgeLayout
  private(set) var value: [UInt8] = []

  /// From so many ends on one cursor walks them all.
  private static let sharedMinimum = 4
  /// After so many steps past entries of others the cursor seeks.
  private static let stepsMaximum = 8

  init(_ part: Part, bySource: Bool, ends: PackedKeys) throws {
    self.part = part
    self.bySource = bySource
    self.ends = ends
    run = EntryRun(part)
    layout = EdgeLayout.none
    guard ends.count >= Self.sharedMinimum else { return }
    let last = StorageRange(prefix: EdgeFormat.prefix(ends[ends.count - 1], nil))
    cursor = try part.cursor(StorageRange(lower: EdgeFormat.prefix(ends[0], nil), upper: last.upper))
  }

  private var isShared: Bool { ends.count >= Self.sharedMinimum }

  /// Goes to the next entry of the ends. False: there is none.
  mutating func next() throws -> Bool {
    if !isShared { return try nextOfFew() }
    if !isAhead { isAhead = try advance() }
    var steps = 0
    while isAhead, index < ends.count {
      let order = order(of: key)
      if order == 0 {
        layout = try EdgeLayout(key, bySource: bySource)
        isAhead = false
        return true
      }
      if order > 0 {
        index += 1
        steps = 0
        continue
      }
      // It is one of another end, which stays.
      try run.end()
      steps += 1
      if steps > Self.stepsMaximum {
        try cursor?.seek(to: EdgeFormat.prefix(ends[index], nil))
        steps = 0
      }
      isAhead = try advance()
    }
    return false
  }

  private mutating func nextOfFew() throws -> Bool {
    while index < ends.count {
      if cursor == nil { cursor = try part.cursor(StorageRange(prefix: EdgeFormat.prefix(ends[index], nil))) }
      if try advance() {
        layout = try EdgeLayout(key, bySource: bySource)
        return true
      }
      cursor = nil
      index += 1
      try run.end()
    }
    return false
  }

  /// Zero where a key is an entry of the end that is walked, below where it comes before, above where it comes after.
  private func order(of key: borrowing [UInt8]) -> Int {
    let size = ends.size(index)
    let order = -ends.compare(index, with: key, 0..<min(size, key.count))
    if order != 0 { return order }
    // What comes first is the end and the mark.
    return key.count > size ? Int(key[size]) - Int(EdgeFormat.endMark) : -1
  }

  private mutating func advance() throws -> Bool {
    var (key, value) = (self.key, self.value)
    (self.key, self.value) = ([], [])
    let isFound = try cursor?.withNext { keyBytes, valueBytes in
      key.replace(with: keyBytes)
      value.replace(with: valueBytes)
      return true
    }
    (self.key, self.value) = (key, value)
    return isFound ?? false
  }

  /// Removes the entry that was found.
  mutating func remove() throws { try run.add(key) }

  /// The entry that was found stays.
  mutating func keep() throws { try run.end() }

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

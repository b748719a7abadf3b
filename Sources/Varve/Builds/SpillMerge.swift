/// Merges what a build has collected for one part, the runs in families and the one in memory, in the order of the
/// keys. If several runs have a key, the latest entry counts; counters are combined by their rule.
///
/// ```
///  run 0 ─┐
///  run 1 ─┼─▶ heap: the least key first, of equal ones the latest run ─▶ table
///  memory ┘
/// ```
/// Complexity: O(n log r) for n entries in r runs. An entry of a run in a family is copied once; if there is only the
/// run in memory, no entry is copied.
struct SpillMerge {
  private let rule: CounterRule?
  /// The sources as a binary heap, by `SpillSource.precedes`.
  private var sources: [SpillSource] = []
  private let memory: SpillRun
  private let cursors: [FamilyCursor]

  /// Creates a merge of the families of the runs, the earliest first, and the sorted run in memory.
  init(_ families: [StorageFamily], of snapshot: any StorageSnapshot, _ memory: SpillRun) {
    rule = memory.rule
    self.memory = memory
    cursors = families.map { FamilyCursor(StorageRange(), in: $0, of: snapshot, isReverse: false) }
  }

  /// Calls `body` with every key, in order, and `pause` about every 4,096 entries.
  mutating func forEach(
    pause: () throws -> Void, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Void
  ) throws {
    if cursors.isEmpty {
      var index = 0
      while let next = try memory.withEntry(at: index, body) {
        if index >> 12 != next >> 12 { try pause() }
        index = next
      }
      return
    }
    for (order, cursor) in cursors.enumerated() { try add(SpillSource(order, cursor, memory)) }
    try add(SpillSource(cursors.count, nil, memory))
    var count = 0
    guard var next = takeFirst() else { return }
    while true {
      let source = next
      try takeOthers(into: source)
      unsafe try body(source.key.span.bytes, source.value.span.bytes)
      count += 1
      if count % 4_096 == 0 { try pause() }
      // The next entry is often of the same source; the heap then stays as it is.
      let hasMore = try source.advance()
      if hasMore, sources.first.map(source.precedes) ?? true { continue }
      if hasMore { insert(source) }
      guard let first = takeFirst() else { return }
      next = first
    }
  }

  /// Consumes the entries of earlier runs that have the same key.
  private mutating func takeOthers(into first: SpillSource) throws {
    while let other = sources.first, ByteOrder.areEqual(other.key, first.key) {
      if let rule {
        let (early, late) = (rule.number(other.value), rule.number(first.value))
        guard let early, let late else {
          throw DatabaseError(.corruption, "a run of a build has a counter that has not eight bytes")
        }
        first.value = rule.bytes(rule.taking(late, into: early))
      }
      _ = takeFirst()
      try add(other)
    }
  }

  // MARK: - The heap

  /// Moves a source to its next entry, and inserts it into the heap if it has one.
  private mutating func add(_ source: SpillSource) throws {
    if try source.advance() { insert(source) }
  }

  private mutating func insert(_ source: SpillSource) {
    sources.append(source)
    var index = sources.count - 1
    while index > 0, sources[index].precedes(sources[(index - 1) / 2]) {
      sources.swapAt(index, (index - 1) / 2)
      index = (index - 1) / 2
    }
  }

  private mutating func takeFirst() -> SpillSource? {
    guard let first = sources.first, let last = sources.popLast() else { return nil }
    if sources.isEmpty { return first }
    sources[0] = last
    var index = 0
    while true {
      var least = index
      for child in [2 * index + 1, 2 * index + 2] where child < sources.count {
        if sources[child].precedes(sources[least]) { least = child }
      }
      if least == index { return first }
      sources.swapAt(index, least)
      index = least
    }
  }
}

/// A run, positioned at one of its entries.
private final class SpillSource {
  /// The order of the run: later runs have greater values.
  private let order: Int
  /// The cursor of a run in a family, or `nil` for the run in memory.
  private var cursor: FamilyCursor?
  private let memory: SpillRun
  /// The index of the next entry of the run in memory.
  private var index = 0
  private(set) var key: [UInt8] = []
  var value: [UInt8] = []

  init(_ order: Int, _ cursor: FamilyCursor?, _ memory: SpillRun) {
    self.order = order
    self.cursor = cursor
    self.memory = memory
  }

  /// Moves to the next entry. Returns false after the last.
  func advance() throws -> Bool {
    if cursor != nil { return try cursor?.withNext { [self] in set($0, $1) } != nil }
    guard let next = memory.withEntry(at: index, { set($0, $1) }) else { return false }
    index = next
    return true
  }

  private func set(_ key: RawSpan, _ value: RawSpan) {
    self.key.removeAll(keepingCapacity: true)
    self.key.append(key)
    self.value.removeAll(keepingCapacity: true)
    self.value.append(value)
  }

  func precedes(_ other: SpillSource) -> Bool {
    let order = ByteOrder.compare(key, other.key)
    return order != 0 ? order < 0 : self.order > other.order
  }
}

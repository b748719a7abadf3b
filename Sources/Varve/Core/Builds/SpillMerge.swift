/// Merges what a build has collected of one part: the runs that families have, and the one in memory, in the order of
/// their keys. Of a key that several have the latest counts; counters are taken together by their rule.
///
/// ```
///  run 0 ─┐
///  run 1 ─┼─▶ heap: the least key first, of equal ones the latest run ─▶ table
///  memory ┘
/// ```
/// Complexity: O(n log r) for n entries in r runs. An entry of a run is copied once; with nothing but memory none is.
struct SpillMerge {
  private let rule: CounterRule?
  /// A heap.
  private var sources: [SpillSource] = []
  private let memory: SpillRun
  private let cursors: [FamilyCursor]

  /// The families of the runs, the earliest first, and what is in memory, sorted.
  init(_ families: [StorageFamily], of snapshot: any StorageSnapshot, _ memory: SpillRun) {
    rule = memory.rule
    self.memory = memory
    cursors = families.map { FamilyCursor(StorageRange(), in: $0, of: snapshot, isReverse: false) }
  }

  /// Calls `body` with every key, in order, and `pause` now and then.
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
      // Often the next entry is of the same source: then the heap stays as it is.
      let hasMore = try source.advance()
      if hasMore, sources.first.map(source.precedes) ?? true { continue }
      if hasMore { insert(source) }
      guard let first = takeFirst() else { return }
      next = first
    }
  }

  /// Takes the entries of earlier runs that have the same key.
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

  /// Moves a source to its next entry, and puts it into the heap if it has one.
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

/// A run, at one of its entries.
private final class SpillSource {
  /// Later runs have greater ones.
  private let order: Int
  /// Nil: it is the one in memory.
  private var cursor: FamilyCursor?
  private let memory: SpillRun
  /// In memory: where it continues.
  private var index = 0
  private(set) var key: [UInt8] = []
  var value: [UInt8] = []

  init(_ order: Int, _ cursor: FamilyCursor?, _ memory: SpillRun) {
    self.order = order
    self.cursor = cursor
    self.memory = memory
  }

  /// False after the last entry.
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

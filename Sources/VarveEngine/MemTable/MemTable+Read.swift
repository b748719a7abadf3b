/// An entry that a lookup found. Valid while the memtable lives.
struct MemTableHit {
  let trailer: Trailer
  let value: ByteView
}

/// Where an entry stands: enough to step from it as long as its leaf does not change.
struct MemTablePosition {
  /// 0: nowhere.
  var record: UInt32 = 0
  var leaf: UInt32 = 0
  var index = 0
  var version: UInt64 = 0
}

extension MemTable {
  /// The newest entry of a key at or below `sequence`, of any kind.
  ///
  /// Complexity: one node a level, a few levels. Takes no lock and allocates nothing.
  @inline(__always)
  func get(_ userKey: ByteView, at sequence: SequenceNumber) -> MemTableHit? {
    let position = find(InternalKey(userKey, Trailer(seek: sequence)))
    guard position.record != 0 else { return nil }
    let record = unsafe MemTableRecord(base: arena.base, position.record)
    guard record.userKey == userKey else { return nil }
    return MemTableHit(trailer: record.trailer, value: record.value)
  }

  func makeIterator() -> MemTableIterator { MemTableIterator(self) }

  /// The first entry at or above `key`.
  @inline(__always)
  func find(_ key: InternalKey) -> MemTablePosition {
    let base = unsafe arena.base
    var offset = root
    while offset != 0 {
      let node = unsafe MemTableNode(base: base, offset)
      let version = node.stableVersion()
      guard let position = unsafe Self.search(node, version, key, base: base) else { continue }
      if node.level > 0 {
        let child = node.child(position > 0 ? position &- 1 : 0)
        if node.isUnchanged(version) { offset = child }
        continue
      }
      let isBehind = position == node.count
      let next = isBehind ? node.next : node.record(position)
      guard node.isUnchanged(version) else { continue }
      if !isBehind { return MemTablePosition(record: next, leaf: offset, index: position, version: version) }
      offset = next
    }
    return MemTablePosition()
  }

  /// The last entry below `key`.
  func findBefore(_ key: InternalKey) -> MemTablePosition {
    let base = unsafe arena.base
    var offset = root
    while offset != 0 {
      let node = unsafe MemTableNode(base: base, offset)
      let version = node.stableVersion()
      guard let position = unsafe Self.search(node, version, key, base: base) else { continue }
      if node.level > 0 {
        let child = node.child(position > 0 ? position &- 1 : 0)
        if node.isUnchanged(version) { offset = child }
        continue
      }
      let record = position > 0 ? node.record(position &- 1) : 0
      let next = position == node.count ? node.next : 0
      guard node.isUnchanged(version) else { continue }
      // A split may have moved what is below the key to the right since the level above was read.
      if next != 0, begins(next, before: key) {
        offset = next
        continue
      }
      // The first entry of every leaf but the leftmost is its separator, which was below the key.
      return MemTablePosition(record: record, leaf: offset, index: position &- 1, version: version)
    }
    return MemTablePosition()
  }

  private func begins(_ leaf: UInt32, before key: InternalKey) -> Bool {
    let node = unsafe MemTableNode(base: arena.base, leaf)
    while true {
      let version = node.stableVersion()
      let first = node.record(0)
      guard node.isUnchanged(version) else { continue }
      return unsafe MemTableRecord(base: arena.base, first).internalKey.compare(key) < 0
    }
  }

  /// The last entry of all.
  func findLast() -> MemTablePosition {
    let base = unsafe arena.base
    var offset = root
    while offset != 0 {
      let node = unsafe MemTableNode(base: base, offset)
      let version = node.stableVersion()
      let count = node.count
      let next = node.next
      let below = node.level > 0 && count > 0 ? node.child(count &- 1) : 0
      let record = node.level == 0 && count > 0 ? node.record(count &- 1) : 0
      guard node.isUnchanged(version) else { continue }
      if next != 0 {
        offset = next
      } else if below != 0 {
        offset = below
      } else {
        return MemTablePosition(record: record, leaf: offset, index: count &- 1, version: version)
      }
    }
    return MemTablePosition()
  }

  /// The index of the first entry of a node at or above `key`, or nil where the node changed meanwhile.
  @inline(__always)
  @unsafe
  private static func search(
    _ node: MemTableNode, _ version: UInt64, _ key: InternalKey, base: UnsafeMutableRawPointer
  ) -> Int? {
    let count = node.count
    let prefixSize = node.prefixSize
    if prefixSize > 0 {
      let order = node.comparePrefix(key.userKey, size: prefixSize)
      if order != 0 { return order < 0 ? 0 : count }
    }
    let head = key.userKey.head(from: prefixSize)
    var low = lowerBound(node, head, count: count)
    if low == count || node.head(low) != head { return low }
    var high = low &+ 1
    while high < count, node.head(high) == head { high &+= 1 }
    while low < high {
      let middle = (low &+ high) / 2
      let record = node.record(middle)
      guard node.isUnchanged(version) else { return nil }
      if unsafe MemTableRecord(base: base, record).internalKey.compare(key) < 0 {
        low = middle &+ 1
      } else {
        high = middle
      }
    }
    return low
  }
}

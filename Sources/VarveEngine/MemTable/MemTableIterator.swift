/// Walks the entries of a memtable in order, both ways, while the writer may go on inserting.
///
/// It stands on a record, which never moves; leaf, index and version are only a shortcut for the next
/// step. Where the leaf changed meanwhile, a step searches from the root.
///
/// Belongs to one thread. Counts one reference to the memtable for its life, none a step.
struct MemTableIterator: InternalIterator {
  private let table: MemTable
  private var position = MemTablePosition()

  init(_ table: MemTable) { self.table = table }

  @inline(__always)
  private var record: MemTableRecord {
    assert(position.record != 0, "the iterator is not valid")
    return unsafe MemTableRecord(base: table.arena.base, position.record)
  }

  @inline(__always)
  var isValid: Bool { position.record != 0 }
  @inline(__always)
  var userKey: ByteView { record.userKey }
  @inline(__always)
  var trailer: Trailer { record.trailer }
  @inline(__always)
  var value: ByteView { record.value }

  mutating func seekToFirst() { position = table.find(InternalKey(ByteView(), Trailer(word: .max))) }
  mutating func seekToLast() { position = table.findLast() }
  mutating func seek(_ target: InternalKey) { position = table.find(target) }
  mutating func seekBefore(_ target: InternalKey) { position = table.findBefore(target) }

  @inline(__always)
  mutating func next() {
    let node = unsafe MemTableNode(base: table.arena.base, position.leaf)
    let index = position.index &+ 1
    if node.stableVersion() == position.version, index < node.count {
      let record = node.record(index)
      if node.isUnchanged(position.version) {
        position.record = record
        position.index = index
        return
      }
    }
    stepOver()
  }

  /// A step that leaves the leaf, or meets a change.
  @inline(never)
  private mutating func stepOver() {
    let current = record
    let node = unsafe MemTableNode(base: table.arena.base, position.leaf)
    let version = node.stableVersion()
    if version == position.version {
      let next = node.next
      if node.isUnchanged(version) {
        position = next == 0 ? MemTablePosition() : first(of: next)
        return
      }
    }
    // The place right behind the current entry: trailers descend.
    position = table.find(InternalKey(current.userKey, Trailer(word: current.trailer.word &- 1)))
  }

  /// The first entry of a leaf, which has one. Nothing is ever put before it but in the leftmost leaf.
  private func first(of leaf: UInt32) -> MemTablePosition {
    let node = unsafe MemTableNode(base: table.arena.base, leaf)
    while true {
      let version = node.stableVersion()
      let record = node.record(0)
      if node.isUnchanged(version) { return MemTablePosition(record: record, leaf: leaf, index: 0, version: version) }
    }
  }

  mutating func previous() {
    let node = unsafe MemTableNode(base: table.arena.base, position.leaf)
    let index = position.index &- 1
    if index >= 0, node.stableVersion() == position.version {
      let record = node.record(index)
      if node.isUnchanged(position.version) {
        position.record = record
        position.index = index
        return
      }
    }
    position = table.findBefore(record.internalKey)
  }
}

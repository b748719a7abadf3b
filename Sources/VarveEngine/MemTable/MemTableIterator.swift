/// Iterates over a memtable in internal-key order, while the writer continues.
///
/// The iterator is positioned on a record, which never moves, and remembers where it found the record: leaf, index
/// and the leaf's version. A step within an unchanged leaf is two loads and a check. A step from a changed leaf finds
/// the record again, in that leaf or to its right. A backward step, for which leaves have no links, searches from the
/// root.
///
/// # Invariants
/// 1. Entries that existed when the iterator was created are returned exactly once by a scan in one direction.
///    Entries inserted later may be returned or not, at most once.
///
/// # Safety
/// `memTable` keeps the bytes alive. The steps use only `tree`, so that they count no reference. Views are valid as
/// long as the memtable, which is longer than the protocol requires.
struct MemTableIterator: InternalIterator {
  private let memTable: MemTable
  private let tree: MemTableTree
  private var position = MemTableTree.Position.none

  /// The number of entries that records are prefetched ahead: a scan reads records in key order, which is not their
  /// order in memory.
  private static let prefetchDistance = 8

  init(_ memTable: MemTable) {
    self.memTable = memTable
    tree = memTable.tree
  }

  /// The object that keeps the bytes of the entries.
  var owner: MemTable { memTable }

  @inline(__always)
  var isValid: Bool { !position.isNone }

  @inline(__always)
  private var record: MemTableRecord {
    assert(isValid, "an iterator that stands on no entry was read")
    return tree.record(position.record)
  }

  @inline(__always)
  var userKey: ByteView { record.userKey }
  @inline(__always)
  var trailer: Trailer { record.trailer }
  @inline(__always)
  var value: ByteView { record.value }

  mutating func seekToFirst() { position = tree.root == 0 ? .none : tree.firstEntry(of: Arena.firstLeafOffset) }

  mutating func seekToLast() { position = tree.lastEntry() }

  mutating func seek(_ target: InternalKey) { position = tree.firstEntry(atOrAfter: SearchKey(target)) }

  mutating func seekBefore(_ target: InternalKey) { position = tree.lastEntry(before: SearchKey(target)) }

  @inline(__always)
  mutating func next() {
    assert(isValid, "next on an iterator that stands on no entry")
    let leaf = tree.node(position.leaf)
    let index = position.index &+ 1
    let count = leaf.count
    if index < count {
      let record = leaf.record(index)
      let ahead = index &+ MemTableIterator.prefetchDistance
      if ahead < count { tree.record(leaf.record(ahead)).prefetch() }
      if leaf.isUnchanged(since: position.version) {
        position.index = index
        position.record = record
        return
      }
    }
    leaveLeaf(leaf)
  }

  /// Steps to the next leaf, or within a leaf that changed.
  @inline(never)
  private mutating func leaveLeaf(_ leaf: TreeNode) {
    let right = leaf.links.right
    guard leaf.isUnchanged(since: position.version) else {
      position = tree.firstEntry(from: position.leaf, SearchKey(record.internalKey), orEqual: true)
      return
    }
    if right == 0 {
      position = .none
      return
    }
    let next = tree.node(right)
    for index in 1...MemTableIterator.prefetchDistance { tree.record(next.record(index)).prefetch() }
    position = tree.firstEntry(of: right)
  }

  mutating func previous() {
    assert(isValid, "previous on an iterator that stands on no entry")
    let leaf = tree.node(position.leaf)
    if position.index > 0 {
      let record = leaf.record(position.index &- 1)
      if leaf.isUnchanged(since: position.version) {
        position.index &-= 1
        position.record = record
        return
      }
    }
    position = tree.lastEntry(before: SearchKey(record.internalKey))
  }
}

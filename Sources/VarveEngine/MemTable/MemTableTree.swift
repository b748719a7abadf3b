internal import Synchronization

/// The readers' part of the memtable's B+tree: searches that take no lock and count no reference.
///
/// The value is one pointer to the arena, whose word 0 holds the offset of the root (0 for an empty tree).
///
/// # Algorithm
/// 1. Beginning at the root, descend to the child after the separators that are at or before the target.
/// 2. An inner node whose separators are all before the target may have been split concurrently: if the target is at
///    or after its high key, go right instead of down (B-link tree).
/// 3. In a leaf whose entries are all before the target, go right. Either the leaf was split, or the result is the
///    first entry of the next leaf anyway, so leaves compare no high key here.
/// 4. A node that changed while it was read is read again. Entries only ever move right, so neither the parent nor
///    the root need be visited again.
///
/// # Safety
/// This is a view: the owner of a `MemTableTree` keeps the memtable alive. Offsets come from nodes whose version was
/// checked after they were loaded, so they refer to records and nodes that were published completely.
@safe
struct MemTableTree {
  let arena: UnsafeMutableRawPointer

  /// The location of an entry.
  struct Position {
    /// The word offset of the leaf, or 0 if there is no entry.
    var leaf: UInt32
    /// The leaf's version when the entry was at `index`.
    var version: UInt64
    var index: Int
    /// The word offset of the record.
    var record: UInt32

    static let none = Position(leaf: 0, version: 0, index: 0, record: 0)
    @inline(__always)
    var isNone: Bool { leaf == 0 }
  }

  /// The number of entries of a node that are before a target.
  struct Rank {
    /// The number of entries, or -1 if the node changed while it was read.
    let count: Int
    /// Whether entry `count` begins with the same prefix and head as the target.
    let sharesHead: Bool
    /// Whether entry `count` is the target.
    let isExact: Bool

    @inline(__always)
    init(_ count: Int, sharesHead: Bool = false, isExact: Bool = false) {
      self.count = count
      self.sharesHead = sharesHead
      self.isExact = isExact
    }
    static let changed = Rank(-1)
  }

  @inline(__always)
  init(arena: UnsafeMutableRawPointer) { unsafe self.arena = arena }

  @inline(__always)
  func node(_ offset: UInt32) -> TreeNode { unsafe TreeNode(arena + Int(offset) &* 8) }

  @inline(__always)
  func record(_ offset: UInt32) -> MemTableRecord { unsafe MemTableRecord(arena + Int(offset) &* 8) }

  /// The word offset of the root, or 0 if the tree is empty. The load pairs with the release in `setRoot`.
  @inline(__always)
  var root: UInt32 {
    let word = unsafe arena.assumingMemoryBound(to: Atomic<UInt64>.self).pointee.load(ordering: .acquiring)
    return UInt32(truncatingIfNeeded: word)
  }

  func setRoot(_ root: UInt32) {
    unsafe arena.assumingMemoryBound(to: Atomic<UInt64>.self).pointee.store(UInt64(root), ordering: .releasing)
  }

  // MARK: In one node

  /// Returns the number of entries of `node` that are before `target`, or at it if `orEqual` is true.
  @inline(__always)
  func rank(_ node: TreeNode, _ target: SearchKey, orEqual: Bool, version: UInt64) -> Rank {
    let shape = node.shape
    let prefixSize = shape.prefixSize
    guard prefixSize <= TreeNode.inlinePrefixSizeMaximum, node.inlinePrefixMatches(target, size: prefixSize) else {
      return rankByPrefix(node, target, shape, orEqual: orEqual, version: version)
    }
    return rankByHead(node, target, shape, orEqual: orEqual, version: version)
  }

  @inline(__always)
  private func rankByHead(
    _ node: TreeNode, _ target: SearchKey, _ shape: TreeNode.Shape, orEqual: Bool, version: UInt64
  ) -> Rank {
    let head = target.head(after: shape.prefixSize)
    let position = node.countHeads(below: head)
    guard position < shape.count, node.head(position) == head else { return Rank(position) }
    return rankAmongTies(node, target, shape, from: position, orEqual: orEqual, version: version)
  }

  /// Returns the rank of a target that doesn't begin with the node's prefix (it is then before or after all entries),
  /// or whose prefix is too long to be stored in the node.
  @inline(never)
  private func rankByPrefix(
    _ node: TreeNode, _ target: SearchKey, _ shape: TreeNode.Shape, orEqual: Bool, version: UInt64
  ) -> Rank {
    // An inner node has no separators only while it is being built, so the count is above zero.
    let any = node.record(0)
    guard node.isUnchanged(since: version) else { return .changed }
    let prefix = record(any).userKey.slice(0, shape.prefixSize)
    let shared = prefix.sharedPrefixCount(target.key)
    if shared == shape.prefixSize {
      return rankByHead(node, target, shape, orEqual: orEqual, version: version)
    }
    let isBefore = shared == target.key.count || target.key[shared] < prefix[shared]
    return Rank(isBefore ? 0 : shape.count)
  }

  /// Returns the rank of a target whose head equals that of entry `position` and perhaps of more entries after it.
  ///
  /// The first of them is compared first: the newest version of a key, which comes before all others, is searched and
  /// inserted most often.
  @inline(never)
  private func rankAmongTies(
    _ node: TreeNode, _ target: SearchKey, _ shape: TreeNode.Shape, from position: Int, orEqual: Bool,
    version: UInt64
  ) -> Rank {
    let first = node.record(position)
    guard node.isUnchanged(since: version) else { return .changed }
    let order = record(first).compare(target, afterHeadAt: shape.prefixSize)
    if order > 0 || (order == 0 && !orEqual) {
      return Rank(position, sharesHead: true, isExact: order == 0)
    }
    let head = node.head(position)
    var low = position &+ 1
    var end = low
    while end < shape.count && node.head(end) == head { end &+= 1 }
    let ties = end
    while low < end {
      let middle = (low &+ end) >> 1
      let offset = node.record(middle)
      guard node.isUnchanged(since: version) else { return .changed }
      let order = record(offset).compare(target, afterHeadAt: shape.prefixSize)
      if order == 0 && !orEqual { return Rank(middle, sharesHead: true, isExact: true) }
      if order <= 0 { low = middle &+ 1 } else { end = middle }
    }
    return Rank(low, sharesHead: low < ties)
  }

  // MARK: From the root

  /// Returns the leaf in which the entries from `target` on begin, or one to the left of it. If `orEqual` is false, a
  /// target that is itself a separator leads to its left.
  ///
  /// Requires that the tree is not empty.
  @inline(__always)
  func descend(from root: UInt32, _ target: SearchKey, orEqual: Bool, toLevel level: Int = 0) -> UInt32 {
    var offset = root
    while true {
      let node = node(offset)
      if node.level <= level { return offset }
      offset = step(node, offset, target, orEqual: orEqual)
    }
  }

  /// Takes one step down or right. Returns `offset` itself if the node changed.
  @inline(__always)
  private func step(_ node: TreeNode, _ offset: UInt32, _ target: SearchKey, orEqual: Bool) -> UInt32 {
    let version = node.beginRead()
    let rank = rank(node, target, orEqual: orEqual, version: version).count
    if rank < 0 { return offset }
    let child = node.child(rank)
    let shape = node.shape
    if shape.level == 1 { self.node(child).prefetchLeaf() }
    if rank >= shape.count {
      let links = node.links
      guard node.isUnchanged(since: version) else { return offset }
      return isPast(links.highKey, target, orEqual: orEqual) ? links.right : child
    }
    return node.isUnchanged(since: version) ? child : offset
  }

  /// Returns whether `target` belongs to the right of a node with this high key.
  @inline(__always)
  private func isPast(_ highKey: UInt32, _ target: SearchKey, orEqual: Bool) -> Bool {
    if highKey == 0 { return false }
    let order = record(highKey).internalKey.compare(InternalKey(target.key, target.trailer))
    return orEqual ? order <= 0 : order < 0
  }

  /// Returns the first entry at or after `target`.
  @inline(__always)
  func firstEntry(atOrAfter target: SearchKey) -> Position {
    let root = root
    if root == 0 { return .none }
    return firstEntry(from: descend(from: root, target, orEqual: true), target, orEqual: false)
  }

  /// Returns the first entry at or after `target`, or strictly after it if `orEqual` is true, in a leaf or to the
  /// right of it.
  @inline(__always)
  func firstEntry(from leaf: UInt32, _ target: SearchKey, orEqual: Bool) -> Position {
    var offset = leaf
    while true {
      let leaf = node(offset)
      let version = leaf.beginRead()
      let rank = rank(leaf, target, orEqual: orEqual, version: version).count
      if rank < 0 { continue }
      if rank < leaf.count {
        let record = leaf.record(rank)
        guard leaf.isUnchanged(since: version) else { continue }
        return Position(leaf: offset, version: version, index: rank, record: record)
      }
      let right = leaf.links.right
      guard leaf.isUnchanged(since: version) else { continue }
      if right == 0 { return .none }
      offset = right
    }
  }

  /// Returns the last entry before `target`.
  func lastEntry(before target: SearchKey) -> Position {
    let root = root
    if root == 0 { return .none }
    var offset = descend(from: root, target, orEqual: false)
    while true {
      let leaf = node(offset)
      let version = leaf.beginRead()
      let rank = rank(leaf, target, orEqual: false, version: version).count
      if rank < 0 { continue }
      let links = leaf.links
      let isLast = rank >= leaf.count
      let record = rank > 0 ? leaf.record(rank &- 1) : 0
      guard leaf.isUnchanged(since: version) else { continue }
      if isLast && isPast(links.highKey, target, orEqual: false) {
        offset = links.right
        continue
      }
      // By invariant 3 of the nodes, only the first leaf can have no entry before its target.
      return rank > 0 ? Position(leaf: offset, version: version, index: rank &- 1, record: record) : .none
    }
  }

  /// Returns the first entry of the leaf at `offset`, which must not be empty.
  @inline(__always)
  func firstEntry(of offset: UInt32) -> Position {
    let leaf = node(offset)
    while true {
      let version = leaf.beginRead()
      let record = leaf.record(0)
      guard leaf.isUnchanged(since: version) else { continue }
      return Position(leaf: offset, version: version, index: 0, record: record)
    }
  }

  /// Returns the last entry of the tree.
  func lastEntry() -> Position {
    var offset = root
    if offset == 0 { return .none }
    while true {
      let node = node(offset)
      let version = node.beginRead()
      let shape = node.shape
      let right = node.links.right
      let isLeaf = shape.level == 0
      let next = isLeaf ? node.record(max(shape.count, 1) &- 1) : node.child(shape.count)
      guard node.isUnchanged(since: version) else { continue }
      if right != 0 {
        offset = right
      } else if isLeaf {
        return Position(leaf: offset, version: version, index: shape.count &- 1, record: next)
      } else {
        offset = next
      }
    }
  }

  /// Returns the newest entry of the target's key with a sequence number of at most that of its trailer, or 0 if
  /// there is none.
  @inline(__always)
  func newestRecord(_ target: SearchKey) -> UInt32 {
    let root = root
    if root == 0 { return 0 }
    var offset = descend(from: root, target, orEqual: true)
    while true {
      let leaf = node(offset)
      let version = leaf.beginRead()
      let rank = rank(leaf, target, orEqual: false, version: version)
      if rank.count < 0 { continue }
      if rank.count < leaf.count {
        let found = leaf.record(rank.count)
        guard leaf.isUnchanged(since: version) else { continue }
        // An entry with a different head has a different key, so its record need not be fetched.
        return rank.sharesHead && record(found).userKey.equals(target.key) ? found : 0
      }
      let right = leaf.links.right
      guard leaf.isUnchanged(since: version) else { continue }
      if right == 0 { return 0 }
      offset = right
    }
  }
}

internal import CVarve
internal import Synchronization

/// The writer's part of the B+tree. There is one writer; `TreeNode` describes what concurrent readers may see.
///
/// # Order of a split
/// 1. The new right node is filled before any reader can reach it.
/// 2. One change of the left node removes the moved entries, links to the right node and sets the high key. From then
///    on readers find the moved entries by going right.
/// 3. The separator is inserted into the parent, which may split in turn. Then readers find the moved entries
///    directly.
extension MemTable {
  /// Inserts an entry. Returns false and changes nothing if an entry with this key and trailer exists already (a log
  /// may hold an entry twice).
  ///
  /// For a range tombstone, the key is the start of the range and the value is its end.
  ///
  /// Requires `hasRoom`, key and value within `Limits`, and no other writer.
  @discardableResult
  func insert(_ userKey: ByteView, _ trailer: Trailer, _ value: ByteView) -> Bool {
    precondition(userKey.count <= Limits.keySizeMaximum, "a key above the limit: check keys before they are stamped")
    if trailer.rawKind == EntryKind.rangeDelete.rawValue { return insertRangeTombstone(userKey, trailer, value) }
    if hasTombstones { rangeTombstones.noteWrite(userKey) }
    let target = SearchKey(userKey, trailer)
    let root = tree.root
    if root == 0 {
      insertFirst(target, value)
      didInsert(userKey, trailer)
      return true
    }
    var offset = lastLeaf
    var position = positionAfterLast(tree.node(offset), target)
    if position < 0 {
      offset = tree.descend(from: root, target, orEqual: true)
      let leaf = tree.node(offset)
      let rank = tree.rank(leaf, target, orEqual: false, version: leaf.beginRead())
      if rank.isExact { return false }
      position = rank.count
    }
    let record = appendRecord(target, value)
    let leaf = tree.node(offset)
    if leaf.count < TreeNode.capacity {
      change(leaf) { insertEntry(leaf, at: position, target, record) }
    } else {
      splitLeaf(offset, position, target, record)
    }
    count(trailer.sequence.value)
    didInsert(userKey, trailer)
    return true
  }

  /// Notes a delete, or passes a write on to the dead ranges, if there are any: a delete leaves them as they are.
  @inline(__always)
  private func didInsert(_ userKey: ByteView, _ trailer: Trailer) {
    // Pairs with the barrier in `FamilyState.remember`.
    #if os(Linux)
      cvarve_compiler_fence()
    #else
      atomicMemoryFence(ordering: .sequentiallyConsistent)
    #endif
    if trailer.isTombstone {
      noteDelete(trailer.sequence)
    } else if isWatched {
      deadRanges?.noteWrite(userKey)
    }
  }

  @inline(never)
  private func insertRangeTombstone(_ start: ByteView, _ trailer: Trailer, _ end: ByteView) -> Bool {
    guard rangeTombstones.insert(start, end, trailer.sequence, isLate: largestSequence > trailer.sequence) else {
      return false
    }
    hasTombstones = true
    chargeTombstones()
    count(trailer.sequence.value)
    noteDelete(trailer.sequence)
    return true
  }

  /// Takes over the range tombstones of a batch whose first entry has the sequence number `first`, before the batch's
  /// other entries are inserted.
  ///
  /// A point entry of the same batch marks the range that it lies in, whether it comes before the tombstone or after
  /// it: the two are not distinguished. Ranges without a point entry stay unmarked.
  ///
  /// Requires that the memtable has no range tombstones.
  func adopt(_ prepared: PreparedTombstones.Part, first: SequenceNumber) {
    hasTombstones = true
    rangeTombstones.adopt(prepared, first: first)
    chargeTombstones()
    // The leader later meets each of them again as an entry of the batch, which exists already and is then not
    // counted.
    count(prepared, first: first)
    noteDelete(first)
  }

  /// Returns the position after the last entry of `leaf` if `target` belongs there by prefix and head alone,
  /// otherwise -1.
  ///
  /// Ascending keys need no search from the root.
  @inline(__always)
  private func positionAfterLast(_ leaf: TreeNode, _ target: SearchKey) -> Int {
    let shape = leaf.shape
    guard shape.prefixSize <= TreeNode.inlinePrefixSizeMaximum,
      leaf.inlinePrefixMatches(target, size: shape.prefixSize),
      target.head(after: shape.prefixSize) > leaf.head(shape.count &- 1)
    else { return -1 }
    return shape.count
  }

  @inline(__always)
  private func appendRecord(_ target: SearchKey, _ value: ByteView) -> UInt32 {
    let offset = arena.allocateRecord(MemTableRecord.size(keySize: target.key.count, valueSize: value.count))
    tree.record(offset).write(target.key, target.trailer, value)
    return offset
  }

  private func insertFirst(_ target: SearchKey, _ value: ByteView) {
    let record = appendRecord(target, value)
    let leaf = tree.node(Arena.firstLeafOffset)
    leaf.initialize(level: 0)
    insertEntry(leaf, at: 0, target, record)
    lastLeaf = Arena.firstLeafOffset
    tree.setRoot(Arena.firstLeafOffset)
    count(target.trailer.sequence.value)
  }

  /// Calls `body` within a change of a node that readers may be reading.
  @inline(__always)
  private func change(_ node: TreeNode, _ body: () -> Void) {
    node.beginChange()
    assert(callMidChangeHook(node))
    body()
    node.endChange()
  }

  // MARK: Entries

  /// Inserts an entry into a node that has room, and shortens the prefix if the key doesn't share it.
  @inline(__always)
  private func insertEntry(_ node: TreeNode, at position: Int, _ target: SearchKey, _ record: UInt32) {
    let shape = node.shape
    var prefixSize = shape.prefixSize
    if prefixSize > TreeNode.inlinePrefixSizeMaximum || shape.count == 0
      || !node.inlinePrefixMatches(target, size: prefixSize)
    {
      prefixSize = fitPrefix(node, target)
    }
    node.insertEntry(at: position, count: shape.count, head: target.head(after: prefixSize), record: record)
    node.setShape(count: shape.count &+ 1, prefixSize: prefixSize)
    node.lastPosition = position
  }

  /// Shortens the prefix of `node` to what `target` shares and recomputes the heads. The prefix of an empty node
  /// becomes the whole key. Returns the size of the prefix, which is not stored yet.
  ///
  /// The new heads begin with bytes of the old prefix, so only one record is fetched.
  @inline(never)
  private func fitPrefix(_ node: TreeNode, _ target: SearchKey) -> Int {
    let shape = node.shape
    if shape.count == 0 {
      node.setPrefix(of: target, size: target.key.count)
      return target.key.count
    }
    let prefix = tree.record(node.record(0)).userKey.slice(0, shape.prefixSize)
    let size = prefix.sharedPrefixCount(target.key)
    if size == shape.prefixSize { return size }
    let released = prefix.head(from: size)
    let releasedBits = UInt64(truncatingIfNeeded: (shape.prefixSize - size) * 8)
    for index in 0..<shape.count { node.setHead(index, released | node.head(index) >> releasedBits) }
    node.setPrefix(of: target, size: size)
    return size
  }

  /// Lengthens the prefix of a node whose heads rarely differ, after a split has brought its keys closer together.
  /// This reads each record, so it is done only if the heads tie often.
  private func extendPrefix(_ node: TreeNode) {
    let shape = node.shape
    if shape.count < 2 { return }
    var ties = 0
    for index in 1..<shape.count where node.head(index) == node.head(index - 1) { ties += 1 }
    if ties * 8 < shape.count { return }
    let first = tree.record(node.record(0)).userKey
    let size = first.sharedPrefixCount(tree.record(node.record(shape.count - 1)).userKey)
    if size <= shape.prefixSize { return }
    for index in 0..<shape.count { node.setHead(index, tree.record(node.record(index)).userKey.head(from: size)) }
    node.setPrefix(of: SearchKey(first, Trailer(word: 0)), size: size)
    node.setShape(count: shape.count, prefixSize: size)
  }

  /// Removes the entries from `count` on.
  private func truncate(_ node: TreeNode, to count: Int) {
    node.clearHeads(from: count)
    node.setShape(count: count, prefixSize: node.shape.prefixSize)
    node.lastPosition = TreeNode.noPosition
  }

  // MARK: Splits

  /// Returns the position at which to split a full node that is about to receive an entry at `position`.
  ///
  /// Keys that arrive in order, ascending or descending (new versions of one key descend), are inserted next to the
  /// previous insert. The split is then made there, and the side that they leave stays full. Otherwise it is made in
  /// the middle. Each side keeps at least a quarter of the entries, so that no order of keys makes a split cheap to
  /// provoke, unless the run is at the end of the node: then all entries stay.
  private func cut(_ node: TreeNode, _ position: Int) -> Int {
    let middle = TreeNode.capacity / 2
    let least = TreeNode.capacity / 4
    let last = node.lastPosition
    if position == last + 1 {
      return position == TreeNode.capacity ? position : min(max(position, least), TreeNode.capacity - least)
    }
    // A descending run leaves the right side, which must not become the smaller one.
    return position == last ? min(max(position, least), middle) : middle
  }

  private func splitLeaf(_ offset: UInt32, _ position: Int, _ target: SearchKey, _ record: UInt32) {
    let left = tree.node(offset)
    let cut = cut(left, position)
    let insertsRight = position > cut || cut == TreeNode.capacity
    let rightOffset = arena.allocateNode(TreeNode.leafSize)
    let right = tree.node(rightOffset)
    let links = left.links
    right.initialize(level: 0)
    right.copyEntries(from: left, start: cut, count: TreeNode.capacity)
    right.setLinks(right: links.right, highKey: links.highKey)
    extendPrefix(right)
    if insertsRight { insertEntry(right, at: position - cut, target, record) }
    let separator = right.record(0)
    change(left) {
      truncate(left, to: cut)
      if !insertsRight { insertEntry(left, at: position, target, record) }
      extendPrefix(left)
      left.setLinks(right: rightOffset, highKey: separator)
    }
    if links.right == 0 { lastLeaf = rightOffset }
    insertSeparator(separator, left: offset, right: rightOffset, level: 1)
  }

  /// Inserts `right`, which begins with the record `separator`, next to `left` into the level above.
  private func insertSeparator(_ separator: UInt32, left: UInt32, right: UInt32, level: Int) {
    let target = SearchKey(tree.record(separator).internalKey)
    let root = tree.root
    if tree.node(root).level < level {
      let offset = arena.allocateNode(TreeNode.innerSize)
      let node = tree.node(offset)
      node.initialize(level: level)
      insertEntry(node, at: 0, target, separator)
      node.setChild(0, left)
      node.setChild(1, right)
      tree.setRoot(offset)
      return
    }
    let offset = tree.descend(from: root, target, orEqual: true, toLevel: level)
    let parent = tree.node(offset)
    let position = tree.rank(parent, target, orEqual: true, version: parent.beginRead()).count
    assert(parent.child(position) == left, "the parent of a split node leads to another node")
    if parent.count < TreeNode.capacity {
      change(parent) { insertChild(parent, at: position, target, separator, right) }
    } else {
      splitInner(offset, position, target, separator, right)
    }
  }

  private func insertChild(
    _ node: TreeNode, at position: Int, _ target: SearchKey, _ separator: UInt32, _ child: UInt32
  ) {
    node.insertChild(rightOf: position, count: node.count, child)
    insertEntry(node, at: position, target, separator)
  }

  /// Splits a full inner node: one separator moves up, and the children to its right move to the new node.
  private func splitInner(
    _ offset: UInt32, _ position: Int, _ target: SearchKey, _ separator: UInt32, _ child: UInt32
  ) {
    let left = tree.node(offset)
    // The separator at the split moves up, and both sides must have a separator after the new one is inserted.
    let last = TreeNode.capacity - 1
    let cut = min(cut(left, position), position > last ? last : last - 1)
    let insertsRight = position > cut
    let rightOffset = arena.allocateNode(TreeNode.innerSize)
    let right = tree.node(rightOffset)
    let links = left.links
    let promoted = left.record(cut)
    right.initialize(level: left.level)
    right.copyEntries(from: left, start: cut + 1, count: TreeNode.capacity)
    for index in cut + 1...TreeNode.capacity { right.setChild(index - cut - 1, left.child(index)) }
    right.setLinks(right: links.right, highKey: links.highKey)
    extendPrefix(right)
    if insertsRight { insertChild(right, at: position - cut - 1, target, separator, child) }
    change(left) {
      truncate(left, to: cut)
      if !insertsRight { insertChild(left, at: position, target, separator, child) }
      extendPrefix(left)
      left.setLinks(right: rightOffset, highKey: promoted)
    }
    insertSeparator(promoted, left: offset, right: rightOffset, level: left.level + 1)
  }
}

internal import Synchronization

/// The newest entries of a column family, sorted, in memory: a B+tree in an arena.
///
/// Nodes of 64 entries hold the first eight bytes of each key behind the node's common prefix, so a
/// search compares integers that lie together and looks at a whole key only where they tie. A skip
/// list, which other engines use, misses the cache at nearly every step and is four times slower.
///
/// # Invariants
/// 1. Entries are in internal-key order, and no two are equal.
/// 2. Nothing is removed or moved: views into records are valid while the memtable lives.
/// 3. An entry whose `insert` returned before a `get` or a step of an iterator began is seen by it.
///
/// # Concurrency
/// One writer at a time (the commit leader). Any number of readers, which take no lock and are never
/// waited for: see `MemTableNode`. A reader that meets a node in the middle of a change waits for that
/// change; readers of other nodes don't.
final class MemTable: @unchecked Sendable {
  // Sendable: see Concurrency above; the writer's fields are the writer's.
  let arena: MemTableArena
  private let pool: MemTableArenaPool?
  private let capacity: Int
  /// The root node, 0 while the table is empty. Release: what it leads to is whole.
  private let rootWord = Atomic<UInt32>(0)
  private let countWord = Atomic<Int>(0)

  // The writer's.
  private var rootOffset: UInt32 = 0
  /// Levels above the leaves.
  private var height = 0
  /// The last leaf of the tree, and the last record in it: ascending keys need no search.
  private var lastLeaf: UInt32 = 0
  private var lastRecord: UInt32 = 0
  private var smallestWord: UInt64 = .max
  private var largestWord: UInt64 = 0
  private var entries = 0
  private var path: InlineArray<16, UInt32> = .init(repeating: 0)

  /// What the nodes of one split can take on top, on every level.
  private static let splitReserve = 16 * MemTableNode.innerSize

  /// A table for `capacity` bytes of records and nodes.
  init(capacity: Int, pool: MemTableArenaPool? = nil) {
    self.capacity = capacity
    self.pool = pool
    let size = capacity + Self.splitReserve + 4096
    arena = pool?.take(size: size) ?? MemTableArena(size: size)
  }

  deinit { pool?.giveBack(arena) }

  // MARK: - What it holds

  /// How many entries were inserted.
  var entryCount: Int { countWord.load(ordering: .relaxed) }
  /// The bytes that records and nodes take.
  var usedBytes: Int { arena.touched }
  /// The first sequence in the table; stable once it is frozen.
  var smallestSequence: SequenceNumber { SequenceNumber(smallestWord >> 8) }
  /// The last sequence in the table; stable once it is frozen.
  var largestSequence: SequenceNumber { SequenceNumber(largestWord >> 8) }

  /// Whether an entry of these sizes, and the nodes it may need, still fit. The writer's.
  @inline(__always)
  func hasRoom(keySize: Int, valueSize: Int) -> Bool {
    arena.writerUsed &+ MemTableRecord.size(keySize: keySize, valueSize: valueSize) &+ 8 <= capacity
  }

  var root: UInt32 { rootWord.load(ordering: .acquiring) }  // with the releasing stores in `setRoot`

  // MARK: - Inserting (the writer)

  /// Adds an entry, for which there is room, and which is not there yet.
  @inline(__always)
  func insert(_ userKey: ByteView, _ trailer: Trailer, _ value: ByteView) {
    let record = MemTableRecord.store(userKey, trailer, value, in: arena)
    let key = InternalKey(userKey, trailer)
    if rootOffset == 0 {
      makeRoot()
    }
    if lastRecord == 0 || isBehindLast(key) {
      append(key, record)
    } else {
      let leaf = descend(key)
      let node = MemTableNode(arena, leaf)
      let position = search(node, key)
      if node.count < MemTableNode.entryCountMaximum {
        insert(key, record, at: position, in: node)
      } else {
        split(leaf, key, record, at: position)
      }
    }
    if trailer.word < smallestWord { smallestWord = trailer.word }
    if trailer.word > largestWord { largestWord = trailer.word }
    entries &+= 1
    countWord.store(entries, ordering: .relaxed)
  }

  @inline(__always)
  private func isBehindLast(_ key: InternalKey) -> Bool {
    unsafe key.compare(MemTableRecord(base: arena.base, lastRecord).internalKey) > 0
  }

  private func makeRoot() {
    let leaf = arena.allocate(MemTableNode.leafSize)
    MemTableNode(arena, leaf).initialize(level: 0)
    lastLeaf = leaf
    setRoot(leaf)
  }

  private func setRoot(_ offset: UInt32) {
    rootOffset = offset
    rootWord.store(offset, ordering: .releasing)  // partner: `root`
  }

  /// Adds the new last entry of the table.
  @inline(__always)
  private func append(_ key: InternalKey, _ record: UInt32) {
    let node = MemTableNode(arena, lastLeaf)
    if node.count < MemTableNode.entryCountMaximum {
      insert(key, record, at: node.count, in: node)
    } else {
      _ = descend(key)
      split(lastLeaf, key, record, at: MemTableNode.entryCountMaximum)
    }
    lastRecord = record
  }

  /// Goes down to the leaf that the key belongs into, and remembers the way.
  @inline(__always)
  private func descend(_ key: InternalKey) -> UInt32 {
    var offset = rootOffset
    var level = 0
    while level < height {
      path[level] = offset
      let node = MemTableNode(arena, offset)
      let position = search(node, key)
      // The entry before the position is the last separator below the key; a separator equal to it
      // does not exist, because no two entries are equal.
      offset = node.child(position > 0 ? position &- 1 : 0)
      level &+= 1
    }
    return offset
  }

  /// The index of the first entry of a node that is at or above `key`. For the writer, whom no change
  /// can surprise.
  @inline(__always)
  private func search(_ node: MemTableNode, _ key: InternalKey) -> Int {
    let count = node.count
    let prefixSize = node.prefixSize
    if prefixSize > 0 {
      let order = node.comparePrefix(key.userKey, size: prefixSize)
      if order != 0 { return order < 0 ? 0 : count }
    }
    let head = key.userKey.head(from: prefixSize)
    var low = MemTable.lowerBound(node, head, count: count)
    if low == count || node.head(low) != head { return low }
    var high = low &+ 1
    while high < count, node.head(high) == head { high &+= 1 }
    while low < high {
      let middle = (low &+ high) / 2
      if unsafe MemTableRecord(base: arena.base, node.record(middle)).internalKey.compare(key) < 0 {
        low = middle &+ 1
      } else {
        high = middle
      }
    }
    return low
  }

  /// The first of `count` heads that is not below `head`. Without branches that depend on the data:
  /// a wrong guess costs more than a step.
  @inline(__always)
  static func lowerBound(_ node: MemTableNode, _ head: UInt64, count: Int) -> Int {
    var base = 0
    var size = count
    while size > 1 {
      let half = size / 2
      base = node.head(base &+ half &- 1) < head ? base &+ half : base
      size &-= half
    }
    return size == 1 && node.head(base) < head ? base &+ 1 : base
  }

  /// Puts an entry into a node that has room, at its position.
  @inline(__always)
  private func insert(_ key: InternalKey, _ record: UInt32, child: UInt32 = 0, at position: Int, in node: MemTableNode) {
    let count = node.count
    node.beginChange()
    let head = prepareHead(key.userKey, in: node, count: count)
    var index = count
    while index > position {
      node.setHead(index, node.head(index &- 1))
      node.setRecord(index, node.record(index &- 1))
      index &-= 1
    }
    if child != 0 {
      index = count
      while index > position {
        node.setChild(index, node.child(index &- 1))
        index &-= 1
      }
      node.setChild(position, child)
    }
    node.setHead(position, head)
    node.setRecord(position, record)
    node.count = count &+ 1
    node.endChange()
  }

  /// The head of a key that joins the node; shortens the prefix where the key does not share it.
  @inline(__always)
  private func prepareHead(_ userKey: ByteView, in node: MemTableNode, count: Int) -> UInt64 {
    if count == 0 {
      node.setPrefix(userKey, size: min(userKey.count, MemTableNode.prefixSizeMaximum))
    } else {
      let size = node.prefixSize
      if size > 0 && node.comparePrefix(userKey, size: size) != 0 {
        rebase(node, count: count, prefixSize: node.agreement(userKey, size: size))
      }
    }
    return userKey.head(from: node.prefixSize)
  }

  /// Takes all heads anew behind a prefix of another size. Inside a change.
  private func rebase(_ node: MemTableNode, count: Int, prefixSize: Int) {
    unsafe node.setPrefix(MemTableRecord(base: arena.base, node.record(0)).userKey, size: prefixSize)
    for index in 0..<count {
      unsafe node.setHead(index, MemTableRecord(base: arena.base, node.record(index)).userKey.head(from: prefixSize))
    }
  }

  // MARK: - Splitting (the writer)

  /// Splits a full node in two and puts the entry where it belongs; then tells the level above.
  ///
  /// The new node is whole before the old one names it; until the level above names it, readers reach
  /// it through the old one.
  private func split(_ offset: UInt32, _ key: InternalKey, _ record: UInt32, at position: Int) {
    var offset = offset
    var key = key
    var record = record
    var child: UInt32 = 0
    var position = position
    var level = height
    while true {
      let isLeaf = level == height
      let node = MemTableNode(arena, offset)
      let right = splitNode(node, appends: position == MemTableNode.entryCountMaximum)
      let rightNode = MemTableNode(arena, right)
      let kept = node.count
      if position > kept || (position == kept && rightNode.count == 0) {
        insert(key, record, child: child, at: position - kept, in: rightNode)
      } else {
        insert(key, record, child: child, at: position, in: node)
      }
      if rightNode.next == 0 && isLeaf { lastLeaf = right }
      // Where the right node began empty for an append, it is named only now that it has its entry.
      if kept == MemTableNode.entryCountMaximum {
        node.beginChange()
        node.next = right
        node.endChange()
      }
      let separator = rightNode.record(0)
      if level == 0 { return growRoot(offset, right, separator) }
      level -= 1
      offset = path[level]
      key = unsafe MemTableRecord(base: arena.base, separator).internalKey
      record = separator
      child = right
      let parent = MemTableNode(arena, offset)
      position = search(parent, key)
      if parent.count < MemTableNode.entryCountMaximum {
        return insert(key, record, child: child, at: position, in: parent)
      }
    }
  }

  /// Makes the right half of a full node, and cuts the left one. Where the new entry is the last of all,
  /// the right node stays empty for it, so that ascending keys fill their nodes.
  private func splitNode(_ node: MemTableNode, appends: Bool) -> UInt32 {
    let isLeaf = node.level == 0
    let right = arena.allocate(isLeaf ? MemTableNode.leafSize : MemTableNode.innerSize)
    let rightNode = MemTableNode(arena, right)
    rightNode.initialize(level: node.level)
    let full = MemTableNode.entryCountMaximum
    let kept = appends && node.next == 0 ? full : full / 2
    rightNode.next = node.next
    rightNode.count = full - kept
    if kept < full {
      let first = unsafe MemTableRecord(base: arena.base, node.record(kept)).userKey
      rightNode.setPrefix(first, size: node.prefixSize)
    }
    for index in kept..<full {
      rightNode.setHead(index - kept, node.head(index))
      rightNode.setRecord(index - kept, node.record(index))
      if !isLeaf { rightNode.setChild(index - kept, node.child(index)) }
    }
    guard kept < full else { return right }
    sharpen(rightNode, count: full - kept)
    node.beginChange()
    // Readers that come for what moved go right from now on.
    node.next = right
    node.count = kept
    sharpen(node, count: kept)
    node.endChange()
    return right
  }

  /// Lengthens the prefix where the heads have begun to agree in their first bytes: they would soon not
  /// tell keys apart any more. Costs a look at each key, so only from four bytes on.
  private func sharpen(_ node: MemTableNode, count: Int) {
    guard count > 1 else { return }
    let agreed = (node.head(0) ^ node.head(count - 1)).leadingZeroBitCount / 8
    guard agreed >= 4 else { return }
    let first = unsafe MemTableRecord(base: arena.base, node.record(0)).userKey
    let last = unsafe MemTableRecord(base: arena.base, node.record(count - 1)).userKey
    let size = min(first.sharedPrefixCount(last), MemTableNode.prefixSizeMaximum)
    if size > node.prefixSize { rebase(node, count: count, prefixSize: size) }
  }

  private func growRoot(_ left: UInt32, _ right: UInt32, _ separator: UInt32) {
    let root = arena.allocate(MemTableNode.innerSize)
    let node = MemTableNode(arena, root)
    node.initialize(level: height + 1)
    let first = MemTableNode(arena, left).record(0)
    unsafe insert(MemTableRecord(base: arena.base, first).internalKey, first, child: left, at: 0, in: node)
    unsafe insert(MemTableRecord(base: arena.base, separator).internalKey, separator, child: right, at: 1, in: node)
    height += 1
    guard height < 16 else { fatalError("a memtable of 16 levels: report this as a bug") }
    setRoot(root)
  }
}

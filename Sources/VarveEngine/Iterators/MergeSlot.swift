/// The merge's copy of a child's position, so that choosing the next entry never calls a child: the child's key and
/// trailer, and the head of the key.
///
/// # Safety
/// `key` points into the child's memory and is read only until that child moves.
struct MergeSlot {
  var key = ByteView()
  var trailer = Trailer(word: 0)
  /// The head of the key (see `MergeHeads`), or `MergeHeads.last` if the child has no entry.
  var head = MergeHeads.last
  var isValid = false

  static let exhausted = MergeSlot()
}

/// A node of the loser tree: the child that lost the match of this node, and its head, so that a replay reads only
/// the path.
struct MergeNode {
  var head: UInt64
  var child: Int
}

/// The layout of a merge's memory: its parts one after the other, each aligned for its type.
struct MergeLayout {
  static let alignment = 16
  private(set) var size = 0

  /// Adds room for `count` values, and returns their offset.
  mutating func add<Value: ~Copyable>(_ type: Value.Type, _ count: Int) -> Int {
    let alignment = MemoryLayout<Value>.alignment
    precondition(alignment <= MergeLayout.alignment, "a value of a merge is aligned to 16 bytes at most")
    let start = (size + alignment - 1) / alignment * alignment
    size = start + MemoryLayout<Value>.stride * count
    return start
  }
}

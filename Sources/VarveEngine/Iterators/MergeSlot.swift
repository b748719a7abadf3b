/// What a merge keeps of one child, so that choosing the next entry never calls into a child: the key
/// it stands on, the trailer, and the key's head as the merge compares it.
///
/// # Safety
/// `key` points into the child's memory and is read only until that child moves.
struct MergeSlot {
  var key = ByteView()
  var trailer = Trailer(word: 0)
  /// See `MergeHeads`; `MergeHeads.last` where the child has no entry.
  var head = MergeHeads.last
  var isValid = false

  static let exhausted = MergeSlot()
}

/// A node of the loser tree: the child that lost the match played here, and its head, so that a replay
/// reads nothing but the path.
struct MergeNode {
  var head: UInt64
  var child: Int
}

/// Where the parts of a merge's memory lie: one after the other, each as it is aligned.
struct MergeLayout {
  static let alignment = 16
  private(set) var size = 0

  /// Makes room for `count` values; returns where they begin.
  mutating func add<Value: ~Copyable>(_ type: Value.Type, _ count: Int) -> Int {
    let alignment = MemoryLayout<Value>.alignment
    precondition(alignment <= MergeLayout.alignment, "a value of a merge is aligned to 16 bytes at most")
    let start = (size + alignment - 1) / alignment * alignment
    size = start + MemoryLayout<Value>.stride * count
    return start
  }
}

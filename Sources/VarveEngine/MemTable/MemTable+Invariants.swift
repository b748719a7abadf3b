/// Checks of the whole tree, used by tests.
extension MemTable {
  /// Stops the process with a message if the tree violates an invariant of `TreeNode`.
  ///
  /// Requires that there is no concurrent writer.
  func checkInvariants() {
    let root = tree.root
    if root == 0 { return }
    let highest = tree.node(root).level
    var leftmost = root
    var entries = 0
    for level in (0...highest).reversed() {
      var offset = leftmost
      var lowKey: UInt32 = 0
      while offset != 0 {
        let node = tree.node(offset)
        precondition(node.level == level, "a node of another level in the chain")
        checkEntries(node, lowKey: lowKey)
        if level == 0 { entries += node.count }
        let links = node.links
        precondition((links.right == 0) == (links.highKey == 0), "a high key without a sibling, or the reverse")
        if level > 0 { checkChildren(node) }
        lowKey = links.highKey
        offset = links.right
      }
      if level > 0 { leftmost = tree.node(leftmost).child(0) }
    }
    precondition(entries == entryCount, "\(entries) entries in the leaves, \(entryCount) were inserted")
  }

  private func checkEntries(_ node: TreeNode, lowKey: UInt32) {
    let shape = node.shape
    precondition(shape.count > 0 && shape.count <= TreeNode.capacity, "a node with \(shape.count) entries")
    let first = tree.record(node.record(0))
    if lowKey != 0 {
      let order = tree.record(lowKey).internalKey.compare(first.internalKey)
      precondition(
        node.level == 0 ? order == 0 : order < 0, "a node that doesn't begin at its left sibling's high key")
    }
    for index in 0..<shape.count {
      let record = tree.record(node.record(index))
      if index > 0 {
        let previous = tree.record(node.record(index - 1))
        precondition(previous.internalKey.compare(record.internalKey) < 0, "entries out of order")
      }
      precondition(record.userKey.starts(with: first.userKey.slice(0, shape.prefixSize)), "a prefix not shared")
      precondition(node.head(index) == record.userKey.head(from: shape.prefixSize), "a head that isn't the key's")
      if node.links.highKey != 0 {
        let highKey = tree.record(node.links.highKey).internalKey
        precondition(record.internalKey.compare(highKey) < 0, "an entry at or after the high key")
      }
    }
    for index in shape.count..<TreeNode.capacity {
      precondition(node.head(index) == .max, "an unused head that counts")
    }
  }

  /// Checks that child i + 1 begins with separator i and is the right sibling of child i.
  private func checkChildren(_ node: TreeNode) {
    for index in 0..<node.count {
      let links = tree.node(node.child(index)).links
      precondition(links.right == node.child(index + 1), "neighboring children aren't siblings")
      precondition(links.highKey == node.record(index), "a separator that isn't the left child's high key")
    }
  }

  /// The address of the arena.
  var arenaAddress: UInt { unsafe UInt(bitPattern: arena.base) }
}

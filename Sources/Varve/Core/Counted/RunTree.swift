/// The runs of a counted part in memory: an ordered map from separators to counts, with the sums of its nodes.
///
/// It is a value whose copies share nodes: a change copies the nodes from the root to the run, once for each copy of
/// the tree that exists. Each tree has at least one run; that of the first has the empty separator.
///
/// Complexity: O(log n) of the runs for each operation, unless it says otherwise.
struct RunTree: Sendable {
  private var root: RunNode

  /// A run, and what is before it.
  struct Run {
    /// The separator: the run has the keys from it on.
    let lower: [UInt8]
    /// The separator of the next run, or `nil` for the last run.
    let upper: [UInt8]?
    /// The number of entries in the runs before it.
    let before: Int
    let count: Int

    /// The keys of the run.
    var range: StorageRange { StorageRange(lower: lower, upper: upper) }
  }

  /// A run as it is on disk.
  struct Piece: Hashable, Sendable {
    var separator: [UInt8]
    var count: Int
  }

  /// Creates the tree of an empty part.
  init() { root = RunNode([RunNode.Slot(key: [], count: 0, child: nil, isMarked: false)]) }

  /// Creates a tree of runs in order. They are marked if they are not on disk. Complexity: O(n) of the runs.
  init(_ pieces: [Piece], isMarked: Bool = false) {
    self.init()
    guard let first = pieces.first else { return }
    var slots = pieces.map { RunNode.Slot(key: $0.separator, count: $0.count, child: nil, isMarked: isMarked) }
    if !first.separator.isEmpty { slots.insert(RunNode.Slot(key: [], count: 0, child: nil, isMarked: false), at: 0) }
    root = Self.root(over: RunNode.nodes(slots))
  }

  /// Whether a run has changed since `clearMarks`.
  var hasMarks: Bool { root.hasMarks }

  /// The number of entries.
  var total: Int { root.total }

  // MARK: - Reading

  /// Returns the run that has a key.
  func run(of key: [UInt8]) -> Run { run { $0.slot(of: key) } }

  /// Returns the run before the one that begins at a separator, or `nil` if that is the first.
  func run(before separator: [UInt8]) -> Run? {
    separator.isEmpty ? nil : run { $0.slot(of: separator, isStrict: true) }
  }

  /// Returns the run with the entry at an offset, or `nil` if there are fewer entries.
  func run(at offset: Int) -> Run? {
    guard offset >= 0, offset < total else { return nil }
    var rest = offset
    return run { node in
      var slot = 0
      while rest >= node.counts[slot], slot < node.slotCount - 1 {
        rest -= node.counts[slot]
        slot += 1
      }
      return slot
    }
  }

  private func run(_ choose: (RunNode) -> Int) -> Run {
    var node = root
    var before = 0
    var upper: [UInt8]?
    while true {
      let slot = choose(node)
      for index in 0..<slot { before &+= node.counts[index] }
      if slot + 1 < node.slotCount { upper = node.key(slot + 1) }
      if node.isLeaf { return Run(lower: node.key(slot), upper: upper, before: before, count: node.counts[slot]) }
      node = node.children[slot]
    }
  }

  /// Calls `body` with each run. Complexity: O(n) of the runs.
  func forEach(_ body: (Piece) throws -> Void) rethrows { try Self.forEach(in: root, onlyMarked: false, body) }

  /// Calls `body` with each run that has changed since `clearMarks`.
  func forEachMarked(_ body: (Piece) throws -> Void) rethrows {
    try Self.forEach(in: root, onlyMarked: true, body)
  }

  private static func forEach(
    in node: RunNode, onlyMarked: Bool, _ body: (Piece) throws -> Void
  ) rethrows {
    for slot in 0..<node.slotCount where !onlyMarked || node.isMarked(slot) {
      if node.isLeaf {
        try body(Piece(separator: node.key(slot), count: node.counts[slot]))
      } else {
        try forEach(in: node.children[slot], onlyMarked: onlyMarked, body)
      }
    }
  }

  // MARK: - Counts

  /// Adds to the count of the run that has a key, and marks the run. Returns its count.
  @discardableResult
  mutating func add(_ number: Int, at key: RawSpan) -> Int {
    if !isKnownUniquelyReferenced(&root) { root = root.copy() }
    var node = root
    while true {
      let slot = node.slot(of: key)
      node.add(number, to: slot)
      if node.isLeaf { return node.counts[slot] }
      if !isKnownUniquelyReferenced(&node.children[slot]) { node.children[slot] = node.children[slot].copy() }
      node = node.children[slot]
    }
  }

  /// Removes the marks of all runs. Complexity: O(m log n) for m marked runs.
  mutating func clearMarks() {
    if !root.hasMarks { return }
    if !isKnownUniquelyReferenced(&root) { root = root.copy() }
    Self.clearMarks(of: root)
  }

  private static func clearMarks(of node: RunNode) {
    if !node.isLeaf {
      for slot in 0..<node.slotCount where node.isMarked(slot) {
        if !isKnownUniquelyReferenced(&node.children[slot]) { node.children[slot] = node.children[slot].copy() }
        clearMarks(of: node.children[slot])
      }
    }
    node.clearMarks()
  }

  // MARK: - Structure

  /// Replaces the runs that begin from `lower` up to but not including `upper` by others, which are marked.
  ///
  /// `lower` is the separator of a run, and the first of the others has it, too; `upper` is the separator of a run, or
  /// `nil` for all that follow. Complexity: O(log n) and O(m) of the others; whole nodes between are released.
  mutating func replace(from lower: [UInt8], to upper: [UInt8]?, by pieces: [Piece]) {
    let slots = pieces.map { RunNode.Slot(key: $0.separator, count: $0.count, child: nil, isMarked: true) }
    root = Self.root(over: Self.replacing(in: root, from: lower, to: upper, by: slots))
  }

  /// Returns the nodes that replace a node. They are none if nothing is left of it.
  private static func replacing(
    in node: RunNode, from lower: [UInt8]?, to upper: [UInt8]?, by pieces: [RunNode.Slot]
  ) -> [RunNode] {
    let slots = node.slots
    // In nodes after the one with `lower` everything from the first slot on is in question.
    let first = lower.map { node.slot(of: $0) } ?? 0
    if node.isLeaf {
      let end = upper.map { upper in slots.firstIndex { !ByteOrder.precedes($0.key, upper) } ?? slots.count }
      return RunNode.nodes(slots[..<first] + pieces + slots[max(first, end ?? slots.count)...])
    }
    var result = Array(slots[..<first])
    // The first child has `lower`, and takes the pieces.
    func append(_ nodes: [RunNode]) {
      result += nodes.map { RunNode.Slot(key: $0.key(0), count: $0.total, child: $0, isMarked: $0.hasMarks) }
    }
    append(replacing(in: node.children[first], from: lower, to: upper, by: pieces))
    for slot in slots[(first + 1)...] {
      guard let child = slot.child else { continue }
      guard let upper else { continue }
      if !ByteOrder.precedes(slot.key, upper) {
        result.append(slot)
      } else if let last = lastKey(of: child), !ByteOrder.precedes(last, upper) {
        append(replacing(in: child, from: nil, to: upper, by: []))
      }
    }
    return RunNode.nodes(result)
  }

  /// Returns the key of the last run of a node.
  private static func lastKey(of node: RunNode) -> [UInt8]? {
    var node = node
    while !node.isLeaf { node = node.children[node.slotCount - 1] }
    return node.key(node.slotCount - 1)
  }

  /// Returns the root over nodes of the same height. No nodes are an empty part.
  private static func root(over nodes: [RunNode]) -> RunNode {
    var nodes = nodes
    while nodes.count > 1 {
      nodes = RunNode.nodes(
        nodes.map { RunNode.Slot(key: $0.key(0), count: $0.total, child: $0, isMarked: $0.hasMarks) })
    }
    var root = nodes.first ?? RunNode([RunNode.Slot(key: [], count: 0, child: nil, isMarked: false)])
    // A root with one child is of no use.
    while !root.isLeaf, root.slotCount == 1 { root = root.children[0] }
    return root
  }
}

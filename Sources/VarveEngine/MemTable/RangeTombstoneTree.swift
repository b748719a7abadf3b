internal import Synchronization

/// The range tombstones of a memtable, cut into fragments as they are inserted.
///
/// Inserting a tombstone costs the logarithm of their number, and a read or a new cursor cuts nothing.
///
/// # Shape
/// A persistent treap: what readers may see is never changed, and a change copies the path to it. A node is a
/// *boundary*: from its key up to the next boundary, the newest tombstone is `sequence` (zero for none). Each *edit*,
/// which is the tombstones of one commit, creates a root of its own, which differs from the previous one by the paths
/// to its bounds:
///
///     versions   9 ──▶ 7 ──▶ 4          a reader at 8 searches in the tree of version 7
///                │     │     │
///     roots      ◇     ◇     ◇
///
/// Because a tombstone is newer than all before it, a version's tree stores only the newest one for each range. A
/// reader between two versions uses the older one. A version also links to one further back (`jump`: Myers, "An
/// applicative random-access stack", 1983), so that an old snapshot finds its version in logarithmic time.
///
/// Within an edit a node is copied once and then changed in place, so an edit of many tombstones takes two nodes for
/// each, and no path. Readers see the ends of commits, never the state between two tombstones of an edit.
///
/// A large edit is prepared before its commit leads (`PreparedTombstones`) and adopted whole. It has one version.
///
/// # Points written later
/// A boundary is marked when a point entry is inserted into its range after the tombstone. A range that isn't marked
/// is wholly dead for every reader that sees the tombstone, so a cursor skips it in one seek.
///
/// If the tree of a batch is rebuilt, its tombstones are inserted before all its points (`beginOlderWrites`). Then
/// the marks are right for readers of all these tombstones. Once some of them are removed, all the boundaries count
/// as marked.
///
/// # Invariants
/// 1. Sequence numbers of versions ascend. A late one (a log may be replayed out of order) rebuilds all versions,
///    before there are readers.
/// 2. What was published is never moved or freed while the memtable lives.
///
/// # Concurrency
/// One writer calls everything under "Writing". Any number of readers need no locks: they begin at `head`, which is
/// stored after everything that it refers to.
@safe
struct RangeTombstoneTree: ~Copyable {
  /// The address of the newest version, or 0 if there is none.
  private let head = Atomic<UInt>(0)
  private let writer: UnsafeMutablePointer<Writer>
  /// The edit below which boundaries count as marked.
  private let markedEdit = Atomic<UInt32>(0)
  /// The number of boundaries created, copied, or visited by a pass over a tree. Counted if `assert` is on.
  private let workWord = Atomic<Int>(0)

  /// The state that only the writer uses.
  private struct Writer: ~Copyable {
    var memory = TombstoneMemory()
    /// The number of the current edit, or of the next one. Nodes of a prepared edit have 0.
    var edit: UInt32 = 1
    /// The newest tombstone, and the tree that includes it: ahead of `head` within an edit.
    var newest: TombstoneVersion?
    var root: TombstoneNode?
    /// The tree before the edit.
    var rootBefore: TombstoneNode?
    var isEditing = false
    /// Whether the tombstones that are currently inserted cover only dead keys.
    var isRedundant = false
    /// The number of boundaries created, which is at least the number in the tree.
    var nodeCount = 0
    /// The newest tombstone at the last `beginOlderWrites`, and the number of the edit that followed.
    var newestBeforeOlder = SequenceNumber.zero
    var editBeforeOlder: UInt32 = 0
  }

  init() {
    unsafe writer = .allocate(capacity: 1)
    unsafe writer.initialize(to: Writer())
  }

  deinit {
    unsafe writer.deinitialize(count: 1)
    unsafe writer.deallocate()
  }

  @inline(__always)
  var isEmpty: Bool { head.load(ordering: .relaxed) == 0 }

  /// The number of bytes of memory taken. Writer only.
  var memorySize: Int { unsafe writer.pointee.memory.size }

  /// The number of boundaries created, copied, or visited by a pass over a tree, for tests, if `assert` is on.
  var work: Int { workWord.load(ordering: .relaxed) }

  /// Counts from an `assert`, so it costs nothing in builds without checks.
  private func countWork() -> Bool {
    workWord.add(1, ordering: .relaxed)
    return true
  }

  /// The number of tombstones.
  var count: Int { newest.map { Int($0.depth) } ?? 0 }

  private var newest: TombstoneVersion? {
    unsafe UnsafeMutableRawPointer(bitPattern: head.load(ordering: .acquiring)).map { unsafe TombstoneVersion($0) }
  }

  /// Returns the version that a reader at `sequence` sees.
  private func version(at sequence: SequenceNumber) -> TombstoneVersion? { Self.version(at: sequence, from: newest) }

  private static func version(at sequence: SequenceNumber, from newest: TombstoneVersion?) -> TombstoneVersion? {
    var version = newest
    while let candidate = version, candidate.sequence > sequence {
      if let jump = candidate.jump, jump.sequence > sequence { version = jump } else { version = candidate.previous }
    }
    return version
  }

  // MARK: - Reading

  /// Returns the newest tombstone over `key` that is visible at `sequence`, or zero if there is none.
  func sequence(covering key: ByteView, at sequence: SequenceNumber) -> SequenceNumber {
    var node = version(at: sequence)?.root
    var covering = SequenceNumber.zero
    while let here = node {
      if here.key.compare(key) <= 0 {
        covering = here.sequence
        node = here.right
      } else {
        node = here.left
      }
    }
    return covering
  }

  /// Returns the range around `key`, and its tombstone, as a reader at `sequence` sees them.
  func segment(around key: ByteView, at sequence: SequenceNumber) -> TombstoneSegment {
    segment(around: key, in: version(at: sequence)?.root)
  }

  private func segment(around key: ByteView, in root: TombstoneNode?) -> TombstoneSegment {
    var segment = TombstoneSegment.uncovered
    var node = root
    while let here = node {
      if here.key.compare(key) <= 0 {
        segment.sequence = here.sequence
        segment.lower = here.key
        segment.coversAll = !isMarked(here)
        node = here.right
      } else {
        segment.upper = here.key
        node = here.left
      }
    }
    return segment
  }

  /// Returns whether points may lie between a boundary and the next one that are newer than its tombstone.
  @inline(__always)
  private func isMarked(_ node: TombstoneNode) -> Bool {
    node.isMarked || node.edit < markedEdit.load(ordering: .relaxed)
  }

  /// Calls `body` for each covered range that is visible at `sequence`, in order.
  func forEachFragment(
    at sequence: SequenceNumber, _ body: (_ start: ByteView, _ end: ByteView, SequenceNumber) -> Void
  ) {
    var open: TombstoneNode?
    visit(version(at: sequence)?.root) { node in
      if let start = open, start.sequence != .zero { body(start.key, node.key, start.sequence) }
      open = node
    }
  }

  private func visit(_ node: TombstoneNode?, _ body: (TombstoneNode) -> Void) {
    guard let node else { return }
    assert(countWork())
    visit(node.left, body)
    body(node)
    visit(node.right, body)
  }

  /// Calls `body` for each tombstone above `sequence` as it was written: the newest commit first, and those of a
  /// prepared edit in the order of the batch.
  func forEachTombstone(
    above sequence: SequenceNumber, _ body: (_ start: ByteView, _ end: ByteView, SequenceNumber) -> Void
  ) {
    var version = newest
    while let here = version, here.sequence > sequence {
      here.forEachTombstone(above: sequence, body)
      version = here.previous
    }
  }

  /// Calls `body` with the tombstones of each edit above `sequence`, oldest first.
  func forEachEdit(
    above sequence: SequenceNumber,
    _ body: ([(start: ByteView, end: ByteView, sequence: SequenceNumber)]) -> Void
  ) {
    var versions: [TombstoneVersion] = []
    var version = newest
    while let here = version, here.sequence > sequence {
      versions.append(here)
      version = here.previous
    }
    var edit: [(start: ByteView, end: ByteView, sequence: SequenceNumber)] = []
    for here in versions.reversed() {
      here.forEachTombstone(above: sequence) { edit.append(($0, $1, $2)) }
      if here.endsEdit {
        body(edit)
        edit.removeAll(keepingCapacity: true)
      }
    }
  }

  /// Returns the newest tombstone over `key` above `sequence` that is not redundant, or nil if there is none.
  func change(of key: ByteView, above sequence: SequenceNumber) -> SequenceNumber? {
    var reader = SequenceNumber.maximum
    while true {
      let covering = self.sequence(covering: key, at: reader)
      guard covering > sequence else { return nil }
      guard let version = version(at: covering), version.isRedundant else { return covering }
      reader = SequenceNumber(covering.value - 1)
    }
  }

  /// Returns a range around `key` whose keys have the same history. If `coversAll` is set, the only writes into it
  /// since `sequence` are tombstones over the whole range.
  func unchanged(around key: ByteView, since sequence: SequenceNumber) -> TombstoneSegment {
    var found = segment(around: key, at: .maximum)
    // Each version knows what was written before the next one.
    while found.coversAll, found.sequence > sequence {
      let before = segment(around: key, at: SequenceNumber(found.sequence.value - 1))
      found.narrow(to: before)
      found.sequence = before.sequence
      found.coversAll = before.coversAll && before.sequence != .zero
    }
    if found.sequence == .zero { found.coversAll = false }
    return found
  }

  /// Calls `body` as `forEachTombstone` does, but only for tombstones that are not redundant.
  func forEachChange(
    above sequence: SequenceNumber, _ body: (_ start: ByteView, _ end: ByteView, SequenceNumber) -> Void
  ) {
    var version = newest
    while let here = version, here.sequence > sequence {
      if !here.isRedundant { here.forEachTombstone(above: sequence, body) }
      version = here.previous
    }
  }

  /// Returns the newest tombstone that is visible at `sequence`, over any keys, or nil if there is none.
  func newest(at sequence: SequenceNumber) -> SequenceNumber? { version(at: sequence)?.sequence }

  /// Returns whether the tombstone with exactly this sequence number exists. Writer only, also within an edit.
  func contains(_ sequence: SequenceNumber) -> Bool {
    // For each entry of a prepared batch, the newest version gives the answer.
    var version = unsafe writer.pointee.newest
    while let here = version, here.sequence >= sequence {
      if here.contains(sequence) { return true }
      if let jump = here.jump, jump.sequence >= sequence { version = jump } else { version = here.previous }
    }
    return false
  }

  // MARK: - Writing

  /// Returns the approximate memory that the tombstones of a batch will take, rounded up rather than down.
  func memoryNeeded(tombstones count: Int, keyBytes: Int) -> Int {
    let nodeCount = unsafe writer.pointee.nodeCount
    // A path of a treap is rarely longer than four times the logarithm.
    let pathSize = 4 * (Int.bitWidth - nodeCount.leadingZeroBitCount)
    let copies = min(nodeCount, count * 2 * pathSize)
    let size = count * (TombstoneVersion.size + 2 * TombstoneNode.size + 16) + keyBytes + copies * TombstoneNode.size
    return size > 512 ? size + TombstoneMemory.chunkSize : size
  }

  /// Begins an edit. Readers see all tombstones that are inserted up to `endEdit` at once.
  func beginEdit() {
    unsafe writer.pointee.isEditing = true
    unsafe writer.pointee.rootBefore = writer.pointee.root
  }

  /// Publishes the tombstones that were inserted since `beginEdit`.
  func endEdit() {
    unsafe writer.pointee.isEditing = false
    unsafe writer.pointee.edit &+= 1
    guard let newest = unsafe writer.pointee.newest, !newest.endsEdit else { return }
    newest.noteEnd()
    // The earlier versions of this edit keep the root before the edit.
    newest.root = unsafe writer.pointee.root
    head.store(newest.bits, ordering: .releasing)  // pairs with the load in `newest`
  }

  /// Takes over a prepared edit, whose first entry has the sequence number `first`.
  ///
  /// Requires that the tree is empty, and that no newer entry exists.
  func adopt(_ prepared: PreparedTombstones.Part, first: SequenceNumber) {
    precondition(unsafe writer.pointee.newest == nil, "prepared tombstones go into an empty tree only")
    unsafe writer.pointee.newest = prepared.takeVersion(first: first, memory: &writer.pointee.memory)
    unsafe writer.pointee.root = prepared.root
    unsafe writer.pointee.nodeCount = prepared.nodeCount
    endEdit()
  }

  /// Adds a tombstone over the keys from `start` to before `end`. Returns false if it exists already.
  ///
  /// `isLate` states that newer entries may exist already, which is possible only before there are readers. Requires
  /// that `start` is before `end`.
  func insert(_ start: ByteView, _ end: ByteView, _ sequence: SequenceNumber, isLate: Bool = false) -> Bool {
    if let newest = unsafe writer.pointee.newest, newest.sequence >= sequence {
      if contains(sequence) { return false }
      insertLate(copy(start), copy(end), sequence)
    } else {
      append(copy(start), copy(end), sequence)
    }
    // It is unknown whether newer points lie inside.
    if isLate || (unsafe writer.pointee.newest?.sequence != sequence) {
      visit(unsafe writer.pointee.root) { $0.mark() }
    }
    return true
  }

  /// Declares that the points inserted next may be older than some of the existing tombstones.
  ///
  /// Requires that no edit is under way, and that each tombstone is an edit of its own.
  func beginOlderWrites() {
    unsafe writer.pointee.newestBeforeOlder = writer.pointee.newest?.sequence ?? .zero
    unsafe writer.pointee.editBeforeOlder = writer.pointee.edit
  }

  /// Removes all tombstones from a sequence number on, for readers that begin after this call. Earlier readers keep
  /// their version, and the memory stays taken. Complexity: O(log n).
  ///
  /// Requires that no edit is under way, and that each tombstone from that sequence number on is an edit of its own.
  func removeTombstones(from sequence: SequenceNumber) {
    guard let newest = unsafe writer.pointee.newest, newest.sequence >= sequence else { return }
    let kept = Self.version(at: SequenceNumber(sequence.value - 1), from: newest)
    unsafe writer.pointee.newest = kept
    unsafe writer.pointee.root = kept?.root
    unsafe writer.pointee.rootBefore = kept?.root
    if unsafe writer.pointee.newestBeforeOlder >= sequence {
      // The points of `beginOlderWrites` marked the boundaries of the newest tree only. Extra marks do no harm.
      markedEdit.store(unsafe writer.pointee.editBeforeOlder, ordering: .relaxed)
    }
    head.store(kept?.bits ?? 0, ordering: .releasing)  // pairs with the load in `newest`
  }

  /// Declares that the tombstones inserted up to `endRedundant` cover only dead keys and so change nothing. It is
  /// called before they are inserted, so that no reader finds one that is not flagged yet.
  func beginRedundant() { unsafe writer.pointee.isRedundant = true }

  /// Declares that the tombstones inserted next change the visible keys again.
  func endRedundant() { unsafe writer.pointee.isRedundant = false }

  /// Marks the range into which a point entry is inserted. Called before the entry is visible.
  func noteWrite(_ key: ByteView) {
    var node = unsafe writer.pointee.root
    var floor: TombstoneNode?
    while let here = node {
      if here.key.compare(key) <= 0 {
        floor = here
        node = here.right
      } else {
        node = here.left
      }
    }
    if let floor, floor.sequence != .zero { floor.mark() }
  }

  private func append(_ start: ByteView, _ end: ByteView, _ sequence: SequenceNumber) {
    let isAlone = unsafe !writer.pointee.isEditing
    if isAlone { beginEdit() }
    let root = unsafe writer.pointee.root
    // The previous tombstone over the keys after the end continues there.
    let later = segment(around: end, in: root)
    let (before, rest) = split(root, at: start)
    let (_, after) = split(rest, at: end)
    var tree = merge(before, makeNode(start, sequence))
    if later.lower.map({ $0.compare(end) != 0 }) ?? true {
      let boundary = makeNode(end, later.sequence)
      if later.sequence != .zero, !later.coversAll { boundary.mark() }
      tree = merge(tree, boundary)
    }
    unsafe writer.pointee.root = merge(tree, after)
    let version = unsafe TombstoneVersion(writer.pointee.memory.allocate(TombstoneVersion.size))
    unsafe version.initialize(
      sequence, root: writer.pointee.rootBefore, start: start, end: end, previous: writer.pointee.newest)
    if unsafe writer.pointee.isRedundant { version.noteRedundant() }
    unsafe writer.pointee.newest = version
    // The flags of a version that readers can find do not change.
    assert(unsafe version.isRedundant == writer.pointee.isRedundant, "a range tombstone is published before its flags")
    if isAlone { endEdit() }
  }

  /// Rebuilds all versions with one more among them, each an edit of its own. There are no readers yet.
  private func insertLate(_ start: ByteView, _ end: ByteView, _ sequence: SequenceNumber) {
    let isEditing = unsafe writer.pointee.isEditing
    var tombstones = [(start: start, end: end, sequence: sequence)]
    var version = unsafe writer.pointee.newest
    while let here = version {
      here.forEachTombstone(above: .zero) { tombstones.append(($0, $1, $2)) }
      version = here.previous
    }
    tombstones.sort { $0.sequence < $1.sequence }
    head.store(0, ordering: .relaxed)
    unsafe writer.pointee.newest = nil
    unsafe writer.pointee.root = nil
    unsafe writer.pointee.isEditing = false
    for tombstone in tombstones {
      append(tombstone.start, tombstone.end, tombstone.sequence)
    }
    if isEditing { beginEdit() }
  }

  private func copy(_ key: ByteView) -> ByteView { unsafe writer.pointee.memory.copy(key) }

  // MARK: - The treap

  private func makeNode(_ key: ByteView, _ sequence: SequenceNumber) -> TombstoneNode {
    assert(countWork())
    let node = unsafe TombstoneNode(writer.pointee.memory.allocate(TombstoneNode.size))
    unsafe node.initialize(
      key, sequence, priority: writer.pointee.memory.nextRandom(), edit: writer.pointee.edit)
    unsafe writer.pointee.nodeCount += 1
    return node
  }

  /// Returns the node with other children: the node itself if the current edit created it, otherwise a copy.
  private func change(_ node: TombstoneNode, left: TombstoneNode?, right: TombstoneNode?) -> TombstoneNode {
    let edit = unsafe writer.pointee.edit
    if node.edit == edit {
      node.left = left
      node.right = right
      return node
    }
    assert(countWork())
    let fresh = unsafe TombstoneNode(writer.pointee.memory.allocate(TombstoneNode.size))
    fresh.initialize(node.key, node.sequence, priority: node.priority, edit: edit, left: left, right: right)
    if isMarked(node) { fresh.mark() }
    return fresh
  }

  /// Returns the boundaries before `key`, and those at or after it.
  private func split(_ node: TombstoneNode?, at key: ByteView) -> (TombstoneNode?, TombstoneNode?) {
    guard let node else { return (nil, nil) }
    if node.key.compare(key) < 0 {
      let (middle, after) = split(node.right, at: key)
      return (change(node, left: node.left, right: middle), after)
    }
    let (before, middle) = split(node.left, at: key)
    return (before, change(node, left: middle, right: node.right))
  }

  /// Merges two trees, of which all keys of the first come before those of the second.
  private func merge(_ first: TombstoneNode?, _ second: TombstoneNode?) -> TombstoneNode? {
    guard let first else { return second }
    guard let second else { return first }
    if first.priority > second.priority {
      return change(first, left: first.left, right: merge(first.right, second))
    }
    return change(second, left: merge(first, second.left), right: second.right)
  }
}

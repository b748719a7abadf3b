/// Merges several iterators into one, which returns the entries of all children in order.
///
/// A tournament tree of losers over eight-byte heads (`MergeHeads`) chooses the next child:
///
///                 winner: 2
///                    │
///                 [1] 0            a node holds the child that lost the match
///               ╱        ╲         played there, and its head
///           [2] 1        [3] 3
///          ╱     ╲      ╱     ╲
///     child 0  child 1 child 2 child 3     leaf i sits below node (count + i) / 2
///
/// After the winner moved, only the matches on its path to the root are played again: log2 (count) comparisons of
/// integers. Whole keys are compared if heads tie. While one child wins repeatedly (a run), the best head of the
/// others is remembered, and a head below it needs no match. A single child is passed through.
///
/// # Invariants
/// 1. While valid: each child is at its first entry at or after the merge's position in the scanning direction (or is
///    exhausted), and `slots` holds that entry.
/// 2. `winner` is the child whose entry comes first; each node holds the loser of its match.
/// 3. `runnerUp` is not greater than the head of any other child, or is 0 if it is unknown.
/// 4. After an error the merge is not valid until the next seek, which positions every child again.
///
/// A change of direction seeks in every child but the winner. A step would not be enough: a memtable that grows
/// meanwhile may have received entries between the merge's position and the child's.
///
/// # Safety
/// The merge is the only owner of its memory, which is one allocation, because some callers create a cursor for each
/// seek. Children are stored in place and are destroyed with the merge. The views that it returns are those of the
/// winner, valid until it moves.
///
/// # Concurrency
/// One iterator belongs to one thread at a time.
@safe
struct MergingIterator<Child: InternalIterator & ~Copyable>: InternalIterator, ~Copyable {
  private let children: UnsafeMutablePointer<Child>
  private let slots: UnsafeMutablePointer<MergeSlot>
  private let nodes: UnsafeMutablePointer<MergeNode>
  /// The winners of all matches, used while the tree is built.
  private let bracket: UnsafeMutablePointer<Int>
  private let capacity: Int
  private(set) var childCount = 0
  private var heads: MergeHeads
  private var winner = 0
  private var runnerUp: UInt64 = 0
  /// The number of consecutive wins of the winner.
  private var wins = 0
  private var isForward = true
  private var ties = 0
  private var tieLimit = Self.tieLimitMinimum
  private(set) var isValid = false

  /// The number of wins after which a child is assumed to be in a run, and the best head of the others is computed.
  /// With fewer, it would be computed in vain, and mispredicted, if children take turns at random.
  private static var winsOfRun: Int { 2 }
  /// The number of ties between valid entries after which the merge looks for better heads. A search that changed
  /// nothing doubles the limit, since versions of one key always tie.
  private static var tieLimitMinimum: Int { 64 }
  private static var tieLimitMaximum: Int { 1 << 20 }

  /// Creates a merge with room for `capacity` children, which are appended before the first seek.
  init(capacity: Int) {
    let room = max(capacity, 1)
    self.capacity = room
    var layout = MergeLayout()
    let childrenStart = layout.add(Child.self, room)
    let slotsStart = layout.add(MergeSlot.self, room)
    let nodesStart = layout.add(MergeNode.self, room)
    let bracketStart = layout.add(Int.self, room * 2)
    let anchorStart = layout.add(UInt8.self, MergeHeads.prefixSizeMaximum)
    let memory = UnsafeMutableRawPointer.allocate(byteCount: layout.size, alignment: MergeLayout.alignment)
    // The children are first, because their address is that of the allocation.
    unsafe children = (memory + childrenStart).bindMemory(to: Child.self, capacity: room)
    unsafe slots = (memory + slotsStart).bindMemory(to: MergeSlot.self, capacity: room)
    unsafe nodes = (memory + nodesStart).bindMemory(to: MergeNode.self, capacity: room)
    unsafe bracket = (memory + bracketStart).bindMemory(to: Int.self, capacity: room * 2)
    unsafe heads = MergeHeads(anchor: memory + anchorStart)
    unsafe slots.initialize(repeating: .exhausted, count: room)
    unsafe nodes.initialize(repeating: MergeNode(head: MergeHeads.last, child: 0), count: room)
    unsafe bracket.initialize(repeating: 0, count: room * 2)
  }

  deinit {
    unsafe children.deinitialize(count: childCount)
    unsafe UnsafeMutableRawPointer(children).deallocate()
  }

  mutating func append(_ child: consuming Child) {
    precondition(childCount < capacity, "make the merge with room for all its children")
    unsafe (children + childCount).initialize(to: child)
    childCount += 1
    isValid = false
  }

  /// Replaces the first child. The merge is not valid until its next seek.
  mutating func replaceFirst(_ child: consuming Child) {
    precondition(childCount > 0, "a merge without children has none to replace")
    unsafe children.deinitialize(count: 1)
    unsafe children.initialize(to: child)
    isValid = false
  }

  // MARK: - The entry

  @inline(__always)
  var userKey: ByteView {
    assert(isValid, "an entry is read only while the iterator is valid")
    return unsafe slots[winner].key
  }

  @inline(__always)
  var trailer: Trailer {
    assert(isValid, "an entry is read only while the iterator is valid")
    return unsafe slots[winner].trailer
  }

  @inline(__always)
  var value: ByteView {
    assert(isValid, "an entry is read only while the iterator is valid")
    return unsafe children[winner].value
  }

  /// Calls `body` with the child whose entry is current. The merge is not valid afterwards, until its next seek.
  /// Requires that the merge is valid.
  mutating func withWinner(_ body: (inout Child) -> Void) {
    assert(isValid, "a child is shown only while the iterator is valid")
    unsafe body(&children[winner])
    isValid = false
  }

  // MARK: - Seeks

  mutating func seekToFirst() throws(EngineError) {
    isValid = false
    for child in 0..<childCount { unsafe try children[child].seekToFirst() }
    build(forward: true)
  }

  mutating func seekToLast() throws(EngineError) {
    isValid = false
    for child in 0..<childCount { unsafe try children[child].seekToLast() }
    build(forward: false)
  }

  /// Seeks forward in every child. Requires that the target is not a view of this iterator.
  mutating func seek(_ target: InternalKey) throws(EngineError) {
    isValid = false
    for child in 0..<childCount { unsafe try children[child].seek(target) }
    build(forward: true)
  }

  /// Seeks backward in every child. Requires that the target is not a view of this iterator.
  mutating func seekBefore(_ target: InternalKey) throws(EngineError) {
    isValid = false
    for child in 0..<childCount { unsafe try children[child].seekBefore(target) }
    build(forward: false)
  }

  /// Moves each child forward by `move`.
  mutating func seekEach(
    _ move: (inout Child, _ number: Int) throws(EngineError) -> Void
  ) throws(EngineError) {
    isValid = false
    for child in 0..<childCount { unsafe try move(&children[child], child) }
    build(forward: true)
  }

  /// Returns the lower bound of a child's keys (see `InternalIterator.lowestKey`).
  func lowestKey(of child: Int) -> ByteView? { unsafe children[child].lowestKey }

  /// Returns the first key of a child that iterates over memory, or nil if it has none. The merge is not valid
  /// afterwards.
  mutating func firstKey(inMemory child: Int) throws(EngineError) -> ByteView? {
    isValid = false
    unsafe try children[child].seekToFirst()
    return unsafe children[child].isValid ? children[child].userKey : nil
  }

  /// Seeks to a target at or after the current entry. Children that are there already do not move.
  ///
  /// Requires that the merge is valid and that the target is not a view of this iterator.
  mutating func skip(to target: InternalKey) throws(EngineError) {
    guard isForward, isValid else { return try seek(target) }
    isValid = false
    for child in 0..<childCount {
      let slot = unsafe slots[child]
      if !slot.isValid || InternalKey(slot.key, slot.trailer).compare(target) >= 0 { continue }
      unsafe try children[child].seek(target)
    }
    build(forward: true)
  }

  /// Returns the key of a child's entry, the first one at or after the current one in the direction of the scan.
  ///
  /// Returns nil if the child is exhausted. Requires that the merge is valid.
  func currentKey(of child: Int) -> ByteView? {
    assert(isValid, "children have entries only while the iterator is valid")
    return unsafe slots[child].isValid ? slots[child].key : nil
  }

  /// The index of the child of the current entry. Requires that the merge is valid.
  @inline(__always)
  var winnerIndex: Int { winner }

  /// Moves the child of the current entry to its first entry at or after `target`, which is after the current entry.
  /// Entries before `target` are skipped in this child only.
  ///
  /// Requires that the merge is valid and scans forward, and that the target is not a view of this iterator.
  mutating func skipWinner(to target: InternalKey) throws(EngineError) {
    assert(isValid && isForward, "a child is skipped on from an entry, scanning forward")
    do throws(EngineError) {
      unsafe try children[winner].seek(target)
    } catch {
      isValid = false
      throw error
    }
    didMove()
  }

  /// Skips blocks of tombstones in the child of the current entry, a tombstone, as far as no other child has a key
  /// before their end.
  ///
  /// Returns the number of entries skipped; if it is 0, the merge did not move. Requires that the merge is valid and
  /// scans forward.
  mutating func passDeadBlocks() throws(EngineError) -> Int {
    assert(isValid && isForward, "blocks are passed from an entry, scanning forward")
    var limit: InternalKey?
    // The best of the other children lost to the winner itself, so it is on the winner's path to the root.
    var position = (winner &+ childCount) >> 1
    while position > 0 {
      let other = unsafe slots[nodes[position].child]
      let first = InternalKey(other.key, Trailer(word: .max))
      if other.isValid, limit.map({ first.compare($0) < 0 }) ?? true { limit = first }
      position >>= 1
    }
    let passed: Int
    do throws(EngineError) {
      passed = try unsafe children[winner].passDeadBlocks(before: limit)
    } catch {
      isValid = false
      throw error
    }
    if passed > 0 { didMove() }
    return passed
  }

  /// Moves the child of the current entry, in a backward scan, to its last entry before `target`, which is before the
  /// current entry or at it.
  mutating func skipWinner(before target: InternalKey) throws(EngineError) {
    assert(isValid && !isForward, "a child is skipped back from an entry, scanning backward")
    do throws(EngineError) {
      unsafe try children[winner].seekBefore(target)
    } catch {
      isValid = false
      throw error
    }
    didMove()
  }

  // MARK: - Steps

  @inline(__always)
  mutating func next() throws(EngineError) {
    assert(isValid, "next from an entry only")
    if !isForward { return try turn(forward: true) }
    do throws(EngineError) {
      unsafe try children[winner].next()
    } catch {
      isValid = false
      throw error
    }
    didMove()
  }

  @inline(__always)
  mutating func previous() throws(EngineError) {
    assert(isValid, "previous from an entry only")
    if isForward { return try turn(forward: false) }
    do throws(EngineError) {
      unsafe try children[winner].previous()
    } catch {
      isValid = false
      throw error
    }
    didMove()
  }

  /// Takes the step that reverses the direction.
  @inline(never)
  private mutating func turn(forward: Bool) throws(EngineError) {
    isValid = false
    let slot = unsafe slots[winner]
    // The winner moves last, because the others seek by its key.
    let location = InternalKey(slot.key, slot.trailer)
    for child in 0..<childCount where child != winner {
      if forward { unsafe try children[child].seek(location) } else { unsafe try children[child].seekBefore(location) }
    }
    if forward { unsafe try children[winner].next() } else { unsafe try children[winner].previous() }
    build(forward: forward)
  }

  // MARK: - The tournament

  /// Reads the winner's new position, and determines the new winner.
  @inline(__always)
  private mutating func didMove() {
    let child = winner
    guard unsafe children[child].isValid else { return didExhaust(child) }
    let key = unsafe children[child].userKey
    unsafe slots[child].key = key
    unsafe slots[child].trailer = children[child].trailer
    if childCount == 1 { return }
    let head = heads.head(of: key)
    unsafe slots[child].head = head
    if head < runnerUp { return }
    replay(child, head)
  }

  @inline(never)
  private mutating func didExhaust(_ child: Int) {
    unsafe slots[child] = .exhausted
    replay(child, MergeHeads.last)
  }

  /// Plays the matches from a leaf up to the root.
  ///
  /// If several children take turns, the winner of a match is random, so the exchange is done by masks: a branch
  /// would be mispredicted every other time.
  @inline(__always)
  private mutating func replay(_ leaf: Int, _ leafHead: UInt64) {
    var head = leafHead
    var child = leaf
    var position = (leaf &+ childCount) >> 1
    while position > 0 {
      let node = unsafe nodes[position]
      if node.head == head { return replayTie(leaf, position, head, child) }
      let loses: UInt64 = node.head < head ? .max : 0
      let headChange = (node.head ^ head) & loses
      let childChange = (node.child ^ child) & Int(bitPattern: UInt(loses))
      unsafe nodes[position] = MergeNode(head: node.head ^ headChange, child: node.child ^ childChange)
      head ^= headChange
      child ^= childChange
      position >>= 1
    }
    finishReplay(leaf, head, child)
  }

  /// Finishes a replay from a match whose heads tie.
  @inline(never)
  private mutating func replayTie(_ leaf: Int, _ from: Int, _ fromHead: UInt64, _ fromChild: Int) {
    var head = fromHead
    var child = fromChild
    var position = from
    while position > 0 {
      let node = unsafe nodes[position]
      if node.head == head ? decideTie(node.child, child) : node.head < head {
        unsafe nodes[position] = MergeNode(head: head, child: child)
        head = node.head
        child = node.child
      }
      position >>= 1
    }
    finishReplay(leaf, head, child)
    if ties >= tieLimit { considerHeads() }
  }

  /// Stores the result of the last match.
  @inline(__always)
  private mutating func finishReplay(_ leaf: Int, _ head: UInt64, _ child: Int) {
    winner = child
    wins = child == leaf ? wins &+ 1 : 0
    runnerUp = 0
    if wins >= Self.winsOfRun { runnerUp = bestLoser(of: child) }
    if head == MergeHeads.last { didReachLast() }
  }

  /// Returns the smallest head on the winner's path to the root. It is the best of the others, which lost to the
  /// winner itself.
  @inline(never)
  private func bestLoser(of leaf: Int) -> UInt64 {
    var best = MergeHeads.last
    var position = (leaf &+ childCount) >> 1
    while position > 0 {
      best = min(best, unsafe nodes[position].head)
      position >>= 1
    }
    return best
  }

  /// Returns whether the entry of `left` comes before that of `right`, comparing whole keys.
  @inline(never)
  private mutating func decideTie(_ left: Int, _ right: Int) -> Bool {
    let first = unsafe slots[left]
    let second = unsafe slots[right]
    guard first.isValid, second.isValid else { return first.isValid }
    ties &+= 1
    let order = InternalKey(first.key, first.trailer).compare(InternalKey(second.key, second.trailer))
    // Equal keys violate the contract. Deciding by the order of the children makes even their order deterministic.
    if order == 0 { return isForward == (left < right) }
    return isForward == (order < 0)
  }

  /// Handles a winner that has no entry, that left the region of the heads, or whose head within it is all ones.
  @inline(never)
  private mutating func didReachLast() {
    isValid = unsafe slots[winner].isValid
    considerHeads()
  }

  /// Chooses other heads if the scan left its region, or if heads tie too often.
  @inline(never)
  private mutating func considerHeads() {
    guard isValid, childCount > 1 else { return }
    let key = unsafe slots[winner].key
    let left = !heads.covers(key)
    guard left || ties >= tieLimit else { return }
    ties = 0
    let changed = heads.move(to: key)
    tieLimit = left || changed ? Self.tieLimitMinimum : min(tieLimit * 2, Self.tieLimitMaximum)
    if changed { rebuild() }
  }

  /// Reads the positions of all children and builds the tree.
  private mutating func build(forward: Bool) {
    isForward = forward
    ties = 0
    tieLimit = Self.tieLimitMinimum
    var first: Int?
    var shared = Int.max
    for child in 0..<childCount {
      guard unsafe children[child].isValid else {
        unsafe slots[child] = .exhausted
        continue
      }
      let key = unsafe children[child].userKey
      unsafe slots[child] = MergeSlot(key: key, trailer: children[child].trailer, head: 0, isValid: true)
      if let first {
        shared = min(shared, unsafe slots[first].key.sharedPrefixCount(key))
      } else {
        first = child
      }
    }
    guard let first else {
      isValid = false
      return
    }
    isValid = true
    winner = first
    if childCount == 1 { return }
    unsafe heads.begin(at: slots[first].key, shared: shared, forward: forward)
    rebuild()
  }

  /// Plays every match.
  private mutating func rebuild() {
    for child in 0..<childCount {
      if unsafe slots[child].isValid { unsafe slots[child].head = heads.head(of: slots[child].key) }
      unsafe bracket[childCount &+ child] = child
    }
    var position = childCount &- 1
    while position > 0 {
      let left = unsafe bracket[position &* 2]
      let right = unsafe bracket[position &* 2 &+ 1]
      let leftHead = unsafe slots[left].head
      let rightHead = unsafe slots[right].head
      let leftWins = leftHead == rightHead ? decideTie(left, right) : leftHead < rightHead
      unsafe bracket[position] = leftWins ? left : right
      unsafe nodes[position] = MergeNode(head: leftWins ? rightHead : leftHead, child: leftWins ? right : left)
      position &-= 1
    }
    winner = unsafe bracket[1]
    isValid = unsafe slots[winner].isValid
    runnerUp = 0
    wins = 0
  }
}

// MARK: - Blocks

extension MergingIterator where Child: BlockSource & ~Copyable {
  /// Whether the current entry is the first of a plain block of its child.
  @inline(__always)
  var startsPlainBlock: Bool { unsafe isValid && isForward && children[winner].startsPlainBlock }

  /// Returns whether every user key of the current entry's block is before every remaining user key of the other
  /// children. Requires that the merge is valid and scans forward.
  func blockEndsBeforeOthers() -> Bool {
    // The best of the other children lost to the winner itself, so it is on the winner's path to the root.
    var position = (winner &+ childCount) >> 1
    while position > 0 {
      let other = unsafe slots[nodes[position].child]
      if other.isValid, !blockEnds(before: InternalKey(other.key, Trailer(word: .max))) { return false }
      position >>= 1
    }
    return true
  }

  /// Returns whether the last entry of the current entry's block is before `limit`. Requires that the merge is valid.
  func blockEnds(before limit: InternalKey) -> Bool {
    unsafe children[winner].blockEnds(before: limit)
  }

  /// Calls `body` with the child of the current entry. Requires that the merge is valid.
  func withWinner<R, E: Error>(_ body: (borrowing Child) throws(E) -> R) throws(E) -> R {
    assert(isValid, "there is a winner only while the iterator is valid")
    return try unsafe body(children[winner])
  }

  /// Skips the rest of the current entry's block. Requires that the merge is valid and that `blockEndsBeforeOthers`
  /// returned true.
  mutating func skipBlock() throws(EngineError) {
    assert(isValid && isForward, "a block is skipped from an entry, scanning forward")
    do throws(EngineError) {
      unsafe try children[winner].nextBlock()
    } catch {
      isValid = false
      throw error
    }
    didMove()
  }
}

/// A child of a merge that may be positioned at the start of a stored block, which a compaction can copy whole
/// instead of row by row.
protocol BlockSource: InternalIterator, ~Copyable {
  /// Whether the iterator is at the first entry of a stored block that holds only puts, each of a different user key,
  /// none of which is also in a neighboring block of the table.
  var startsPlainBlock: Bool { get }

  /// Returns whether the last entry of the current block is before `limit`. Requires that the iterator is valid.
  func blockEnds(before limit: InternalKey) -> Bool

  /// Moves to the first entry after the current block. Requires that the iterator is valid.
  mutating func nextBlock() throws(EngineError)
}

/// Several iterators as one: the entries of all children in one order.
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
/// After the winner moved, only the matches on its way up are played again: log2 (count) comparisons of
/// integers. Whole keys are compared where heads tie. While one child wins again and again (a run), the
/// best of the others is remembered, and a head below it needs no match at all. A single child is
/// passed through.
///
/// # Invariants
/// 1. While valid: each child stands on its first entry at or after the merge's position, in the scanning
///    direction (or is exhausted), and `slots` holds what it stands on.
/// 2. `winner` is the child whose entry comes first; each node holds the loser of its match.
/// 3. `runnerUp` is not greater than the head of every other child, or 0 if it isn't known.
/// 4. After an error nothing is valid until the next seek, which positions every child again.
///
/// A change of direction seeks in every child but the winner. It doesn't step: a memtable that grows
/// meanwhile could have got entries between the merge's position and the child's.
///
/// # Safety
/// The only owner of its memory, which is one piece, because a cursor is made for each seek of some
/// users; children live in place and are destroyed with the merge. The views that it hands out are those of the winner, valid until it moves.
///
/// # Concurrency
/// One iterator belongs to one thread at a time.
@safe
struct MergingIterator<Child: InternalIterator & ~Copyable>: InternalIterator, ~Copyable {
  private let children: UnsafeMutablePointer<Child>
  private let slots: UnsafeMutablePointer<MergeSlot>
  private let nodes: UnsafeMutablePointer<MergeNode>
  /// The winners of all matches, while the tree is built.
  private let bracket: UnsafeMutablePointer<Int>
  private let capacity: Int
  private(set) var childCount = 0
  private var heads: MergeHeads
  private var winner = 0
  private var runnerUp: UInt64 = 0
  /// How often the winner has won since another child did.
  private var wins = 0
  private var isForward = true
  private var ties = 0
  private var tieLimit = Self.tieLimitMinimum
  private(set) var isValid = false

  /// After so many wins a child is taken to be in a run, and the others' best head is found. Fewer would
  /// find it in vain, and mispredict, where children take turns at random.
  private static var winsOfRun: Int { 2 }
  /// So many ties between valid entries let the merge look for better heads; a look that changed
  /// nothing doubles the limit, since versions of one key tie by nature.
  private static var tieLimitMinimum: Int { 64 }
  private static var tieLimitMaximum: Int { 1 << 20 }

  /// A merge with room for `capacity` children, which are appended before the first seek.
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
    // Children first: their address is that of the memory.
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

  /// Puts another child instead of the first. The merge is not valid until its next seek.
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

  /// Hands out the child whose entry is shown, for the last time before the next seek. Requires: valid.
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

  /// Requires: the target is not a view of this iterator.
  mutating func seek(_ target: InternalKey) throws(EngineError) {
    isValid = false
    for child in 0..<childCount { unsafe try children[child].seek(target) }
    build(forward: true)
  }

  /// Requires: the target is not a view of this iterator.
  mutating func seekBefore(_ target: InternalKey) throws(EngineError) {
    isValid = false
    for child in 0..<childCount { unsafe try children[child].seekBefore(target) }
    build(forward: false)
  }

  /// Moves each child by `move`, forward.
  mutating func seekEach(
    _ move: (inout Child, _ number: Int) throws(EngineError) -> Void
  ) throws(EngineError) {
    isValid = false
    for child in 0..<childCount { unsafe try move(&children[child], child) }
    build(forward: true)
  }

  /// See `InternalIterator.lowestKey`.
  func lowestKey(of child: Int) -> ByteView? { unsafe children[child].lowestKey }

  /// The first key of a child that lies in memory; nil if it has none. The merge is not valid then.
  mutating func firstKey(inMemory child: Int) throws(EngineError) -> ByteView? {
    isValid = false
    unsafe try children[child].seekToFirst()
    return unsafe children[child].isValid ? children[child].userKey : nil
  }

  /// As `seek`, for a target at or after the present entry: children that are there already stay.
  ///
  /// Requires: valid; the target is not a view of this iterator.
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

  /// The child that the present entry is of. Requires: valid.
  @inline(__always)
  var winnerIndex: Int { winner }

  /// Moves one child, that of the present entry, to its first entry at or after `target`, which is after
  /// the present one: what lies between is passed in this child alone.
  ///
  /// Requires: valid, scanning forward; the target is not a view of this iterator.
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

  /// Passes blocks of tombstones in the child of the present entry, a tombstone, as far as no other child has a key
  /// before their end. Returns how many entries it passed; 0: the merge stays.
  ///
  /// Requires: valid, scanning forward.
  mutating func passDeadBlocks() throws(EngineError) -> Int {
    assert(isValid && isForward, "blocks are passed from an entry, scanning forward")
    var limit: InternalKey?
    // The best of the others lost to the winner itself, so it is on the winner's way up.
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

  /// The same, scanning backward: to its last entry before `target`, which is before the present one or at it.
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

  /// Takes the step that changes the direction.
  @inline(never)
  private mutating func turn(forward: Bool) throws(EngineError) {
    isValid = false
    let slot = unsafe slots[winner]
    // The winner moves last: the others seek by its key.
    let location = InternalKey(slot.key, slot.trailer)
    for child in 0..<childCount where child != winner {
      if forward { unsafe try children[child].seek(location) } else { unsafe try children[child].seekBefore(location) }
    }
    if forward { unsafe try children[winner].next() } else { unsafe try children[winner].previous() }
    build(forward: forward)
  }

  // MARK: - The tournament

  /// Takes over where the winner stands now, and finds the new winner.
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

  /// Plays the matches from a leaf up.
  ///
  /// Which side wins is random where several children take turns, so the exchange is done by masks: a
  /// branch would be mispredicted every other time.
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

  /// The rest of a replay from a match whose heads tie.
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

  /// Takes the result of the last match.
  @inline(__always)
  private mutating func finishReplay(_ leaf: Int, _ head: UInt64, _ child: Int) {
    winner = child
    wins = child == leaf ? wins &+ 1 : 0
    runnerUp = 0
    if wins >= Self.winsOfRun { runnerUp = bestLoser(of: child) }
    if head == MergeHeads.last { didReachLast() }
  }

  /// The smallest head on the winner's way up: the best of the others lost to the winner itself.
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

  /// Whether the entry of `left` comes before that of `right`, by whole keys.
  @inline(never)
  private mutating func decideTie(_ left: Int, _ right: Int) -> Bool {
    let first = unsafe slots[left]
    let second = unsafe slots[right]
    guard first.isValid, second.isValid else { return first.isValid }
    ties &+= 1
    let order = InternalKey(first.key, first.trailer).compare(InternalKey(second.key, second.trailer))
    // Equal keys are against the contract; children in order make even them come out the same each time.
    if order == 0 { return isForward == (left < right) }
    return isForward == (order < 0)
  }

  /// The winner has no entry, or left the region of the heads (or has a head of all ones in it).
  @inline(never)
  private mutating func didReachLast() {
    isValid = unsafe slots[winner].isValid
    considerHeads()
  }

  /// Takes other heads where the scan left its region, or where they tie too often.
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

  /// Takes over where all children stand.
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
  /// Whether the present entry begins a plain block of its child.
  @inline(__always)
  var startsPlainBlock: Bool { unsafe isValid && isForward && children[winner].startsPlainBlock }

  /// Whether every user key of the present entry's block is before every user key that the other
  /// children have left. Requires: valid, scanning forward.
  func blockEndsBeforeOthers() -> Bool {
    // The best of the others lost to the winner itself, so it is on the winner's way up.
    var position = (winner &+ childCount) >> 1
    while position > 0 {
      let other = unsafe slots[nodes[position].child]
      if other.isValid, !blockEnds(before: InternalKey(other.key, Trailer(word: .max))) { return false }
      position >>= 1
    }
    return true
  }

  /// Whether the last entry of the present entry's block is before `limit`. Requires: valid.
  func blockEnds(before limit: InternalKey) -> Bool {
    unsafe children[winner].blockEnds(before: limit)
  }

  /// The child that the present entry is of. Requires: valid.
  func withWinner<R, E: Error>(_ body: (borrowing Child) throws(E) -> R) throws(E) -> R {
    assert(isValid, "there is a winner only while the iterator is valid")
    return try unsafe body(children[winner])
  }

  /// Leaves the rest of the present entry's block out. Requires: valid, `blockEndsBeforeOthers`.
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

/// A child of a merge that may stand at the start of a stored block, which a compaction could copy
/// whole instead of row by row.
protocol BlockSource: InternalIterator, ~Copyable {
  /// Whether the iterator stands on the first entry of a stored block that holds puts alone, each of a
  /// user key of its own, and none of a key that a neighbouring block of the table has too.
  var startsPlainBlock: Bool { get }

  /// Whether the last entry of the block that it stands in is before `limit`. Requires: valid.
  func blockEnds(before limit: InternalKey) -> Bool

  /// To the first entry after the block that it stands in. Requires: valid.
  mutating func nextBlock() throws(EngineError)
}

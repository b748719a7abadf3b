internal import Synchronization

/// The range tombstones of a memtable, cut into fragments as they come: a tombstone costs the logarithm of
/// how many there are, and a read or a new cursor cuts nothing.
///
/// # Shape
/// A persistent treap: nodes are never changed, a change copies the path to it. A node is a *boundary*: from
/// its key on, up to the next boundary, the newest tombstone is `sequence` (zero: none). Each tombstone
/// makes a version with a root of its own, which differs from the one before by a path or two:
///
///     versions   9 ──▶ 7 ──▶ 4          a reader at 8 searches in the tree of version 7
///                │     │     │
///     roots      ◇     ◇     ◇
///
/// Because a tombstone is newer than all before it, a version's tree says of each stretch only the newest:
/// a reader between two versions uses the older one. A version also leads to one further back
/// (`jump`: Myers, "An applicative random-access stack", 1983), so that an old snapshot finds its own in logarithmic time.
///
/// # Points written later
/// A boundary is marked when a point entry goes into its stretch after the tombstone. What isn't marked is
/// wholly dead for every reader that sees the tombstone, so a cursor passes it in one seek.
///
/// # Invariants
/// 1. Sequences of versions ascend. One that comes late (a log may be replayed out of order) makes all
///    versions anew, before there are readers.
/// 2. What was published is never moved or freed before the memtable dies.
///
/// # Concurrency
/// One writer: `insert`, `noteWrite`. Any number of readers, without locks: they begin at `head`, which is
/// stored after what it leads to.
@safe
struct RangeTombstoneTree: ~Copyable {
  /// The newest version; 0: there is none.
  private let head = Atomic<UInt>(0)
  private let memory: UnsafeMutablePointer<ChunkedMemory>

  init() {
    unsafe memory = .allocate(capacity: 1)
    unsafe memory.initialize(to: ChunkedMemory())
  }

  deinit {
    unsafe memory.deinitialize(count: 1)
    unsafe memory.deallocate()
  }

  @inline(__always)
  var isEmpty: Bool { head.load(ordering: .relaxed) == 0 }

  /// Bytes of memory taken. The writer's.
  var memorySize: Int { unsafe memory.pointee.size }

  /// How many tombstones there are.
  var count: Int { newest.map { Int($0.depth) } ?? 0 }

  private var newest: TombstoneVersion? {
    unsafe UnsafeMutableRawPointer(bitPattern: head.load(ordering: .acquiring)).map { unsafe TombstoneVersion($0) }
  }

  /// The version that a reader at `sequence` sees.
  private func version(at sequence: SequenceNumber) -> TombstoneVersion? {
    var version = newest
    while let candidate = version, candidate.sequence > sequence {
      if let jump = candidate.jump, jump.sequence > sequence { version = jump } else { version = candidate.previous }
    }
    return version
  }

  // MARK: - Reading

  /// The newest tombstone over `key` that a reader at `sequence` sees; zero if there is none.
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

  /// The stretch around `key` as a reader at `sequence` sees it.
  func segment(around key: ByteView, at sequence: SequenceNumber) -> TombstoneSegment {
    var segment = TombstoneSegment.uncovered
    var node = version(at: sequence)?.root
    while let here = node {
      if here.key.compare(key) <= 0 {
        segment.sequence = here.sequence
        segment.lower = here.key
        segment.coversAll = !here.isMarked
        node = here.right
      } else {
        segment.upper = here.key
        node = here.left
      }
    }
    return segment
  }

  /// Calls `body` for each stretch that a reader at `sequence` sees covered, in order.
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
    visit(node.left, body)
    body(node)
    visit(node.right, body)
  }

  /// Calls `body` for each tombstone as it was written, newest first, above `sequence`.
  func forEachTombstone(
    above sequence: SequenceNumber, _ body: (_ start: ByteView, _ end: ByteView, SequenceNumber) -> Void
  ) {
    var version = newest
    while let here = version, here.sequence > sequence {
      body(here.start, here.end, here.sequence)
      version = here.previous
    }
  }

  /// The newest tombstone over `key` above `sequence` that changed anything; nil: none did.
  func change(of key: ByteView, above sequence: SequenceNumber) -> SequenceNumber? {
    var reader = SequenceNumber.maximum
    while true {
      let covering = self.sequence(covering: key, at: reader)
      guard covering > sequence else { return nil }
      guard let version = version(at: covering), version.isRedundant else { return covering }
      reader = SequenceNumber(covering.value - 1)
    }
  }

  /// The stretch around `key` in which all is alike; with `coversAll`, nothing was written into it since
  /// `sequence` but tombstones over the whole of it.
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

  /// As `forEachTombstone`, for those that changed anything.
  func forEachChange(
    above sequence: SequenceNumber, _ body: (_ start: ByteView, _ end: ByteView, SequenceNumber) -> Void
  ) {
    var version = newest
    while let here = version, here.sequence > sequence {
      if !here.isRedundant { body(here.start, here.end, here.sequence) }
      version = here.previous
    }
  }

  /// The newest tombstone that a reader at `sequence` sees, over whatever keys; nil if there is none.
  func newest(at sequence: SequenceNumber) -> SequenceNumber? { version(at: sequence)?.sequence }

  /// Whether the tombstone of just this sequence is here.
  func contains(_ sequence: SequenceNumber) -> Bool { version(at: sequence)?.sequence == sequence }

  // MARK: - Writing

  /// Adds a tombstone over the keys from `start` to before `end`. False if it is here already. `isLate` says
  /// that newer entries may be there already, which only happens before anybody reads.
  ///
  /// Requires: `start` is before `end`.
  func insert(_ start: ByteView, _ end: ByteView, _ sequence: SequenceNumber, isLate: Bool = false) -> Bool {
    if let newest, newest.sequence >= sequence {
      if contains(sequence) { return false }
      insertLate(copy(start), copy(end), sequence)
    } else {
      append(copy(start), copy(end), sequence)
    }
    // Whether newer points lie inside is not known.
    if isLate || newest?.sequence != sequence { visit(newest?.root) { $0.mark() } }
    return true
  }

  /// Notes that the newest tombstone covers only what was dead before: it is no change. The writer's, as is
  /// the answer: whoever looks for changes leads the commits.
  func noteRedundant() { newest?.noteRedundant() }

  /// Marks the stretch that a point entry goes into. Called before the entry is visible.
  func noteWrite(_ key: ByteView) {
    var node = newest?.root
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
    let last = newest
    // What the tombstones before said of the keys behind the end goes on there.
    let behind = last.map { _ in segment(around: end, at: .maximum) } ?? .uncovered
    let (before, rest) = split(last?.root, at: start)
    let (_, after) = split(rest, at: end)
    var tree = merge(before, makeNode(start, sequence))
    if behind.lower.map({ $0.compare(end) != 0 }) ?? true {
      let boundary = makeNode(end, behind.sequence)
      if behind.sequence != .zero, !behind.coversAll { boundary.mark() }
      tree = merge(tree, boundary)
    }
    tree = merge(tree, after)
    guard let root = tree else { fatalError("a tree with a boundary just added has a root") }
    let version = unsafe TombstoneVersion(memory.pointee.allocate(TombstoneVersion.size))
    version.initialize(sequence, root: root, start: start, end: end, previous: last)
    head.store(version.bits, ordering: .releasing)  // partner: `newest`
  }

  /// Makes all versions anew with one more among them. Nobody reads yet.
  private func insertLate(_ start: ByteView, _ end: ByteView, _ sequence: SequenceNumber) {
    var tombstones = [(start: start, end: end, sequence: sequence)]
    forEachTombstone(above: .zero) { tombstones.append(($0, $1, $2)) }
    tombstones.sort { $0.sequence < $1.sequence }
    head.store(0, ordering: .relaxed)
    for tombstone in tombstones {
      append(tombstone.start, tombstone.end, tombstone.sequence)
    }
  }

  private func copy(_ key: ByteView) -> ByteView {
    let target = unsafe memory.pointee.allocate(max(key.count, 1))
    unsafe target.copyMemory(from: key.base, byteCount: key.count)
    return unsafe ByteView(base: UnsafeRawPointer(target), count: key.count)
  }

  // MARK: - The treap

  private func makeNode(_ key: ByteView, _ sequence: SequenceNumber) -> TombstoneNode {
    let node = unsafe TombstoneNode(memory.pointee.allocate(TombstoneNode.size))
    node.initialize(key, sequence, priority: unsafe memory.pointee.nextRandom())
    return node
  }

  private func copy(_ node: TombstoneNode, left: TombstoneNode?, right: TombstoneNode?) -> TombstoneNode {
    let fresh = unsafe TombstoneNode(memory.pointee.allocate(TombstoneNode.size))
    fresh.initialize(node.key, node.sequence, priority: node.priority, left: left, right: right)
    if node.isMarked { fresh.mark() }
    return fresh
  }

  /// The boundaries before `key`, and those at it or behind.
  private func split(_ node: TombstoneNode?, at key: ByteView) -> (TombstoneNode?, TombstoneNode?) {
    guard let node else { return (nil, nil) }
    if node.key.compare(key) < 0 {
      let (middle, after) = split(node.right, at: key)
      return (copy(node, left: node.left, right: middle), after)
    }
    let (before, middle) = split(node.left, at: key)
    return (before, copy(node, left: middle, right: node.right))
  }

  /// One tree of two, of which all of the first comes before the second.
  private func merge(_ first: TombstoneNode?, _ second: TombstoneNode?) -> TombstoneNode? {
    guard let first else { return second }
    guard let second else { return first }
    if first.priority > second.priority {
      return copy(first, left: first.left, right: merge(first.right, second))
    }
    return copy(second, left: merge(first, second.left), right: second.right)
  }
}

/// A boundary of a `RangeTombstoneTree`.
///
/// ```
///  0          8         16         24    32     40        44      48
///  ┌──────────┬─────────┬──────────┬─────┬──────┬──────────┬───────┐
///  │ sequence │ key ptr │ key size │ left│ right│ priority │ marked│
///  └──────────┴─────────┴──────────┴─────┴──────┴──────────┴───────┘
/// ```
///
/// Written whole before anybody sees it; only the mark changes later, and only from 0 to 1.
@safe
private struct TombstoneNode {
  static let size = 48
  private let base: UnsafeMutableRawPointer

  init(_ base: UnsafeMutableRawPointer) { unsafe self.base = base }

  func initialize(
    _ key: ByteView, _ sequence: SequenceNumber, priority: UInt32, left: TombstoneNode? = nil,
    right: TombstoneNode? = nil
  ) {
    unsafe base.storeBytes(of: sequence.value, as: UInt64.self)
    unsafe base.storeBytes(of: UInt(bitPattern: key.base), toByteOffset: 8, as: UInt.self)
    unsafe base.storeBytes(of: key.count, toByteOffset: 16, as: Int.self)
    unsafe base.storeBytes(of: left?.bits ?? 0, toByteOffset: 24, as: UInt.self)
    unsafe base.storeBytes(of: right?.bits ?? 0, toByteOffset: 32, as: UInt.self)
    unsafe base.storeBytes(of: priority, toByteOffset: 40, as: UInt32.self)
    unsafe base.storeBytes(of: 0, toByteOffset: 44, as: UInt32.self)
  }

  var bits: UInt { unsafe UInt(bitPattern: base) }
  var sequence: SequenceNumber { unsafe SequenceNumber(base.load(as: UInt64.self)) }
  var priority: UInt32 { unsafe base.load(fromByteOffset: 40, as: UInt32.self) }
  var left: TombstoneNode? { child(24) }
  var right: TombstoneNode? { child(32) }

  var key: ByteView {
    let address = unsafe UnsafeRawPointer(bitPattern: base.load(fromByteOffset: 8, as: UInt.self)).unsafelyUnwrapped
    return unsafe ByteView(base: address, count: base.load(fromByteOffset: 16, as: Int.self))
  }

  private func child(_ offset: Int) -> TombstoneNode? {
    unsafe UnsafeMutableRawPointer(bitPattern: base.load(fromByteOffset: offset, as: UInt.self))
      .map { unsafe TombstoneNode($0) }
  }

  private var markWord: UnsafeMutablePointer<Atomic<UInt32>> {
    unsafe (base + 44).assumingMemoryBound(to: Atomic<UInt32>.self)
  }

  var isMarked: Bool { unsafe markWord.pointee.load(ordering: .relaxed) != 0 }
  func mark() { unsafe markWord.pointee.store(1, ordering: .relaxed) }
}

/// What one tombstone made of a `RangeTombstoneTree`, and the tombstone itself.
///
/// Eight-byte words: sequence, root, previous version, jump, start (pointer, size), end (pointer, size),
/// depth, whether it is redundant.
@safe
private struct TombstoneVersion {
  static let size = 80
  private let base: UnsafeMutableRawPointer

  init(_ base: UnsafeMutableRawPointer) { unsafe self.base = base }

  func initialize(
    _ sequence: SequenceNumber, root: TombstoneNode, start: ByteView, end: ByteView, previous: TombstoneVersion?
  ) {
    unsafe base.storeBytes(of: sequence.value, as: UInt64.self)
    store(root.bits, 8)
    store(previous?.bits ?? 0, 16)
    store(Self.jump(from: previous)?.bits ?? 0, 24)
    store(unsafe UInt(bitPattern: start.base), 32)
    store(UInt(start.count), 40)
    store(unsafe UInt(bitPattern: end.base), 48)
    store(UInt(end.count), 56)
    store((previous?.depth ?? 0) + 1, 64)
    store(0, 72)
  }

  /// Where two jumps of the same length lead to the one before, that is passed; else it is one step.
  private static func jump(from previous: TombstoneVersion?) -> TombstoneVersion? {
    guard let previous, let near = previous.jump else { return previous }
    guard let far = near.jump else { return previous }
    return previous.depth - near.depth == near.depth - far.depth ? far : previous
  }

  private func store(_ word: UInt, _ offset: Int) {
    unsafe base.storeBytes(of: word, toByteOffset: offset, as: UInt.self)
  }
  private func load(_ offset: Int) -> UInt { unsafe base.load(fromByteOffset: offset, as: UInt.self) }

  private func key(_ offset: Int) -> ByteView {
    let address = unsafe UnsafeRawPointer(bitPattern: load(offset)).unsafelyUnwrapped
    return unsafe ByteView(base: address, count: Int(load(offset + 8)))
  }

  private func version(_ offset: Int) -> TombstoneVersion? {
    unsafe UnsafeMutableRawPointer(bitPattern: load(offset)).map { unsafe TombstoneVersion($0) }
  }

  var bits: UInt { unsafe UInt(bitPattern: base) }
  var sequence: SequenceNumber { unsafe SequenceNumber(base.load(as: UInt64.self)) }
  var root: TombstoneNode? {
    unsafe UnsafeMutableRawPointer(bitPattern: load(8)).map { unsafe TombstoneNode($0) }
  }
  var previous: TombstoneVersion? { version(16) }
  var jump: TombstoneVersion? { version(24) }
  var start: ByteView { key(32) }
  var end: ByteView { key(48) }
  /// How many versions there are up to this one.
  var depth: UInt { load(64) }
  /// See `noteRedundant` of the tree.
  var isRedundant: Bool { load(72) != 0 }
  func noteRedundant() { store(1, 72) }
}

/// Memory that is handed out piece by piece and freed as a whole.
///
/// One writer's; what was handed out stays where it is.
///
/// # Safety
/// Owns all chunks.
@safe
private struct ChunkedMemory: ~Copyable {
  /// The addresses of all chunks.
  private var chunks: [UInt] = []
  private var next: UInt = 0
  private var free = 0
  private(set) var size = 0
  private var random: UInt64 = 0x9e37_79b9_7f4a_7c15

  private static let chunkSize = 16 * 1024

  deinit {
    for chunk in chunks { unsafe UnsafeMutableRawPointer(bitPattern: chunk)?.deallocate() }
  }

  /// `count` bytes, aligned to eight.
  mutating func allocate(_ count: Int) -> UnsafeMutableRawPointer {
    let rounded = (count + 7) & ~7
    if rounded > free {
      // The first chunk is small: most memtables with tombstones have few.
      let wanted = max(rounded, chunks.isEmpty ? 1024 : Self.chunkSize)
      next = UInt(bitPattern: UnsafeMutableRawPointer.allocate(byteCount: wanted, alignment: 16))
      chunks.append(next)
      free = wanted
      size += wanted
    }
    defer {
      next += UInt(rounded)
      free -= rounded
    }
    return unsafe UnsafeMutableRawPointer(bitPattern: next).unsafelyUnwrapped
  }

  /// Priorities of nodes: xorshift, the same in each run.
  mutating func nextRandom() -> UInt32 {
    random ^= random << 13
    random ^= random >> 7
    random ^= random << 17
    return UInt32(truncatingIfNeeded: random >> 32)
  }
}

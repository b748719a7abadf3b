internal import Synchronization

/// A boundary of a `RangeTombstoneTree`.
///
/// ```
///  0          8         16     24      32         36     40         44
///  ┌──────────┬─────────┬──────┬───────┬──────────┬──────┬──────────┬────────┐
///  │ sequence │ key ptr │ left │ right │ priority │ edit │ key size │ marked │
///  └──────────┴─────────┴──────┴───────┴──────────┴──────┴──────────┴────────┘
/// ```
///
/// A node is written completely before a reader sees it. Until then the edit that created it may change it; later
/// only the mark changes, and only from 0 to 1.
@safe
struct TombstoneNode {
  static let size = 48
  private let base: UnsafeMutableRawPointer

  init(_ base: UnsafeMutableRawPointer) { unsafe self.base = base }

  func initialize(
    _ key: ByteView, _ sequence: SequenceNumber, priority: UInt32, edit: UInt32, left: TombstoneNode? = nil,
    right: TombstoneNode? = nil
  ) {
    unsafe base.storeBytes(of: sequence.value, as: UInt64.self)
    unsafe base.storeBytes(of: UInt(bitPattern: key.base), toByteOffset: 8, as: UInt.self)
    unsafe base.storeBytes(of: left?.bits ?? 0, toByteOffset: 16, as: UInt.self)
    unsafe base.storeBytes(of: right?.bits ?? 0, toByteOffset: 24, as: UInt.self)
    unsafe base.storeBytes(of: priority, toByteOffset: 32, as: UInt32.self)
    unsafe base.storeBytes(of: edit, toByteOffset: 36, as: UInt32.self)
    unsafe base.storeBytes(of: UInt32(key.count), toByteOffset: 40, as: UInt32.self)
    unsafe base.storeBytes(of: 0, toByteOffset: 44, as: UInt32.self)
  }

  var bits: UInt { unsafe UInt(bitPattern: base) }
  var priority: UInt32 { unsafe base.load(fromByteOffset: 32, as: UInt32.self) }
  /// The edit that created the node. Only that edit may change it.
  var edit: UInt32 { unsafe base.load(fromByteOffset: 36, as: UInt32.self) }

  var sequence: SequenceNumber {
    get { unsafe SequenceNumber(base.load(as: UInt64.self)) }
    nonmutating set { unsafe base.storeBytes(of: newValue.value, as: UInt64.self) }
  }

  var left: TombstoneNode? {
    get { child(16) }
    nonmutating set { unsafe base.storeBytes(of: newValue?.bits ?? 0, toByteOffset: 16, as: UInt.self) }
  }

  var right: TombstoneNode? {
    get { child(24) }
    nonmutating set { unsafe base.storeBytes(of: newValue?.bits ?? 0, toByteOffset: 24, as: UInt.self) }
  }

  var key: ByteView {
    let address = unsafe UnsafeRawPointer(bitPattern: base.load(fromByteOffset: 8, as: UInt.self)).unsafelyUnwrapped
    return unsafe ByteView(base: address, count: Int(base.load(fromByteOffset: 40, as: UInt32.self)))
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

/// One tombstone of a `RangeTombstoneTree`, and the tree that a reader at its sequence number searches.
///
/// ```
///  0          8      16         24     32          40        48           52         54       56        64
///  ┌──────────┬──────┬──────────┬──────┬───────────┬─────────┬────────────┬──────────┬────────┬─────────┐
///  │ sequence │ root │ previous │ jump │ start ptr │ end ptr │ start size │ end size │  depth │  flags  │
///  └──────────┴──────┴──────────┴──────┴───────────┴─────────┴────────────┴──────────┴────────┴─────────┘
/// ```
///
/// Sizes of keys have 16 bits (`Limits.keySizeMaximum`); the depth has 32.
///
/// A prepared edit has one version for all its tombstones, the first one of its tree. `start ptr` is then the address
/// of their records (`TombstoneRecord`), the word of `end ptr` holds the sequence number of the batch's first entry,
/// and the depth is the number of the tombstones.
@safe
struct TombstoneVersion {
  static let size = 64
  private let base: UnsafeMutableRawPointer

  init(_ base: UnsafeMutableRawPointer) { unsafe self.base = base }

  func initialize(
    _ sequence: SequenceNumber, root: TombstoneNode?, start: ByteView, end: ByteView, previous: TombstoneVersion?
  ) {
    unsafe base.storeBytes(of: sequence.value, as: UInt64.self)
    store(root?.bits ?? 0, 8)
    store(previous?.bits ?? 0, 16)
    store(Self.jump(from: previous)?.bits ?? 0, 24)
    store(unsafe UInt(bitPattern: start.base), 32)
    store(unsafe UInt(bitPattern: end.base), 40)
    unsafe base.storeBytes(of: UInt16(start.count), toByteOffset: 48, as: UInt16.self)
    unsafe base.storeBytes(of: UInt16(end.count), toByteOffset: 50, as: UInt16.self)
    unsafe base.storeBytes(of: (previous?.depth ?? 0) &+ 1, toByteOffset: 52, as: UInt32.self)
    store(0, 56)
  }

  /// Initializes the version of a prepared edit, whose newest tombstone has this sequence number.
  func initialize(_ sequence: SequenceNumber, records: TombstoneRecord, count: UInt32, first: SequenceNumber) {
    unsafe base.storeBytes(of: sequence.value, as: UInt64.self)
    for offset in [8, 16, 24] { store(0, offset) }
    store(records.bits, 32)
    unsafe base.storeBytes(of: first.value, toByteOffset: 40, as: UInt64.self)
    unsafe base.storeBytes(of: 0, toByteOffset: 48, as: UInt32.self)
    unsafe base.storeBytes(of: count, toByteOffset: 52, as: UInt32.self)
    store(Self.preparedFlag, 56)
  }

  /// Returns the jump link of a version after `previous`: if two jumps of the same length lead there, the link skips
  /// both; otherwise it is one step.
  private static func jump(from previous: TombstoneVersion?) -> TombstoneVersion? {
    guard let previous, let near = previous.jump else { return previous }
    guard let far = near.jump else { return previous }
    return previous.depth &- near.depth == near.depth &- far.depth ? far : previous
  }

  private func store(_ word: UInt, _ offset: Int) {
    unsafe base.storeBytes(of: word, toByteOffset: offset, as: UInt.self)
  }
  private func load(_ offset: Int) -> UInt { unsafe base.load(fromByteOffset: offset, as: UInt.self) }

  private func key(_ offset: Int, sizeAt sizeOffset: Int) -> ByteView {
    let address = unsafe UnsafeRawPointer(bitPattern: load(offset)).unsafelyUnwrapped
    return unsafe ByteView(base: address, count: Int(base.load(fromByteOffset: sizeOffset, as: UInt16.self)))
  }

  private func version(_ offset: Int) -> TombstoneVersion? {
    unsafe UnsafeMutableRawPointer(bitPattern: load(offset)).map { unsafe TombstoneVersion($0) }
  }

  var bits: UInt { unsafe UInt(bitPattern: base) }
  var previous: TombstoneVersion? { version(16) }
  var jump: TombstoneVersion? { version(24) }
  /// The start of the tombstone's range. Requires that the version is not prepared.
  var start: ByteView { key(32, sizeAt: 48) }
  /// The end of the tombstone's range. Requires that the version is not prepared.
  var end: ByteView { key(40, sizeAt: 50) }
  /// The number of tombstones up to this version.
  var depth: UInt32 { unsafe base.load(fromByteOffset: 52, as: UInt32.self) }

  // The flags are plain: like the rest of the version, they are stored before it is published and never after that,
  // so the release of `head` and the acquire of its readers order them.
  private static let redundantFlag: UInt = 1
  private static let endFlag: UInt = 2
  private static let preparedFlag: UInt = 4

  /// Whether the tombstone covers only dead keys (see `beginRedundant` of the tree).
  var isRedundant: Bool { load(56) & Self.redundantFlag != 0 }
  /// Whether the version is the last of its edit. Readers begin there.
  var endsEdit: Bool { load(56) & Self.endFlag != 0 }
  /// Whether the version represents all tombstones of a prepared edit.
  private var isPrepared: Bool { load(56) & Self.preparedFlag != 0 }

  /// Flags the version as redundant. Requires that it is not published.
  func noteRedundant() { store(load(56) | Self.redundantFlag, 56) }
  /// Flags the version as the last of its edit. Requires that it is not published.
  func noteEnd() { store(load(56) | Self.endFlag, 56) }

  /// Calls `body` with the tombstones of the version above `sequence`: its own, or all of a prepared edit, oldest
  /// first.
  func forEachTombstone(
    above sequence: SequenceNumber, _ body: (_ start: ByteView, _ end: ByteView, SequenceNumber) -> Void
  ) {
    guard isPrepared else {
      if self.sequence > sequence { body(start, end, self.sequence) }
      return
    }
    guard let address = unsafe UnsafeMutableRawPointer(bitPattern: load(32)) else { return }
    var record = unsafe TombstoneRecord(address)
    for index in 0..<depth {
      if index > 0 { record = record.next }
      let found = SequenceNumber(firstSequence.value + UInt64(record.index))
      if found > sequence { body(record.start, record.end, found) }
    }
  }

  /// Returns whether the version has the tombstone with exactly this sequence number. A prepared edit has all range
  /// deletes of its family between its first and its last sequence number.
  func contains(_ sequence: SequenceNumber) -> Bool {
    isPrepared ? sequence >= firstSequence && sequence <= self.sequence : sequence == self.sequence
  }

  /// The sequence number of the first entry of a prepared edit's batch. Requires that the version is prepared.
  private var firstSequence: SequenceNumber {
    SequenceNumber(unsafe base.load(fromByteOffset: 40, as: UInt64.self))
  }

  /// The sequence number of the tombstone, or of the last tombstone of a prepared edit.
  var sequence: SequenceNumber { unsafe SequenceNumber(base.load(as: UInt64.self)) }

  /// The tree of the edit if the version is its last; otherwise the tree before the edit, because no reader is
  /// between them.
  var root: TombstoneNode? {
    get { unsafe UnsafeMutableRawPointer(bitPattern: load(8)).map { unsafe TombstoneNode($0) } }
    nonmutating set { store(newValue?.bits ?? 0, 8) }
  }
}

/// Memory that is allocated piece by piece and freed as a whole.
///
/// It has one writer. Allocations do not move.
///
/// # Safety
/// The memory owns all chunks.
@safe
struct TombstoneMemory: ~Copyable {
  private struct Chunk {
    let address: UInt
    let size: Int
  }

  private var chunks: [Chunk] = []
  private var next: UInt = 0
  private var free = 0
  private(set) var size = 0
  private var random: UInt64 = 0x9e37_79b9_7f4a_7c15

  static let chunkSize = 16 * 1024

  deinit {
    for chunk in chunks {
      if let base = unsafe UnsafeMutableRawPointer(bitPattern: chunk.address) {
        unsafe LargeMemory.release(base, chunk.size)
      }
    }
  }

  /// Allocates `count` bytes, aligned to eight, for objects not larger than a key. Stops the process if the system
  /// has no memory.
  mutating func allocate(_ count: Int) -> UnsafeMutableRawPointer {
    do throws(EngineError) { return try unsafe reserve(count) } catch { fatalError("\(error)") }
  }

  /// Allocates `count` bytes, aligned to eight. Throws `.noMemory`, in which case nothing has changed.
  mutating func reserve(_ count: Int) throws(EngineError) -> UnsafeMutableRawPointer {
    let rounded = (count + 7) & ~7
    if rounded > free {
      // The first chunk is small, because most memtables with tombstones have few.
      let wanted = max(rounded, chunks.isEmpty ? 1024 : Self.chunkSize)
      next = try unsafe UInt(bitPattern: LargeMemory.reserve(wanted))
      chunks.append(Chunk(address: next, size: wanted))
      free = wanted
      size += wanted
    }
    defer {
      next += UInt(rounded)
      free -= rounded
    }
    return unsafe UnsafeMutableRawPointer(bitPattern: next).unsafelyUnwrapped
  }

  /// Takes over all chunks of another memory. Allocations in them do not move.
  mutating func adopt(_ other: inout TombstoneMemory) {
    chunks.append(contentsOf: other.chunks)
    size += other.size
    other.chunks = []
    other.size = 0
    other.free = 0
  }

  /// Returns a copy of a key.
  mutating func copy(_ key: ByteView) -> ByteView {
    let target = unsafe allocate(max(key.count, 1))
    unsafe target.copyMemory(from: key.base, byteCount: key.count)
    return unsafe ByteView(base: UnsafeRawPointer(target), count: key.count)
  }

  /// Returns the next priority of a node, by xorshift: the sequence is the same in each run.
  mutating func nextRandom() -> UInt32 {
    random ^= random << 13
    random ^= random >> 7
    random ^= random << 17
    return UInt32(truncatingIfNeeded: random >> 32)
  }
}

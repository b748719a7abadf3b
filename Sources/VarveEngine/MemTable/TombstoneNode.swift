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
/// Written whole before a reader sees it. Until then the edit that made it may change it; later only the mark changes,
/// and only from 0 to 1.
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
  /// The edit that made the node: only that one may change it.
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

/// One tombstone of a `RangeTombstoneTree`, and the tree that a reader at its sequence searches.
///
/// ```
///  0          8      16         24     32          40        48           52         54       56        64
///  ┌──────────┬──────┬──────────┬──────┬───────────┬─────────┬────────────┬──────────┬────────┬─────────┐
///  │ sequence │ root │ previous │ jump │ start ptr │ end ptr │ start size │ end size │  depth │  flags  │
///  └──────────┴──────┴──────────┴──────┴───────────┴─────────┴────────────┴──────────┴────────┴─────────┘
/// ```
///
/// Sizes of keys have 16 bits (`Limits.keySizeMaximum`), the depth has 32. Of the flags, 1 says that the tombstone is
/// redundant, 2 that it is the last of its edit.
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

  /// Where two jumps of the same length lead to the one before, that is passed; else it is one step.
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
  var start: ByteView { key(32, sizeAt: 48) }
  var end: ByteView { key(40, sizeAt: 50) }
  /// How many versions there are up to this one.
  var depth: UInt32 { unsafe base.load(fromByteOffset: 52, as: UInt32.self) }
  /// See `noteRedundant` of the tree.
  var isRedundant: Bool { load(56) & 1 != 0 }
  func noteRedundant() { store(load(56) | 1, 56) }
  /// Whether it is the last of its edit: readers begin there.
  var endsEdit: Bool { load(56) & 2 != 0 }
  func noteEnd() { store(load(56) | 2, 56) }

  var sequence: SequenceNumber {
    get { unsafe SequenceNumber(base.load(as: UInt64.self)) }
    nonmutating set { unsafe base.storeBytes(of: newValue.value, as: UInt64.self) }
  }

  /// The tree of the edit's last version; of the others, that of the edit before: no reader is between them.
  var root: TombstoneNode? {
    get { unsafe UnsafeMutableRawPointer(bitPattern: load(8)).map { unsafe TombstoneNode($0) } }
    nonmutating set { store(newValue?.bits ?? 0, 8) }
  }
}

/// Memory that is handed out piece by piece and freed as a whole.
///
/// One writer's; what was handed out stays where it is.
///
/// # Safety
/// Owns all chunks.
@safe
struct TombstoneMemory: ~Copyable {
  /// The addresses of all chunks.
  private var chunks: [UInt] = []
  private var next: UInt = 0
  private var free = 0
  private(set) var size = 0
  private var random: UInt64 = 0x9e37_79b9_7f4a_7c15

  static let chunkSize = 16 * 1024

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

  /// Takes over all chunks of another. What was handed out of them stays where it is.
  mutating func adopt(_ other: inout TombstoneMemory) {
    chunks.append(contentsOf: other.chunks)
    size += other.size
    other.chunks = []
    other.size = 0
    other.free = 0
  }

  /// A copy of a key.
  mutating func copy(_ key: ByteView) -> ByteView {
    let target = unsafe allocate(max(key.count, 1))
    unsafe target.copyMemory(from: key.base, byteCount: key.count)
    return unsafe ByteView(base: UnsafeRawPointer(target), count: key.count)
  }

  /// Priorities of nodes: xorshift, the same in each run.
  mutating func nextRandom() -> UInt32 {
    random ^= random << 13
    random ^= random >> 7
    random ^= random << 17
    return UInt32(truncatingIfNeeded: random >> 32)
  }
}

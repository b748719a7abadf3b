/// A value that is being decoded, or a part of one that a container was asked for.
struct DecodingFrame: BitwiseCopyable {
  enum Kind: UInt8 {
    /// Not looked at yet, or a value without parts.
    case value
    /// There is nothing: the super decoder of a record without one.
    case nothing
    case record, map, array
    /// An array of records of one shape.
    case uniformArray
    /// Bytes, which are read as an array.
    case bytes
  }

  /// Never the same for two frames of a decoder.
  let id: UInt32
  var kind: Kind
  let depth: Int
  /// The frame that this is a part of, and which part: the position of a field, the index of an element, or the offset
  /// of an entry's key.
  let parent: Int
  let part: Int
  /// Where the value begins.
  let start: Int
  /// How many offsets there were before this frame.
  let offsetsBefore: Int
  /// How many fields, entries or elements.
  var count = 0
  /// The first part that was not passed yet, and where it begins, after `owed` values that were begun and left.
  var next = 0
  var cursor: Int
  var owed = 0
  /// Where the parts begin.
  var body = 0
  /// Record: where the offsets of its fields stand.
  var offsets = 0
  /// Record: its shape. Array of records: theirs.
  var shape: ShapeReference?
  /// Record: the key type that was asked for last, and the positions of its keys.
  var table: KeyTablePointer?
  var positions: PositionTable?

  init(id: UInt32, kind: Kind, depth: Int, parent: Int, part: Int, start: Int, offsetsBefore: Int) {
    self.id = id
    self.kind = kind
    self.depth = depth
    self.parent = parent
    self.part = part
    self.start = start
    self.offsetsBefore = offsetsBefore
    cursor = start
  }

  var fieldCount: Int { shape?.fieldCount ?? 0 }
}

/// A field or an entry, found.
struct DecodingPosition {
  let slot: Int
  /// As `DecodingFrame.part`.
  let part: Int
  let start: Int
  /// Moves over the value as it is read.
  var offset: Int
  /// Whether it is the first part that was not passed yet.
  let isNext: Bool

  @inline(__always)
  init(slot: Int, part: Int, start: Int, isNext: Bool) {
    self.slot = slot
    self.part = part
    self.start = start
    self.isNext = isNext
    offset = start
  }
}

/// Where the fields of the open records begin.
///
/// # Safety
/// The only owner of its memory. Offsets are within a frame's own part, which was appended for it.
@safe
struct OffsetStack: ~Copyable {
  private var base: UnsafeMutablePointer<UInt32>
  private(set) var capacity = 64
  private(set) var count = 0

  init() { unsafe base = .allocate(capacity: capacity) }

  deinit { unsafe base.deallocate() }

  /// Makes room for some offsets, which are not set.
  @inline(__always)
  mutating func append(_ extra: Int) {
    if capacity &- count < extra { grow(extra) }
    count &+= extra
  }

  @inline(never)
  private mutating func grow(_ extra: Int) {
    let wanted = max(capacity * 2, count + extra)
    let larger = UnsafeMutablePointer<UInt32>.allocate(capacity: wanted)
    unsafe UnsafeMutableRawPointer(larger).copyMemory(
      from: base, byteCount: count * MemoryLayout<UInt32>.stride)
    unsafe base.deallocate()
    unsafe base = larger
    capacity = wanted
  }

  /// Removes all offsets, and gives back the memory of so many as few values have.
  @inline(__always)
  mutating func reset() {
    count = 0
    if capacity > CoderLimits.keptOffsets { shrink() }
  }

  @inline(never)
  private mutating func shrink() {
    unsafe base.deallocate()
    capacity = CoderLimits.keptOffsets
    unsafe base = .allocate(capacity: capacity)
  }

  @inline(__always)
  mutating func truncate(to newCount: Int) {
    precondition(newCount >= 0 && newCount <= count, "truncate only to a shorter length")
    count = newCount
  }

  @inline(__always)
  subscript(index: Int) -> Int {
    get {
      assert(index >= 0 && index < count, "an offset that is not there")
      return unsafe Int(base[index])
    }
    set {
      assert(index >= 0 && index < count, "an offset that is not there")
      unsafe base[index] = UInt32(truncatingIfNeeded: newValue)
    }
  }
}

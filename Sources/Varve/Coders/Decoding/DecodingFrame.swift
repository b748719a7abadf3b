/// The state of a value that is being decoded, or of a part for which a container was requested.
struct DecodingFrame: BitwiseCopyable {
  enum Kind: UInt8 {
    /// A value that was not inspected yet, or that has no parts.
    case value
    /// A missing value: the super decoder of a record without one.
    case nothing
    case record, map, array
    /// An array of records of the same shape.
    case uniformArray
    /// Bytes that are read as an array.
    case bytes
  }

  /// An id that is unique among the frames of a decoder.
  let id: UInt32
  var kind: Kind
  let depth: Int
  /// The parent frame, and the part of it that this frame is: the position of a field, the index of an element, or the
  /// offset of an entry's key.
  let parent: Int
  let part: Int
  /// The offset at which the value begins.
  let start: Int
  /// The number of offsets before this frame.
  let offsetsBefore: Int
  /// The number of fields, entries or elements.
  var count = 0
  /// The first part that was not passed yet. It begins at `cursor`, after `owed` values that were only partly read.
  var next = 0
  var cursor: Int
  var owed = 0
  /// The offset at which the parts begin.
  var body = 0
  /// For a record, the index of its first field offset.
  var offsets = 0
  /// The shape of a record, or of the records of a uniform array.
  var shape: ShapeReference?
  /// For a record, the key type of the last request, and the positions of its keys.
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

/// A field or an entry that was found.
struct DecodingPosition {
  let slot: Int
  /// The part of the frame: see `DecodingFrame.part`.
  let part: Int
  let start: Int
  /// The offset of the next byte, which advances as the value is read.
  var offset: Int
  /// Whether this is the first part that was not passed yet.
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

/// The offsets of the fields of the open records.
///
/// # Safety
/// The stack is the only owner of its memory. Indexes are within a frame's own section, which was appended for it.
@safe
struct OffsetStack: ~Copyable {
  private var base: UnsafeMutablePointer<UInt32>
  private(set) var capacity = 64
  private(set) var count = 0

  init() { unsafe base = .allocate(capacity: capacity) }

  deinit { unsafe base.deallocate() }

  /// Appends space for some offsets, which are not initialized.
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

  /// Removes all offsets, and frees memory that exceeds what most values need.
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

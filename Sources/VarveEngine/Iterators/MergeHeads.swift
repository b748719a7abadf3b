/// How a merge turns a key into one integer whose order decides almost every match.
///
/// The head of a key is its eight bytes after a *prefix* that the keys of the moment share: keys such
/// as `0000000000004711` or those of one collection have their first eight bytes in common, so that
/// heads from the start of the key would tie on each match.
///
///     key          0 0 0 0 0 0 0 0 0 0 0 0 4 7 1 1
///                  ╰── prefix ───╯ ╰──── head ────╯
///
/// The prefix belongs to the region of the keys that the merge scans through. A key outside has the
/// head `last`. Scanning backward, heads are inverted, so that the smaller head comes first either way.
///
/// # Invariants
/// 1. `anchor` holds the first bytes of a key at or after which (in the scanning direction) every child
///    stands; the prefix is the first `prefixSize` bytes of it.
/// 2. Of two such keys the one with the smaller head comes first. Equal heads decide nothing.
///    Proof: keys with the prefix order as what follows it, and padding the eight bytes with zeros
///    never inverts an order. Scanning forward, a key without the prefix is not before the anchor, which
///    has it, so it is after every key with it, and `last` is not below any head. Scanning backward
///    the same holds with "before" and "after" exchanged and heads inverted.
///
/// # How the prefix is chosen
/// After a seek it is what all children's keys share. When the scan leaves the region, or when ties
/// became frequent, it is what the scan's present key shares with the anchor, the present key of the
/// last time: the part of the key that stood still meanwhile. It never reaches into the last eight
/// bytes of the key, since a head holds those in any case. Leaving a region always shortens the prefix,
/// and it grows only after many ties: so regions that are left at every step can't persist.
///
/// # Safety
/// The anchor's memory is the merge's, which keeps it as long as this.
@safe
struct MergeHeads: ~Copyable, @unchecked Sendable {
  // Sendable: sole user of its memory.
  private let anchor: UnsafeMutableRawPointer
  private var anchorSize = 0
  private(set) var prefixSize = 0
  /// All ones when the scan goes backward.
  private(set) var inversion: UInt64 = 0

  /// The head of no entry, and of keys outside of the region.
  static let last = UInt64.max
  /// The longest prefix. Each step compares it, in eights of bytes.
  static let prefixSizeMaximum = 64

  /// Heads that keep their anchor in `prefixSizeMaximum` bytes from `anchor` on.
  init(anchor: UnsafeMutableRawPointer) { unsafe self.anchor = anchor }

  @inline(__always)
  private var anchorView: ByteView { unsafe ByteView(base: UnsafeRawPointer(anchor), count: anchorSize) }

  /// Whether `key` lies in the region.
  @inline(__always)
  func covers(_ key: ByteView) -> Bool {
    let size = prefixSize
    if size == 0 { return true }
    if key.count < size { return false }
    if size < 8 {
      var index = 0
      while index < size {
        if key[index] != anchorView[index] { return false }
        index &+= 1
      }
      return true
    }
    var offset = 0
    while offset &+ 8 <= size {
      if key.load(offset, as: UInt64.self) != load(offset) { return false }
      offset &+= 8
    }
    // The last eight bytes of the prefix, which may overlap those compared before.
    return key.load(size &- 8, as: UInt64.self) == load(size &- 8)
  }

  @inline(__always)
  private func load(_ offset: Int) -> UInt64 {
    unsafe UInt64(littleEndian: anchor.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
  }

  @inline(__always)
  func head(of key: ByteView) -> UInt64 {
    covers(key) ? key.head(from: prefixSize) ^ inversion : Self.last
  }

  /// Begins a scan whose keys share `shared` bytes with `key`, which is one of them.
  mutating func begin(at key: ByteView, shared: Int, forward: Bool) {
    inversion = forward ? 0 : .max
    setRegion(at: key, shared: shared)
  }

  /// Moves the region to `key`, the scan's present key. False if the prefix stays as long as it was.
  mutating func move(to key: ByteView) -> Bool {
    let before = prefixSize
    setRegion(at: key, shared: anchorView.sharedPrefixCount(key))
    return prefixSize != before
  }

  private mutating func setRegion(at key: ByteView, shared: Int) {
    anchorSize = min(key.count, Self.prefixSizeMaximum)
    unsafe anchor.copyMemory(from: key.base, byteCount: anchorSize)
    prefixSize = max(0, min(shared, key.count &- 8, Self.prefixSizeMaximum))
  }
}

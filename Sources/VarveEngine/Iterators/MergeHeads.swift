/// Maps keys to integers whose order decides almost every match of a merge.
///
/// The head of a key is the eight bytes after a *prefix* that the current keys share. Keys such as
/// `0000000000004711`, or those of one collection, have their first eight bytes in common, so heads from the start of
/// the key would tie in each match.
///
///     key          0 0 0 0 0 0 0 0 0 0 0 0 4 7 1 1
///                  ╰── prefix ───╯ ╰──── head ────╯
///
/// The prefix belongs to the region of keys that the merge currently scans. A key outside of it has the head `last`.
/// In a backward scan, heads are inverted, so that the smaller head comes first in either direction.
///
/// # Invariants
/// 1. `anchor` holds the first bytes of a key; every child is at or after it in the scanning direction. The prefix is
///    the first `prefixSize` bytes of `anchor`.
/// 2. Of two such keys, the one with the smaller head comes first. Equal heads do not decide an order. Proof: keys
///    with the prefix are ordered by the bytes after it, and padding the eight bytes with zeros never inverts an
///    order. In a forward scan, a key without the prefix is not before the anchor, which has the prefix, so it is
///    after every key with the prefix, and `last` is not below any head. In a backward scan, the argument holds with
///    "before" and "after" exchanged and heads inverted.
///
/// # How the prefix is chosen
/// After a seek, the prefix is what the keys of all children share. When the scan leaves the region, or when ties
/// became frequent, the new prefix is what the scan's current key shares with the anchor, which is the current key of
/// the previous choice: the part of the key that did not change in between. The prefix never includes the last eight
/// bytes of the key, since a head holds those in any case. Leaving a region always shortens the prefix, and it grows
/// only after many ties, so the scan cannot keep leaving its region at every step.
///
/// # Safety
/// The anchor's memory belongs to the merge, which keeps it as long as this value.
@safe
struct MergeHeads: ~Copyable, @unchecked Sendable {
  // Sendable: this value is the only user of its memory.
  private let anchor: UnsafeMutableRawPointer
  private var anchorSize = 0
  private(set) var prefixSize = 0
  /// All ones in a backward scan, otherwise zero.
  private(set) var inversion: UInt64 = 0

  /// The head of a child without an entry, and of keys outside of the region.
  static let last = UInt64.max
  /// The size of the longest prefix. Each step compares the prefix, in words of eight bytes.
  static let prefixSizeMaximum = 64

  /// Creates heads that keep their anchor in the `prefixSizeMaximum` bytes at `anchor`.
  init(anchor: UnsafeMutableRawPointer) { unsafe self.anchor = anchor }

  @inline(__always)
  private var anchorView: ByteView { unsafe ByteView(base: UnsafeRawPointer(anchor), count: anchorSize) }

  /// Returns whether `key` is in the region.
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

  /// Moves the region to `key`, the scan's current key. Returns false if the prefix keeps its size.
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

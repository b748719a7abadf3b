internal import CVarve

/// One entry of a memtable, as a pointer into the arena.
///
/// ```
///  0         8              12               16          16 + key size
///  ┌─────────┬──────────────┬────────────────┬───────────┬─────────────┬ zero to seven bytes up to
///  │ trailer │ key size u32 │ value size u32 │ key bytes │ value bytes │ a multiple of eight
///  └─────────┴──────────────┴────────────────┴───────────┴─────────────┘
/// ```
///
/// Integers are in native byte order, because a record never leaves the process.
///
/// # Safety
/// A record is written completely before its offset is published and is never changed afterwards, so its reads are
/// plain. It lives as long as its memtable.
@safe
struct MemTableRecord {
  static let headerSize = 16

  private let base: UnsafeMutableRawPointer

  @inline(__always)
  init(_ base: UnsafeMutableRawPointer) { unsafe self.base = base }

  /// Returns the number of bytes that an entry takes in the arena.
  @inline(__always)
  static func size(keySize: Int, valueSize: Int) -> Int { (headerSize &+ keySize &+ valueSize &+ 7) & ~7 }

  @inline(__always)
  var trailer: Trailer { unsafe Trailer(word: base.load(as: UInt64.self)) }

  @inline(__always)
  var keySize: Int { unsafe Int(base.load(fromByteOffset: 8, as: UInt32.self)) }

  @inline(__always)
  var userKey: ByteView {
    unsafe ByteView(base: UnsafeRawPointer(base) + MemTableRecord.headerSize, count: keySize)
  }

  @inline(__always)
  var value: ByteView {
    let start = MemTableRecord.headerSize &+ keySize
    return unsafe ByteView(
      base: UnsafeRawPointer(base) + start, count: Int(base.load(fromByteOffset: 12, as: UInt32.self)))
  }

  @inline(__always)
  var internalKey: InternalKey { InternalKey(userKey, trailer) }

  /// Prefetches the first cache lines of a record that will be read soon.
  @inline(__always)
  func prefetch() {
    unsafe cvarve_prefetch(base)
    unsafe cvarve_prefetch(base + 64)
  }

  /// Writes a record that is not published yet.
  @inline(__always)
  func write(_ key: ByteView, _ trailer: Trailer, _ value: ByteView) {
    unsafe base.storeBytes(of: trailer.word, as: UInt64.self)
    unsafe base.storeBytes(of: UInt32(truncatingIfNeeded: key.count), toByteOffset: 8, as: UInt32.self)
    unsafe base.storeBytes(of: UInt32(truncatingIfNeeded: value.count), toByteOffset: 12, as: UInt32.self)
    let start = unsafe base + MemTableRecord.headerSize
    unsafe start.copyMemory(from: key.base, byteCount: key.count)
    unsafe (start + key.count).copyMemory(from: value.base, byteCount: value.count)
  }

  /// Returns a negative number, zero or a positive number if the record sorts before, equal to or after `target`.
  ///
  /// Requires that both keys share their first `prefixSize` bytes and that their heads after those are equal. So
  /// either they share eight more bytes, or the shorter one is a prefix of the other, whose next bytes are zeros:
  /// then the sizes decide.
  @inline(__always)
  func compare(_ target: SearchKey, afterHeadAt prefixSize: Int) -> Int {
    let size = keySize
    let targetSize = target.key.count
    let decided = prefixSize &+ 8
    if size > decided && targetSize > decided {
      let order = userKey.dropFirst(decided).compare(target.key.dropFirst(decided))
      if order != 0 { return order }
    } else if size != targetSize {
      return size &- targetSize
    }
    let word = trailer.word
    if word == target.trailer.word { return 0 }
    return word > target.trailer.word ? -1 : 1
  }
}

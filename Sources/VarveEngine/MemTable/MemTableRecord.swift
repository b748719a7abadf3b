/// An entry in a memtable's arena. It never moves and never changes.
///
/// ```
/// 0  8  trailer      8  4  key size      12  4  value size      16  key, value
/// ```
///
/// # Safety
/// `address` is a whole record in a live arena.
@safe
struct MemTableRecord {
  static let headerSize = 16

  let address: UnsafeRawPointer

  @inline(__always)
  init(base: UnsafeMutableRawPointer, _ offset: UInt32) {
    unsafe address = UnsafeRawPointer(base) + (Int(offset) << 3)
  }

  @inline(__always)
  static func size(keySize: Int, valueSize: Int) -> Int { headerSize &+ keySize &+ valueSize }

  @inline(__always)
  var trailer: Trailer { unsafe Trailer(word: address.load(as: UInt64.self)) }

  @inline(__always)
  var userKey: ByteView {
    unsafe ByteView(
      base: address + Self.headerSize, count: Int(address.load(fromByteOffset: 8, as: UInt32.self)))
  }

  @inline(__always)
  var value: ByteView {
    let keySize = unsafe Int(address.load(fromByteOffset: 8, as: UInt32.self))
    return unsafe ByteView(
      base: address + (Self.headerSize &+ keySize), count: Int(address.load(fromByteOffset: 12, as: UInt32.self)))
  }

  @inline(__always)
  var internalKey: InternalKey { InternalKey(userKey, trailer) }

  @inline(__always)
  static func store(
    _ userKey: ByteView, _ trailer: Trailer, _ value: ByteView, in arena: MemTableArena
  ) -> UInt32 {
    let offset = arena.allocate(size(keySize: userKey.count, valueSize: value.count))
    let target = unsafe arena.address(offset)
    unsafe target.storeBytes(of: trailer.word, as: UInt64.self)
    unsafe target.storeBytes(of: UInt32(userKey.count), toByteOffset: 8, as: UInt32.self)
    unsafe target.storeBytes(of: UInt32(value.count), toByteOffset: 12, as: UInt32.self)
    unsafe (target + headerSize).copyMemory(from: userKey.base, byteCount: userKey.count)
    unsafe (target + headerSize + userKey.count).copyMemory(from: value.base, byteCount: value.count)
    return offset
  }
}

/// The current key of a scan.
///
/// Each step copies and compares it, so for keys of usual sizes both are done by a few loads instead of calls.
///
/// # Safety
/// The buffer is the only owner of its memory. `view` is valid until the next change.
@safe
struct KeyBuffer: ~Copyable, @unchecked Sendable {
  // Sendable: sole owner of its memory.
  private var base: UnsafeMutableRawPointer
  private var capacity = 128
  private(set) var count = 0

  init() { unsafe base = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 16) }

  deinit { unsafe base.deallocate() }

  @inline(__always)
  var view: ByteView { unsafe ByteView(base: UnsafeRawPointer(base), count: count) }

  /// Copies `key`, which may be a view of this buffer.
  @inline(__always)
  mutating func assign(_ key: ByteView) {
    let size = key.count
    count = size
    if size >= 8, size <= 32 {
      // The loads from the front and those from the end overlap: every byte is in one of them.
      if size <= 16 {
        let front = unsafe key.base.loadUnaligned(as: UInt64.self)
        let back = unsafe key.base.loadUnaligned(fromByteOffset: size &- 8, as: UInt64.self)
        unsafe base.storeBytes(of: front, as: UInt64.self)
        unsafe base.storeBytes(of: back, toByteOffset: size &- 8, as: UInt64.self)
      } else {
        let front = unsafe key.base.loadUnaligned(as: SIMD2<UInt64>.self)
        let back = unsafe key.base.loadUnaligned(fromByteOffset: size &- 16, as: SIMD2<UInt64>.self)
        unsafe base.storeBytes(of: front, as: SIMD2<UInt64>.self)
        unsafe base.storeBytes(of: back, toByteOffset: size &- 16, as: SIMD2<UInt64>.self)
      }
      return
    }
    assignLong(key)
  }

  @inline(never)
  private mutating func assignLong(_ key: ByteView) {
    if key.count > capacity {
      unsafe base.deallocate()
      capacity = key.count * 2
      unsafe base = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 16)
    }
    unsafe base.copyMemory(from: key.base, byteCount: key.count)
  }

  /// Returns whether the buffer holds exactly `key`. Neighboring keys differ near their end, so the end is compared
  /// first.
  @inline(__always)
  func equals(_ key: ByteView) -> Bool {
    let size = count
    if key.count != size { return false }
    if size < 8 { return view.equals(key) }
    let tail = size &- 8
    if unsafe base.loadUnaligned(fromByteOffset: tail, as: UInt64.self)
      != key.base.loadUnaligned(fromByteOffset: tail, as: UInt64.self)
    {
      return false
    }
    return view.slice(0, tail).equals(key.slice(0, tail))
  }
}

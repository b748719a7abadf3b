#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// A growing buffer that bytes and little-endian integers are appended to, and in which appended integers can be
/// patched.
///
/// `append` costs amortized O(bytes). The memory is freed with the writer; `removeAll` keeps it for reuse. A writer
/// with a capacity of zero allocates nothing before the first byte.
///
/// # Safety
/// The writer is the only owner of its memory. `view` is valid until the next change of the writer.
@safe
struct ByteWriter: ~Copyable, @unchecked Sendable {
  // Sendable: sole owner of its memory.
  private(set) var base: UnsafeMutableRawPointer
  private(set) var count: Int = 0
  private(set) var capacity: Int
  private let mapsLarge: Bool

  /// Creates an empty writer. `mapsLarge` allocates with `LargeMemory`, for buffers that are allocated and freed with
  /// tables; otherwise the heap is faster, and grows a large buffer without a second one.
  init(capacity: Int = 256, mapsLarge: Bool = false) {
    self.mapsLarge = mapsLarge
    self.capacity = capacity <= 0 ? 0 : max(capacity, 16)
    if self.capacity == 0 {
      unsafe self.base = UnsafeMutableRawPointer(bitPattern: 16).unsafelyUnwrapped
    } else {
      do throws(EngineError) {
        unsafe self.base = try ByteWriter.allocate(self.capacity, mapsLarge)
      } catch {
        // As with an array, a caller that can't throw has no way without memory.
        fatalError("\(error)")
      }
    }
  }

  deinit { if capacity > 0 { unsafe ByteWriter.release(base, capacity, mapsLarge) } }

  private static func allocate(_ size: Int, _ mapsLarge: Bool) throws(EngineError) -> UnsafeMutableRawPointer {
    if mapsLarge { return try unsafe LargeMemory.reserve(size) }
    guard let memory = unsafe malloc(size) else { throw noMemory(size) }
    return unsafe memory
  }

  private static func noMemory(_ size: Int) -> EngineError {
    EngineError(.noMemory, "the system has no \(size) bytes of memory for a buffer")
  }

  private static func release(_ base: UnsafeMutableRawPointer, _ size: Int, _ mapsLarge: Bool) {
    if mapsLarge { unsafe LargeMemory.release(base, size) } else { unsafe free(base) }
  }

  var view: ByteView { unsafe ByteView(base: UnsafeRawPointer(base), count: count) }
  var bytes: [UInt8] { view.bytes }

  /// Removes all bytes and keeps the memory.
  mutating func removeAll() { count = 0 }

  /// Removes all bytes after the first `newCount`.
  mutating func truncate(to newCount: Int) {
    precondition(newCount >= 0 && newCount <= count, "truncate only to a shorter length")
    count = newCount
  }

  /// Removes the bytes in `range` and moves the bytes after it to its start.
  mutating func remove(_ range: Range<Int>) {
    precondition(range.lowerBound >= 0 && range.upperBound <= count, "remove only what was appended")
    unsafe (base + range.lowerBound).copyMemory(from: base + range.upperBound, byteCount: count - range.upperBound)
    count -= range.count
  }

  /// Reserves capacity for `extra` more bytes.
  @inline(__always)
  mutating func reserve(_ extra: Int) {
    if capacity &- count < extra { grow(extra) }
  }

  /// Reserves capacity for `extra` more bytes, if the size is chosen by a caller of the engine.
  ///
  /// Throws `.noMemory` if the system does not have enough memory.
  @inline(__always)
  mutating func reserveOrThrow(_ extra: Int) throws(EngineError) {
    if capacity &- count < extra { try growOrThrow(extra) }
  }

  @inline(never)
  private mutating func growOrThrow(_ extra: Int) throws(EngineError) {
    let wanted = grownCapacity(for: extra)
    if capacity > 0, !mapsLarge {
      // The system moves the pages of a large buffer instead of copying them.
      guard let larger = unsafe realloc(base, wanted) else { throw ByteWriter.noMemory(wanted) }
      unsafe base = larger
    } else {
      let larger = try unsafe ByteWriter.allocate(wanted, mapsLarge)
      unsafe larger.copyMemory(from: base, byteCount: count)
      if capacity > 0 { unsafe ByteWriter.release(base, capacity, mapsLarge) }
      unsafe base = larger
    }
    capacity = wanted
  }

  private func grownCapacity(for extra: Int) -> Int {
    // Mapped memory counts towards the memory budget, so it grows by a quarter instead of doubling.
    let isMapped = mapsLarge && capacity >= LargeMemory.mappedSizeMinimum
    return max(isMapped ? capacity / 4 * 5 : capacity * 2, count + extra, 16)
  }

  @inline(never)
  private mutating func grow(_ extra: Int) {
    do throws(EngineError) { try growOrThrow(extra) } catch { fatalError("\(error)") }
  }

  @inline(__always)
  mutating func append(_ bytes: ByteView) {
    reserve(bytes.count)
    unsafe (base + count).copyMemory(from: bytes.base, byteCount: bytes.count)
    count &+= bytes.count
  }

  mutating func append(_ bytes: [UInt8]) { bytes.withByteView { append($0) } }

  mutating func append(repeating byte: UInt8, count extra: Int) {
    reserve(extra)
    unsafe (base + count).initializeMemory(as: UInt8.self, repeating: byte, count: extra)
    count &+= extra
  }

  @inline(__always)
  mutating func append<T: FixedWidthInteger & BitwiseCopyable>(integer value: T) {
    reserve(MemoryLayout<T>.size)
    unsafe base.storeBytes(of: value.littleEndian, toByteOffset: count, as: T.self)
    count &+= MemoryLayout<T>.size
  }

  @inline(__always)
  mutating func append(varint value: UInt64) {
    reserve(Varint.maximumSize)
    count &+= unsafe Varint.store(value, to: base + count)
  }

  /// Appends a varint count, and then the bytes.
  mutating func append(lengthPrefixed bytes: ByteView) {
    append(varint: UInt64(bytes.count))
    append(bytes)
  }

  /// Appends zeros up to the next multiple of `alignment`.
  mutating func pad(to alignment: Int) {
    let rest = count % alignment
    if rest != 0 { append(repeating: 0, count: alignment - rest) }
  }

  /// Overwrites an integer that was appended before.
  mutating func patch<T: FixedWidthInteger & BitwiseCopyable>(integer value: T, at offset: Int) {
    precondition(offset >= 0 && offset + MemoryLayout<T>.size <= count, "patch only what was appended")
    unsafe base.storeBytes(of: value.littleEndian, toByteOffset: offset, as: T.self)
  }

  /// Lends `size` bytes at the end to `body`, which fills them and returns how many it used.
  @inline(__always)
  mutating func appendUninitialized(_ size: Int, _ body: (UnsafeMutableRawBufferPointer) -> Int) {
    reserve(size)
    let used = unsafe body(UnsafeMutableRawBufferPointer(start: base + count, count: size))
    precondition(used >= 0 && used <= size, "more bytes used than were reserved")
    count &+= used
  }
}

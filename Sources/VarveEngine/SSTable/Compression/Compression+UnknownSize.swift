internal import CLZ4
internal import CZstd

/// Decompression without a handle that states the size of the content, which is needed only if the index of a table
/// is lost.
extension Compression {
  /// Returns the content of a compressed block, or nil if the input is not a valid block of at most `sizeMaximum`
  /// bytes of content.
  func decompress(_ input: ByteView, sizeMaximum: Int) -> (memory: BlockBytes, size: Int)? {
    switch self {
    case .none:
      guard input.count <= sizeMaximum else { return nil }
      let memory = BlockBytes(count: input.count)
      unsafe memory.base.copyMemory(from: input.base, byteCount: input.count)
      return (memory, input.count)
    case .lz4: return decompressLZ4(input, sizeMaximum: sizeMaximum)
    case .zstd:
      let size = unsafe ZSTD_getFrameContentSize(input.base, input.count)
      // The two largest values mean "unknown size" and "not a frame".
      guard size <= UInt64(sizeMaximum) else { return nil }
      let memory = BlockBytes(count: Int(size))
      let output = unsafe UnsafeMutableRawBufferPointer(start: memory.base, count: Int(size))
      do throws(EngineError) { try unsafe decompress(input, into: output) } catch { return nil }
      return (memory, Int(size))
    }
  }

  /// LZ4 does not state the size of its output, so the capacity is doubled until the output fits. Its ratio is at
  /// most 255 to 1.
  private func decompressLZ4(_ input: ByteView, sizeMaximum: Int) -> (memory: BlockBytes, size: Int)? {
    guard let inputCount = Int32(exactly: input.count), inputCount > 0 else { return nil }
    let limit = min(sizeMaximum, input.count &* 255 &+ 64, Int(Int32.max))
    var capacity = min(limit, max(input.count &* 4, 4096))
    while true {
      let memory = BlockBytes(count: capacity)
      let written = unsafe LZ4_decompress_safe(
        input.base.assumingMemoryBound(to: CChar.self), memory.base.assumingMemoryBound(to: CChar.self), inputCount,
        Int32(capacity))
      if written >= 0 { return (memory, Int(written)) }
      guard capacity < limit else { return nil }
      capacity = min(limit, capacity &* 4)
    }
  }
}

/// Memory for one decompressed block, with room after it for reads of whole words.
///
/// # Safety
/// The object is the only owner of its memory. `base` has `count` bytes, initially zero, as long as the object lives.
@safe
final class BlockBytes {
  let base: UnsafeMutableRawPointer
  let count: Int

  init(count: Int) {
    self.count = count
    unsafe base = .allocate(byteCount: count + 64, alignment: 16)
    unsafe base.initializeMemory(as: UInt8.self, repeating: 0, count: count + 64)
  }

  deinit { unsafe base.deallocate() }

  /// Returns the first `size` bytes, valid while the object lives.
  func view(_ size: Int) -> ByteView { unsafe ByteView(base: UnsafeRawPointer(base), count: size) }
}

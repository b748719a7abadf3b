internal import CLZ4
internal import CZstd

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// The codec by which the bytes of a block are compressed on disk.
///
/// On disk: never change a number. A reader that finds an unknown number reports it.
///
/// # Format
/// - `none`: the bytes, uncompressed.
/// - `lz4`: one LZ4 block (not a frame). The size before compression is stored by the caller that writes the block.
/// - `zstd`: one Zstandard frame with its content size, without a checksum or a dictionary. Further frames after it,
///   skippable frames and those of old formats are damage.
///
/// # Invariants
/// 1. A codec is used only if it saves at least an eighth: a smaller saving costs more time to decompress than to
///    read.
/// 2. `decompress` fills the whole of its output or throws `.corruption`. It never reads outside its input, nor
///    writes outside its output, whatever the bytes are.
///
/// # Concurrency
/// Safe from any thread. LZ4 keeps its 16 KiB table on the stack. Zstandard's contexts come from a pool
/// (`ZstdContexts`), because creating one costs more than compressing a block.
enum Compression: UInt8, Sendable, CaseIterable {
  case none = 0
  case lz4 = 1
  case zstd = 2

  /// The level of Zstandard unless an option sets another one.
  static let zstdLevelDefault: Int32 = 1

  /// The maximum number of bytes to which one compressed byte can expand: Zstandard repeats a byte 131,072 times in a
  /// block of four bytes; LZ4 reaches 255.
  static let ratioMaximum: UInt64 = 32_768

  /// Appends the compressed `input` to `output`. Returns false, and appends nothing, if that would save less than an
  /// eighth: the block is then stored as `none`.
  func compress(
    _ input: ByteView, appendingTo output: inout ByteWriter, level: Int32 = Compression.zstdLevelDefault
  ) -> Bool {
    let sizeMaximum = input.count &- (input.count &+ 7) / 8
    // The bound is that of LZ4. Zstandard does not need it, but the same rule applies to both.
    guard self != .none, sizeMaximum > 0, input.count <= Int(LZ4_MAX_INPUT_SIZE) else { return false }
    let sizeBefore = output.count
    unsafe output.appendUninitialized(sizeMaximum) { destination in
      switch self {
      case .none: 0
      case .lz4: unsafe Compression.packLZ4(input, into: destination)
      case .zstd: unsafe ZstdContexts.compress(input, into: destination, level: level)
      }
    }
    return output.count > sizeBefore
  }

  /// Compresses `value` followed by `end`, which is small, and passes the parts of the result to `write` as they come.
  ///
  /// The result is one that `compress` could have appended, and less than a megabyte of memory is used for it. Returns
  /// false if it would save less than an eighth: the parts are then useless.
  func compress(
    _ value: ByteView, then end: ByteView, level: Int32 = Compression.zstdLevelDefault,
    _ write: (ByteView) throws(EngineError) -> Void
  ) throws(EngineError) -> Bool {
    let size = value.count + end.count
    let sizeMaximum = size - (size + 7) / 8
    guard size <= Int(LZ4_MAX_INPUT_SIZE) else { return false }
    switch self {
    case .none: return false
    case .lz4: return try LZ4Pieces.compress(value, then: end, sizeMaximum: sizeMaximum, write)
    case .zstd: return try ZstdPieces.compress(value, then: end, sizeMaximum: sizeMaximum, level: level, write)
    }
  }

  /// Decompresses `input`, whose content must have exactly the size of `output`. Throws `.corruption` without a
  /// position, which the caller knows.
  func decompress(_ input: ByteView, into output: UnsafeMutableRawBufferPointer) throws(EngineError) {
    switch self {
    case .none:
      guard input.count == output.count else {
        throw .corruption("uncompressed block has \(input.count) bytes; expected \(output.count)")
      }
      if let base = output.baseAddress { unsafe base.copyMemory(from: input.base, byteCount: input.count) }
    case .lz4: try unsafe Compression.unpackLZ4(input, into: output)
    case .zstd: try unsafe ZstdContexts.decompress(input, into: output)
    }
  }

  /// Returns the number of bytes that the end of a compressed block must lie after the end of its content, so that
  /// `lz4` can decompress it in the same memory, or nil if the library can't.
  ///
  /// What is written never reaches what is still to be read: only a run of literals is shorter decompressed than
  /// compressed, by a byte in 255.
  static func marginInPlace(packedSize: Int) -> Int? {
    LZ4_versionNumber() >= 10_902 ? packedSize / 255 + 64 : nil
  }

  /// Compresses by LZ4 and returns the number of bytes written, or 0 if they don't fit.
  private static func packLZ4(_ input: ByteView, into output: UnsafeMutableRawBufferPointer) -> Int {
    guard let destination = output.baseAddress else { return 0 }
    return unsafe Int(
      LZ4_compress_default(
        input.base.assumingMemoryBound(to: CChar.self), destination.assumingMemoryBound(to: CChar.self),
        Int32(input.count), Int32(output.count)))
  }

  private static func unpackLZ4(
    _ input: ByteView, into output: UnsafeMutableRawBufferPointer
  ) throws(EngineError) {
    guard let destination = output.baseAddress, let inputCount = Int32(exactly: input.count), inputCount > 0,
      let outputCount = Int32(exactly: output.count)
    else {
      throw .corruption(
        "LZ4 block sizes are out of range: \(input.count) bytes compressed, \(output.count) uncompressed")
    }
    let written = unsafe LZ4_decompress_safe(
      input.base.assumingMemoryBound(to: CChar.self), destination.assumingMemoryBound(to: CChar.self),
      inputCount, outputCount)
    guard written == outputCount else {
      throw .corruption("LZ4 block does not decompress to \(outputCount) bytes (result \(written))")
    }
  }
}

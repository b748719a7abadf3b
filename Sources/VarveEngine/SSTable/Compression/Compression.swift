internal import CLZ4
internal import CZstd

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// How the bytes of a block are packed on disk.
///
/// On disk: never change a number. A reader that meets one that it does not know says so.
///
/// # Format
/// - `none`: the bytes as they are.
/// - `lz4`: one LZ4 block (not a frame); the size before packing is written by the caller that writes the
///   block.
/// - `zstd`: one Zstandard frame with its content size, no checksum, no dictionary. Other frames
///   after it, skippable ones and those of old formats are damage.
///
/// # Invariants
/// 1. A codec is used only where it saves at least an eighth: what saves less costs more time to
///    unpack than to read.
/// 2. `decompress` fills the whole of its output or throws `.corruption`; it never reads outside its
///    input, nor writes outside its output, whatever the bytes are.
///
/// # Concurrency
/// Safe from any thread. LZ4 keeps its 16 KiB table on the stack; Zstandard's contexts come from a
/// pool (`ZstdContexts`), because making one costs more than packing a block.
enum Compression: UInt8, Sendable, CaseIterable {
  case none = 0
  case lz4 = 1
  case zstd = 2

  /// The level of Zstandard unless an option says otherwise.
  static let zstdLevelDefault: Int32 = 1

  /// So many bytes at most come of one packed byte: Zstandard repeats a byte 131,072 times in a block of
  /// four; LZ4 gets to 255.
  static let ratioMaximum: UInt64 = 32_768

  /// Packs `input` after what `output` holds. Returns false, with nothing appended, if that would
  /// save less than an eighth: the block is then stored as `none`.
  func compress(
    _ input: ByteView, appendingTo output: inout ByteWriter, level: Int32 = Compression.zstdLevelDefault
  ) -> Bool {
    let sizeMaximum = input.count &- (input.count &+ 7) / 8
    // The bound of LZ4, which Zstandard does not need: one rule for both.
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

  /// Unpacks `input`, which must give exactly as many bytes as `output` has. Throws `.corruption`
  /// without a position: the caller knows it.
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

  /// The bytes used, 0 if they are not enough.
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

internal import CZstd

/// Compresses a large content to one Zstandard frame, piece by piece.
///
/// The frame states the size of its content, as one that is compressed at once does.
enum ZstdPieces {
  /// Compresses `value` followed by `end`, and passes the parts of the frame to `write`.
  ///
  /// Returns false if the frame would have more than `sizeMaximum` bytes, or if the library fails.
  static func compress(
    _ value: ByteView, then end: ByteView, sizeMaximum: Int, level: Int32,
    _ write: (ByteView) throws(EngineError) -> Void
  ) throws(EngineError) -> Bool {
    // The context is not one of the pool, because it has buffers that a single call does not need.
    guard let context = unsafe ZSTD_createCCtx() else { return false }
    defer { unsafe ZSTD_freeCCtx(context) }
    let clamped = min(max(level, ZSTD_minCLevel()), ZSTD_maxCLevel())
    guard unsafe ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, clamped)) == 0,
      unsafe ZSTD_isError(ZSTD_CCtx_setPledgedSrcSize(context, UInt64(value.count + end.count))) == 0
    else { return false }
    let packed = try BlockMemory.allocate(ZSTD_CStreamOutSize())
    var size = 0
    for (part, directive) in [(value, ZSTD_e_continue), (end, ZSTD_e_end)] {
      var input = unsafe ZSTD_inBuffer(src: part.base, size: part.count, pos: 0)
      var isDone = false
      while !isDone {
        var output = unsafe ZSTD_outBuffer(dst: packed.base, size: packed.count, pos: 0)
        let rest = unsafe ZSTD_compressStream2(context, &output, &input, directive)
        guard ZSTD_isError(rest) == 0 else { return false }
        let count = unsafe output.pos
        size += count
        guard size <= sizeMaximum else { return false }
        if count > 0 { try write(packed.view.slice(0, count)) }
        isDone = unsafe directive == ZSTD_e_end ? rest == 0 : input.pos == input.size
      }
    }
    return true
  }
}

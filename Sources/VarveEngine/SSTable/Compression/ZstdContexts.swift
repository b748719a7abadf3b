internal import CZstd
import Synchronization

/// A pool of Zstandard's working memory.
///
/// Creating a context takes some 100 KiB and several microseconds, more than decompressing a block. A few contexts of
/// each kind are kept in slots. A caller that needs one takes one from a slot or creates one, and afterwards returns
/// it to a slot or, if every slot is taken, frees it. So at most four contexts of each kind are kept, and there is no
/// thread-local state that would outlive its thread.
///
/// # Safety
/// A context belongs to the caller that took it, because it leaves its slot by an atomic exchange.
///
/// # Concurrency
/// Safe from any thread, without a lock.
enum ZstdContexts {
  /// Compresses, and returns the number of bytes written, or 0 if they don't fit or the library fails.
  static func compress(_ input: ByteView, into output: UnsafeMutableRawBufferPointer, level: Int32) -> Int {
    guard let context = unsafe packing.take() ?? ZSTD_createCCtx() else { return 0 }
    let clamped = min(max(level, ZSTD_minCLevel()), ZSTD_maxCLevel())
    let result = unsafe ZSTD_compressCCtx(
      context, output.baseAddress, output.count, input.base, input.count, clamped)
    if unsafe !packing.put(context) { unsafe ZSTD_freeCCtx(context) }
    return ZSTD_isError(result) != 0 ? 0 : result
  }

  /// Decompresses exactly one frame to exactly the size of `output`.
  static func decompress(_ input: ByteView, into output: UnsafeMutableRawBufferPointer) throws(EngineError) {
    // Only one frame of the current format is accepted, without bytes after it: the library would also accept frames
    // of its early formats, whose decoders are no longer hardened.
    guard input.count > 4, input.load(0, as: UInt32.self) == UInt32(ZSTD_MAGICNUMBER),
      unsafe ZSTD_findFrameCompressedSize(input.base, input.count) == input.count
    else { throw .corruption("\(input.count) bytes are not one complete Zstandard frame") }
    guard let context = unsafe unpacking.take() ?? ZSTD_createDCtx() else {
      throw EngineError(.limitExceeded, "could not allocate a Zstandard context")
    }
    let result = unsafe ZSTD_decompressDCtx(
      context, output.baseAddress, output.count, input.base, input.count)
    if unsafe !unpacking.put(context) { unsafe ZSTD_freeDCtx(context) }
    guard ZSTD_isError(result) == 0, result == output.count else {
      throw .corruption("Zstandard frame does not decompress to \(output.count) bytes")
    }
  }

  private static let packing = Slots()
  private static let unpacking = Slots()

  /// At most four contexts of one kind.
  @safe
  private final class Slots: @unchecked Sendable {
    // Sendable: each pointer is transferred by an atomic exchange.
    private let first = Atomic<UInt>(0)
    private let second = Atomic<UInt>(0)
    private let third = Atomic<UInt>(0)
    private let fourth = Atomic<UInt>(0)

    func take() -> OpaquePointer? {
      // Acquiring: pairs with the releasing exchange of `put`, after which the context may be used.
      var bits = first.exchange(0, ordering: .acquiring)
      if bits == 0 { bits = second.exchange(0, ordering: .acquiring) }
      if bits == 0 { bits = third.exchange(0, ordering: .acquiring) }
      if bits == 0 { bits = fourth.exchange(0, ordering: .acquiring) }
      return unsafe OpaquePointer(bitPattern: bits)
    }

    /// Returns false if all slots are taken, in which case the caller frees the context.
    func put(_ context: OpaquePointer) -> Bool {
      let bits = UInt(bitPattern: context)
      return first.compareExchange(expected: 0, desired: bits, ordering: .releasing).exchanged
        || second.compareExchange(expected: 0, desired: bits, ordering: .releasing).exchanged
        || third.compareExchange(expected: 0, desired: bits, ordering: .releasing).exchanged
        || fourth.compareExchange(expected: 0, desired: bits, ordering: .releasing).exchanged
    }
  }
}

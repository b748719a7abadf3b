internal import CZstd
import Synchronization

/// Zstandard's working memory, kept between uses.
///
/// A context costs some 100 KiB and several microseconds to make, more than a block costs to
/// unpack. A few of each kind wait in slots; the caller that needs one takes one out or makes one, and puts
/// it back or, if every slot is taken, frees it. So at most `slotCount` of each are kept, and there
/// is not thread-local state that would outlive its thread.
///
/// # Safety
/// A context belongs to who took it: it leaves its slot by an atomic exchange.
///
/// # Concurrency
/// Safe from any thread, no lock.
enum ZstdContexts {
  /// Packs; the bytes used, 0 if they are not enough or the library fails.
  static func compress(_ input: ByteView, into output: UnsafeMutableRawBufferPointer, level: Int32) -> Int {
    guard let context = unsafe packing.take() ?? ZSTD_createCCtx() else { return 0 }
    let clamped = min(max(level, ZSTD_minCLevel()), ZSTD_maxCLevel())
    let result = unsafe ZSTD_compressCCtx(
      context, output.baseAddress, output.count, input.base, input.count, clamped)
    if unsafe !packing.put(context) { unsafe ZSTD_freeCCtx(context) }
    return ZSTD_isError(result) != 0 ? 0 : result
  }

  /// Unpacks exactly one frame to exactly the size of `output`.
  static func decompress(_ input: ByteView, into output: UnsafeMutableRawBufferPointer) throws(EngineError) {
    // Only a frame of the current format, and nothing after it: the library would also take frames
    // of its early formats, whose decoders no one hardens any more.
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

  /// Four contexts of one kind, or fewer.
  @safe
  private final class Slots: @unchecked Sendable {
    // Sendable: each pointer is handed over by an atomic exchange.
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

    /// False if all slots are taken: the caller frees the context.
    func put(_ context: OpaquePointer) -> Bool {
      let bits = UInt(bitPattern: context)
      return first.compareExchange(expected: 0, desired: bits, ordering: .releasing).exchanged
        || second.compareExchange(expected: 0, desired: bits, ordering: .releasing).exchanged
        || third.compareExchange(expected: 0, desired: bits, ordering: .releasing).exchanged
        || fourth.compareExchange(expected: 0, desired: bits, ordering: .releasing).exchanged
    }
  }
}

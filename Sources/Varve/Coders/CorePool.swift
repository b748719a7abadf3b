internal import Synchronization

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// A pool of idle encoders or decoders: a few slots without a lock. A thread begins its search at its own slot, so that
/// threads rarely compete.
///
/// # Safety
/// A core is in one slot or is owned by one caller. A slot is emptied with acquire and filled with release ordering, so
/// that the next user sees everything that the last one wrote.
final class CorePool<Core: AnyObject>: Sendable {
  /// The address of a core that the slot owns, or 0 if the slot is empty.
  private let slots: InlineArray<8, Atomic<UInt>>
  private let discard: @Sendable (Core) -> Void

  /// Creates a pool. `discard` is called with each core that is not kept.
  init(discard: @escaping @Sendable (Core) -> Void) {
    slots = InlineArray { _ in Atomic(0) }
    self.discard = discard
  }

  deinit {
    while let core = take() { discard(core) }
  }

  @inline(__always)
  private var home: Int {
    // The low bits of a thread's address are the same for all threads.
    #if canImport(Glibc)
      let thread = UInt(pthread_self())
    #else
      let thread = unsafe UInt(bitPattern: pthread_self())
    #endif
    return Int(truncatingIfNeeded: (thread >> 12) &* 0x9e37_79b9 >> 16) & (CoderLimits.pooledCount &- 1)
  }

  /// Returns an idle core, or nil if there is none.
  @inline(__always)
  func take() -> Core? {
    let home = home
    for step in 0..<CoderLimits.pooledCount {
      let index = (home &+ step) & (CoderLimits.pooledCount &- 1)
      let address = slots[index].exchange(0, ordering: .acquiring)
      guard let opaque = unsafe UnsafeRawPointer(bitPattern: address) else { continue }
      return unsafe Unmanaged<Core>.fromOpaque(opaque).takeRetainedValue()
    }
    return nil
  }

  /// Keeps a core for the next use if there is room, and discards it otherwise.
  @inline(__always)
  func give(_ core: Core) {
    let home = home
    let kept = unsafe Unmanaged.passRetained(core)
    let address = unsafe UInt(bitPattern: kept.toOpaque())
    for step in 0..<CoderLimits.pooledCount {
      let index = (home &+ step) & (CoderLimits.pooledCount &- 1)
      if slots[index].compareExchange(expected: 0, desired: address, ordering: .releasing).exchanged { return }
    }
    unsafe kept.release()
    discard(core)
  }
}

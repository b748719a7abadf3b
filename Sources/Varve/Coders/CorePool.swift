internal import Synchronization

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// Encoders or decoders that wait for their next use. A few slots without a lock: a thread begins at a slot of its
/// own, so that threads seldom meet.
///
/// # Safety
/// A core is in one slot or in the hands of one caller. A slot is emptied with acquire and filled with release, so
/// that the next user sees all that the last one wrote.
final class CorePool<Core: AnyObject>: Sendable {
  /// The address of a core, which the slot owns; 0: empty.
  private let slots: InlineArray<8, Atomic<UInt>>
  private let discard: @Sendable (Core) -> Void

  /// `discard` is called with each core that is not kept.
  init(discard: @escaping @Sendable (Core) -> Void) {
    slots = InlineArray { _ in Atomic(0) }
    self.discard = discard
  }

  deinit {
    while let core = take() { discard(core) }
  }

  @inline(__always)
  private var home: Int {
    // The low bits of a thread's address are those of all others.
    #if canImport(Glibc)
      let thread = UInt(pthread_self())
    #else
      let thread = unsafe UInt(bitPattern: pthread_self())
    #endif
    return Int(truncatingIfNeeded: (thread >> 12) &* 0x9e37_79b9 >> 16) & (CoderLimits.pooledCount &- 1)
  }

  /// A core that no one uses; nil where there is none.
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

  /// Keeps a core for the next use, where there is room.
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

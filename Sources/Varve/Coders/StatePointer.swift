/// The state of an encoder or decoder, at a fixed address.
///
/// A class would have the same semantics, but each access to its properties checks at run time for exclusivity: several
/// times for every field of every object. Here exclusivity is ensured by construction: no method of a state calls the
/// user's code, so two accesses never overlap.
///
/// # Safety
/// The state is used by one thread at a time. The core that created it frees it, and everything that has a pointer
/// retains the core.
@safe
struct StatePointer<State: ~Copyable> {
  private let pointer: UnsafeMutablePointer<State>

  init(_ state: consuming State) {
    unsafe pointer = .allocate(capacity: 1)
    unsafe pointer.initialize(to: state)
  }

  /// Frees the state. It must not be used afterwards.
  func destroy() {
    unsafe pointer.deinitialize(count: 1)
    unsafe pointer.deallocate()
  }

  var pointee: State {
    @inline(__always) unsafeAddress { unsafe UnsafePointer(pointer) }
    @inline(__always) nonmutating unsafeMutableAddress { unsafe pointer }
  }
}

/// The frames of the values that are being encoded or decoded, the outermost first.
///
/// # Safety
/// The stack is the only owner of its memory. A slot is below `count`.
@safe
struct FrameStack<Frame: BitwiseCopyable>: ~Copyable {
  private var base: UnsafeMutablePointer<Frame>
  private(set) var capacity = 16
  private(set) var count = 0

  init() { unsafe base = .allocate(capacity: capacity) }

  deinit { unsafe base.deallocate() }

  @inline(__always)
  mutating func append(_ frame: Frame) {
    if count == capacity { grow() }
    unsafe (base + count).initialize(to: frame)
    count &+= 1
  }

  @inline(never)
  private mutating func grow() {
    let larger = UnsafeMutablePointer<Frame>.allocate(capacity: capacity * 2)
    unsafe larger.initialize(from: base, count: count)
    unsafe base.deallocate()
    unsafe base = larger
    capacity *= 2
  }

  /// Removes all frames, and frees memory that exceeds what most values need.
  @inline(__always)
  mutating func reset() {
    count = 0
    if capacity > CoderLimits.keptFrames { shrink() }
  }

  @inline(never)
  private mutating func shrink() {
    unsafe base.deallocate()
    capacity = CoderLimits.keptFrames
    unsafe base = .allocate(capacity: capacity)
  }

  @inline(__always)
  mutating func removeAll(from newCount: Int) {
    precondition(newCount >= 0 && newCount <= count, "remove only frames that are there")
    count = newCount
  }

  @inline(__always)
  subscript(slot: Int) -> Frame {
    unsafeAddress {
      assert(slot >= 0 && slot < count, "a frame that is not there")
      return unsafe UnsafePointer(base + slot)
    }
    unsafeMutableAddress {
      assert(slot >= 0 && slot < count, "a frame that is not there")
      return unsafe base + slot
    }
  }
}

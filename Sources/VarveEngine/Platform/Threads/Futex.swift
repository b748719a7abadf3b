internal import CVarve
internal import Synchronization

/// A word of memory on which threads wait: the cheapest way for one thread to wait for another.
///
/// A waiter loads the word, decides to wait, and calls `wait(while:)` with the loaded value; it sleeps only if the
/// word still has that value. A waker stores first and then calls `wake`, so no wake-up is lost. Waits may also end
/// spuriously, so callers load and decide again.
///
/// # Safety
/// The futex owns its word, which does not move. The static methods work on a word with another owner, for example in
/// a mapping; `shared` then states that the other side may be another process.
///
/// # Concurrency
/// Safe from any thread. The futex outlives its waiters, because they borrow it.
@safe
struct Futex: ~Copyable, @unchecked Sendable {
  // Sendable: the pointer does not change, and its target is atomic.
  private let memory: UnsafeMutablePointer<Atomic<UInt32>>

  init(_ value: UInt32 = 0) {
    unsafe memory = UnsafeMutablePointer.allocate(capacity: 1)
    unsafe memory.initialize(to: Atomic(value))
  }

  deinit { unsafe memory.deinitialize(count: 1).deallocate() }

  func load() -> UInt32 { unsafe memory.pointee.load(ordering: .acquiring) }

  func store(_ value: UInt32) { unsafe memory.pointee.store(value, ordering: .releasing) }

  /// Adds one, and returns the new value.
  @discardableResult
  func increment() -> UInt32 { unsafe memory.pointee.wrappingAdd(1, ordering: .acquiringAndReleasing).newValue }

  /// Stores `desired` if the word is `expected`, and returns the previous value.
  func exchange(expected: UInt32, desired: UInt32) -> UInt32 {
    unsafe memory.pointee.compareExchange(
      expected: expected, desired: desired, successOrdering: .acquiringAndReleasing, failureOrdering: .acquiring
    ).original
  }

  /// Sleeps while the word is `value`, for at most `nanoseconds`. Returns false if the time passed.
  @discardableResult
  func wait(while value: UInt32, nanoseconds: UInt64? = nil) -> Bool {
    unsafe Self.wait(on: memory, while: value, nanoseconds: nanoseconds, shared: false)
  }

  /// Wakes at most `count` waiters.
  func wake(_ count: Int = 1) { unsafe Self.wake(memory, count, shared: false) }

  func wakeAll() { unsafe Self.wake(memory, Int(Int32.max), shared: false) }

  @unsafe
  @discardableResult
  static func wait(
    on word: UnsafeMutablePointer<Atomic<UInt32>>, while value: UInt32, nanoseconds: UInt64?, shared: Bool
  ) -> Bool {
    let timeout = nanoseconds.map { Int64(clamping: $0) } ?? -1
    // An `Atomic<UInt32>` is one word without a header.
    let address = unsafe UnsafeRawPointer(word).assumingMemoryBound(to: UInt32.self)
    return unsafe cvarve_futex_wait(address, value, timeout, shared) != SystemError.timedOut
  }

  @unsafe
  static func wake(_ word: UnsafeMutablePointer<Atomic<UInt32>>, _ count: Int, shared: Bool) {
    let address = unsafe UnsafeRawPointer(word).assumingMemoryBound(to: UInt32.self)
    unsafe cvarve_futex_wake(address, Int32(clamping: count), shared)
  }
}

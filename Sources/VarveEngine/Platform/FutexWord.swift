internal import CVarve
internal import Synchronization

/// A 32-bit word that threads sleep on until it changes.
///
/// # Safety
/// Owner of its four bytes, which live as long as the object.
///
/// # Concurrency
/// Safe from any thread. A waker changes the word first and then wakes; a sleeper names the value that
/// it saw, and does not sleep where that is no longer there: no wake-up is lost.
@safe
final class FutexWord: @unchecked Sendable {
  // Sendable: the memory is only touched by atomics.
  private let word: UnsafeMutablePointer<Atomic<UInt32>>

  init(_ value: UInt32 = 0) {
    unsafe word = .allocate(capacity: 1)
    unsafe word.initialize(to: Atomic(value))
  }

  deinit {
    unsafe word.deinitialize(count: 1)
    unsafe word.deallocate()
  }

  /// The value, with acquire ordering: partner of `store` and `compareExchange`.
  @inline(__always)
  var value: UInt32 { unsafe word.pointee.load(ordering: .acquiring) }

  @inline(__always)
  func store(_ value: UInt32) { unsafe word.pointee.store(value, ordering: .releasing) }

  @inline(__always)
  func compareExchange(_ expected: UInt32, _ desired: UInt32) -> Bool {
    unsafe word.pointee.compareExchange(expected: expected, desired: desired, ordering: .acquiringAndReleasing)
      .exchanged
  }

  /// Sets the value and returns the one before, ordered with everything else.
  @inline(__always)
  func exchange(_ value: UInt32) -> UInt32 {
    unsafe word.pointee.exchange(value, ordering: .sequentiallyConsistent)
  }

  @discardableResult
  func increment() -> UInt32 { unsafe word.pointee.add(1, ordering: .acquiringAndReleasing).newValue }

  /// Sleeps while the word has this value, or until woken; spurious returns are possible.
  func wait(while expected: UInt32) {
    unsafe _ = cvarve_futex_wait(UnsafeRawPointer(word).assumingMemoryBound(to: UInt32.self), expected, -1, false)
  }

  func wakeOne() {
    unsafe cvarve_futex_wake(UnsafeRawPointer(word).assumingMemoryBound(to: UInt32.self), 1, false)
  }

  func wakeAll() {
    unsafe cvarve_futex_wake(UnsafeRawPointer(word).assumingMemoryBound(to: UInt32.self), Int32.max, false)
  }
}

internal import CVarve
package import Synchronization

/// A lock around a value, for critical sections of a few instructions.
///
/// `Mutex` of the standard library hands ownership over: on Linux it is a futex with priority inheritance, and each
/// waiting thread enters the kernel twice, in its turn. With it, eight read-only threads on two cores had 40,000
/// reads per second together, and two threads a million. This lock has no turns: a thread that finds it free takes
/// it, and a thread that finds it taken checks it several more times before it sleeps. So it is for short critical
/// sections. It is not fair, and a waiter may be overtaken any number of times.
///
/// ```
///  word   0: free │ 1: held │ 2: held, and a thread may sleep
/// ```
/// The three states are those of "Futexes Are Tricky" (Drepper, 2011), third form.
///
/// # Safety
/// The lock owns its memory, which does not move. Only the holder accesses the value.
///
/// # Concurrency
/// Safe from any thread. Not recursive: a thread that takes it twice waits forever.
@safe
@frozen
package struct FutexLock<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
  // Sendable: see Safety and Concurrency above.
  @usableFromInline let word: UnsafeMutablePointer<Atomic<UInt32>>
  @usableFromInline let value: UnsafeMutablePointer<Value>

  package init(_ value: consuming sending Value) {
    unsafe word = .allocate(capacity: 1)
    unsafe word.initialize(to: Atomic(0))
    unsafe self.value = .allocate(capacity: 1)
    unsafe self.value.initialize(to: value)
  }

  deinit {
    unsafe value.deinitialize(count: 1).deallocate()
    unsafe word.deinitialize(count: 1).deallocate()
  }

  /// Runs `body` with exclusive access to the value.
  @inlinable
  @inline(__always)
  package func withLock<Result, E: Error>(
    _ body: (inout Value) throws(E) -> sending Result
  ) throws(E) -> sending Result {
    let isTaken = unsafe word.pointee.compareExchange(
      expected: 0, desired: 1, successOrdering: .acquiring, failureOrdering: .relaxed
    ).exchanged
    if !isTaken { takeContended() }
    defer { if unsafe word.pointee.exchange(0, ordering: .releasing) == 2 { wakeOne() } }
    return try unsafe body(&value.pointee)
  }

  /// The number of times that a thread checks the lock before it sleeps: about as long as a running holder needs.
  private static var looks: Int { 60 }

  @usableFromInline
  @inline(never)
  func takeContended() {
    for _ in 0..<Self.looks {
      guard unsafe word.pointee.load(ordering: .relaxed) == 0 else {
        cvarve_pause()
        continue
      }
      let isTaken = unsafe word.pointee.compareExchange(
        expected: 0, desired: 1, successOrdering: .acquiring, failureOrdering: .relaxed
      ).exchanged
      if isTaken { return }
    }
    // From here on the holder wakes a waiter when it unlocks: possibly this thread, possibly needlessly.
    while unsafe word.pointee.exchange(2, ordering: .acquiring) != 0 {
      _ = unsafe cvarve_futex_wait(address, 2, -1, false)
    }
  }

  @usableFromInline
  @inline(never)
  func wakeOne() { unsafe cvarve_futex_wake(address, 1, false) }

  /// An `Atomic<UInt32>` is one word without a header.
  private var address: UnsafePointer<UInt32> { unsafe UnsafeRawPointer(word).assumingMemoryBound(to: UInt32.self) }
}

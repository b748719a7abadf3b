#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// A mutex with condition variables whose timed waits use the monotonic clock, which `Synchronization.Mutex` does not
/// offer.
///
/// # Safety
/// The monitor owns the memory of the mutex and the conditions, which never move. No thread waits on them when the
/// last reference is released.
///
/// # Concurrency
/// Safe from any thread. `wait` and `signal` are called inside `withLock`, by the thread that holds the lock.
@safe
final class Monitor: @unchecked Sendable {
  // Sendable: the pointers do not change, and POSIX synchronizes access to their targets.
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private let conditions: UnsafeMutablePointer<pthread_cond_t>
  private let conditionCount: Int

  init(conditionCount: Int) {
    self.conditionCount = conditionCount
    unsafe mutex = UnsafeMutablePointer.allocate(capacity: 1)
    unsafe mutex.initialize(to: pthread_mutex_t())
    unsafe conditions = UnsafeMutablePointer.allocate(capacity: conditionCount)
    unsafe conditions.initialize(repeating: pthread_cond_t(), count: conditionCount)
    unsafe Self.require(pthread_mutex_init(mutex, nil))
    var attributes = pthread_condattr_t()
    unsafe Self.require(pthread_condattr_init(&attributes))
    #if !canImport(Darwin)
      unsafe Self.require(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC))
    #endif
    for index in 0..<conditionCount { unsafe Self.require(pthread_cond_init(conditions + index, &attributes)) }
    unsafe pthread_condattr_destroy(&attributes)
  }

  deinit {
    for index in 0..<conditionCount { unsafe _ = pthread_cond_destroy(conditions + index) }
    unsafe _ = pthread_mutex_destroy(mutex)
    unsafe conditions.deinitialize(count: conditionCount).deallocate()
    unsafe mutex.deinitialize(count: 1).deallocate()
  }

  func withLock<R: ~Copyable>(_ body: () -> R) -> R {
    unsafe Self.require(pthread_mutex_lock(mutex))
    defer { unsafe Self.require(pthread_mutex_unlock(mutex)) }
    return body()
  }

  /// Releases the lock until the condition is signaled, or spuriously, and takes it again.
  func wait(_ condition: Int) {
    precondition(condition >= 0 && condition < conditionCount, "wait on a condition that the monitor has")
    unsafe Self.require(pthread_cond_wait(conditions + condition, mutex))
  }

  /// Waits like `wait(_:)`, but for at most `nanoseconds`.
  func wait(_ condition: Int, nanoseconds: UInt64) {
    precondition(condition >= 0 && condition < conditionCount, "wait on a condition that the monitor has")
    // Longer times are limited to a year, so that the sum below does not overflow.
    let bounded = min(nanoseconds, 365 * 86_400 * 1_000_000_000)
    #if canImport(Darwin)
      var time = timespec(tv_sec: Int(bounded / 1_000_000_000), tv_nsec: Int(bounded % 1_000_000_000))
      _ = unsafe pthread_cond_timedwait_relative_np(conditions + condition, mutex, &time)
    #else
      var time = timespec()
      unsafe Self.require(clock_gettime(CLOCK_MONOTONIC, &time))
      let sum = UInt64(time.tv_nsec) + bounded % 1_000_000_000
      time.tv_sec += Int(bounded / 1_000_000_000 + sum / 1_000_000_000)
      time.tv_nsec = Int(sum % 1_000_000_000)
      let result = unsafe pthread_cond_timedwait(conditions + condition, mutex, &time)
      if result != ETIMEDOUT { Self.require(result) }
    #endif
  }

  /// Wakes one thread that waits on the condition.
  func signal(_ condition: Int) {
    precondition(condition >= 0 && condition < conditionCount, "signal a condition that the monitor has")
    unsafe Self.require(pthread_cond_signal(conditions + condition))
  }

  /// Wakes all threads that wait on the condition.
  func broadcast(_ condition: Int) {
    precondition(condition >= 0 && condition < conditionCount, "signal a condition that the monitor has")
    unsafe Self.require(pthread_cond_broadcast(conditions + condition))
  }

  /// Stops the process if a call failed, which happens only if the memory of the lock was overwritten or freed.
  private static func require(_ result: Int32) {
    guard result == 0 else { fatalError("a lock of the engine is damaged: \(SystemError.name(result))") }
  }
}

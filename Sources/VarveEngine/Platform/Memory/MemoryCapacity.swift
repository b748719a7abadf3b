internal import Synchronization

/// The space of a file system in memory: how many bytes its files have, and how many they may have.
///
/// # Concurrency
/// Any thread: one atomic word.
final class MemoryCapacity: Sendable {
  let capacity: UInt64
  private let used = Atomic<UInt64>(0)

  init(capacity: UInt64) { self.capacity = capacity }

  var free: UInt64 {
    let used = used.load(ordering: .relaxed)
    return used < capacity ? capacity - used : 0
  }

  /// Takes `size` bytes, or none and returns false.
  func take(_ size: UInt64) -> Bool {
    let (_, now) = used.add(size, ordering: .relaxed)
    if now <= capacity { return true }
    giveBack(size)
    return false
  }

  func giveBack(_ size: UInt64) { used.subtract(size, ordering: .relaxed) }
}

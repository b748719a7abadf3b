internal import Synchronization

/// The space of a file system in memory: the number of bytes that its files have, and the maximum.
///
/// # Concurrency
/// Safe from any thread: the state is one atomic word.
final class MemoryCapacity: Sendable {
  let capacity: UInt64
  private let used = Atomic<UInt64>(0)

  init(capacity: UInt64) { self.capacity = capacity }

  var free: UInt64 {
    let used = used.load(ordering: .relaxed)
    return used < capacity ? capacity - used : 0
  }

  /// Takes `size` bytes. If they are not available, takes none and returns false.
  func take(_ size: UInt64) -> Bool {
    let (_, now) = used.add(size, ordering: .relaxed)
    if now <= capacity { return true }
    giveBack(size)
    return false
  }

  func giveBack(_ size: UInt64) { used.subtract(size, ordering: .relaxed) }
}

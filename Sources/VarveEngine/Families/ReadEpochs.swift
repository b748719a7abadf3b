internal import Synchronization

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// Lets a read use shared objects without counting references, and says when they may go.
///
/// A read that ends before it returns marks the slot of its thread, loads a pointer, uses it, and
/// clears the mark. Whoever replaces the pointer gives the old object to `retire`; it is released once
/// every slot was seen without a mark *after* the replacement: each read that could have loaded the
/// old pointer has ended then.
///
/// # Why that is enough
/// A read marks before it loads; the replacement stores before it looks at the marks. All four are
/// sequentially consistent, so a look that finds a slot clear comes either before the mark (then the
/// load comes after the store and sees the new pointer) or after it was cleared.
///
/// # Safety
/// Owner of the slots' memory.
///
/// # Concurrency
/// Safe from any thread. Marks of threads that share a slot add up.
@safe
final class ReadEpochs: @unchecked Sendable {
  // Sendable: slots are atomics, the list is in a mutex.
  private static let slotCount = 64
  /// Where in a slot the number of reads is, behind the marks.
  private static let countOffset = 8
  private static let slotStride = 64  // one cache line each
  private let slots: UnsafeMutableRawPointer
  private let retired = Mutex<[Retired]>([])
  /// Whether something was retired that a read kept back: the next read that ends looks again.
  private let wantsPoll = Atomic<Bool>(false)

  private struct Retired {
    let object: any (AnyObject & Sendable)
    /// One bit for each slot not yet seen clear.
    var pending: UInt64
  }

  init() {
    let memory = UnsafeMutableRawPointer.allocate(byteCount: Self.slotCount * Self.slotStride, alignment: 64)
    for index in 0..<Self.slotCount {
      let slot = unsafe memory + index * Self.slotStride
      unsafe slot.bindMemory(to: Atomic<Int>.self, capacity: 1).initialize(to: Atomic(0))
      unsafe (slot + Self.countOffset).bindMemory(to: Atomic<UInt64>.self, capacity: 1).initialize(to: Atomic(0))
    }
    unsafe slots = memory
  }

  deinit { unsafe slots.deallocate() }

  /// The mark of one read.
  @safe
  struct Mark {
    fileprivate let slot: UnsafeMutablePointer<Atomic<Int>>
  }

  @inline(__always)
  private func slot(_ index: Int) -> UnsafeMutablePointer<Atomic<Int>> {
    unsafe (slots + index &* Self.slotStride).assumingMemoryBound(to: Atomic<Int>.self)
  }

  /// A number of the calling thread.
  @inline(__always)
  private var currentThread: UInt {
    #if canImport(Darwin)
      unsafe UInt(bitPattern: pthread_self())
    #else
      UInt(pthread_self())
    #endif
  }

  @inline(__always)
  func enter() -> Mark {
    let thread = currentThread
    let index = Int(truncatingIfNeeded: ((thread >> 12) &* 0x9e37_79b9_7f4a_7c15) >> 58)
    let slot = unsafe slot(index)
    unsafe slot.pointee.add(1, ordering: .sequentiallyConsistent)
    return unsafe Mark(slot: slot)
  }

  @inline(__always)
  func leave(_ mark: Mark) {
    unsafe mark.slot.pointee.subtract(1, ordering: .releasing)
    if wantsPoll.load(ordering: .relaxed) { pollOnce() }
  }

  /// Counts a read that has just begun, and says whether it is one of the few that are timed. The count lies
  /// in the cache line of the mark. A load and a store: threads that share a slot may lose a few.
  @inline(__always)
  func countIsSample(_ mark: Mark) -> Bool {
    let count = unsafe Self.count(mark.slot)
    let number = unsafe count.pointee.load(ordering: .relaxed) &+ 1
    unsafe count.pointee.store(number, ordering: .relaxed)
    return OperationLatencies.isSample(number)
  }

  /// Counts a call that looks up so many keys, and says whether it is one of those that are timed: those with the
  /// 64th key, so all that have as many.
  func countIsSample(_ mark: Mark, keys: Int) -> Bool {
    let count = unsafe Self.count(mark.slot)
    let before = unsafe count.pointee.load(ordering: .relaxed)
    let after = before &+ UInt64(keys)
    unsafe count.pointee.store(after, ordering: .relaxed)
    return OperationLatencies.holdsSample(after: before, to: after)
  }

  /// How many keys were looked up.
  var readCount: UInt64 {
    var sum: UInt64 = 0
    for index in 0..<Self.slotCount { unsafe sum &+= Self.count(slot(index)).pointee.load(ordering: .relaxed) }
    return sum
  }

  @inline(__always)
  private static func count(_ slot: UnsafeMutablePointer<Atomic<Int>>) -> UnsafeMutablePointer<Atomic<UInt64>> {
    unsafe (UnsafeMutableRawPointer(slot) + countOffset).assumingMemoryBound(to: Atomic<UInt64>.self)
  }

  /// Releases `object` when no read that began before this call still runs. May be called inside an
  /// epoch, which keeps it back; so the end of the next one looks again.
  func retire(_ object: any (AnyObject & Sendable)) {
    retired.withLock { $0.append(Retired(object: object, pending: ~0)) }
    if poll() { wantsPoll.store(true, ordering: .relaxed) }
  }

  @inline(never)
  private func pollOnce() {
    if wantsPoll.exchange(false, ordering: .relaxed) { poll() }
  }

  /// Releases what can be released. Returns whether anything is left.
  @discardableResult
  func poll() -> Bool {
    // The released objects go after the lock is given back: their ends may be long.
    let (_, isLeft) = retired.withLock { list in
      var gone: [any (AnyObject & Sendable)] = []
      for index in list.indices {
        list[index].pending = stillMarked(list[index].pending)
        if list[index].pending == 0 { gone.append(list[index].object) }
      }
      list.removeAll { $0.pending == 0 }
      return (gone, !list.isEmpty)
    }
    return isLeft
  }

  private func stillMarked(_ pending: UInt64) -> UInt64 {
    var result: UInt64 = 0
    var rest = pending
    while rest != 0 {
      let index = rest.trailingZeroBitCount
      rest &= rest - 1
      if unsafe slot(index).pointee.load(ordering: .sequentiallyConsistent) != 0 { result |= 1 << UInt64(index) }
    }
    return result
  }
}

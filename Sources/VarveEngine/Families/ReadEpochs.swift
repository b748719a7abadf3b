internal import Synchronization

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// Lets a read use shared objects without retaining them, and determines when they may be released.
///
/// A read marks a counter of its thread's slot, loads a pointer, uses it, and clears the mark before it
/// returns. The thread that replaces the pointer gives the old object to `retire`, which releases it when
/// every read that could have loaded the old pointer has ended.
///
/// ```
///  byte 0       8        16       24       64
///  ┌────────────┬────────┬────────┬────────┐
///  │ marks, even│  odd   │ reads  │        │   one slot: one cache line
///  └────────────┴────────┴────────┴────────┘
/// ```
///
/// A slot has two counters of marks, and the engine has a current parity: a read marks the counter of the parity that
/// it loaded. Objects are released in grace periods, one at a time:
///
/// 1. Wait until each counter of the other parity has been seen at zero.
/// 2. Make the other parity the current one.
/// 3. Wait until each counter of the former parity has been seen at zero. Release the objects retired before step 1.
///
/// # Why no object is released too early
/// A read marks before it loads; the replacement stores before a grace period loads the marks. All four are
/// sequentially consistent, so a load that finds a counter at zero comes either before the mark (then the read's load
/// comes after the store and sees the new pointer) or after the mark was cleared (then the read has ended). A grace
/// period finds each of the 128 counters at zero once after the replacement, so this holds for every read, whichever
/// parity it marked. The parity itself is not part of the proof.
///
/// Step 1 is necessary. A read may be suspended between its load of the parity and its mark for any length of time. If
/// another parity becomes current meanwhile, the read still marks the former one and then loads the pointer of that
/// moment. A grace period that began with step 2 would wait for the counters of the parity that this read did not mark,
/// and release an object that the read uses. So a parity becomes current again only after its counters were seen at
/// zero.
///
/// # Why every object is released
/// New reads mark only the current parity. A counter of the other parity is marked by reads that began before the
/// parity changed, and by those that had already loaded it: each ends or marks once. So a grace period takes at most
/// twice as long as the longest read, however many overlap.
///
/// # Safety
/// The object owns the slots' memory.
///
/// # Concurrency
/// Safe from any thread. Marks of threads that share a slot add up.
@safe
final class ReadEpochs: @unchecked Sendable {
  // Sendable: slots are atomics, the lists are in a mutex.
  private static let slotCount = 64
  private static let slotStride = 64  // one cache line each
  /// Offsets within a slot of the odd parity's counter and of the number of reads.
  private static let parityOffset = 8
  private static let countOffset = 16
  /// One more cache line after the slots: the current parity, and the parity that a grace period waits for. Every read
  /// loads them; they change twice per grace period.
  private static let memorySize = (slotCount + 1) * slotStride
  private let slots: UnsafeMutableRawPointer
  private let clock: any EngineClock
  private let gracePeriod = Mutex(GracePeriod())
  private let whenDeferred = Callback()

  /// The memory that a retired object retains while it waits.
  struct Weight: Sendable, Hashable {
    var memTableCount = 0
    var bytes = 0
  }

  private struct Retired: Sendable {
    let object: any (AnyObject & Sendable)
    let weight: Weight
  }

  private struct GracePeriod: Sendable {
    /// Objects that this grace period releases at its end; empty if no grace period runs.
    var leaving: [Retired] = []
    /// Objects retired since the grace period began, for the next one.
    var next: [Retired] = []
    /// A Boolean value that indicates whether the grace period is at step 3 rather than step 1.
    var hasChangedParity = false
    /// One bit for each slot whose counter of the non-current parity was not yet seen at zero.
    var pending: UInt64 = 0
    /// The time of the last parity change: reads that mark the other parity began before.
    var changedAt: UInt64 = 0
  }

  init(clock: any EngineClock) {
    self.clock = clock
    let memory = UnsafeMutableRawPointer.allocate(byteCount: Self.memorySize, alignment: Self.slotStride)
    for offset in stride(from: 0, to: Self.memorySize, by: MemoryLayout<Atomic<Int>>.stride) {
      unsafe (memory + offset).bindMemory(to: Atomic<Int>.self, capacity: 1).initialize(to: Atomic(0))
    }
    unsafe slots = memory
    gracePeriod.withLock { $0.changedAt = clock.now() }
  }

  deinit { unsafe slots.deallocate() }

  /// The mark of one read.
  @safe
  struct Mark {
    fileprivate let counter: UnsafeMutablePointer<Atomic<Int>>
  }

  /// A parity that reads mark, stored as the offset of its counter in a slot.
  struct Parity: Sendable, Hashable {
    fileprivate let offset: Int
    fileprivate var other: Parity { Parity(offset: ReadEpochs.parityOffset - offset) }
    /// The word for the parity that a grace period waits for; zero means none.
    fileprivate var word: Int { offset + 1 }
  }

  @inline(__always)
  private func word(at offset: Int) -> UnsafeMutablePointer<Atomic<Int>> {
    unsafe (slots + offset).assumingMemoryBound(to: Atomic<Int>.self)
  }

  @inline(__always)
  private var parityWord: UnsafeMutablePointer<Atomic<Int>> { unsafe word(at: Self.slotCount &* Self.slotStride) }

  @inline(__always)
  private var awaitedWord: UnsafeMutablePointer<Atomic<Int>> {
    unsafe word(at: Self.slotCount &* Self.slotStride &+ Self.parityOffset)
  }

  /// A number that identifies the calling thread.
  @inline(__always)
  private var currentThread: UInt {
    #if canImport(Darwin)
      unsafe UInt(bitPattern: pthread_self())
    #else
      UInt(pthread_self())
    #endif
  }

  // MARK: - Reads

  /// Begins a read.
  @inline(__always)
  func enter() -> Mark { mark(parity) }

  /// The parity that is current now, which is the first half of `enter`.
  @inline(__always)
  var parity: Parity { unsafe Parity(offset: parityWord.pointee.load(ordering: .relaxed)) }

  /// Marks a parity that was loaded earlier, which is the second half of `enter`.
  @inline(__always)
  func mark(_ parity: Parity) -> Mark {
    let index = Int(truncatingIfNeeded: ((currentThread >> 12) &* 0x9e37_79b9_7f4a_7c15) >> 58)
    let counter = unsafe word(at: index &* Self.slotStride &+ parity.offset)
    unsafe counter.pointee.add(1, ordering: .sequentiallyConsistent)
    return unsafe Mark(counter: counter)
  }

  /// Ends a read. The last read that a grace period waits for in its slot advances it.
  @inline(__always)
  func leave(_ mark: Mark) {
    let marks = unsafe mark.counter.pointee.subtract(1, ordering: .releasing).oldValue
    // A grace period that this load misses is advanced by the engine's timer.
    let awaited = unsafe awaitedWord.pointee.load(ordering: .relaxed)
    if awaited != 0, marks == 1 { leaveLast(mark, awaited) }
  }

  @inline(never)
  private func leaveLast(_ mark: Mark, _ awaited: Int) {
    let offset = unsafe Int(bitPattern: mark.counter) & Self.parityOffset
    if awaited == Parity(offset: offset).word { poll() }
  }

  /// Counts a read that has just begun, and returns whether it is one of the few that are timed.
  ///
  /// The count is in the cache line of the mark. It is changed by a load and a store, so threads that share a slot may
  /// lose a few counts.
  @inline(__always)
  func countIsSample(_ mark: Mark) -> Bool {
    let count = unsafe Self.count(mark)
    let number = unsafe count.pointee.load(ordering: .relaxed) &+ 1
    unsafe count.pointee.store(number, ordering: .relaxed)
    return OperationLatencies.isSample(UInt64(truncatingIfNeeded: number))
  }

  /// Counts a call that looks up `keys` keys, and returns whether it is timed: every 64th key is, so all calls with at
  /// least 64 keys are.
  func countIsSample(_ mark: Mark, keys: Int) -> Bool {
    let count = unsafe Self.count(mark)
    let before = unsafe count.pointee.load(ordering: .relaxed)
    let after = before &+ keys
    unsafe count.pointee.store(after, ordering: .relaxed)
    return OperationLatencies.holdsSample(
      after: UInt64(truncatingIfNeeded: before), to: UInt64(truncatingIfNeeded: after))
  }

  /// The number of keys looked up.
  var readCount: UInt64 {
    var sum = 0
    for index in 0..<Self.slotCount {
      unsafe sum &+= word(at: index &* Self.slotStride &+ Self.countOffset).pointee.load(ordering: .relaxed)
    }
    return UInt64(truncatingIfNeeded: sum)
  }

  /// Returns the counter of reads in the slot of a mark. Slots are aligned to their size.
  @inline(__always)
  private static func count(_ mark: Mark) -> UnsafeMutablePointer<Atomic<Int>> {
    let isOdd = unsafe Int(bitPattern: mark.counter) & parityOffset
    return unsafe (UnsafeMutableRawPointer(mark.counter) + (countOffset &- isOdd))
      .assumingMemoryBound(to: Atomic<Int>.self)
  }

  // MARK: - Grace periods

  /// Releases `object` once no read that began before this call still runs. May be called inside an epoch, which delays
  /// the release. `weight` is the memory that only `object` retains.
  func retire(_ object: any (AnyObject & Sendable), weight: Weight = Weight()) {
    gracePeriod.withLock { $0.next.append(Retired(object: object, weight: weight)) }
    if poll() { whenDeferred() }
  }

  /// Sets a callback that runs after each `retire` after which objects still wait: `poll` should be called after a
  /// while.
  func onDeferredRelease(_ body: @escaping @Sendable () -> Void) { whenDeferred.set(body) }

  /// Releases the objects that can be released. Returns whether any are left.
  @discardableResult
  func poll() -> Bool {
    // The objects are released outside the lock: their deinitializers may take long.
    let (_, isLeft) = gracePeriod.withLock { period in
      var gone: [[Retired]] = []
      while advance(&period) {
        gone.append(period.leaving)
        period.leaving = []
      }
      return (gone, !period.leaving.isEmpty)
    }
    return isLeft
  }

  /// Advances the grace period as far as possible. Returns true if it has ended with objects to release.
  private func advance(_ period: inout GracePeriod) -> Bool {
    if period.leaving.isEmpty {
      swap(&period.leaving, &period.next)
      period.hasChangedParity = false
      period.pending = ~0
    }
    guard !period.leaving.isEmpty, areClear(&period) else { return false }
    if !period.hasChangedParity {
      unsafe parityWord.pointee.store(parity.other.offset, ordering: .sequentiallyConsistent)
      period.changedAt = clock.now()
      period.hasChangedParity = true
      period.pending = ~0
      guard areClear(&period) else { return false }
    }
    return true
  }

  /// Returns whether all counters of the non-current parity were seen at zero since the step began.
  private func areClear(_ period: inout GracePeriod) -> Bool {
    let awaited = parity.other
    // The word is stored before the counters are loaded, so that a read that leaves afterwards sees that a grace period
    // waits for it.
    unsafe awaitedWord.pointee.store(awaited.word, ordering: .sequentiallyConsistent)
    var rest = period.pending
    while rest != 0 {
      let index = rest.trailingZeroBitCount
      rest &= rest - 1
      let counter = unsafe word(at: index &* Self.slotStride &+ awaited.offset)
      if unsafe counter.pointee.load(ordering: .sequentiallyConsistent) == 0 { period.pending &= ~(1 << UInt64(index)) }
    }
    if period.pending == 0 { unsafe awaitedWord.pointee.store(0, ordering: .relaxed) }
    return period.pending == 0
  }

  // MARK: - Retired objects

  /// Retired objects that wait for reads to end.
  struct DeferredReleases: Sendable, Hashable {
    /// The minimum time that the oldest of these reads has run.
    var ageNanoseconds: UInt64
    var weight: Weight
  }

  /// Retired objects that wait for reads to end, or `nil` if there are none.
  var deferredReleases: DeferredReleases? {
    guard poll() else { return nil }
    let now = clock.now()
    return gracePeriod.withLock { period in
      guard !period.leaving.isEmpty else { return nil }
      var weight = Weight()
      for retired in period.leaving + period.next {
        weight.memTableCount += retired.weight.memTableCount
        weight.bytes += retired.weight.bytes
      }
      return DeferredReleases(ageNanoseconds: now - min(period.changedAt, now), weight: weight)
    }
  }
}

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
/// A slot has two counters of marks, and the engine has a current parity: a read marks the counter of the
/// parity that it loaded. Objects are released in turns, one at a time:
///
/// 1. Wait until each counter of the other parity was seen at zero.
/// 2. Make the other parity the current one.
/// 3. Wait until each counter of the former parity was seen at zero. Release what was retired before step 1.
///
/// # Why no object is released too early
/// A read marks before it loads; the replacement stores before a turn looks at the marks. All four are
/// sequentially consistent, so a look that finds a counter at zero comes either before the mark (then the
/// load comes after the store and sees the new pointer) or after the mark was cleared (then the read has
/// ended). A turn finds each of the 128 counters at zero once after the replacement, so this holds for every
/// read, whichever parity it marked. The parity itself is not a part of the proof.
///
/// Step 1 is not a formality. A read may stop between its load of the parity and its mark, for as long as
/// the system likes. A parity that becomes current meanwhile does not stop it: it marks the former one and
/// loads the pointer of that moment. If a turn began with step 2, it would wait for the counters of the parity
/// that such a read did not mark, and release what the read uses. So a parity becomes current again only
/// after its counters were seen at zero.
///
/// # Why every object is released
/// Reads that begin mark the current parity alone. A counter of the other one is marked by reads that began
/// before the parity changed, and by those that had loaded it: each ends or marks once. So a turn takes at
/// most twice as long as the longest read, however many overlap.
///
/// # Safety
/// Owner of the slots' memory.
///
/// # Concurrency
/// Safe from any thread. Marks of threads that share a slot add up.
@safe
final class ReadEpochs: @unchecked Sendable {
  // Sendable: slots are atomics, the lists are in a mutex.
  private static let slotCount = 64
  private static let slotStride = 64  // one cache line each
  /// Where in a slot the counter of the odd parity is, and the number of reads.
  private static let parityOffset = 8
  private static let countOffset = 16
  /// One more line after the slots: the current parity, and the parity that a turn waits for. Every read
  /// loads them; they change twice in a turn.
  private static let memorySize = (slotCount + 1) * slotStride
  private let slots: UnsafeMutableRawPointer
  private let clock: any EngineClock
  private let turns = Mutex(Turns())
  private let whenKeptBack = Callback()

  /// What an object keeps while it waits.
  struct Weight: Sendable, Hashable {
    var memTableCount = 0
    var bytes = 0
  }

  private struct Retired: Sendable {
    let object: any (AnyObject & Sendable)
    let weight: Weight
  }

  private struct Turns: Sendable {
    /// What this turn releases at its end; empty: no turn runs.
    var leaving: [Retired] = []
    /// What was retired since the turn began: the next turn's.
    var next: [Retired] = []
    /// Whether the turn is at step 3, not at step 1.
    var hasChangedParity = false
    /// One bit for each slot whose counter of the parity that is not current was not yet seen at zero.
    var pending: UInt64 = 0
    /// When the parity changed last: reads that mark the other one began before.
    var changedAt: UInt64 = 0
  }

  init(clock: any EngineClock) {
    self.clock = clock
    let memory = UnsafeMutableRawPointer.allocate(byteCount: Self.memorySize, alignment: Self.slotStride)
    for offset in stride(from: 0, to: Self.memorySize, by: MemoryLayout<Atomic<Int>>.stride) {
      unsafe (memory + offset).bindMemory(to: Atomic<Int>.self, capacity: 1).initialize(to: Atomic(0))
    }
    unsafe slots = memory
    turns.withLock { $0.changedAt = clock.now() }
  }

  deinit { unsafe slots.deallocate() }

  /// The mark of one read.
  @safe
  struct Mark {
    fileprivate let counter: UnsafeMutablePointer<Atomic<Int>>
  }

  /// The parity that reads mark. In steps: the distance from the first counter of a slot.
  struct Parity: Sendable, Hashable {
    fileprivate let offset: Int
    fileprivate var other: Parity { Parity(offset: ReadEpochs.parityOffset - offset) }
    /// As the word that says which parity a turn waits for: zero means none.
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

  /// A number of the calling thread.
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

  /// The first half of `enter`: the parity that is current at this moment.
  @inline(__always)
  var parity: Parity { unsafe Parity(offset: parityWord.pointee.load(ordering: .relaxed)) }

  /// The second half of `enter`: marks a parity that was current some time before.
  @inline(__always)
  func mark(_ parity: Parity) -> Mark {
    let index = Int(truncatingIfNeeded: ((currentThread >> 12) &* 0x9e37_79b9_7f4a_7c15) >> 58)
    let counter = unsafe word(at: index &* Self.slotStride &+ parity.offset)
    unsafe counter.pointee.add(1, ordering: .sequentiallyConsistent)
    return unsafe Mark(counter: counter)
  }

  /// Ends a read. The last one that a turn waits for in its slot takes the turn further.
  @inline(__always)
  func leave(_ mark: Mark) {
    let marks = unsafe mark.counter.pointee.subtract(1, ordering: .releasing).oldValue
    // A turn that this load misses is taken further by the timer of the engine.
    let awaited = unsafe awaitedWord.pointee.load(ordering: .relaxed)
    if awaited != 0, marks == 1 { leaveLast(mark, awaited) }
  }

  @inline(never)
  private func leaveLast(_ mark: Mark, _ awaited: Int) {
    let offset = unsafe Int(bitPattern: mark.counter) & Self.parityOffset
    if awaited == Parity(offset: offset).word { poll() }
  }

  /// Counts a read that has just begun, and says whether it is one of the few that are timed. The count lies
  /// in the cache line of the mark. A load and a store: threads that share a slot may lose a few.
  @inline(__always)
  func countIsSample(_ mark: Mark) -> Bool {
    let count = unsafe Self.count(mark)
    let number = unsafe count.pointee.load(ordering: .relaxed) &+ 1
    unsafe count.pointee.store(number, ordering: .relaxed)
    return OperationLatencies.isSample(UInt64(truncatingIfNeeded: number))
  }

  /// Counts a call that looks up so many keys, and says whether it is one of those that are timed: those with the
  /// 64th key, so all that have as many.
  func countIsSample(_ mark: Mark, keys: Int) -> Bool {
    let count = unsafe Self.count(mark)
    let before = unsafe count.pointee.load(ordering: .relaxed)
    let after = before &+ keys
    unsafe count.pointee.store(after, ordering: .relaxed)
    return OperationLatencies.holdsSample(
      after: UInt64(truncatingIfNeeded: before), to: UInt64(truncatingIfNeeded: after))
  }

  /// How many keys were looked up.
  var readCount: UInt64 {
    var sum = 0
    for index in 0..<Self.slotCount {
      unsafe sum &+= word(at: index &* Self.slotStride &+ Self.countOffset).pointee.load(ordering: .relaxed)
    }
    return UInt64(truncatingIfNeeded: sum)
  }

  /// A slot begins at a multiple of its size.
  @inline(__always)
  private static func count(_ mark: Mark) -> UnsafeMutablePointer<Atomic<Int>> {
    let isOdd = unsafe Int(bitPattern: mark.counter) & parityOffset
    return unsafe (UnsafeMutableRawPointer(mark.counter) + (countOffset &- isOdd))
      .assumingMemoryBound(to: Atomic<Int>.self)
  }

  // MARK: - Turns

  /// Releases `object` when no read that began before this call still runs. May be called inside an
  /// epoch, which keeps it back. `weight` is what it keeps that nothing else does.
  func retire(_ object: any (AnyObject & Sendable), weight: Weight = Weight()) {
    turns.withLock { $0.next.append(Retired(object: object, weight: weight)) }
    if poll() { whenKeptBack() }
  }

  /// Calls `body` after each `retire` that left something to wait for: `poll` is to be called in a while.
  func onKeptBack(_ body: @escaping @Sendable () -> Void) { whenKeptBack.set(body) }

  /// Releases what can be released. Returns whether anything is left.
  @discardableResult
  func poll() -> Bool {
    // The released objects go after the lock is given back: their ends may be long.
    let (_, isLeft) = turns.withLock { turns in
      var gone: [[Retired]] = []
      while takeFurther(&turns) {
        gone.append(turns.leaving)
        turns.leaving = []
      }
      return (gone, !turns.leaving.isEmpty)
    }
    return isLeft
  }

  /// Takes the turn as far as it goes. True where it is at its end, with something to release.
  private func takeFurther(_ turns: inout Turns) -> Bool {
    if turns.leaving.isEmpty {
      swap(&turns.leaving, &turns.next)
      turns.hasChangedParity = false
      turns.pending = ~0
    }
    guard !turns.leaving.isEmpty, areClear(&turns) else { return false }
    if !turns.hasChangedParity {
      unsafe parityWord.pointee.store(parity.other.offset, ordering: .sequentiallyConsistent)
      turns.changedAt = clock.now()
      turns.hasChangedParity = true
      turns.pending = ~0
      guard areClear(&turns) else { return false }
    }
    return true
  }

  /// Whether all counters of the parity that is not current were seen at zero since the step began.
  private func areClear(_ turns: inout Turns) -> Bool {
    let awaited = parity.other
    // Before the look: a read that leaves after it sees that it is waited for.
    unsafe awaitedWord.pointee.store(awaited.word, ordering: .sequentiallyConsistent)
    var rest = turns.pending
    while rest != 0 {
      let index = rest.trailingZeroBitCount
      rest &= rest - 1
      let counter = unsafe word(at: index &* Self.slotStride &+ awaited.offset)
      if unsafe counter.pointee.load(ordering: .sequentiallyConsistent) == 0 { turns.pending &= ~(1 << UInt64(index)) }
    }
    if turns.pending == 0 { unsafe awaitedWord.pointee.store(0, ordering: .relaxed) }
    return turns.pending == 0
  }

  // MARK: - What waits

  /// What waits for reads to end.
  struct KeptBack: Sendable, Hashable {
    /// How long the oldest of these reads has run at least.
    var ageNanoseconds: UInt64
    var weight: Weight
  }

  /// What waits for reads to end; nil: nothing does.
  var keptBack: KeptBack? {
    guard poll() else { return nil }
    let now = clock.now()
    return turns.withLock { turns in
      guard !turns.leaving.isEmpty else { return nil }
      var weight = Weight()
      for retired in turns.leaving + turns.next {
        weight.memTableCount += retired.weight.memTableCount
        weight.bytes += retired.weight.bytes
      }
      return KeptBack(ageNanoseconds: now - min(turns.changedAt, now), weight: weight)
    }
  }
}

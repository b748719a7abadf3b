internal import FutexLocks
internal import Synchronization

/// The sequences of live snapshots and cursors, which flush and compaction must keep apart, and the age of each reader.
///
/// Every cursor registers one while it lives, so this is on the path of a seek: the array stays sorted because the
/// visible sequence only grows, and registering only checks its end.
///
/// Safe from any thread.
final class SnapshotList: Sendable {
  private struct Held: Sendable {
    let sequence: SequenceNumber
    var count: Int
  }

  private struct State: Sendable {
    /// Ascending, each sequence once.
    var held: [Held] = []
    var readers = ReaderList()

    /// The index of a sequence, or the index at which it would be inserted.
    func index(of sequence: SequenceNumber) -> Int {
      var low = 0
      var high = held.count
      while low < high {
        let middle = (low + high) / 2
        if held[middle].sequence < sequence { low = middle + 1 } else { high = middle }
      }
      return low
    }
  }

  /// A registered sequence, to be passed to `release`.
  struct Hold: Sendable {
    let sequence: SequenceNumber
    fileprivate let location: Int
    /// The number of earlier registrations, used to sample evenly.
    let number: UInt64
  }

  private let clock: any EngineClock
  private let state = FutexLock(State())
  /// The sequence below which no reader may remain registered when `whenReached` is called, or `.max` if no caller
  /// waits.
  private let wanted = Atomic<UInt64>(.max)
  private let whenReached = Callback()

  fileprivate let latencies: OperationLatencies

  init(clock: any EngineClock, latencies: OperationLatencies) {
    self.clock = clock
    self.latencies = latencies
  }

  /// Registers the visible sequence.
  ///
  /// It is loaded under the lock that `sequences` also takes, so a job that collects the sequences either sees this one
  /// or began before it was visible.
  func hold(as reader: EngineEvent.Reader, _ visible: () -> SequenceNumber) -> Hold {
    let now = clock.now()
    return state.withLock { state in
      let sequence = visible()
      if let last = state.held.last, last.sequence == sequence {
        state.held[state.held.count - 1].count += 1
      } else {
        assert(state.held.last.map { $0.sequence < sequence } ?? true, "the visible sequence went back")
        state.held.append(Held(sequence: sequence, count: 1))
      }
      return state.readers.add(reader, sequence, now)
    }
  }

  /// Registers another reader of a sequence that is registered already.
  func hold(_ sequence: SequenceNumber, as reader: EngineEvent.Reader) -> Hold {
    let now = clock.now()
    return state.withLock { state in
      let index = state.index(of: sequence)
      guard index < state.held.count, state.held[index].sequence == sequence else {
        fatalError("sequence \(sequence) is not held: keep its snapshot as long as cursors are made of it")
      }
      state.held[index].count += 1
      return state.readers.add(reader, sequence, now)
    }
  }

  func release(_ hold: Hold) {
    remove(hold)
    if wanted.load(ordering: .relaxed) != .max { notifyIfReached() }
  }

  /// Sets the callback, which is called once for each `wake`.
  func onReached(_ body: @escaping @Sendable () -> Void) { whenReached.set(body) }

  /// Requests one call of the callback when no sequence below `sequence` is registered any more.
  ///
  /// The lowest of several requests counts.
  func wake(at sequence: SequenceNumber) {
    var old = wanted.load(ordering: .relaxed)
    while sequence.value < old {
      let result = wanted.compareExchange(expected: old, desired: sequence.value, ordering: .sequentiallyConsistent)
      if result.exchanged { break }
      old = result.original
    }
    // The last lower sequence may have been released already.
    notifyIfReached()
  }

  @inline(never)
  private func notifyIfReached() {
    let sequence = wanted.load(ordering: .sequentiallyConsistent)
    guard sequence != .max, oldest.map({ $0.value >= sequence }) ?? true,
      wanted.compareExchange(expected: sequence, desired: .max, ordering: .sequentiallyConsistent).exchanged
    else { return }
    whenReached()
  }

  private func remove(_ hold: Hold) {
    state.withLock { state in
      state.readers.remove(at: hold.location)
      let index = state.index(of: hold.sequence)
      guard index < state.held.count, state.held[index].sequence == hold.sequence else { return }
      state.held[index].count -= 1
      if state.held[index].count == 0 { state.held.remove(at: index) }
    }
  }

  /// Returns all registered sequences and the visible one, ascending, without duplicates.
  func sequences(visible: () -> SequenceNumber) -> [SequenceNumber] {
    state.withLock { state in
      var sequences = state.held.map(\.sequence)
      let visible = visible()
      if sequences.last != visible { sequences.append(visible) }
      return sequences
    }
  }

  var oldest: SequenceNumber? {
    defer { whenLooked() }
    return state.withLock { $0.held.first?.sequence }
  }

  /// Returns the lowest sequence that any reader sees, now and later.
  ///
  /// It is the oldest registered one, or the visible one if there is none. Both are read under the list's lock.
  /// Otherwise a reader could register, in between, a sequence below the visible one that is loaded after it.
  func oldest(orVisible visible: () -> SequenceNumber) -> SequenceNumber {
    defer { whenLooked() }
    return state.withLock { $0.held.first?.sequence ?? visible() }
  }

  /// A callback after each check of the oldest sequence, without the lock.
  ///
  /// Tests use it to let an event occur between two checks.
  let whenLooked = Callback()

  /// The live readers and the current time.
  var summary: (held: ReaderList.Summary, now: UInt64) {
    let now = clock.now()
    return (state.withLock { $0.readers.summary }, now)
  }

  /// The states that readers see, in ascending order, each with the age of its oldest reader.
  var ages: [(sequence: SequenceNumber, nanoseconds: UInt64)] {
    let now = clock.now()
    return state.withLock { $0.readers.starts }.sorted { $0.key < $1.key }.map { ($0.key, now - min($0.value, now)) }
  }

  /// Returns events for readers that have lived for `bound` or longer, and for twice their age at their last report.
  func takeLongLived(bound: UInt64) -> [EngineEvent] {
    let now = clock.now()
    return state.withLock { $0.readers.takeLongLived(bound: bound, now: now) }
  }
}

extension SnapshotList.Hold {
  fileprivate init(_ sequence: SequenceNumber, _ location: Int, _ number: UInt64) {
    self.sequence = sequence
    self.location = location
    self.number = number
  }
}

/// The live snapshots and cursors in the order of creation: a doubly linked list in an array, so that each operation
/// takes constant time.
struct ReaderList: Sendable {
  private struct Node: Sendable {
    var previous = -1
    var next = -1
    var reader = EngineEvent.Reader.snapshot
    var sequence = SequenceNumber.zero
    var since: UInt64 = 0
    /// The age of the next report; 0 means the bound.
    var reportAge: UInt64 = 0
  }

  /// The number of readers, and the start of the oldest.
  struct Summary: Sendable {
    var snapshotCount = 0
    var cursorCount = 0
    var oldestSequence: SequenceNumber?
    var oldestSnapshotSince: UInt64?
    var oldestCursorSince: UInt64?
  }

  private var nodes: [Node] = []
  /// Indices of unused nodes.
  private var free: [Int] = []
  private var first = -1
  private var last = -1
  private var addedCount: UInt64 = 0
  private var snapshotCount = 0
  private var cursorCount = 0

  fileprivate mutating func add(
    _ reader: EngineEvent.Reader, _ sequence: SequenceNumber, _ now: UInt64
  ) -> SnapshotList.Hold {
    let node = Node(previous: last, reader: reader, sequence: sequence, since: now)
    let location: Int
    if let reused = free.popLast() {
      location = reused
      nodes[location] = node
    } else {
      location = nodes.count
      nodes.append(node)
    }
    if last >= 0 { nodes[last].next = location } else { first = location }
    last = location
    if reader == .cursor { cursorCount += 1 } else { snapshotCount += 1 }
    addedCount &+= 1
    return SnapshotList.Hold(sequence, location, addedCount)
  }

  fileprivate mutating func remove(at location: Int) {
    let node = nodes[location]
    if node.previous >= 0 { nodes[node.previous].next = node.next } else { first = node.next }
    if node.next >= 0 { nodes[node.next].previous = node.previous } else { last = node.previous }
    if node.reader == .cursor { cursorCount -= 1 } else { snapshotCount -= 1 }
    free.append(location)
  }

  fileprivate var summary: Summary {
    var summary = Summary(snapshotCount: snapshotCount, cursorCount: cursorCount)
    var location = first
    while location >= 0 {
      let node = nodes[location]
      switch node.reader {
      case .snapshot: summary.oldestSnapshotSince = summary.oldestSnapshotSince ?? node.since
      case .cursor: summary.oldestCursorSince = summary.oldestCursorSince ?? node.since
      }
      summary.oldestSequence = min(summary.oldestSequence ?? node.sequence, node.sequence)
      location = node.next
    }
    return summary
  }

  /// The states that readers see, each with the start of its oldest reader.
  fileprivate var starts: [SequenceNumber: UInt64] {
    var starts: [SequenceNumber: UInt64] = [:]
    var location = first
    while location >= 0 {
      let node = nodes[location]
      // The list has the order of creation.
      if starts[node.sequence] == nil { starts[node.sequence] = node.since }
      location = node.next
    }
    return starts
  }

  fileprivate mutating func takeLongLived(bound: UInt64, now: UInt64) -> [EngineEvent] {
    var events: [EngineEvent] = []
    var location = first
    while location >= 0, now - min(nodes[location].since, now) >= bound {
      let age = now - min(nodes[location].since, now)
      if age >= nodes[location].reportAge {
        nodes[location].reportAge = 2 * age
        events.append(.longLived(nodes[location].reader, sequence: nodes[location].sequence, ageNanoseconds: age))
      }
      location = nodes[location].next
    }
    return events
  }
}

/// A snapshot of the database: reads through it see the state at its creation, whatever is written, flushed or
/// compacted later.
///
/// A snapshot is one number. It keeps old versions of changed keys from being dropped, and is released with its last
/// reference. Safe from any thread.
public final class EngineSnapshot: Sendable {
  /// The last commit that the snapshot sees.
  public let sequence: SequenceNumber
  private let list: SnapshotList
  private let hold: SnapshotList.Hold

  /// The views to read through in a follower, where later views may lack what the snapshot sees.
  let held: HeldViews?

  init(
    list: SnapshotList, as reader: EngineEvent.Reader = .snapshot, holding: () -> HeldViews? = { nil },
    visible: () -> SequenceNumber
  ) {
    self.list = list
    hold = list.hold(as: reader, visible)
    sequence = hold.sequence
    seekCount = Atomic(hold.number)
    // The views are loaded after the sequence, because views only gain what later commits need.
    held = holding()
  }

  /// Registers a cursor at another snapshot.
  init(cursorAt snapshot: EngineSnapshot) {
    list = snapshot.list
    hold = list.hold(snapshot.sequence, as: .cursor)
    sequence = hold.sequence
    seekCount = Atomic(hold.number)
    held = snapshot.held
  }

  deinit { list.release(hold) }

  /// Returns whether a family was created after the snapshot, in a follower; the snapshot then sees no entry of it.
  ///
  /// Always false in the writing process. Complexity: a dictionary lookup.
  public func isOlder(than family: FamilyID) -> Bool { held.map { !$0.holds(family) } ?? false }

  /// Returns whether a family of this name existed when the snapshot was made, in a follower: another process may have
  /// dropped it since, and created another one with its name.
  ///
  /// Always false in the writing process. Complexity: O(n) of the families.
  package func hasFamily(named name: String) -> Bool { held?.holds(name: name) ?? false }

  // MARK: - For the cursor that owns it

  /// The number of seeks of a cursor, starting from a number that differs between cursors, since many seek only once.
  ///
  /// It is stored here because the cursor itself is moved. It is changed by a load and a store, by one thread at a
  /// time.
  private let seekCount: Atomic<UInt64>

  /// Counts a seek, and returns whether it is one of the few that are timed.
  @inline(__always)
  func countSeekIsSample() -> Bool {
    let number = seekCount.load(ordering: .relaxed) &+ 1
    seekCount.store(number, ordering: .relaxed)
    return OperationLatencies.isSample(number)
  }

  @inline(never)
  func beginTimed() -> UInt64 { list.latencies.begin() }

  @inline(never)
  func endTimed(_ operation: OperationLatencies.Operation, from start: UInt64) {
    list.latencies.end(operation, from: start)
  }
}

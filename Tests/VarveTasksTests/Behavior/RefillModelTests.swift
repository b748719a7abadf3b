import EngineTestSupport
import FutexLocks
import Synchronization
import Testing
import Varve
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of what subqueues and timers hold in memory and what is only on disk, against models of the disk, while
/// commits come during reads.
struct RefillModelTests {
  // MARK: - Lines

  private static func subqueue() -> Subqueue {
    Subqueue(SubqueueID(queue: 1), QueueState(1, "q", QueueRules(), isPaused: false, nil), isOnDisk: true)
  }

  /// Returns a queued task whose position is determined by its priority, and then by its number.
  private static func entry(_ number: Int, priority: UInt8 = 128) -> QueuedTask {
    let position = TaskPosition(
      .queued, queue: 1, priority: priority, sortKey: [], stamp: UInt64(number), ordinal: 0)
    let record = TaskRecord(
      id: TaskID(rawValue: UInt64(number)), progress: TaskProgress(.ready), position: position, enqueued: 0,
      kind: "note", version: 1, payload: [], TaskOptions())
    return QueuedTask(record, record.bytes)
  }

  /// The tasks of a subqueue on disk, and those that were taken from the subqueue and still have their rows.
  private struct LineDisk {
    var rows: [QueuedTask] = []
    var running: Set<TaskID> = []

    /// Returns the index of the first row whose key is not less than a key.
    func index(of key: [UInt8]) -> Int {
      var (low, high) = (0, rows.count)
      while low < high {
        let middle = (low + high) / 2
        if QueuedTask.precedes(rows[middle].key, key) { low = middle + 1 } else { high = middle }
      }
      return low
    }

    mutating func insert(_ entry: QueuedTask) { rows.insert(entry, at: index(of: entry.key)) }

    mutating func remove(_ entry: QueuedTask) {
      rows.removeAll { $0.id == entry.id }
      running.remove(entry.id)
    }

    /// Returns the tasks from a key on, as many as are read at once, and the key of the next one.
    func read(from key: [UInt8]) -> (found: [QueuedTask], next: [UInt8]?) {
      let rest = rows[index(of: key)...]
      return (Array(rest.prefix(Subqueue.refillCount)), rest.dropFirst(Subqueue.refillCount).first?.key)
    }

    /// Adds the tasks of a commit, and acknowledges the commit to a subqueue. The commit has the first ones in memory.
    mutating func commit(_ entries: [QueuedTask], to subqueue: Subqueue) {
      for entry in entries { insert(entry) }
      for entry in entries.prefix(Subqueue.entryMaximum) { subqueue.insert(entry) }
      let more = entries.dropFirst(Subqueue.entryMaximum).map(\.key).min { QueuedTask.precedes($0, $1) }
      if let more { subqueue.noteMore(from: more) }
    }

    /// Takes all tasks of a subqueue, and reads those that are on disk. Returns the numbers of those that were not
    /// taken before, in their order.
    mutating func drain(_ subqueue: Subqueue) -> [UInt64] {
      var numbers: [UInt64] = []
      for _ in 0..<(rows.count + 2) {
        while let entry = subqueue.popFirst() {
          // No task in memory comes after one that is only on disk.
          if let end = subqueue.end { #expect(QueuedTask.precedes(entry.key, end)) }
          if running.insert(entry.id).inserted { numbers.append(entry.id.rawValue) }
        }
        guard let from = subqueue.beginRefill() else { return numbers }
        let (found, next) = read(from: from)
        _ = subqueue.endRefill(found, from: from, next: next) { running.contains($0) }
      }
      Issue.record("the subqueue is read again and again")
      return numbers
    }

    /// The numbers of the tasks that were not taken, in their order.
    var left: [UInt64] { rows.filter { !running.contains($0.id) }.map(\.id.rawValue) }
  }

  @Test(arguments: [0, 10, 255], [128, 200] as [UInt8])
  func `a subqueue knows the first task that is only on disk after many came while its last ones were read`(
    count: Int, priority: UInt8
  ) throws {
    let subqueue = Self.subqueue()
    var disk = LineDisk()
    for number in 0..<count { disk.insert(Self.entry(1 + number)) }
    let from = try #require(subqueue.beginRefill())
    let (found, next) = disk.read(from: from)
    #expect(found.count == count && next == nil)
    // The last 488 tasks, of priority 128, are not in memory. If the others have priority 200, they come before these.
    let entries = (0..<1_000).map { number in
      Self.entry(1_000 + number, priority: number < Subqueue.entryMaximum ? priority : 128)
    }
    disk.commit(entries, to: subqueue)
    let isFirst = priority == 200
    let only = entries[Subqueue.entryMaximum].key
    let passed = subqueue.endRefill(found, from: from, next: next) { _ in false }
    #expect(passed == 0)
    let end = try #require(subqueue.end)
    #expect(!QueuedTask.precedes(only, end))
    #expect(isFirst ? subqueue.entryCount <= count : subqueue.entryCount > count)
    let expected = disk.left
    let drained = disk.drain(subqueue)
    #expect(drained == expected)
    #expect(expected.count == count + 1_000 && subqueue.end == nil)
  }

  @Test func `a subqueue gives all tasks in their order, whatever comes, ends and is taken while tasks are read`()
    throws
  {
    for seed in 0..<UInt64(TestScale.count(40)) {
      var random = SeededRandom(seed: seed)
      let subqueue = Self.subqueue()
      var disk = LineDisk()
      var last = 0
      // The key that a read begins at, and the rows that it has found.
      var begun: [UInt8]?
      var read: (found: [QueuedTask], next: [UInt8]?)?
      for _ in 0..<30 {
        switch random.below(8) {
        case 0, 1, 2:
          let count = random.oneIn(3) ? 500 + random.below(200) : 1 + random.below(20)
          let priorities: [UInt8] = random.oneIn(2) ? [128] : [100, 128, 200]
          let entries = (0..<count).map { _ in
            last += 1
            return Self.entry(last, priority: priorities[random.below(priorities.count)])
          }
          disk.commit(entries, to: subqueue)
        case 3:
          if let from = subqueue.beginRefill() { begun = from }
          if let from = begun, random.oneIn(2) { read = read ?? disk.read(from: from) }
        case 4:
          guard let from = begun.take() else { continue }
          let (found, next) = read.take() ?? disk.read(from: from)
          if random.oneIn(4) {
            subqueue.failRefill()
          } else {
            _ = subqueue.endRefill(found, from: from, next: next) { disk.running.contains($0) }
          }
        case 5:
          // A transaction deletes a task that waits.
          guard let entry = disk.rows.filter({ !disk.running.contains($0.id) }).randomElement(using: &random) else {
            continue
          }
          disk.remove(entry)
          subqueue.remove(entry.id, key: entry.key)
        case 6:
          for _ in 0..<random.below(300) { if let entry = subqueue.popFirst() { disk.running.insert(entry.id) } }
        default:
          guard let entry = disk.rows.first(where: { disk.running.contains($0.id) }) else { continue }
          disk.remove(entry)
          subqueue.noteEnded(entry.key)
        }
      }
      if let from = begun {
        let (found, next) = read ?? disk.read(from: from)
        _ = subqueue.endRefill(found, from: from, next: next) { disk.running.contains($0) }
      }
      let expected = disk.left
      let drained = disk.drain(subqueue)
      #expect(drained == expected, "seed \(seed)")
    }
  }

  // MARK: - Timers

  /// The number of times that the next timer may have changed.
  private final class ChangeCount: Sendable { let value = Atomic(0) }

  /// The rows of tasks that wait for a time, and a dispatcher that takes work only when the test does so.
  private struct TimerDisk {
    struct Row {
      let timer: TimedTask
      /// The time in seconds at which the task is due.
      let second: Int
    }

    /// The time of day at which the clock begins, in milliseconds since 1970.
    static let begin: Int64 = 1_767_225_600_000

    let fixture: TaskFixture
    var random: SeededRandom
    var rows: [[UInt8]: Row] = [:]
    /// The keys of all rows there ever were.
    var keys: [[UInt8]] = []
    var second = 0
    var reading: (found: [TimedTask], next: [UInt8]?)?
    var earlyCount = 0
    /// The time at which the alarm rings.
    var alarm: Duration?
    private let changes = ChangeCount()
    private var seenChanges = 0
    var dispatcher: TaskDispatcher { fixture.scheduler.dispatcher }

    init(seed: UInt64) throws {
      random = SeededRandom(seed: seed)
      fixture = try TaskFixture()
      let (scheduler, changes) = (fixture.scheduler, changes)
      fixture.attach(timersChanged: { changes.value.add(1, ordering: .relaxed) })
      _ = scheduler.dispatcher.beginLoadingTimers()
      scheduler.dispatcher.loadTimers([], next: nil, of: 1)
      scheduler.dispatcher.discover([])
      while scheduler.dispatcher.takeWork(1) != nil {}
    }

    /// Acknowledges a commit with tasks that wait for dates and for delays, of which the first ones are in memory.
    mutating func commit(_ count: Int) {
      let (first, span) = (second + 1 + random.below(5_000), 1 + random.below(5_000))
      var timers: [TimedTask] = []
      for _ in 0..<count {
        let id = TaskID(rawValue: UInt64(keys.count + 1))
        let due = first + random.below(span)
        let time = Self.begin + Int64(due) * 1_000
        let position = TaskPosition(.timed, queue: 1, priority: 128, sortKey: [], stamp: 1, ordinal: 0, due: time)
        let key = position.key(of: id)
        let timer = TimedTask(id: id, key: key, due: time, deadline: random.oneIn(2) ? nil : .seconds(due))
        rows[key] = Row(timer: timer, second: due)
        keys.append(key)
        timers.append(timer)
      }
      var delta = TaskDelta()
      delta.timers = Array(timers.prefix(Timers.taskMaximum))
      delta.moreTimers = timers.dropFirst(Timers.taskMaximum).map(\.key).min { QueuedTask.precedes($0, $1) }
      acknowledge(delta)
    }

    /// Acknowledges a commit that cancels some tasks.
    mutating func cancel(_ count: Int) {
      var delta = TaskDelta()
      for _ in 0..<count {
        if let key = keys.randomElement(using: &random), rows.removeValue(forKey: key) != nil {
          delta.removedTimers.append(key)
        }
      }
      acknowledge(delta)
    }

    private mutating func acknowledge(_ delta: TaskDelta) {
      dispatcher.acknowledge(delta, .zero)
      let count = changes.value.load(ordering: .relaxed)
      if count > seenChanges { alarm = dispatcher.nextDeadline }
      seenChanges = count
      if reading == nil, dispatcher.state.withLock({ $0.loop.isPumping }) { work() }
    }

    /// Does the work that is due, as the scheduler does if it is woken. A read from disk may remain to be ended.
    mutating func work() {
      defer { alarm = dispatcher.nextDeadline }
      while let work = dispatcher.takeWork(1) {
        for (_, key) in work.due {
          // The task may have been cancelled while its row was read.
          if let row = rows.removeValue(forKey: key), row.second > second { earlyCount += 1 }
        }
        guard let from = work.timersFrom else { continue }
        let rest = rows.keys.filter { !QueuedTask.precedes($0, from) }.sorted { QueuedTask.precedes($0, $1) }
        let found = rest.prefix(Timers.taskMaximum).compactMap { rows[$0]?.timer }
        reading = (found, rest.dropFirst(Timers.taskMaximum).first)
        if random.oneIn(2) { endReading() }
      }
    }

    mutating func endReading() {
      guard let (found, next) = reading.take() else { return }
      let isFailed = random.oneIn(8)
      dispatcher.loadTimers(isFailed ? nil : found, next: isFailed ? nil : next, of: 1)
    }

    /// Lets some seconds pass, and does all work that is due by then.
    mutating func pass(_ seconds: Int) {
      fixture.clock.advance(by: .seconds(seconds))
      second += seconds
      repeat {
        endReading()
        work()
      } while reading != nil
    }

    /// The number of tasks that are due and have not fired.
    var lateCount: Int { rows.values.count { $0.second <= second } }

    /// Whether the alarm rings early enough for all tasks.
    var isAlarmInTime: Bool {
      guard reading == nil, let first = rows.values.map(\.second).min() else { return true }
      return alarm.map { $0 <= .seconds(first) } ?? false
    }
  }

  @Test func `all timers fire at their times, whatever comes and is cancelled while rows of timers are read`() throws {
    for seed in 0..<UInt64(TestScale.count(4)) {
      var disk = try TimerDisk(seed: seed)
      for step in 0..<24 {
        switch disk.random.below(6) {
        case 0: disk.commit(Timers.taskMaximum + 1 + disk.random.below(1_500))
        case 1: disk.commit(1 + disk.random.below(20))
        case 2: disk.cancel(1 + disk.random.below(500))
        case 3:
          // After a read the scheduler continues with its work.
          disk.endReading()
          disk.work()
        case 4:
          // A read begins if one is due, and may remain to be ended during the next steps.
          disk.fixture.clock.advance(by: .seconds(1))
          disk.second += 1
          disk.work()
        default:
          disk.pass(1 + disk.random.below(2_000))
          #expect(disk.lateCount == 0, "seed \(seed), step \(step)")
        }
        #expect(disk.isAlarmInTime, "seed \(seed), step \(step)")
      }
      for _ in 0..<12 {
        disk.pass(1_000)
        #expect(disk.lateCount == 0 && disk.isAlarmInTime, "seed \(seed)")
      }
      #expect(disk.rows.isEmpty && disk.earlyCount == 0, "seed \(seed)")
    }
  }
}

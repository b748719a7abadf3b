internal import Foundation
internal import Synchronization
@_spi(Extensions) public import Varve

/// The tasks of a database in one transaction, used by the methods of `WriteTransaction` and `ReadTransaction`.
///
/// It belongs to the thread of its transaction.
@_spi(Extensions) public final class TaskStorageTransaction: ExtensionTransaction {
  /// The extension that the object belongs to.
  public typealias Definition = TaskStorage

  let context: ExtensionContext<TaskStorage>
  let parts: TaskParts
  let config: Part
  let dispatcher: TaskDispatcher
  private var delta = TaskDelta()
  /// The changes of the counts of states. Successive changes of one key are added up.
  private var counts: [(queue: UInt32, state: TaskState, number: Int64)] = []
  private var writtenCounts = 0
  /// The number of tasks of the last subqueue that came into the delta.
  private var kept: (subqueue: SubqueueID, count: Int) = (SubqueueID(queue: 0), 0)
  /// The numbers of tasks of the subqueues before it.
  private var keptCounts: [SubqueueID: Int] = [:]
  /// The queues in `delta.names`, as they are now.
  private var ownQueues: [QueueName: TaskNames.Queue] = [:]
  /// What `ownQueues` had before each change of `delta.names`.
  private var replacedQueues: [TaskNames.Queue?] = []
  /// The names of queues that the dispatcher does not know, as far as they were met.
  var texts: [UInt32: QueueName] = [:]
  private var held: Set<TaskID> = []
  /// The tasks of selections that ran when they were selected, or that the scheduler has changed since the transaction
  /// began, or may be changing. The transaction reads them as they were at its beginning.
  private(set) var moving: Set<TaskID> = []
  /// The task that its handler completes in the transaction, while the handler's closure runs.
  var completing: TaskID?
  private var ordinal: UInt32 = 0
  private var now: (wall: Int64, continuous: Duration)?
  /// The tasks that another process runs, with the numbers of their attempts.
  private(set) lazy var foreignRuns: [TaskID: UInt32] = (try? findForeignRuns()) ?? [:]
  /// The numbers of tasks that run, by queue and by the state in which the stored numbers include them, or `nil` if
  /// they were not counted or may change.
  var runningCounts: [UInt32: [TaskState: Int]]?
  /// What the transaction has found out about the tasks that wait, if it only reads.
  var waitCache = WaitCache()
  private var lastQueue: (name: QueueName, queue: TaskNames.Queue)?
  /// The states that tasks of groups have reached, where `ready` means that a task was enqueued.
  private var groupCounts: [(group: TaskID, state: TaskState)] = []
  private var writtenGroupCounts = 0
  private var marks: [Mark] = []

  private struct Mark {
    let entries: Int
    let timers: Int
    let removed: Int
    let removedTimers: Int
    let cancelled: Int
    let names: Int
    let counts: Int
    let groupCounts: Int
    let parents: Int
    let pending: Int
    let waits: Int
    let ended: Int
    let releasesAll: Bool
  }

  /// The maximum number of successive tasks of one subqueue that the delta holds. Further ones are only on disk.
  ///
  /// It is 0 if no scheduler runs the tasks.
  private let keptMaximum: Int

  init(_ context: ExtensionContext<TaskStorage>) throws {
    self.context = context
    parts = try TaskParts(context)
    config = try context.part("config")
    dispatcher = context.shared
    keptMaximum = dispatcher.isAttached ? 512 : 0
  }

  deinit { if !held.isEmpty { dispatcher.release(held) } }

  /// Finds the claims of the last start, if this process only reads.
  private func findForeignRuns() throws -> [TaskID: UInt32] {
    if context.writeTransaction != nil || dispatcher.isAttached { return [:] }
    var runs: [TaskID: UInt32] = [:]
    let start = UInt32(truncatingIfNeeded: try parts.numbers.counter(TaskNumbers.start))
    var prefix = TaskKeys.claimPrefix
    prefix.append(number: start)
    var cursor = try parts.live.cursor(StorageRange(prefix: prefix))
    while let (key, value) = try cursor.next() {
      var reader = ByteReader(value)
      let id = try TaskKeys.id(of: key, at: 5)
      // A task whose claim was made ahead does not run yet, unless a row says so.
      if try TaskKeys.isAhead(value), try config.get(ConfigKeys.begun(id)) != key { continue }
      runs[id] = try reader.number()
    }
    return runs
  }

  /// Does nothing, because tasks do not depend on changes of rows.
  public func didChange(_ change: borrowing RowChange) {}

  // MARK: - Savepoints and the end

  /// Returns a number that identifies the changes so far, for `rollBack(to:)`.
  public func mark() -> Int {
    marks.append(
      Mark(
        entries: delta.entries.count, timers: delta.timers.count, removed: delta.removed.count,
        removedTimers: delta.removedTimers.count, cancelled: delta.cancelled.count, names: delta.names.count,
        counts: counts.count, groupCounts: groupCounts.count, parents: delta.parents.count,
        pending: delta.pending.count, waits: delta.waits.count, ended: delta.ended.count,
        releasesAll: delta.releasesAll))
    return marks.count - 1
  }

  /// Forgets the changes after a savepoint. Ids that were assigned since are not assigned again.
  public func rollBack(to mark: Int) {
    let position = marks[mark]
    marks.removeSubrange((mark + 1)...)
    keptCounts[kept.subqueue] = kept.count
    for (subqueue, _) in delta.entries[position.entries...] { keptCounts[subqueue, default: 0] -= 1 }
    kept.count = keptCounts[kept.subqueue] ?? 0
    delta.entries.removeSubrange(position.entries...)
    delta.timers.removeSubrange(position.timers...)
    delta.removed.removeSubrange(position.removed...)
    delta.removedTimers.removeSubrange(position.removedTimers...)
    delta.cancelled.removeSubrange(position.cancelled...)
    for index in (position.names..<delta.names.count).reversed() {
      ownQueues[delta.names[index].name] = replacedQueues[index]
    }
    delta.names.removeSubrange(position.names...)
    replacedQueues.removeSubrange(position.names...)
    counts.removeSubrange(position.counts...)
    writtenCounts = min(writtenCounts, counts.count)
    groupCounts.removeSubrange(position.groupCounts...)
    writtenGroupCounts = min(writtenGroupCounts, groupCounts.count)
    delta.parents.removeSubrange(position.parents...)
    delta.pending.removeSubrange(position.pending...)
    delta.waits.removeSubrange(position.waits...)
    delta.ended.removeSubrange(position.ended...)
    delta.releasesAll = position.releasesAll
    lastQueue = nil
    // The record of the assigned ids may be undone, too, so the next id writes it again.
    delta.lastID = 0
  }

  /// Writes the changes of the counts.
  public func flush() throws {
    for (queue, state, number) in counts[writtenCounts...] where number != 0 {
      try parts.counts.add(number, to: TaskCounts.key(queue, state))
    }
    writtenCounts = counts.count
    for (group, state) in groupCounts[writtenGroupCounts...] {
      try parts.counts.add(1, to: TaskCounts.key(group: group, state))
    }
    writtenGroupCounts = groupCounts.count
  }

  /// Returns the effect of the commit on the tasks that run next.
  public func takeDelta(_ version: CommitVersion) -> TaskDelta? {
    if !held.isEmpty {
      delta.hold = Hold(dispatcher, held)
      held = []
    }
    if delta.isEmpty { return nil }
    if !delta.removed.isEmpty {
      let gone = Set(delta.removed.map(\.key))
      delta.entries.removeAll { gone.contains($0.entry.key) }
    }
    if !delta.removedTimers.isEmpty {
      let gone = Set(delta.removedTimers)
      delta.timers.removeAll { gone.contains($0.key) }
    }
    let stamp = version.number
    for index in delta.entries.indices where delta.entries[index].entry.stamp == TaskPosition.pendingStamp {
      delta.entries[index].entry.set(stamp: stamp)
    }
    for subqueue in Array(delta.more.keys) {
      if var key = delta.more.removeValue(forKey: subqueue) {
        QueuedTask.set(stamp, in: &key)
        delta.more[subqueue] = key
      }
    }
    return delta
  }

  func count(_ queue: UInt32, _ state: TaskState, _ number: Int64) {
    // Changes from before a savepoint must stay as they are, because the savepoint may be undone.
    if let last = counts.last, last.queue == queue, last.state == state, counts.count > writtenCounts,
      counts.count > marks.last?.counts ?? 0
    {
      counts[counts.count - 1].number += number
    } else {
      counts.append((queue, state, number))
    }
  }

  func time() -> (wall: Int64, continuous: Duration) {
    if let now { return now }
    let time = (wall: dispatcher.wallNow, continuous: dispatcher.usedClock.continuousNow)
    now = time
    return time
  }

  // MARK: - Queues

  /// Returns a queue, which is made if it does not exist.
  func queue(making name: QueueName) throws -> TaskNames.Queue {
    if let lastQueue, lastQueue.name == name { return lastQueue.queue }
    let queue = try queue(name) ?? make(name)
    lastQueue = (name, queue)
    return queue
  }

  /// Returns a queue, or `nil` if it does not exist.
  ///
  /// As with the tasks of a query, a concurrent change by others causes no conflict. Two
  /// transactions that make a queue do conflict, because what they write is checked.
  func queue(_ name: QueueName) throws -> TaskNames.Queue? {
    if let own = ownQueues[name] { return own }
    if context.writeTransaction != nil, let known = dispatcher.queue(name) { return known }
    return try config.unchecked.get(TaskNames.key(name)).map { try TaskNames.queue($0) }
  }

  /// Returns the queues whose first task is dead or parked: see `ReadTransaction.blockedTaskQueues()`.
  ///
  /// Concurrent changes by others cause no conflict.
  func blockedQueues() throws -> [BlockedTaskQueue] {
    let live = parts.live.unchecked
    var blocked: [BlockedTaskQueue] = []
    for (name, queue) in try TaskNames(config).queues.sorted(by: { $0.key < $1.key }) {
      var range = StorageRange(prefix: TaskKeys.subqueues(queue.number))
      // Each step reads the first task of a subqueue, and continues after the subqueue.
      while let (key, value) = try live.first(in: range) {
        // A row that can't be read is left out, as the scheduler leaves it out.
        if let entry = try? QueuedTask(key: key, value: value), entry.state == .dead || entry.state == .parked {
          blocked.append(BlockedTaskQueue(queue: name, task: entry.id, state: entry.state))
        }
        guard let next = StorageRange(prefix: try SubqueueID(of: key).begin).upper else { break }
        range.lower = next
      }
    }
    return blocked
  }

  private func make(_ name: QueueName) throws -> TaskNames.Queue {
    let size = name.text.utf8.count
    guard 1...QueueName.sizeMaximum ~= size else {
      throw size == 0
        ? TaskError.invalidValue("the name of a queue is empty")
        : .tooLarge(what: "the name of a queue", size: size, limit: QueueName.sizeMaximum)
    }
    let queue = TaskNames.Queue(number: try parts.takeQueueNumber(dispatcher.incarnation))
    try set(queue, name)
    return queue
  }

  func set(_ queue: TaskNames.Queue, _ name: QueueName) throws {
    try config.put(TaskNames.key(name), TaskNames.value(queue))
    delta.names.append((name, queue))
    replacedQueues.append(ownQueues.updateValue(queue, forKey: name))
    texts[queue.number] = name
    lastQueue = nil
  }

  // MARK: - Copies

  /// Whether no task is run because the database is a copy.
  var areHeld: Bool { get throws { try Self.areHeld(config, dispatcher.incarnation) } }

  static func areHeld(_ config: Part, _ incarnation: UInt64) throws -> Bool {
    try config.get(ConfigKeys.incarnation).map { try ConfigKeys.incarnation($0).number != incarnation } ?? false
  }

  /// Lets the tasks of a copy run from the commit on. Returns false if they are not held.
  func releaseAll() throws -> Bool {
    guard try areHeld else { return false }
    let start = UInt32(truncatingIfNeeded: try parts.numbers.counter(TaskNumbers.start))
    try config.put(ConfigKeys.incarnation, ConfigKeys.incarnation(dispatcher.incarnation, copiedStart: start))
    delta.releasesAll = true
    return true
  }

  // MARK: - Writing

  /// Returns the number of the next task within the transaction.
  func takeOrdinal() throws -> UInt32 {
    if ordinal == .max { throw TaskError.invalidValue("a transaction enqueues more than \(UInt32.max) tasks") }
    ordinal += 1
    return ordinal - 1
  }

  /// Returns an id that was never assigned.
  func takeID() throws -> TaskID {
    let (first, last) = dispatcher.takeIDs(1)
    if let last, delta.lastID < first {
      try parts.numbers.add(Int64(clamping: last), to: TaskNumbers.id)
      delta.lastID = last
    }
    return TaskID(rawValue: first)
  }

  /// Moves a task that this transaction has enqueued. Its row is stamped again, because the number of the commit is not
  /// known yet.
  func replace(_ old: TaskRecord, _ new: inout TaskRecord) throws {
    try apply(TaskEdit.remove(old), from: old, to: nil)
    new.position.revision = old.position.revision + 1
    try put(new)
  }

  /// Notes that other tasks depend on a task.
  func note(parent: TaskID) { delta.parents.append(parent) }

  /// Notes that a task depends on another one, which runs.
  func note(_ child: TaskID, waitingFor parent: TaskID) { delta.waits.append((parent, child)) }

  /// Notes that the children of a task must be examined after the commit, once for all children that the transaction
  /// enqueues one after the other.
  func note(pending: TaskID) { if delta.pending.last != pending { delta.pending.append(pending) } }

  /// Counts a task that was enqueued as a member of a group.
  func countMember(of group: TaskID) { groupCounts.append((group, .ready)) }

  func put(_ record: TaskRecord) throws {
    let position = record.position
    let positionBytes = position.bytes
    let (key, value) = (position.key(of: record.id), record.bytes(positionBytes))
    let stampSite: StampPosition =
      position.kind == .queued ? .key(position.stampOffset) : .value(TaskRecord.stampOffset)
    try parts.live.putStamped(key, value, at: stampSite)
    try parts.live.putStamped(
      TaskKeys.byID(record.id, position.revision), TaskKeys.byIDValue(record.progress.state, position),
      at: .value(1 + TaskPosition.stampOffsetInBytes))
    count(position.queue, record.progress.state, 1)
    switch position.kind {
    case .queued: keep(record, value, key)
    case .timed: keep(TimedTask(id: record.id, key: key, due: position.due, deadline: deadline(record)))
    case .blocked: break
    case .parked:
      for signal in record.signals {
        try parts.live.put(TaskKeys.signal(WakeSignal(signal), record.id, position.revision), Array(signal.utf8))
      }
    }
  }

  /// Returns the time at which a task that waits for a delay is due, on the continuous clock, or `nil` if it waits for
  /// a date.
  private func deadline(_ record: TaskRecord) -> Duration? {
    record.remainingDelay(time().wall).map { time().continuous + .milliseconds($0) }
  }

  private func keep(_ record: TaskRecord, _ value: [UInt8], _ key: [UInt8]) {
    let subqueue = record.position.subqueue
    if countKept(subqueue) <= keptMaximum {
      return delta.entries.append((subqueue, QueuedTask(record, value, key: key)))
    }
    if let more = delta.more[subqueue], !QueuedTask.precedes(key, more) { return }
    delta.more[subqueue] = key
  }

  /// Counts a task of a subqueue, and returns the number of those that came into the delta.
  private func countKept(_ subqueue: SubqueueID) -> Int {
    if kept.subqueue != subqueue {
      keptCounts[kept.subqueue] = kept.count
      kept = (subqueue, keptCounts[subqueue] ?? 0)
    }
    kept.count += 1
    return kept.count
  }

  private func keep(_ timer: TimedTask) {
    if delta.timers.count < Timers.taskMaximum { return delta.timers.append(timer) }
    if let more = delta.moreTimers, !QueuedTask.precedes(timer.key, more) { return }
    delta.moreTimers = timer.key
  }

  // MARK: - Existing tasks

  /// Keeps claims from taking a task until the transaction has ended. Returns the attempt if the task runs.
  func hold(_ id: TaskID) -> TaskRun? {
    if held.contains(id) { return nil }
    let run = dispatcher.hold(id)
    if run == nil { held.insert(id) }
    return run
  }

  /// Keeps claims from taking the tasks of a selection, and finds those that are in motion.
  ///
  /// While the transaction reads and changes many tasks, others of them end and become due. Each of these would be a
  /// conflict, in each repetition of the transaction again. The other tasks stay as they are from now on.
  func hold(_ ids: [TaskID]) throws {
    if !dispatcher.isAttached { return }
    let (holding, changing) = dispatcher.hold(Array(Set(ids).subtracting(held)))
    held.formUnion(holding)
    moving.formUnion(changing)
    let changed = try parts.live.haveChanged(firstIn: holding.map { StorageRange(prefix: TaskKeys.byID($0)) })
    for (id, hasChanged) in zip(holding, changed) where hasChanged { moving.insert(id) }
  }

  /// Requests that a running task be cancelled when its handler returns.
  func cancel(_ run: TaskRun) throws {
    if run.state.withLock({ $0.isCancelling }) { return }
    try requestCancellation(of: run.id)
  }

  /// Requests that the scheduler cancel a task after the commit, whether or not it runs then.
  func requestCancellation(of id: TaskID) throws {
    let key = TaskKeys.cancel(id)
    if delta.cancelled.contains(id) { return }
    // An earlier transaction may have requested it, in a commit that is not acknowledged yet.
    if try parts.live.get(key) == nil { try parts.live.put(key, []) }
    delta.cancelled.append(id)
  }

  /// Writes a change. Returns false if the attempt is not the one that runs.
  func write(_ edit: TaskEdit) throws -> Bool {
    var sums = TaskCounts()
    let isWritten = try edit.write(to: parts, &sums)
    sums.forEach { count($0, $1, $2) }
    for (group, state, _) in sums.groups { groupCounts.append((group, state)) }
    if isWritten, let ended = edit.ended { delta.ended.append(ended) }
    return isWritten
  }

  /// Writes a change of a task that does not run, and notes its effect on the subqueue.
  func apply(_ edit: TaskEdit, from old: TaskRecord?, to new: TaskRecord?) throws {
    _ = try write(edit)
    if let old, old.position.kind == .queued {
      delta.removed.append((old.position.subqueue, old.id, old.position.key(of: old.id)))
    }
    if let old, old.position.kind == .timed { delta.removedTimers.append(old.position.key(of: old.id)) }
    guard let new else { return }
    switch new.position.kind {
    case .queued:
      _ = countKept(new.position.subqueue)
      delta.entries.append((new.position.subqueue, QueuedTask(new, new.bytes)))
    case .timed:
      keep(
        TimedTask(id: new.id, key: new.position.key(of: new.id), due: new.position.due, deadline: deadline(new)))
    case .parked, .blocked: break
    }
  }
}

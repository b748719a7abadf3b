@_spi(Extensions) public import Varve

/// Makes the tasks of a database consistent after damaged blocks were given up (`DamageRepairing`).
///
/// A lost block may have had any rows, and a lost deletion makes a row visible again. What can be derived from the rows
/// of tasks is derived from them again; what belongs to a task without a row is removed.
///
/// # Steps
/// | step | rows | what is done |
/// |---|---|---|
/// | 1 | tasks that have ended | each gets its row by id; of several rows of a task the latest one stays |
/// | 2 | rows by id of these | those without a row are removed |
/// | 3 | names, tokens, events | the numbers of queues and tasks are noted |
/// | 4 | tasks that are queued, timed, parked, blocked | as step 1, with the rows of their signals |
/// | 5 | rows by id | those without a row are removed: the task is lost |
/// | 6 | claims, cancellations, signals, checkpoints, progress, unique keys | those of lost tasks are removed |
/// | 7 | children and parents | both rows of a pair exist, or none; the ends of parents that do not exist are pending |
/// | 8 | tasks again | they get their unique keys back, and the members of a group the rows that the group waits for |
/// | 9 | blocked tasks | those that wait for no task run |
/// | 10 | tasks kept for others | those that no task waits for are kept as their retention says |
/// | 11 | all tasks | they are counted, and so are the members of groups |
/// | 12 | counts, names, numbers | they are written |
///
/// The end of a parent that does not exist counts as done, as it does when a task is enqueued. It is only noted here,
/// and the next start of a scheduler applies it to the children, as after a crash.
///
/// Each call of `step` is a transaction that reads at most 512 rows, or about 1 MiB of them. In memory it holds a
/// number for each queue and state, and the ids of the tasks that were running.
struct TaskRepair: Sendable {
  /// The treatment of the rows with a prefix.
  enum Work: Sendable {
    case endedRow, endedID, name, tokens, event, row, byID, claim, cancel, signal, step, progress, unique, pending
    case child, parent, member, blocked, needed, count, countEnded, groupCount
  }

  struct CountKey: Hashable, Sendable {
    let queue: UInt32
    let state: UInt8
  }

  /// The numbers of what was found, for the log.
  struct Found: Hashable, Sendable {
    /// Rows that were made from the row of their task.
    var restored = 0
    /// Tasks that are lost: only their rows by id were left.
    var lost = 0
    /// Rows that belonged to tasks that do not exist, or were visible again.
    var removed = 0
    /// Tasks that waited for a task that does not exist.
    var released = 0
    /// Queues that have got a new name.
    var named = 0
    /// Tasks that there are, including those that have ended and are kept.
    var tasks = 0
    /// Rows that can't be read, and stay as they are.
    var unreadable = 0
  }

  private var index = 0
  /// The key from which the current stage continues, or `nil` at its beginning.
  private var from: [UInt8]?
  var found = Found()
  var counts: [CountKey: Int64] = [:]
  var names: [UInt32: QueueName] = [:]
  /// The numbers of queues that tasks have.
  var queues: Set<UInt32> = []
  /// The tasks that have a claim: those that ran when the database was closed, and those that were about to.
  var claimed: Set<TaskID> = []
  var largestQueue: UInt32 = 0
  var largestID: UInt64 = 0
  var largestStart: Int64 = 0

  static let chunkMaximum = 512
  static let chunkSize = 1 << 20

  private struct Stage: Sendable {
    let work: Work
    let prefix: [UInt8]

    init(_ work: Work, _ prefix: [UInt8]) {
      self.work = work
      self.prefix = prefix
    }
  }

  private static func stages(_ work: Work, _ tags: [UInt8]) -> [Stage] { tags.map { Stage(work, [$0]) } }

  private static let endedTags: [UInt8] = [EndedKeys.dead, EndedKeys.counted, EndedKeys.history]
  private static let rowTags: [UInt8] = [
    TaskPosition.Kind.queued.rawValue, TaskPosition.Kind.timed.rawValue, TaskPosition.Kind.parked.rawValue,
    TaskPosition.Kind.blocked.rawValue,
  ]

  private static let plan: [Stage] = {
    var plan = stages(.endedRow, endedTags)
    plan.append(Stage(.endedID, EndedKeys.byIDPrefix))
    plan.append(Stage(.name, TaskNames.prefix))
    plan.append(Stage(.tokens, [ConfigKeys.tokens]))
    plan.append(Stage(.event, []))
    plan += stages(.row, rowTags)
    plan += stages(.byID, [TaskKeys.byID])
    plan += stages(.claim, [TaskKeys.claim])
    plan += stages(.cancel, [TaskKeys.cancel])
    plan += stages(.signal, [TaskKeys.signal])
    plan += stages(.step, [TaskKeys.step])
    plan += stages(.progress, [ConfigKeys.progress, ConfigKeys.begun])
    plan += stages(.unique, [ConfigKeys.unique])
    plan += stages(.pending, [ConfigKeys.pending])
    plan += stages(.child, [TaskKeys.children])
    plan += stages(.parent, [TaskKeys.parents])
    plan += stages(.member, rowTags)
    plan += stages(.blocked, [TaskPosition.Kind.blocked.rawValue])
    plan += stages(.needed, [EndedKeys.history])
    plan += stages(.count, rowTags)
    plan += stages(.countEnded, endedTags)
    plan += stages(.groupCount, [TaskCounts.group])
    return plan
  }()

  /// Returns the part that has the rows of a stage. Nothing is checked at the commit, because no other caller changes
  /// tasks before the extension is registered.
  private static func part(_ work: Work, _ parts: TaskParts) -> Part {
    switch work {
    case .endedRow, .endedID, .needed, .countEnded: parts.ended
    case .name, .tokens, .progress, .unique, .pending: parts.config
    case .event: parts.events
    case .groupCount: parts.counts
    default: parts.live
    }
  }

  /// Makes the next step. Returns whether further steps follow.
  mutating func step(_ tx: TaskStorageTransaction) throws -> Bool {
    guard index < Self.plan.count else {
      try finish(tx)
      return false
    }
    let (work, prefix) = (Self.plan[index].work, Self.plan[index].prefix)
    let parts = tx.parts.unchecked
    let part = Self.part(work, parts)
    var range = prefix.isEmpty ? StorageRange() : StorageRange(prefix: prefix)
    if let from { range.lower = from }
    var cursor = try part.cursor(range)
    var (count, size) = (0, 0)
    while let (key, value) = try cursor.next() {
      count += 1
      size += key.count + value.count
      // An earlier row of the chunk may have removed this one.
      if try count == 1 || part.get(key) != nil {
        do { try apply(work, key, value, parts, tx) } catch is DamagedTask {
          // Later stages read the rows of tasks once more.
          if work != .member, work != .blocked, work != .count, work != .countEnded { found.unreadable += 1 }
        }
      }
      if count >= Self.chunkMaximum || size >= Self.chunkSize {
        from = key + [0]
        return true
      }
    }
    index += 1
    from = nil
    return true
  }

  private mutating func apply(
    _ work: Work, _ key: [UInt8], _ value: [UInt8], _ parts: TaskParts, _ tx: TaskStorageTransaction
  ) throws {
    switch work {
    case .endedRow: try repairEnded(key, value, parts)
    case .endedID: try repairEndedID(key, value, parts)
    case .name: try noteName(key, value)
    case .tokens: try noteTokens(key)
    case .event: note(try TaskEventRecord.event(value).id)
    case .row: try repairRow(key, value, parts)
    case .byID: try repairByID(key, value, parts)
    case .claim: try repairClaim(key, value, parts)
    case .cancel: try removeIfGone(key, try TaskKeys.id(of: key, at: 1), parts.live, parts)
    case .signal: try repairSignal(key, parts)
    case .step: try repairStep(key, parts)
    case .progress: try repairProgress(key, parts)
    case .unique: try repairUnique(key, value, parts)
    case .pending: try repairPending(key, value, parts)
    case .child: try repairChild(key, parts)
    case .parent: try repairParent(key, parts)
    case .member: try repairMember(key, value, parts, now: tx.wallNow)
    case .blocked: try repairBlocked(key, value, parts, tx)
    case .needed: try repairNeeded(key, value, parts, tx)
    case .count: try count(try Self.record(key, value), parts)
    case .countEnded: try count(try TaskRecord(value), parts)
    case .groupCount: try repairGroupCount(key, parts)
    }
  }

  // MARK: - The end

  /// Writes what was counted and noted.
  private mutating func finish(_ tx: TaskStorageTransaction) throws {
    let parts = tx.parts.unchecked
    try writeCounts(parts.counts)
    for number in queues.subtracting(names.keys).sorted() {
      let name = newName(number)
      names[number] = name
      try tx.set(TaskNames.Queue(number: number), name)
      found.named += 1
    }
    let next: UInt32? = try parts.config.get(TaskNames.next).map { value in
      var reader = ByteReader(value)
      return try reader.number(UInt32.self)
    }
    if largestQueue > 0, largestQueue >= next ?? 0 {
      var bytes: [UInt8] = []
      bytes.append(number: largestQueue &+ 1)
      try parts.config.put(TaskNames.next, bytes)
    }
    if try parts.numbers.counter(TaskNumbers.id) < Int64(clamping: largestID) {
      try parts.numbers.add(Int64(clamping: largestID), to: TaskNumbers.id)
    }
    if try parts.numbers.counter(TaskNumbers.start) < largestStart {
      try parts.numbers.add(largestStart, to: TaskNumbers.start)
    }
    // Events whose deletion was lost.
    if let (key, _) = try parts.events.first(isReverse: true) {
      let last = try TaskEventRecord.number(of: key)
      if last >= TaskEventRecord.countMaximum {
        try parts.events.deleteRange(
          StorageRange(lower: [], upper: TaskEventRecord.key(last - TaskEventRecord.countMaximum + 1)))
      }
    }
  }

  /// Replaces the counts of all queues. Those of groups are in rows of another size.
  private func writeCounts(_ part: Part) throws {
    var cursor = try part.cursor(keysOnly: true)
    var old: [[UInt8]] = []
    while let (key, _) = try cursor.next() { if key.count == 5 { old.append(key) } }
    for key in old { try part.delete(key) }
    for (key, number) in counts {
      guard let state = TaskState(rawValue: key.state) else { continue }
      try part.add(number, to: TaskCounts.key(key.queue, state))
    }
  }

  /// Returns a name that no queue has.
  private func newName(_ number: UInt32) -> QueueName {
    let used = Set(names.values)
    var (name, count) = (QueueName("recovered-\(number)"), 1)
    while used.contains(name) {
      count += 1
      name = QueueName("recovered-\(number)-\(count)")
    }
    return name
  }
}

@_spi(Extensions) extension TaskStorage: DamageRepairing {
  /// Makes the next step of a repair, which makes what is left of the tasks consistent.
  @_spi(Extensions) public func repair(_ progress: inout (any Sendable)?, in transaction: TaskStorageTransaction) throws
    -> Bool
  {
    var repair = progress as? TaskRepair ?? TaskRepair()
    defer { progress = repair }
    return try repair.step(transaction)
  }

  /// Returns what a repair has found.
  @_spi(Extensions) public func findings(of progress: (any Sendable)?) -> [String: Int] {
    guard let found = (progress as? TaskRepair)?.found else { return [:] }
    return [
      "tasks": found.tasks, "restored rows": found.restored, "lost tasks": found.lost, "removed rows": found.removed,
      "released tasks": found.released, "named queues": found.named, "unreadable rows": found.unreadable,
    ]
  }
}

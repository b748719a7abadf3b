@_spi(Extensions) internal import Varve

/// The parts that store tasks, in one transaction or in an independent commit.
struct TaskParts {
  let live: Part
  let config: Part
  let ended: Part
  let counts: Part
  let numbers: Part
  let events: Part

  init(_ context: ExtensionContext<TaskStorage>) throws {
    live = try context.part("live")
    config = try context.part("config")
    ended = try context.part("ended")
    counts = try context.part("counts")
    numbers = try context.part("numbers")
    events = try context.part("events")
  }

  /// The parts without checks at the commit: what is read from them may have changed by then.
  var unchecked: TaskParts { TaskParts(unchecking: self) }

  private init(unchecking parts: TaskParts) {
    live = parts.live.unchecked
    config = parts.config.unchecked
    ended = parts.ended.unchecked
    counts = parts.counts.unchecked
    numbers = parts.numbers
    events = parts.events
  }

  init(_ parts: IndependentParts) throws {
    live = try parts.part("live", of: TaskStorage.handle)
    config = try parts.part("config", of: TaskStorage.handle)
    ended = try parts.part("ended", of: TaskStorage.handle)
    counts = try parts.part("counts", of: TaskStorage.handle)
    numbers = try parts.part("numbers", of: TaskStorage.handle)
    events = try parts.part("events", of: TaskStorage.handle)
  }

  /// Returns the position of a task that has not ended, and its state there, or `nil` if there is no such task.
  ///
  /// The state of a running task is `ready` there.
  func position(of id: TaskID) throws -> (state: TaskState, position: TaskPosition)? {
    guard let (key, value) = try live.first(in: StorageRange(prefix: TaskKeys.byID(id))) else { return nil }
    guard let state = value.first.flatMap(TaskState.init(rawValue:)) else {
      throw DamagedTask(what: "a row by id has no state", bytes: key)
    }
    return (state, try TaskPosition(value, at: 1))
  }

  /// Returns a task that has not ended, or `nil` if there is no such task.
  func record(_ id: TaskID) throws -> TaskRecord? {
    guard let (_, position) = try position(of: id) else { return nil }
    return try record(id, at: position)
  }

  /// Returns the task at a position, or `nil` if it is not there any more.
  func record(_ id: TaskID, at position: TaskPosition) throws -> TaskRecord? {
    guard let value = try live.get(position.key(of: id)) else { return nil }
    return try TaskRecord(value, stamp: position.stamp)
  }

  /// Returns the number of a new queue.
  ///
  /// The first number also records the incarnation of the database as the one whose tasks are run.
  func takeQueueNumber(_ incarnation: UInt64) throws -> UInt32 {
    var number: UInt32 = 1
    if let value = try config.get(TaskNames.next) {
      var reader = ByteReader(value)
      number = try reader.number()
    } else {
      // The write is not checked at the commit, because a scheduler that starts concurrently with a transaction writes
      // the same value.
      try config.unchecked.put(ConfigKeys.incarnation, ConfigKeys.incarnation(incarnation))
    }
    var next: [UInt8] = []
    next.append(number: number + 1)
    try config.put(TaskNames.next, next)
    return number
  }

  /// Returns a task that has ended and is kept, and the key of its row, or `nil` if there is no such task.
  func endedRecord(_ id: TaskID) throws -> (key: [UInt8], record: TaskRecord)? {
    guard let key = try ended.get(EndedKeys.byID(id)), let value = try ended.get(key) else { return nil }
    return (key, try TaskRecord(value))
  }
}

/// Keys of the part `ended`.
///
/// ```
///  dead, by queue    'D', queue (4), end (8), id (8)    value: the task
///  kept for a time   'H', expiry (8), id (8)            value: the task
///  kept by number    'N', queue (4), end (8), id (8)    value: the task
///  by id             'I', id (8)                        value: one of these keys
/// ```
/// `end` is the time at which the task ended, and `expiry` the time until which it is kept. Both are in milliseconds
/// since 1970, with the sign bit flipped. On disk: never change.
enum EndedKeys {
  static let dead: UInt8 = 0x44
  static let history: UInt8 = 0x48
  static let counted: UInt8 = 0x4E

  /// Returns the prefix of the keys with a tag, of one queue or of all queues.
  static func ofQueue(_ tag: UInt8, _ queue: UInt32?) -> [UInt8] {
    var key: [UInt8] = [tag]
    if let queue { key.append(number: queue) }
    return key
  }

  /// Returns the range of the keys of tasks that are kept for a time which has passed.
  static func expired(_ now: Int64) -> StorageRange {
    var upper: [UInt8] = [history]
    upper.append(time: now)
    return StorageRange(lower: [history], upper: upper)
  }

  static let byIDPrefix: [UInt8] = [0x49]
  static func byID(_ id: TaskID) -> [UInt8] {
    var key = byIDPrefix
    key.append(number: id.rawValue)
    return key
  }

  static func key(_ record: TaskRecord, _ ending: TaskEnding) -> [UInt8] {
    var key: [UInt8] = []
    guard case .kept(let end) = ending else {
      key.append(history)
      key.append(time: WallTime.latest)
      key.append(number: record.id.rawValue)
      return key
    }
    if record.progress.state == .dead {
      key.append(dead)
      key.append(number: record.position.queue)
      key.append(time: end)
    } else {
      switch record.retention {
      case .keepCount:
        key.append(counted)
        key.append(number: record.position.queue)
        key.append(time: end)
      case .keep(let time):
        key.append(history)
        key.append(time: min(end + time.milliseconds, WallTime.latest))
      case .deleteOnSuccess:
        key.append(history)
        key.append(time: end)
      }
    }
    key.append(number: record.id.rawValue)
    return key
  }
}

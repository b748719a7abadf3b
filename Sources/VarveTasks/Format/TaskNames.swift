@_spi(Extensions) internal import Varve

/// The queues of a database, which are identified by numbers in keys.
///
/// The keys and values of the part `config`:
/// ```
///  'N', name (UTF-8)   value: number (4), flags (1): 1 paused, 2 draining
///  'n'                 value: the next number (4)
///  'U', length of the kind (2), kind, unique key
///                      value: the id of the task that has the key (8), time until which it is taken (8)
///  'V', time (8), then as 'U' without its first byte
///                      a unique key that is taken until the time
///  'F', id (8)         value: the state (1) in which the task has ended, which its children are still to receive;
///                      then the id (8) of the first child that may be left, or nothing. Or 255: the task may have
///                      ended, which the scheduler looks up; then, if it was cancelled when a child was enqueued, the
///                      state (1), which counts if the task is not there any more
///  'L', queue (4)      value: tokens (8, the bits of a Double), time (8)
///  'P', id (8)         value: progress of the handler (8, the bits of a Double), note (UTF-8)
///  'C', id (8)         value: the key of the task's claim, which was made ahead; the attempt has begun
///  'I', id (16)        value: time (8) at which a file of the inbox was applied; the file may still exist
///  'S', name           a schedule: see ScheduleRecord
///  'D'                 value: the incarnation of the database (8) whose tasks are run; in a copy, after its tasks were
///                      released, also the last start (4) of the database that was copied
///  'E'                 value: the last start (4), if the database was closed while its tasks ran
///  'W'                 value: the latest time of day at which tasks were run (8)
/// ```
/// On disk: never change.
struct TaskNames: Sendable {
  struct Queue: Hashable, Sendable {
    var number: UInt32
    var isPaused = false
    var isDraining = false
  }

  private(set) var queues: [QueueName: Queue] = [:]

  static let next: [UInt8] = [0x6E]
  static let prefix: [UInt8] = [0x4E]
  static func key(_ name: QueueName) -> [UInt8] { prefix + Array(name.text.utf8) }

  static func value(_ queue: Queue) -> [UInt8] {
    var value: [UInt8] = []
    value.append(number: queue.number)
    value.append((queue.isPaused ? 1 : 0) | (queue.isDraining ? 2 : 0))
    return value
  }

  static func queue(_ value: [UInt8]) throws(DamagedTask) -> Queue {
    var reader = ByteReader(value)
    let (number, flags): (UInt32, UInt8) = (try reader.number(), try reader.byte())
    return Queue(number: number, isPaused: flags & 1 != 0, isDraining: flags & 2 != 0)
  }

  /// Reads the queues of a part. Queues that others make concurrently cause no conflict: the number of a
  /// queue never changes.
  init(_ config: Part) throws {
    var cursor = try config.unchecked.cursor(StorageRange(prefix: Self.prefix))
    while let (key, value) = try cursor.next() {
      guard let text = String(validating: key.dropFirst(), as: UTF8.self) else {
        throw DamagedTask(what: "the name of a queue is not UTF-8", bytes: key)
      }
      queues[QueueName(text)] = try Self.queue(value)
    }
  }
}

/// Keys of the part `numbers`, in which the largest number for a key counts.
enum TaskNumbers {
  /// The key of the last id that may have been assigned.
  static let id: [UInt8] = [0x69]
  /// The key of the number of a scheduler's last start.
  static let start: [UInt8] = [0x73]
}

/// Keys and values of `config` that are not those of queues.
enum ConfigKeys {
  static let unique: UInt8 = 0x55
  /// Returns the key of a unique key. A unique key that is taken until a time also has an `expiry` entry.
  static func unique(_ kind: String, _ key: [UInt8]) -> [UInt8] {
    var bytes: [UInt8] = [unique]
    // A query may name a kind that is too long for any task.
    bytes.append(number: UInt16(truncatingIfNeeded: kind.utf8.count))
    bytes.append(contentsOf: kind.utf8)
    bytes.append(contentsOf: key)
    return bytes
  }

  static func uniqueValue(_ id: TaskID, until: Int64?) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.append(number: id.rawValue)
    bytes.append(time: until ?? .min)
    return bytes
  }

  static func unique(_ value: [UInt8]) throws(DamagedTask) -> (id: TaskID, until: Int64?) {
    var reader = ByteReader(value)
    let id = TaskID(rawValue: try reader.number())
    let until = try reader.time()
    return (id, until == .min ? nil : until)
  }

  static func expiry(_ until: Int64, _ unique: [UInt8] = []) -> [UInt8] {
    var bytes: [UInt8] = [0x56]
    bytes.append(time: until)
    bytes.append(contentsOf: unique.dropFirst())
    return bytes
  }

  /// Returns the key of a unique key, given the key of its expiry.
  static func unique(ofExpiry key: [UInt8]) -> [UInt8] { [unique] + key.dropFirst(9) }

  static let pending: UInt8 = 0x46
  static func pending(_ id: TaskID) -> [UInt8] {
    var bytes: [UInt8] = [pending]
    bytes.append(number: id.rawValue)
    return bytes
  }

  /// Returns the value of a `pending` row of a task that has ended. `child` is the first child that is left.
  static func pending(_ state: TaskState, from child: TaskID) -> [UInt8] {
    var bytes: [UInt8] = [state.rawValue]
    bytes.append(number: child.rawValue)
    return bytes
  }

  /// The first byte of a `pending` row of a task that may have ended.
  static let unknown: UInt8 = 255

  /// Returns the value of a `pending` row of a task that may have ended. `state` is `.cancelled` if it was cancelled
  /// when a child was enqueued, and otherwise `nil`.
  static func pendingUnknown(_ state: TaskState?) -> [UInt8] { [unknown] + (state.map { [$0.rawValue] } ?? []) }

  /// Returns the state of a task that was cancelled when a child was enqueued, and otherwise `nil`.
  static func state(ofUnknown value: [UInt8]) -> TaskState? {
    value.count == 2 && value[0] == unknown ? TaskState(rawValue: value[1]) : nil
  }

  /// Returns the first child that may be left.
  static func firstChild(ofPending value: [UInt8]) throws(DamagedTask) -> TaskID {
    if value.count < 9 { return TaskID(rawValue: 0) }
    var reader = ByteReader(value, at: 1)
    return TaskID(rawValue: try reader.number())
  }

  static let tokens: UInt8 = 0x4C
  static func tokens(_ queue: UInt32) -> [UInt8] {
    var bytes: [UInt8] = [tokens]
    bytes.append(number: queue)
    return bytes
  }

  static let progress: UInt8 = 0x50
  static func progress(_ id: TaskID) -> [UInt8] {
    var bytes: [UInt8] = [progress]
    bytes.append(number: id.rawValue)
    return bytes
  }

  static let begun: UInt8 = 0x43
  static func begun(_ id: TaskID) -> [UInt8] {
    var bytes: [UInt8] = [begun]
    bytes.append(number: id.rawValue)
    return bytes
  }

  static let inbox: UInt8 = 0x49
  static func inbox(_ id: [UInt8]) -> [UInt8] { [inbox] + id }
  /// Returns the note of a file of the inbox that was applied: the time (8), and what each command has changed (8), if
  /// the sender wants to know it.
  static func inbox(_ time: Int64, changed: [Int]) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.append(time: time)
    for count in changed { bytes.append(number: UInt64(count)) }
    return bytes
  }
  static func changed(ofInbox value: [UInt8]) throws(DamagedTask) -> [Int] {
    var reader = ByteReader(value)
    _ = try reader.time()
    var changed: [Int] = []
    while reader.remaining > 0 { changed.append(Int(clamping: try reader.number(UInt64.self))) }
    return changed
  }

  static let incarnation: [UInt8] = [0x44]
  static func incarnation(_ number: UInt64, copiedStart: UInt32? = nil) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.append(number: number)
    if let copiedStart { bytes.append(number: copiedStart) }
    return bytes
  }
  static func incarnation(_ value: [UInt8]) throws(DamagedTask) -> (number: UInt64, copiedStart: UInt32?) {
    var reader = ByteReader(value)
    let number: UInt64 = try reader.number()
    return (number, value.count > 8 ? try reader.number(UInt32.self) : nil)
  }

  static let closedStart: [UInt8] = [0x45]
  static func closedStart(_ start: UInt32) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.append(number: start)
    return bytes
  }
  static func closedStart(_ value: [UInt8]) throws(DamagedTask) -> UInt32 {
    var reader = ByteReader(value)
    return try reader.number()
  }

  static let latestTime: [UInt8] = [0x57]
  static func latestTime(_ time: Int64) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.append(time: time)
    return bytes
  }

  static let schedule: UInt8 = 0x53
  static func schedule(_ name: String) -> [UInt8] { [schedule] + Array(name.utf8) }

  /// The key of the names of the schedules that the program has registered since its last start.
  static let declared: [UInt8] = [0x52]
  /// Returns names, each with its size (4).
  static func declared(_ names: Set<String>) -> [UInt8] {
    var bytes: [UInt8] = []
    for name in names.sorted() { bytes.append(sized: name.utf8) }
    return bytes
  }
  static func declared(_ value: [UInt8]) throws(DamagedTask) -> Set<String> {
    var reader = ByteReader(value)
    var names: Set<String> = []
    while reader.remaining > 0 { names.insert(try reader.text()) }
    return names
  }
}

/// The changes of the task counts in one commit.
///
/// The keys of the part `counts` are: queue (4), state (1); for a group 'G', id (8), state (1).
struct TaskCounts {
  private var changes: [(queue: UInt32, state: TaskState, number: Int64)] = []
  private(set) var groups: [(group: TaskID, state: TaskState, number: Int64)] = []

  mutating func add(_ number: Int64, _ queue: UInt32, _ state: TaskState) {
    // A linear search from the end is enough: most commits change one queue, or many queues with few tasks each.
    if let index = changes.lastIndex(where: { $0.queue == queue && $0.state == state }) {
      changes[index].number += number
    } else {
      changes.append((queue, state, number))
    }
  }

  /// Counts a task of a group in a state, where `ready` means that it was enqueued.
  mutating func add(_ number: Int64, group: TaskID, _ state: TaskState) { groups.append((group, state, number)) }

  func forEach(_ body: (UInt32, TaskState, Int64) -> Void) {
    for (queue, state, number) in changes { body(queue, state, number) }
  }

  func write(to part: Part) throws {
    for (queue, state, number) in changes where number != 0 { try part.add(number, to: Self.key(queue, state)) }
    try writeGroups(to: part)
  }

  func writeGroups(to part: Part) throws {
    for (group, state, number) in groups { try part.add(number, to: Self.key(group: group, state)) }
  }

  /// The states that are counted for a group, where `ready` means that a task was enqueued.
  static let groupStates: [TaskState] = [.ready, .done, .dead, .cancelled]

  static let group: UInt8 = 0x47
  static func key(group: TaskID, _ state: TaskState) -> [UInt8] {
    var key: [UInt8] = [Self.group]
    key.append(number: group.rawValue)
    key.append(state.rawValue)
    return key
  }

  static func key(_ queue: UInt32, _ state: TaskState) -> [UInt8] {
    var key: [UInt8] = []
    key.append(number: queue)
    key.append(state.rawValue)
    return key
  }
}

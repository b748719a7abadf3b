/// The position of a task: queued, or among the tasks that wait for a time, are parked or are blocked.
///
/// The position determines the key of the task's row in the part `live`.
///
/// ```
///  queued   'R', queue (4), lane, front (1), priority (1), sort key, stamp (8), ordinal (4), revision (4)
///  timed     'T', due (8), id (8), revision (4)
///  parked    'K', queue (4), id (8), revision (4)
///  blocked   'B', queue (4), id (8), revision (4)
///  lane      0 (1); for a task with a limit key 1 (1), hash of the key (8)
///
///  front     0: the task was run, and keeps its position at the head of a serial queue; 1 otherwise
///  sort key  its bytes, each 0x00 followed by 0xFF, then 0x00 0x00; for a task without one only the last two
///  stamp     the number of the commit that enqueued the task; kept through all attempts
///  ordinal   the number of the task within that commit; kept through all attempts
///  revision  the number of the row: incremented each time the task is written again, so that each key is written once
/// ```
/// Numbers are big-endian; `due` is in milliseconds since 1970, its sign bit flipped. On disk: never change.
struct TaskPosition: Hashable, Sendable {
  enum Kind: UInt8, Sendable {
    case queued = 0x52
    case timed = 0x54
    case parked = 0x4B
    case blocked = 0x42
  }

  var kind: Kind
  var queue: UInt32
  /// The hash of the task's limit key, or 0 if it has none.
  var lane: UInt64 = 0
  var isFront = false
  var priority: UInt8
  var sortKey: [UInt8]
  var stamp: UInt64
  var ordinal: UInt32
  var revision: UInt32 = 0
  /// The time that the task waits for, in milliseconds since 1970, or 0 if it waits for none.
  var due: Int64 = 0

  /// The stamp of a task whose commit has not been made yet.
  static let pendingStamp = UInt64.max
  /// Whether the commit that enqueues the task has not been made yet.
  var isPending: Bool { stamp == Self.pendingStamp }

  /// The subqueue that the task is in, or would be in if it were ready.
  var subqueue: SubqueueID { SubqueueID(queue: queue, lane: lane) }

  /// Returns the key in `live` of a task with this position.
  func key(of id: TaskID) -> [UInt8] {
    [UInt8](atMost: 34 + 2 * sortKey.count) { key in
      key.put(kind.rawValue)
      switch kind {
      case .queued:
        subqueue.put(to: &key)
        key.put(isFront ? UInt8(0) : 1)
        key.put(priority)
        Self.put(escaped: sortKey, to: &key)
        key.put(stamp)
        key.put(ordinal)
      case .timed:
        key.put(time: due)
        key.put(id.rawValue)
      case .parked, .blocked:
        key.put(queue)
        key.put(id.rawValue)
      }
      key.put(revision)
    }
  }

  /// The offset of the stamp in a key of the subqueue.
  var stampOffset: Int { 10 + (lane == 0 ? 0 : 8) + sortKey.count + sortKey.count { $0 == 0 } }

  private static func put(escaped bytes: [UInt8], to key: inout ByteFiller) {
    for byte in bytes {
      key.put(byte)
      if byte == 0 { key.put(UInt8(0xFF)) }
    }
    key.put(UInt16(0))
  }

  // MARK: - As a value

  /// The offset of the stamp in `bytes`.
  static let stampOffsetInBytes = 7

  /// The position as a value, in a row by id: kind, queue, front, priority, stamp, ordinal, revision, due, lane (8),
  /// and the sort key up to the end.
  var bytes: [UInt8] {
    [UInt8](atMost: 39 + sortKey.count) { put(to: &$0) }
  }

  /// Writes the position as `bytes` has it.
  func put(to bytes: inout ByteFiller) {
    bytes.put(kind.rawValue)
    bytes.put(queue)
    bytes.put(isFront ? UInt8(0) : 1)
    bytes.put(priority)
    bytes.put(stamp)
    bytes.put(ordinal)
    bytes.put(revision)
    bytes.put(time: due)
    bytes.put(lane)
    bytes.put(sortKey)
  }

  init(
    _ kind: Kind, queue: UInt32, priority: UInt8, sortKey: [UInt8], stamp: UInt64, ordinal: UInt32, due: Int64 = 0
  ) {
    self.kind = kind
    self.queue = queue
    self.priority = priority
    self.sortKey = sortKey
    self.stamp = stamp
    self.ordinal = ordinal
    self.due = due
  }

  init(_ bytes: [UInt8], at offset: Int = 0) throws(DamagedTask) {
    var reader = ByteReader(bytes, at: offset)
    let tag = try reader.byte()
    guard let kind = Kind(rawValue: tag) else { throw DamagedTask(what: "0x\(tag) is not a kind of row", bytes: bytes) }
    self.kind = kind
    queue = try reader.number()
    isFront = try reader.byte() == 0
    priority = try reader.byte()
    stamp = try reader.number()
    ordinal = try reader.number()
    revision = try reader.number()
    due = try reader.time()
    lane = try reader.number()
    sortKey = Array(bytes[reader.offset...])
  }
}

/// Keys of `live` that are not those of tasks themselves.
///
/// ```
///  by id     'J', id (8), revision (4)               value: state (1), position
///  claim     'C', start (4), id (8), revision (4)    value: attempt (4), begun (8), position
///  cancel    'X', id (8)                             the task must be cancelled when its handler returns
///  signal    'G', hash (8), id (8), revision (4)     value: the signal
///  steps     'S', id (8), number (4)                 value: a checkpoint
///  children  'D', parent (8), child (8)              value: how the child reacts if the parent fails (1)
///  parents   'E', child (8), parent (8)              exists while the child waits for the parent
/// ```
/// `start` is the number of the scheduler's start: a claim with another number is of a process that died. `revision` is
/// that of the task's row, so a task that was written again has another claim. `begun` is the time at which the attempt
/// began, or the smallest number if the claim was made ahead: then a row of `config` says whether the attempt has
/// begun.
enum TaskKeys {
  static let byID: UInt8 = 0x4A
  static let claim: UInt8 = 0x43
  static let cancel: UInt8 = 0x58
  static let signal: UInt8 = 0x47
  static let step: UInt8 = 0x53
  static let children: UInt8 = 0x44
  static let parents: UInt8 = 0x45

  static func byID(_ id: TaskID, _ revision: UInt32? = nil) -> [UInt8] {
    [UInt8](atMost: 13) { key in
      key.put(byID)
      key.put(id.rawValue)
      if let revision { key.put(revision) }
    }
  }

  static func byIDValue(_ state: TaskState, _ position: TaskPosition) -> [UInt8] {
    [UInt8](atMost: 40 + position.sortKey.count) { value in
      value.put(state.rawValue)
      position.put(to: &value)
    }
  }

  static let claimPrefix: [UInt8] = [claim]

  static func claim(_ start: UInt32, _ id: TaskID, _ revision: UInt32) -> [UInt8] {
    [UInt8](atMost: 17) { key in
      key.put(claim)
      key.put(start)
      key.put(id.rawValue)
      key.put(revision)
    }
  }

  static func start(ofClaim key: [UInt8]) throws(DamagedTask) -> UInt32 {
    var reader = ByteReader(key, at: 1)
    return try reader.number()
  }

  /// Returns the value of a claim. `begun` is the time at which the attempt began, or `nil` if the claim is made ahead.
  static func claimValue(attempt: UInt32, begun: Int64?, _ position: TaskPosition) -> [UInt8] {
    [UInt8](atMost: 51 + position.sortKey.count) { value in
      value.put(attempt)
      value.put(time: begun ?? .min)
      position.put(to: &value)
    }
  }

  static let claimPositionOffset = 12

  /// Returns whether a claim was made ahead, given its value.
  static func isAhead(_ claimValue: [UInt8]) throws(DamagedTask) -> Bool {
    var reader = ByteReader(claimValue, at: 4)
    return try reader.time() == .min
  }

  static func cancel(_ id: TaskID) -> [UInt8] {
    var key: [UInt8] = [cancel]
    key.append(number: id.rawValue)
    return key
  }

  static func signal(_ signal: WakeSignal, _ id: TaskID? = nil, _ revision: UInt32 = 0) -> [UInt8] {
    var key: [UInt8] = [Self.signal]
    // A hash is enough in the key, because the value has the text.
    key.append(number: StableHash.of(signal.text.utf8))
    if let id {
      key.append(number: id.rawValue)
      key.append(number: revision)
    }
    return key
  }

  static func step(_ id: TaskID, _ number: UInt32? = nil) -> [UInt8] {
    var key: [UInt8] = [step]
    key.append(number: id.rawValue)
    if let number { key.append(number: number) }
    return key
  }

  static func child(of parent: TaskID, _ child: TaskID? = nil) -> [UInt8] { pair(children, parent, child) }
  static func parent(of child: TaskID, _ parent: TaskID? = nil) -> [UInt8] { pair(parents, child, parent) }

  private static func pair(_ tag: UInt8, _ first: TaskID, _ second: TaskID?) -> [UInt8] {
    var key: [UInt8] = [tag]
    key.append(number: first.rawValue)
    if let second { key.append(number: second.rawValue) }
    return key
  }

  /// Returns the prefix of the keys of a queue's subqueues.
  static func subqueues(_ queue: UInt32) -> [UInt8] {
    var key: [UInt8] = [TaskPosition.Kind.queued.rawValue]
    key.append(number: queue)
    return key
  }

  /// Returns the prefix of the keys of a queue's tasks that are in no subqueue and wait for no time.
  static func waiting(_ kind: TaskPosition.Kind, _ queue: UInt32) -> [UInt8] {
    var key: [UInt8] = [kind.rawValue]
    key.append(number: queue)
    return key
  }

  /// Returns the prefix of the keys of the tasks that wait for a time.
  static func timer(_ due: Int64) -> [UInt8] {
    var key: [UInt8] = [TaskPosition.Kind.timed.rawValue]
    key.append(time: due)
    return key
  }

  /// Returns the id in a key by id, of a claim or of a signal.
  static func id(of key: [UInt8], at offset: Int) throws(DamagedTask) -> TaskID {
    var reader = ByteReader(key, at: offset)
    return TaskID(rawValue: try reader.number())
  }
}

/// The properties of a task that most tasks do not have.
///
/// They are at the end of a record: flags (1), and for each flag that is set, in this order:
/// ```
///  1   unique key (sized), time until which it is taken (8), the smallest number: until the task has ended
///  2   limit key (sized)
///  4   group (8)
///  8   name of a schedule (sized), slot in ms since 1970 (8), whether it is late (1)
///  16  result (sized)
///  32  no bytes: the task runs when the tasks of its group have ended
///  64  number of headers (2), name and value of each (sized), in the order of the names
/// ```
/// On disk: never change.
struct TaskExtras: Hashable, Sendable {
  var uniqueKey: [UInt8]?
  /// The time until which the unique key is taken, in milliseconds since 1970, or `nil` if it is taken until the task
  /// has ended.
  var uniqueUntil: Int64?
  var limitKey: String?
  var group: TaskID?
  var schedule: String?
  var slot: Int64 = 0
  var isLate = false
  var result: [UInt8]?
  /// Whether the task runs when the tasks of its group have ended.
  var isGroup = false
  var headers: [String: String] = [:]

  init() {}

  var isEmpty: Bool { self == TaskExtras() }

  func append(to bytes: inout [UInt8]) {
    let parts = [
      uniqueKey != nil, limitKey != nil, group != nil, schedule != nil, result != nil, isGroup, !headers.isEmpty,
    ]
    bytes.append(parts.enumerated().reduce(UInt8(0)) { $0 | ($1.element ? 1 << UInt8($1.offset) : 0) })
    if let uniqueKey {
      bytes.append(sized: uniqueKey)
      bytes.append(time: uniqueUntil ?? .min)
    }
    if let limitKey { bytes.append(sized: limitKey.utf8) }
    if let group { bytes.append(number: group.rawValue) }
    if let schedule {
      bytes.append(sized: schedule.utf8)
      bytes.append(time: slot)
      bytes.append(isLate ? 1 : 0)
    }
    if let result { bytes.append(sized: result) }
    if headers.isEmpty { return }
    bytes.append(number: UInt16(headers.count))
    for (name, value) in headers.sorted(by: { $0.key < $1.key }) {
      bytes.append(sized: name.utf8)
      bytes.append(sized: value.utf8)
    }
  }

  /// Reads the extras after their flags, which are not 0.
  init(_ flags: UInt8, _ reader: inout ByteReader) throws(DamagedTask) {
    if flags & 1 != 0 {
      uniqueKey = try reader.sized()
      let until = try reader.time()
      uniqueUntil = until == .min ? nil : until
    }
    if flags & 2 != 0 { limitKey = try reader.text() }
    if flags & 4 != 0 { group = TaskID(rawValue: try reader.number()) }
    if flags & 8 != 0 {
      schedule = try reader.text()
      slot = try reader.time()
      isLate = try reader.byte() != 0
    }
    if flags & 16 != 0 { result = try reader.sized() }
    isGroup = flags & 32 != 0
    if flags & 64 != 0 {
      for _ in 0..<(try reader.number(UInt16.self)) { headers[try reader.text()] = try reader.text() }
    }
  }
}

/// Holds extras by one reference, so that a record without extras costs no more than a null reference.
final class TaskExtrasBox: Hashable, Sendable {
  let value: TaskExtras
  init(_ value: TaskExtras) { self.value = value }
  static func == (left: TaskExtrasBox, right: TaskExtrasBox) -> Bool { left.value == right.value }
  func hash(into hasher: inout Hasher) { hasher.combine(value) }
}

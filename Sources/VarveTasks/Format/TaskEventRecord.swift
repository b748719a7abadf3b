internal import Varve

/// The stored form of an event, a value of the part `events` under the event's number (8).
///
/// Numbers are assigned consecutively, and only the last 10,000 events are kept.
///
/// ```
///  0  kind (1)   1  task (8)   9  attempt (4)   13  time in ms since 1970 (8)
///  21 kind of the payload (sized)   queue (sized)   detail (sized)
/// ```
/// On disk: never change.
enum TaskEventRecord {
  static let countMaximum: UInt64 = 10_000

  static func key(_ number: UInt64) -> [UInt8] {
    var key: [UInt8] = []
    key.append(number: number)
    return key
  }

  static func number(of key: [UInt8]) throws(DamagedTask) -> UInt64 {
    var reader = ByteReader(key)
    return try reader.number()
  }

  static func bytes(_ event: TaskEvent) -> [UInt8] {
    var bytes: [UInt8] = [event.kind.rawValue]
    bytes.append(number: event.id.rawValue)
    bytes.append(number: UInt32(clamping: event.attempt))
    bytes.append(time: WallTime.milliseconds(event.date))
    bytes.append(sized: event.payloadKind.utf8)
    bytes.append(sized: event.queue.text.utf8)
    bytes.append(sized: (event.detail ?? "").utf8)
    return bytes
  }

  /// Adds an event, and deletes the event whose number is smaller by 10,000.
  static func put(_ event: TaskEvent, _ number: UInt64, to part: Part) throws {
    try part.put(key(number), bytes(event))
    if number > countMaximum { try part.delete(key(number - countMaximum)) }
  }

  static func event(_ bytes: [UInt8]) throws(DamagedTask) -> TaskEvent {
    var reader = ByteReader(bytes)
    let tag = try reader.byte()
    guard let kind = TaskEvent.Kind(rawValue: tag) else {
      throw DamagedTask(what: "\(tag) is not a kind of event", bytes: bytes)
    }
    let id = TaskID(rawValue: try reader.number())
    let attempt: UInt32 = try reader.number()
    let time = try reader.time()
    let (payload, queue, detail) = (try reader.text(), try reader.text(), try reader.text())
    return TaskEvent(
      kind, id, payload, QueueName(queue), attempt: Int(attempt), time, detail.isEmpty ? nil : detail)
  }
}

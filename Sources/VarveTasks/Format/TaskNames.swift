internal import Varve

/// The queues of a database, which have numbers in keys.
///
/// In the part `config`:
/// ```
///  'N', name (UTF-8)   value: number (4), flags (1): 1 paused
///  'n'                 value: the next number (4)
/// ```
/// On disk: never change.
struct TaskNames: Sendable {
  struct Queue: Hashable, Sendable {
    var number: UInt32
    var isPaused = false
  }

  private(set) var queues: [QueueName: Queue] = [:]

  static let next: [UInt8] = [0x6E]
  static func key(_ name: QueueName) -> [UInt8] { [0x4E] + Array(name.text.utf8) }

  static func value(_ queue: Queue) -> [UInt8] {
    var value: [UInt8] = []
    value.append(number: queue.number)
    value.append(queue.isPaused ? 1 : 0)
    return value
  }

  static func queue(_ value: [UInt8]) throws(DamagedTask) -> Queue {
    var reader = ByteReader(value)
    return Queue(number: try reader.number(), isPaused: try reader.byte() & 1 != 0)
  }

  /// Those of a part.
  init(_ config: Part) throws {
    var cursor = try config.cursor(StorageRange(prefix: [0x4E]))
    while let (key, value) = try cursor.next() {
      guard let text = String(validating: key.dropFirst(), as: UTF8.self) else {
        throw DamagedTask(what: "the name of a queue is not UTF-8", bytes: key)
      }
      queues[QueueName(text)] = try Self.queue(value)
    }
  }
}

/// Keys of the part `numbers`, whose largest number counts.
enum TaskNumbers {
  /// The last id that may have been given.
  static let id: [UInt8] = [0x69]
  /// The number of the last start of a scheduler.
  static let start: [UInt8] = [0x73]
}

/// How the counts of tasks change in one commit. Keys of the part `counts`: queue (4), state (1).
struct TaskCounts {
  private var changes: [(queue: UInt32, state: TaskState, number: Int64)] = []

  mutating func add(_ number: Int64, _ queue: UInt32, _ state: TaskState) {
    // Mostly one queue, or many with few tasks each.
    if let index = changes.lastIndex(where: { $0.queue == queue && $0.state == state }) {
      changes[index].number += number
    } else {
      changes.append((queue, state, number))
    }
  }

  func forEach(_ body: (UInt32, TaskState, Int64) -> Void) {
    for (queue, state, number) in changes { body(queue, state, number) }
  }

  func write(to part: Part) throws {
    for (queue, state, number) in changes where number != 0 { try part.add(number, to: Self.key(queue, state)) }
  }

  static func key(_ queue: UInt32, _ state: TaskState) -> [UInt8] {
    var key: [UInt8] = []
    key.append(number: queue)
    key.append(state.rawValue)
    return key
  }
}

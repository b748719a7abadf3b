internal import Foundation

/// A queued task, as held in memory.
struct QueuedTask: Sendable {
  /// The key of the task's row.
  private(set) var key: [UInt8]
  let id: TaskID
  /// The state in the task's row: `ready`, or the state of a head of a serial queue that waits.
  var state: TaskState
  /// Whether a process has died while the task ran, and the task has not ended an attempt since.
  let isSuspect: Bool
  /// The time at which the task was enqueued, in milliseconds since 1970.
  let enqueued: Int64
  /// The value of the task's row, or `nil` if it is large and is read only when the task is taken.
  var value: [UInt8]?

  /// The maximum size in bytes of a value that is held in memory.
  static let valueMaximum = 1 << 10

  /// Creates the entry of a row on disk.
  init(key: [UInt8], value: [UInt8]) throws(DamagedTask) {
    guard key.count >= 26 else {
      throw DamagedTask(what: "its key has \(key.count) bytes, expected 26 or more", bytes: key)
    }
    var reader = ByteReader(value, at: 1)
    let number = try reader.byte()
    guard let state = TaskState(rawValue: number) else {
      throw DamagedTask(what: "\(number) is not a state", bytes: value)
    }
    isSuspect = try reader.byte() & 4 != 0
    self.key = key
    id = TaskID(rawValue: try reader.number())
    self.state = state
    enqueued = TaskRecord.enqueued(in: value)
    self.value = value.count <= Self.valueMaximum ? value : nil
  }

  /// Creates the entry of a record that is about to be committed, or was committed.
  init(_ record: TaskRecord, _ value: [UInt8], key: [UInt8]? = nil) {
    self.key = key ?? record.position.key(of: record.id)
    id = record.id
    state = record.progress.state
    isSuspect = record.isSuspect
    enqueued = record.enqueued
    self.value = value.count <= Self.valueMaximum ? value : nil
  }

  /// Sets the stamp in the key to that of the task's commit.
  mutating func set(stamp: UInt64) { Self.set(stamp, in: &key) }

  /// Sets the stamp in the key of the row of a queued task.
  static func set(_ stamp: UInt64, in key: inout [UInt8]) {
    let offset = key.count - 16
    guard offset >= 0 else { return }
    // Safety: the eight bytes are within the key.
    unsafe key.withUnsafeMutableBytes {
      unsafe $0.storeBytes(of: stamp.bigEndian, toByteOffset: offset, as: UInt64.self)
    }
  }

  /// The stamp in the key, or 0 if the key is too short to have one.
  var stamp: UInt64 { Self.stamp(of: key) }

  static func stamp(of key: [UInt8]) -> UInt64 {
    let offset = key.count - 16
    guard offset >= 0 else { return 0 }
    // Safety: the eight bytes are within the key.
    return unsafe key.withUnsafeBytes {
      unsafe UInt64(bigEndian: $0.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }
  }

  /// The number of the task's row.
  var revision: UInt32 { Self.revision(of: key) }

  /// Returns the number of a row, given its key, or 0 if the key is too short to have one.
  static func revision(of key: [UInt8]) -> UInt32 {
    let offset = key.count - 4
    guard offset >= 0 else { return 0 }
    // Safety: the four bytes are within the key.
    return unsafe key.withUnsafeBytes {
      unsafe UInt32(bigEndian: $0.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
    }
  }

  static func precedes(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    // Safety: both arrays are alive, and no more bytes are compared than the shorter one has.
    let order = unsafe left.withUnsafeBytes { left in
      unsafe right.withUnsafeBytes { right in
        guard let leftStart = left.baseAddress, let rightStart = right.baseAddress else { return Int32(0) }
        return unsafe memcmp(leftStart, rightStart, min(left.count, right.count))
      }
    }
    return order == 0 ? left.count < right.count : order < 0
  }
}

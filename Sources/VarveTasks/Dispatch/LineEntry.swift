internal import Foundation

/// A task in line, as far as it is in memory.
struct LineEntry: Sendable {
  /// The key of its row.
  private(set) var key: [UInt8]
  let id: TaskID
  /// The state in its row: `ready`, or in a serial queue that of a head that waits.
  var state: TaskState
  /// How often the process died while it ran.
  let crashes: UInt32
  /// The value of its row; nil where it is large, and is read when the task is taken.
  var value: [UInt8]?

  /// Values of so many bytes are kept.
  static let valueMaximum = 1 << 10

  /// From a row.
  init(key: [UInt8], value: [UInt8]) throws(DamagedTask) {
    guard key.count >= 26 else {
      throw DamagedTask(what: "its key has \(key.count) bytes, expected 26 or more", bytes: key)
    }
    var reader = ByteReader(value, at: 1)
    let number = try reader.byte()
    guard let state = TaskState(rawValue: number) else {
      throw DamagedTask(what: "\(number) is not a state", bytes: value)
    }
    _ = try reader.byte()
    self.key = key
    id = TaskID(rawValue: try reader.number())
    self.state = state
    crashes = TaskRecord.crashes(in: value)
    self.value = value.count <= Self.valueMaximum ? value : nil
  }

  /// Of a record that is about to be committed, or was.
  init(_ record: TaskRecord, _ value: [UInt8], key: [UInt8]? = nil) {
    self.key = key ?? record.position.key(of: record.id)
    id = record.id
    state = record.progress.state
    crashes = record.progress.crashes
    self.value = value.count <= Self.valueMaximum ? value : nil
  }

  /// Gives it the stamp of its commit.
  mutating func set(stamp: UInt64) { Self.set(stamp, in: &key) }

  /// Gives the key of a row in line the stamp of its commit.
  static func set(_ stamp: UInt64, in key: inout [UInt8]) {
    let offset = key.count - 16
    guard offset >= 0 else { return }
    // Safety: the eight bytes are within the key.
    unsafe key.withUnsafeMutableBytes {
      unsafe $0.storeBytes(of: stamp.bigEndian, toByteOffset: offset, as: UInt64.self)
    }
  }

  /// The stamp in its key; 0 where the key is too short for one.
  var stamp: UInt64 { Self.stamp(of: key) }

  static func stamp(of key: [UInt8]) -> UInt64 {
    let offset = key.count - 16
    guard offset >= 0 else { return 0 }
    // Safety: the eight bytes are within the key.
    return unsafe key.withUnsafeBytes {
      unsafe UInt64(bigEndian: $0.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }
  }

  static func precedes(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    // Safety: both arrays live, and as many bytes are compared as the shorter one has.
    let order = unsafe left.withUnsafeBytes { left in
      unsafe right.withUnsafeBytes { right in
        guard let leftStart = left.baseAddress, let rightStart = right.baseAddress else { return Int32(0) }
        return unsafe memcmp(leftStart, rightStart, min(left.count, right.count))
      }
    }
    return order == 0 ? left.count < right.count : order < 0
  }
}

/// A subqueue of tasks: the tasks of a queue that have no limit key, or those with one limit key.
struct SubqueueID: Hashable, Sendable {
  var queue: UInt32
  /// The lane: the hash of the limit key, or 0 for the tasks that have none.
  var lane: UInt64 = 0

  /// Returns the lane of a limit key. Keys with the same hash share their limits: among 5,000 million keys, two with
  /// the same hash must be expected.
  static func lane(_ key: String?) -> UInt64 {
    guard let key else { return 0 }
    return max(1, StableHash.of(key.utf8))
  }

  /// The first key in `live` of the subqueue's rows.
  var begin: [UInt8] {
    [UInt8](atMost: 14) { key in
      key.put(TaskPosition.Kind.queued.rawValue)
      put(to: &key)
    }
  }

  /// Writes the subqueue's part of a key.
  func put(to key: inout ByteFiller) {
    key.put(queue)
    key.put(lane == 0 ? UInt8(0) : 1)
    if lane != 0 { key.put(lane) }
  }

  /// Reads the subqueue from the key of a row that is queued.
  init(of key: [UInt8]) throws(DamagedTask) {
    var reader = ByteReader(key, at: 1)
    queue = try reader.number()
    lane = try reader.byte() == 0 ? 0 : try reader.number()
  }

  init(queue: UInt32, lane: UInt64 = 0) {
    self.queue = queue
    self.lane = lane
  }
}

/// A hash that is stored on disk: FNV-1a of 64 bits, followed by a mixing step.
enum StableHash {
  static func of(_ bytes: some Sequence<UInt8>) -> UInt64 {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    hash ^= hash >> 32
    hash = hash &* 0xd6e8_feb8_6659_fd93
    return hash ^ hash >> 32
  }
}

/// Some of the keys that a table or a memtable deletes one at a time, from which the bytes that they hide are
/// estimated.
///
/// A key is chosen by its hash, of which a number of low bits must be zero: none at first, and one more whenever there
/// would be too many keys. So the choice depends on no random number and on no pattern in the keys, and the keys stay
/// in the order in which they were added.
struct TombstoneSample: ~Copyable {
  private struct Key {
    let offset: Int
    let size: Int
    let hash: UInt64
  }

  private var bytes = ByteWriter(capacity: 0)
  private var keys: [Key] = []
  private var mask: UInt64 = 0
  /// The number of tombstones that were added, chosen or not.
  private(set) var tombstoneCount: UInt64 = 0

  /// The maximum number of chosen keys.
  static let countMaximum = 1_024
  /// The maximum number of bytes of chosen keys.
  static let byteMaximum = 1 << 20

  init() {}

  /// The number of chosen keys.
  var count: Int { keys.count }

  /// The memory of the chosen keys, in bytes.
  var memorySize: Int { bytes.capacity + keys.capacity * MemoryLayout<Key>.stride }

  /// Adds the key of a tombstone.
  mutating func add(_ userKey: ByteView) {
    tombstoneCount &+= 1
    let hash = KeyHash.hash(userKey)
    if hash & mask == 0 { choose(userKey, hash) }
  }

  @inline(never)
  private mutating func choose(_ userKey: ByteView, _ hash: UInt64) {
    keys.append(Key(offset: bytes.count, size: userKey.count, hash: hash))
    bytes.append(userKey)
    while keys.count > Self.countMaximum || (bytes.count > Self.byteMaximum && keys.count > 1) { halve() }
  }

  private mutating func halve() {
    mask = mask << 1 | 1
    var kept = ByteWriter(capacity: bytes.count / 2)
    var keptKeys: [Key] = []
    keptKeys.reserveCapacity(Self.countMaximum)
    for (index, key) in keys.enumerated() where key.hash & mask == 0 {
      keptKeys.append(Key(offset: kept.count, size: key.size, hash: key.hash))
      kept.append(self[index])
    }
    bytes = kept
    keys = keptKeys
  }

  /// Returns a chosen key. It is valid until the next key is added.
  subscript(index: Int) -> ByteView { bytes.view.slice(keys[index].offset, keys[index].offset + keys[index].size) }

  /// Returns the hash of a chosen key.
  func hash(_ index: Int) -> UInt64 { keys[index].hash }
}

/// The first entries of an indexed batch: a few puts and deletes, each of another key, encoded as the commit writes
/// them.
///
/// Most transactions of a server write a handful of rows. A linear search of eight entries and a copy of their bytes
/// cost less than a tree for each family. Operations that need order or history move the entries into trees: a cursor,
/// a range delete, an operand, an entry after a savepoint, a ninth entry. No entry is added here after that.
struct FirstEntries: ~Copyable {
  static let countMaximum = 8
  static let byteCountMaximum = 4 << 10
  /// The initial capacity, which has room for a row of usual size and the entries that its extensions write.
  private static let initialCapacity = 512

  /// A Boolean value that indicates whether the batch has no trees yet.
  private(set) var isOpen = true
  private(set) var count = 0
  /// The entries, in the order in which they were added (`BatchFormat`).
  private var payload = ByteWriter(capacity: 0)
  /// One byte per entry, the first entry's lowest, derived from family and key. The tags exclude most keys that have no
  /// entry.
  private var tags: UInt64 = 0

  struct Found {
    let kind: EntryKind
    let value: ByteView
    fileprivate let index: Int
    fileprivate let range: Range<Int>
    /// The bytes of the entry in the log.
    var size: Int { range.count }
  }

  @inline(__always)
  func hasRoom(_ size: Int) -> Bool {
    count < Self.countMaximum && payload.count &+ size <= Self.byteCountMaximum
  }

  /// Returns the entry of a key, or `nil` if the key has no entry. The result is valid until the next change.
  @inline(__always)
  func find(_ key: ByteView, in family: FamilyID) -> Found? {
    mayHave(Self.tag(key, family)) ? search(key, family) : nil
  }

  /// Returns whether a tag may be among those of the entries.
  ///
  /// All eight are compared at once; a byte after an equal one may be a false match.
  @inline(__always)
  private func mayHave(_ tag: UInt8) -> Bool {
    let lowBits: UInt64 = 0x0101_0101_0101_0101
    let different = tags ^ (UInt64(tag) &* lowBits)
    let equal = (different &- lowBits) & ~different & (lowBits << 7)
    return equal & ~(UInt64.max << UInt64(8 * count)) != 0
  }

  @inline(__always)
  private static func tag(_ key: ByteView, _ family: FamilyID) -> UInt8 {
    var hash = UInt64(family.value) &+ UInt64(key.count) << 32
    if key.count >= 8 {
      hash ^= key.load(key.count - 8, as: UInt64.self)
    } else {
      for byte in 0..<key.count { hash = hash << 8 ^ UInt64(key[byte]) }
    }
    return UInt8(truncatingIfNeeded: (hash &* 0x9e37_79b9_7f4a_7c15) >> 56)
  }

  @inline(never)
  private func search(_ key: ByteView, _ family: FamilyID) -> Found? {
    var found: Found?
    var start = 0
    var index = 0
    forEach { kind, id, other, value in
      let size = BatchFormat.entrySize(kind, id, keySize: other.count, valueSize: value.count)
      if id == family, other == key {
        found = Found(kind: kind, value: value, index: index, range: start..<(start + size))
      }
      start += size
      index += 1
    }
    return found
  }

  /// Calls `body` for each entry, in the order in which they were added.
  @inline(__always)
  func forEach(_ body: (EntryKind, FamilyID, ByteView, ByteView) -> Void) {
    var reader = BatchReader(payload.view)
    // Entries encoded here decode without errors.
    while let entry = try? reader.next() { body(entry.kind, entry.family, entry.key, entry.value) }
  }

  /// Adds an entry of a key that has none. There must be room for it.
  mutating func add(_ kind: EntryKind, _ family: FamilyID, _ key: ByteView, _ value: ByteView) {
    if payload.capacity == 0 { payload.reserve(Self.initialCapacity) }
    BatchFormat.append(kind, family, key, value, to: &payload)
    tags &= ~(0xff << UInt64(8 * count))
    tags |= UInt64(Self.tag(key, family)) << UInt64(8 * count)
    count += 1
  }

  mutating func remove(_ found: Found) {
    payload.remove(found.range)
    let below = ~(UInt64.max << UInt64(8 * found.index))
    tags = tags & below | tags >> 8 & ~below
    count -= 1
  }

  /// Notes that the batch has trees that contain these entries.
  mutating func close() {
    isOpen = false
    count = 0
    payload = ByteWriter(capacity: 0)
  }

  /// Adds the entries to a batch, which must have room for them.
  func write(to batch: inout WriteBatch) { batch.append(encoded: payload.view, count: count) }
}

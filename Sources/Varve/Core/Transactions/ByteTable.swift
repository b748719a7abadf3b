/// Values by byte strings: what a dictionary is, for the keys of a transaction.
///
/// A dictionary hashes an array element by element, some thousand instructions for the key of a row, and it is asked
/// several times a row. This hashes a key by eight bytes at once, compares by `memcmp`, and keeps the entries in the
/// order in which their keys came, so that walking them follows memory.
///
/// ```
///  slots    open addressing, a power of two:  upper half of the hash (32) │ index of the entry + 1 (32); 0: free
///  entries  key, value; nil: the key was removed, and its entry waits for the key to come again
/// ```
///
/// # Invariants
/// 1. Every key that ever came has one entry, and one slot; so no slot is freed, and a search ends at a free one.
/// 2. At most three of four slots are taken.
///
/// A value: copies share memory until one of them changes.
struct ByteTable<Value> {
  struct Entry {
    let key: [UInt8]
    var value: Value?
  }

  /// One for each key that ever came, in the order of their coming.
  private(set) var entries: [Entry] = []
  private var slots: [UInt64] = []
  /// How many keys have a value.
  private(set) var count = 0
  /// The memory of the keys.
  private var keyByteCount = 0

  var isEmpty: Bool { count == 0 }

  /// The memory that it takes, keys included; what values refer to does not count. Complexity: O(1).
  var byteCount: Int {
    entries.capacity * MemoryLayout<Entry>.stride + slots.capacity * MemoryLayout<UInt64>.stride + keyByteCount
  }

  /// The value of a key. Complexity: O(1) beside the length of the key.
  subscript(key: [UInt8]) -> Value? {
    @inline(__always) get {
      if slots.isEmpty { return nil }
      let (_, index) = find(key, ByteHash.hash(key))
      return index.flatMap { entries[$0].value }
    }
  }

  /// Sets the value of a key. Returns what it had.
  @discardableResult
  mutating func set(_ value: Value, for key: [UInt8]) -> Value? { update(key) { _ in value } }

  /// Sets the value of a key by what it had. Returns that.
  @inline(__always) @discardableResult
  mutating func update(_ key: [UInt8], _ body: (Value?) -> Value) -> Value? {
    if entries.count * 4 >= slots.count * 3 { grow() }
    let hash = ByteHash.hash(key)
    let (slot, found) = find(key, hash)
    if let found {
      let previous = entries[found].value
      entries[found].value = body(previous)
      if previous == nil { count += 1 }
      return previous
    }
    entries.append(Entry(key: key, value: body(nil)))
    keyByteCount += Self.memory(ofKey: key.count)
    slots[slot] = Self.slot(hash, entries.count - 1)
    count += 1
    return nil
  }

  /// Makes room for so many keys.
  mutating func reserveCapacity(_ capacity: Int) {
    entries.reserveCapacity(capacity)
    while capacity * 4 >= slots.count * 3 { grow() }
  }

  /// The keys that have a value, with it, in the order in which they came.
  var pairs: some Sequence<(key: [UInt8], value: Value)> {
    entries.lazy.compactMap { entry in entry.value.map { (entry.key, $0) } }
  }

  /// Takes the value of a key away. Returns what it was.
  @discardableResult
  mutating func remove(_ key: [UInt8]) -> Value? {
    guard !slots.isEmpty, let found = find(key, ByteHash.hash(key)).index else { return nil }
    guard let previous = entries[found].value else { return nil }
    entries[found].value = nil
    count -= 1
    return previous
  }

  /// The key's slot, or the free one where it belongs; there are slots.
  @inline(__always)
  private func find(_ key: [UInt8], _ hash: UInt64) -> (slot: Int, index: Int?) {
    let mask = slots.count - 1
    var slot = Int(truncatingIfNeeded: hash) & mask
    while true {
      let content = slots[slot]
      if content == 0 { return (slot, nil) }
      if content >> 32 == hash >> 32 {
        let index = Int(content & 0xFFFF_FFFF) - 1
        if ByteOrder.areEqual(entries[index].key, key) { return (slot, index) }
      }
      slot = (slot + 1) & mask
    }
  }

  /// The memory of an array of so many bytes: 32 of its header, 8 of the allocator, and rounded up to 16.
  private static func memory(ofKey count: Int) -> Int { (count + 55) & ~15 }

  private static func slot(_ hash: UInt64, _ index: Int) -> UInt64 {
    hash & 0xFFFF_FFFF_0000_0000 | UInt64(UInt32(index + 1))
  }

  private mutating func grow() {
    let size = max(slots.count * 2, 8)
    // `Array(repeating:count:)` asks the runtime for the type of the storage at each call, twice what this costs.
    slots.removeAll()
    slots.reserveCapacity(size)
    slots.append(contentsOf: repeatElement(0, count: size))
    for index in entries.indices {
      let hash = ByteHash.hash(entries[index].key)
      var slot = Int(truncatingIfNeeded: hash) & (size - 1)
      while slots[slot] != 0 { slot = (slot + 1) & (size - 1) }
      slots[slot] = Self.slot(hash, index)
    }
  }
}

/// A hash of byte strings: two halves of eight bytes, multiplied to sixteen and folded, for each sixteen bytes.
///
/// Both factors are masked by numbers that are random in each process: nobody who chooses keys can choose such that
/// meet. The hash never leaves the process.
enum ByteHash {
  private static let left = UInt64.random(in: .min ... .max)
  private static let right = UInt64.random(in: .min ... .max)

  @inline(__always)
  static func hash(_ key: [UInt8]) -> UInt64 { unsafe key.withUnsafeBytes { unsafe hash($0) } }

  static func hash(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
    let left = left
    var state = right
    let count = bytes.count
    var offset = 0
    // Safety: every load is within the bytes, by the comparisons around it.
    while count - offset > 16 {
      state = unsafe folded(word(bytes, offset) ^ left, word(bytes, offset + 8) ^ state)
      offset += 16
    }
    // The last sixteen bytes, which may overlap with those before, or what there is.
    switch count {
    case 16...: state = unsafe folded(word(bytes, count - 16) ^ left, word(bytes, count - 8) ^ state)
    case 8...: state = unsafe folded(word(bytes, 0) ^ left, word(bytes, count - 8) ^ state)
    default:
      var rest: UInt64 = 0
      for index in 0..<count { rest = rest << 8 | UInt64(unsafe bytes[index]) }
      state = folded(rest ^ left, state)
    }
    return folded(state ^ UInt64(count), left)
  }

  @inline(__always)
  private static func word(_ bytes: UnsafeRawBufferPointer, _ offset: Int) -> UInt64 {
    unsafe bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
  }

  @inline(__always)
  private static func folded(_ left: UInt64, _ right: UInt64) -> UInt64 {
    let (high, low) = left.multipliedFullWidth(by: right)
    return high ^ low
  }
}

extension ByteTable: Sendable where Value: Sendable {}
extension ByteTable.Entry: Sendable where Value: Sendable {}

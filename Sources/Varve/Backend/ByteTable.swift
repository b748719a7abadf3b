internal import Foundation

/// A table of values by byte strings: a dictionary for the keys of a transaction.
///
/// `Dictionary` hashes an array element by element, some thousand instructions for the key of a row, and it is accessed
/// several times for each row. This table hashes eight bytes of a key at once, compares by `memcmp`, and keeps the
/// entries in the order in which their keys were added, so that iterating over them accesses memory sequentially. The
/// keys are packed: a row with a key of 16 bytes takes 26 bytes, plus 11 to 22 bytes of slots. The first four keys have
/// no slots, and are found by comparing.
///
/// ```
///  slots   open addressing, a power of two:  upper half of the hash (32) │ index of the entry + 1 (32); 0: free
///  bytes   the keys, one after the other
///  ends    where the key of each entry ends in them
///  values  nil if the key was removed; its entry is reused if the key is added again
/// ```
///
/// # Invariants
/// 1. Every key has at most one entry, and, if there are slots, every entry has one. Only the slot of the newest entry
///    is ever freed, which no other search has passed, so a search may end at a free slot.
/// 2. At most three of four slots are taken.
///
/// It is a value: copies share memory until one of them changes.
struct ByteTable<Value> {
  private var bytes: [UInt8] = []
  private var ends: [Int] = []
  private var values: [Value?] = []
  private var slots: [UInt64] = []
  /// The number of keys that have a value.
  private(set) var count = 0

  var isEmpty: Bool { count == 0 }

  /// The memory that the table takes in bytes, including its keys, but not what the values refer to. Complexity: O(1).
  var byteCount: Int {
    bytes.capacity + ends.capacity * MemoryLayout<Int>.stride + values.capacity * MemoryLayout<Value?>.stride
      + slots.capacity * MemoryLayout<UInt64>.stride
  }

  // MARK: - Keys

  /// The value of a key. Complexity: O(1) for a given length of the key.
  subscript(key: [UInt8]) -> Value? {
    @inline(__always) get {
      find(key).flatMap { values[$0] }
    }
  }

  /// Sets the value of a key. Returns its previous value.
  @discardableResult
  mutating func set(_ value: Value, for key: [UInt8]) -> Value? { update(key) { _ in value }.previous }

  /// Sets the value of a key, computed from its previous value. Returns the previous value, and the index of the entry.
  @inline(__always) @discardableResult
  mutating func update(_ key: [UInt8], _ body: (Value?) -> Value) -> (previous: Value?, index: Int) {
    if values.count >= Self.comparedMaximum, values.count * 4 >= slots.count * 3 { grow() }
    var slot: (index: Int, hash: UInt64)?
    let found: Int?
    if slots.isEmpty {
      found = compare(key)
    } else {
      let hash = ByteHash.hash(key)
      let (index, entry) = find(key, hash)
      slot = (index, hash)
      found = entry
    }
    if let found {
      let previous = values[found]
      values[found] = body(previous)
      if previous == nil { count += 1 }
      return (previous, found)
    }
    bytes.append(contentsOf: key)
    ends.append(bytes.count)
    values.append(body(nil))
    if let slot { slots[slot.index] = Self.slot(slot.hash, values.count - 1) }
    count += 1
    return (nil, values.count - 1)
  }

  /// Reserves space for a number of keys.
  mutating func reserveCapacity(_ capacity: Int) {
    ends.reserveCapacity(capacity)
    values.reserveCapacity(capacity)
    while capacity > Self.comparedMaximum, capacity * 4 >= slots.count * 3 { grow() }
  }

  /// The keys that have a value, each with its value, in the order in which they were added.
  var pairs: some Sequence<(key: [UInt8], value: Value)> {
    values.indices.lazy.compactMap { index in values[index].map { (Array(key(at: index)), $0) } }
  }

  /// Removes the value of a key. Returns the previous value.
  @discardableResult
  mutating func remove(_ key: [UInt8]) -> Value? {
    find(key).flatMap { setValue(nil, at: $0) }
  }

  // MARK: - Entries

  /// The indexes of the entries, in the order in which their keys were added.
  var indices: Range<Int> { values.indices }

  /// Returns the value of an entry, or `nil` if its key was removed.
  @inline(__always)
  func value(at index: Int) -> Value? { values[index] }

  /// Returns the key of an entry, without copying it.
  @inline(__always)
  func key(at index: Int) -> ArraySlice<UInt8> { bytes[(index == 0 ? 0 : ends[index - 1])..<ends[index]] }

  /// Returns the number of bytes of an entry's key.
  @inline(__always)
  func keySize(at index: Int) -> Int { ends[index] - (index == 0 ? 0 : ends[index - 1]) }

  /// Sets or removes the value of an entry. Returns the previous value. The newest entry is removed together with its
  /// value, so that changes that are undone in reverse order leave no memory in use.
  @discardableResult
  mutating func setValue(_ value: Value?, at index: Int) -> Value? {
    let previous = values[index]
    count += (value == nil ? 0 : 1) - (previous == nil ? 0 : 1)
    values[index] = value
    if value == nil, index == values.count - 1 { removeLast() }
    return previous
  }

  private mutating func removeLast() {
    let index = values.count - 1
    let begin = ends[index] - keySize(at: index)
    if !slots.isEmpty {
      let hash = unsafe bytes.withUnsafeBytes { unsafe ByteHash.hash(UnsafeRawBufferPointer(rebasing: $0[begin...])) }
      let mask = slots.count - 1
      var slot = Int(truncatingIfNeeded: hash) & mask
      while slots[slot] != Self.slot(hash, index) { slot = (slot + 1) & mask }
      slots[slot] = 0
    }
    bytes.removeSubrange(begin...)
    ends.removeLast()
    values.removeLast()
  }

  // MARK: - Slots

  private static var comparedMaximum: Int { 4 }

  /// Returns the index of a key's entry.
  @inline(__always)
  private func find(_ key: [UInt8]) -> Int? {
    slots.isEmpty ? compare(key) : find(key, ByteHash.hash(key)).index
  }

  /// Returns the index of a key's entry if there are no slots.
  @inline(__always)
  private func compare(_ key: [UInt8]) -> Int? {
    for index in values.indices where isKey(key, at: index) { return index }
    return nil
  }

  /// Returns the slot of a key and the index of its entry, or the free slot where the key belongs. There must be slots.
  @inline(__always)
  private func find(_ key: [UInt8], _ hash: UInt64) -> (slot: Int, index: Int?) {
    let mask = slots.count - 1
    var slot = Int(truncatingIfNeeded: hash) & mask
    while true {
      let content = slots[slot]
      if content == 0 { return (slot, nil) }
      if content >> 32 == hash >> 32 {
        let index = Int(content & 0xFFFF_FFFF) - 1
        if isKey(key, at: index) { return (slot, index) }
      }
      slot = (slot + 1) & mask
    }
  }

  @inline(__always)
  private func isKey(_ key: [UInt8], at index: Int) -> Bool {
    let end = ends[index]
    let size = keySize(at: index)
    guard size == key.count else { return false }
    return unsafe bytes.withUnsafeBytes { bytes in
      unsafe key.withUnsafeBytes { key in
        // Safety: keys lie within the bytes, by `ends`.
        unsafe size == 0 || memcmp(bytes.baseAddress! + (end - size), key.baseAddress!, size) == 0
      }
    }
  }

  private static func slot(_ hash: UInt64, _ index: Int) -> UInt64 {
    hash & 0xFFFF_FFFF_0000_0000 | UInt64(UInt32(index + 1))
  }

  private mutating func grow() {
    let size = max(slots.count * 2, 8)
    // `Array(repeating:count:)` requests the type of the storage from the runtime at each call: 560 instructions for
    // eight slots instead of 335.
    slots.removeAll()
    slots.reserveCapacity(size)
    slots.append(contentsOf: repeatElement(0, count: size))
    for index in values.indices {
      let hash = unsafe key(at: index).withUnsafeBytes { unsafe ByteHash.hash($0) }
      var slot = Int(truncatingIfNeeded: hash) & (size - 1)
      while slots[slot] != 0 { slot = (slot + 1) & (size - 1) }
      slots[slot] = Self.slot(hash, index)
    }
  }
}

/// A hash of byte strings: for each sixteen bytes, two words of eight bytes are multiplied to sixteen bytes and folded.
///
/// Both factors are masked by numbers that are random in each process, so that keys can't be chosen such that they
/// collide. The hash never leaves the process.
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
    // Safety: every load is within the bytes, because of the comparisons around it.
    while count - offset > 16 {
      state = unsafe folded(word(bytes, offset) ^ left, word(bytes, offset + 8) ^ state)
      offset += 16
    }
    // The last sixteen bytes, which may overlap with the previous ones, or the shorter rest.
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

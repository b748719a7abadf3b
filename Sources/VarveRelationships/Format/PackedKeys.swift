/// Many keys in one buffer, which are appended, sorted, and read by their positions.
///
/// A cascade needs as many keys as rows are removed; an array of arrays would need twice the memory, and an allocation
/// for each key.
struct PackedKeys {
  private var bytes: [UInt8] = []
  /// The end offset of each key.
  private var ends: [Int] = []
  /// The positions of the keys in sorted order, or nil if they are in the order in which they were appended.
  private var order: [Int]?

  var count: Int { ends.count }
  var isEmpty: Bool { ends.isEmpty }

  mutating func append(_ key: ArraySlice<UInt8>) {
    bytes.append(contentsOf: key)
    ends.append(bytes.count)
    order = nil
  }

  mutating func append(_ key: [UInt8]) { append(key, 0..<key.count) }

  /// Appends a key from a range of a buffer.
  @inline(__always)
  mutating func append(_ buffer: borrowing [UInt8], _ range: Range<Int>) {
    // Safety: the bytes are copied within the call, and the range is checked by the slice.
    unsafe buffer.withUnsafeBytes { unsafe bytes.append(contentsOf: $0[range]) }
    ends.append(bytes.count)
    order = nil
  }

  /// Appends a key from a span.
  @inline(__always)
  mutating func append(_ key: RawSpan) {
    // Safety: the bytes are copied within the call.
    unsafe key.withUnsafeBytes { unsafe bytes.append(contentsOf: $0) }
    ends.append(bytes.count)
    order = nil
  }

  /// Replaces the content of a buffer by the key at an index of the order.
  func copy(_ index: Int, into buffer: inout [UInt8]) {
    let range = range(position(index))
    buffer.removeAll(keepingCapacity: true)
    // Safety: the range is checked by the slice, and the bytes are copied within the call.
    unsafe bytes.withUnsafeBytes { unsafe buffer.append(contentsOf: $0[range]) }
  }

  /// Returns a byte of the key at an index of the order.
  subscript(_ index: Int, _ offset: Int) -> UInt8 { bytes[range(position(index)).lowerBound + offset] }

  mutating func removeAll() {
    bytes.removeAll(keepingCapacity: true)
    ends.removeAll(keepingCapacity: true)
    order = nil
  }

  /// Keeps the first `count` keys, in the order in which they were appended.
  mutating func truncate(to count: Int) {
    guard count < ends.count else { return }
    bytes.removeSubrange((count == 0 ? 0 : ends[count - 1])...)
    ends.removeSubrange(count...)
    order = nil
  }

  /// Returns the key at an index of the order.
  subscript(_ index: Int) -> ArraySlice<UInt8> { appended(position(index)) }

  /// Returns a key by its position in the order of appending.
  func appended(_ index: Int) -> ArraySlice<UInt8> { bytes[range(index)] }

  /// Returns the position in the order of appending of the key at an index of the order.
  func position(_ index: Int) -> Int { order?[index] ?? index }

  /// Returns the keys from `index` on, in the order in which they were appended.
  func suffix(from index: Int) -> PackedKeys {
    guard index < count else { return PackedKeys() }
    var copy = PackedKeys()
    let start = index == 0 ? 0 : ends[index - 1]
    copy.bytes = Array(bytes[start...])
    copy.ends = index == 0 ? ends : ends[index...].map { $0 - start }
    return copy
  }

  /// Returns the size of the key at an index of the order.
  func size(_ index: Int) -> Int { range(position(index)).count }

  private func range(_ position: Int) -> Range<Int> { (position == 0 ? 0 : ends[position - 1])..<ends[position] }

  // MARK: - Order

  /// Sorts the keys by their bytes. Of equal keys, only the one that was appended first is kept, unless `keepsEqual` is
  /// true; equal keys are then in the order in which they were appended.
  mutating func sort(keepsEqual: Bool = false) {
    if count < 2 || isSorted(strictly: !keepsEqual) { return }
    let shared = sharedPrefix
    // The eight bytes after the prefix that all keys share decide nearly every comparison.
    var heads = ends.indices.map { (head: head($0, after: shared), position: $0) }
    heads.sort { left, right in
      if left.head != right.head { return left.head < right.head }
      switch compare(left.position, right.position) {
      case 0: return left.position < right.position
      case let difference: return difference < 0
      }
    }
    var order: [Int] = []
    order.reserveCapacity(heads.count)
    var last: (head: UInt64, position: Int)?
    for head in heads {
      if !keepsEqual, let last, last.head == head.head, compare(last.position, head.position) == 0 { continue }
      order.append(head.position)
      last = head
    }
    if order.count == count {
      self.order = order
    } else {
      // Duplicates are removed permanently.
      var copy = PackedKeys()
      copy.bytes.reserveCapacity(bytes.count)
      for position in order { copy.append(bytes, range(position)) }
      self = copy
    }
  }

  private func isSorted(strictly: Bool) -> Bool {
    if order != nil { return true }
    for position in 1..<count {
      let difference = compare(position - 1, position)
      if difference > 0 || (strictly && difference == 0) { return false }
    }
    return true
  }

  /// The size of the prefix that all keys share.
  private var sharedPrefix: Int {
    let first = range(0)
    var size = first.count
    return unsafe bytes.withUnsafeBufferPointer { bytes in
      for position in 1..<count {
        let other = range(position)
        size = min(size, other.count)
        var index = 0
        // Safety: both ranges are in bounds.
        while index < size, unsafe bytes[first.lowerBound + index] == bytes[other.lowerBound + index] { index += 1 }
        size = index
        if size == 0 { break }
      }
      return size
    }
  }

  private func head(_ position: Int, after prefix: Int) -> UInt64 {
    let key = range(position)
    let start = key.lowerBound + prefix
    return unsafe bytes.withUnsafeBytes { bytes in
      // Safety: the eight bytes are within the key.
      if start + 8 <= key.upperBound {
        return UInt64(bigEndian: unsafe bytes.loadUnaligned(fromByteOffset: start, as: UInt64.self))
      }
      var head: UInt64 = 0
      for index in 0..<8 {
        head = head << 8 | (start + index < key.upperBound ? UInt64(unsafe bytes[start + index]) : 0)
      }
      return head
    }
  }

  /// Compares two keys by their positions in the order of appending. The result is negative if the left one comes
  /// first.
  private func compare(_ left: Int, _ right: Int) -> Int {
    unsafe bytes.withUnsafeBytes { unsafe ByteCompare.order($0, range(left), $0, range(right)) }
  }

  /// Compares a part of the key at an index with a key of another list at its index, both in the order. The result is
  /// negative if the part comes first.
  func compare(_ index: Int, _ part: Range<Int>, with others: PackedKeys, _ other: Int) -> Int {
    let own = range(position(index))
    let range = (own.lowerBound + part.lowerBound)..<(own.lowerBound + part.upperBound)
    return unsafe bytes.withUnsafeBytes { bytes in
      unsafe others.bytes.withUnsafeBytes {
        unsafe ByteCompare.order(bytes, range, $0, others.range(others.position(other)))
      }
    }
  }

  /// Compares two keys. The result is negative if `left` comes first.
  static func compare(_ left: ArraySlice<UInt8>, _ right: ArraySlice<UInt8>) -> Int {
    unsafe left.withUnsafeBytes { left in
      unsafe right.withUnsafeBytes { unsafe ByteCompare.order(left, 0..<left.count, $0, 0..<$0.count) }
    }
  }

  /// Returns whether the list contains a key. The keys must be sorted.
  func contains(_ key: ArraySlice<UInt8>) -> Bool {
    var (low, high) = (0, count)
    while low < high {
      let middle = (low + high) / 2
      let difference = Self.compare(self[middle], key)
      if difference == 0 { return true }
      if difference < 0 { low = middle + 1 } else { high = middle }
    }
    return false
  }

  // MARK: - Hashes

  /// Returns the hash of a range of a buffer, which is the same for equal keys.
  static func hash(_ buffer: borrowing [UInt8], _ range: Range<Int>) -> UInt64 {
    unsafe buffer.withUnsafeBytes { unsafe ByteCompare.hash($0, range) }
  }

  /// Returns the hash of a key by its position in the order of appending.
  func hash(_ position: Int) -> UInt64 { Self.hash(bytes, range(position)) }

  /// Returns whether a key, by its position in the order of appending, has the bytes of a range of a buffer.
  func isEqual(_ position: Int, to buffer: borrowing [UInt8], _ other: Range<Int>) -> Bool {
    let own = range(position)
    guard own.count == other.count else { return false }
    return unsafe bytes.withUnsafeBytes { bytes in
      unsafe buffer.withUnsafeBytes { unsafe ByteCompare.order(bytes, own, $0, other) } == 0
    }
  }
}

/// A hash set of keys. The hashes are computed at the first lookup.
final class PackedKeySet {
  private let keys: PackedKeys
  /// The positions of the keys plus one, or 0 for an empty slot.
  private var slots: [UInt32] = []
  private var mask = 0

  init(_ keys: PackedKeys) { self.keys = keys }

  private func fill() {
    var size = 2
    while size < keys.count * 2 { size *= 2 }
    mask = size - 1
    slots = Array(repeating: 0, count: size)
    for position in 0..<keys.count {
      var slot = Int(truncatingIfNeeded: keys.hash(position)) & mask
      while slots[slot] != 0 { slot = (slot + 1) & mask }
      slots[slot] = UInt32(position + 1)
    }
  }

  /// Returns whether a range of a buffer is one of the keys.
  func contains(_ buffer: borrowing [UInt8], _ range: Range<Int>) -> Bool {
    if keys.isEmpty { return false }
    if keys.count == 1 { return keys.isEqual(0, to: buffer, range) }
    if slots.isEmpty { fill() }
    var slot = Int(truncatingIfNeeded: PackedKeys.hash(buffer, range)) & mask
    while slots[slot] != 0 {
      if keys.isEqual(Int(slots[slot]) - 1, to: buffer, range) { return true }
      slot = (slot + 1) & mask
    }
    return false
  }
}

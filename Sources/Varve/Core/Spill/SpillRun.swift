internal import Foundation

/// The entries that a build has collected for one part, in the order of their arrival until they are sorted.
///
/// ```
///  entry   size of the key (4) │ size of the value (4) │ key │ value
/// ```
/// The format is used in memory only. The value of an addition to a counter is its number, eight bytes. If a key has
/// several entries, the last one counts; those of a counter are combined by its rule.
///
/// It belongs to one thread at a time.
@safe
final class SpillRun {
  private struct Slot {
    /// The eight bytes of the key that follow the prefix common to all keys, as a number with the same order as the
    /// bytes.
    let head: UInt64
    let offset: UInt32
  }

  /// The number of entries and bytes at a point in time.
  struct Mark {
    fileprivate let count: Int
    fileprivate let size: Int
  }

  /// The rule of the part's counters, or `nil` if it has none.
  let rule: CounterRule?
  // Safety: the first `size` bytes are whole entries, at `offsets`. The buffer has `capacity` bytes and is owned by
  // this object alone.
  private var base: UnsafeMutableRawPointer
  private var capacity: Int
  private var size = 0
  private var offsets: [UInt32] = []
  /// The entries in order, after `sort`.
  private var slots: [Slot] = []

  private static let headerSize = 8
  /// The bytes that an entry takes in addition to its key and value, including those for sorting.
  static let overhead = headerSize + MemoryLayout<UInt32>.stride + MemoryLayout<Slot>.stride

  init(_ rule: CounterRule?) {
    self.rule = rule
    capacity = 1 << 10
    unsafe base = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 8)
  }

  deinit { unsafe base.deallocate() }

  var isEmpty: Bool { offsets.isEmpty }
  var mark: Mark { Mark(count: offsets.count, size: size) }

  /// Removes the entries after a mark.
  func cut(to mark: Mark) {
    offsets.removeSubrange(mark.count...)
    size = mark.size
  }

  /// Removes all entries, and keeps the memory for later ones.
  func removeAll() {
    offsets.removeAll(keepingCapacity: true)
    slots.removeAll(keepingCapacity: true)
    size = 0
  }

  // MARK: - Collecting

  /// Adds an entry.
  func append(_ key: RawSpan, _ value: RawSpan) {
    unsafe key.withUnsafeBytes { key in unsafe value.withUnsafeBytes { value in unsafe append(key, value) } }
  }

  /// Adds a number for a counter.
  func append(_ key: [UInt8], _ number: Int64) {
    unsafe key.withUnsafeBytes { key in
      unsafe withUnsafeBytes(of: number) { value in unsafe append(key, value) }
    }
  }

  @inline(__always)
  private func append(_ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) {
    let end = size + Self.headerSize + key.count + value.count
    if end > capacity { grow(to: end) }
    // Safety: `grow` has made room up to `end`.
    let entry = unsafe base + size
    unsafe entry.storeBytes(of: UInt32(key.count), as: UInt32.self)
    unsafe entry.storeBytes(of: UInt32(value.count), toByteOffset: 4, as: UInt32.self)
    if let source = key.baseAddress {
      unsafe (entry + Self.headerSize).copyMemory(from: source, byteCount: key.count)
    }
    if let source = value.baseAddress {
      unsafe (entry + (Self.headerSize + key.count)).copyMemory(from: source, byteCount: value.count)
    }
    offsets.append(UInt32(size))
    size = end
  }

  /// Makes room up to `end`. A chunk of a build ends once the bound on collected bytes is reached, so only the writes
  /// of a single row, which are bounded by the size limit of a commit, can exceed that bound; offsets have room for
  /// both.
  private func grow(to end: Int) {
    precondition(end <= Int(UInt32.max), "a build has collected \(end) bytes of a part, more than an offset can say")
    let capacity = max(end, 2 * self.capacity)
    let moved = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 8)
    unsafe moved.copyMemory(from: base, byteCount: size)
    unsafe base.deallocate()
    unsafe base = moved
    self.capacity = capacity
  }

  // MARK: - Entries

  // Safety of the following methods: offsets are those of whole entries, and no pointer is used after the next change.

  @inline(__always)
  private func key(at offset: UInt32) -> UnsafeRawBufferPointer {
    let entry = unsafe UnsafeRawPointer(base + Int(offset))
    let size = unsafe Int(entry.loadUnaligned(as: UInt32.self))
    return unsafe UnsafeRawBufferPointer(start: entry + Self.headerSize, count: size)
  }

  @inline(__always)
  private func value(at offset: UInt32) -> UnsafeRawBufferPointer {
    let key = unsafe key(at: offset)
    let size = unsafe Int((base + Int(offset)).loadUnaligned(fromByteOffset: 4, as: UInt32.self))
    return unsafe UnsafeRawBufferPointer(start: key.baseAddress.map { unsafe $0 + key.count }, count: size)
  }

  // MARK: - Order

  /// Sorts the entries by key, and those of one key by arrival. Complexity: O(n log n).
  func sort() {
    let shared = sharedSize
    slots.removeAll(keepingCapacity: true)
    slots.reserveCapacity(offsets.count)
    for offset in offsets { slots.append(Slot(head: head(at: offset, after: shared), offset: offset)) }
    slots.sort { left, right in
      if left.head != right.head { return left.head < right.head }
      let order = compare(left.offset, right.offset)
      return order != 0 ? order < 0 : left.offset < right.offset
    }
  }

  /// The number of bytes of the prefix that is common to all keys.
  private var sharedSize: Int {
    guard let first = offsets.first else { return 0 }
    let key = unsafe key(at: first)
    var shared = key.count
    for offset in offsets.dropFirst() where shared > 0 {
      let other = unsafe self.key(at: offset)
      var common = 0
      let end = min(shared, other.count)
      while common < end, unsafe key[common] == other[common] { common += 1 }
      shared = common
    }
    return shared
  }

  private func head(at offset: UInt32, after shared: Int) -> UInt64 {
    let key = unsafe key(at: offset)
    if key.count >= shared + 8 {
      return unsafe UInt64(bigEndian: key.loadUnaligned(fromByteOffset: shared, as: UInt64.self))
    }
    var head: UInt64 = 0
    for index in shared..<(shared + 8) { head = unsafe head << 8 | (index < key.count ? UInt64(key[index]) : 0) }
    return head
  }

  @inline(__always)
  private func compare(_ left: UInt32, _ right: UInt32) -> Int {
    let (left, right) = unsafe (key(at: left), key(at: right))
    let shared = min(left.count, right.count)
    guard let first = left.baseAddress, let second = right.baseAddress else { return 0 }
    let order = unsafe Int(memcmp(first, second, shared))
    return order != 0 ? order : left.count - right.count
  }

  /// Calls `body` with the key at an index of the order and the value that counts. Returns the index of the next key,
  /// or `nil` after the last. `body` must not keep the key and the value.
  func withEntry(at index: Int, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Void) rethrows -> Int? {
    guard index < slots.count else { return nil }
    let first = slots[index]
    var last = first
    var number = rule.map { _ in unsafe value(at: first.offset).loadUnaligned(as: Int64.self) }
    var end = index + 1
    while end < slots.count, slots[end].head == first.head, compare(slots[end].offset, first.offset) == 0 {
      last = slots[end]
      if let rule, let known = number {
        number = rule.taking(unsafe value(at: last.offset).loadUnaligned(as: Int64.self), into: known)
      }
      end += 1
    }
    let key = unsafe RawSpan(_unsafeBytes: key(at: first.offset))
    if let rule, let number {
      let bytes = rule.bytes(number)
      unsafe try body(key, bytes.span.bytes)
    } else {
      try body(key, unsafe RawSpan(_unsafeBytes: value(at: last.offset)))
    }
    return end
  }
}

/// The encoded values of one row in the indexes of its collection: index by index, and for each index in order and
/// without duplicates.
///
/// One instance is reused for row after row: once it is large enough, it allocates nothing.
struct IndexKeys: Sendable {
  /// A value, as a range of `encoder.bytes`.
  struct Key: Sendable {
    /// The index, by its number among those of the collection.
    let index: Int
    let start: Int
    let end: Int
    /// Whether a part of the value is nil. Such a value is not unique.
    let hasNil: Bool
  }

  private(set) var keys: [Key] = []
  private var encoder: KeyEncoder
  private var start = 0
  private var hasNil = false

  init() { encoder = KeyEncoder(capacity: 256) }

  /// Creates a list without memory, as a placeholder.
  init(empty: ()) { encoder = KeyEncoder() }

  /// Removes all values, and keeps the memory.
  mutating func removeAll() {
    keys.removeAll(keepingCapacity: true)
    encoder.removeAll()
    start = 0
    hasNil = false
  }

  /// Calls `body` with the bytes of a value.
  @inline(__always)
  func withBytes<Result>(_ key: Key, _ body: (RawSpan) throws -> Result) rethrows -> Result {
    try unsafe body(encoder.bytes.span.bytes.extracting(key.start..<key.end))
  }

  func bytes(_ key: Key) -> [UInt8] { Array(encoder.bytes[key.start..<key.end]) }

  /// Compares a value with one of another list. Returns a number below zero, zero, or above zero.
  func compare(_ key: Key, with other: IndexKeys, _ otherKey: Key) -> Int {
    withBytes(key) { left in other.withBytes(otherKey) { right in ByteOrder.compare(left, right) } }
  }

  // MARK: - Adding

  /// Appends one part of a value. Throws what its encoding throws; the caller then calls `dropValue` instead of
  /// `endValue`.
  @inline(__always)
  mutating func appendPart(_ encode: (inout KeyEncoder) throws -> Void) throws {
    let offset = encoder.bytes.count
    try encode(&encoder)
    let tag = encoder.bytes[offset]
    if tag == KeyTag.null || tag == ~KeyTag.null { hasNil = true }
  }

  /// Makes the parts that were appended since the last value a value of an index.
  @inline(__always)
  mutating func endValue(of index: Int) {
    keys.append(Key(index: index, start: start, end: encoder.bytes.count, hasNil: hasNil))
    start = encoder.bytes.count
    hasNil = false
  }

  /// Removes the parts that were appended since the last value.
  mutating func dropValue() {
    encoder.truncate(to: start)
    hasNil = false
  }

  /// Appends a value of an index as bytes.
  mutating func append(_ bytes: ArraySlice<UInt8>, hasNil: Bool, of index: Int) {
    encoder.append(bytes)
    self.hasNil = hasNil
    endValue(of: index)
  }

  /// Sorts the values from `first` on, which are those of an index with several values, and removes duplicates.
  mutating func sort(from first: Int) {
    guard keys.count - first > 1 else { return }
    let bytes = encoder.bytes
    func order(_ left: Key, _ right: Key) -> Int {
      unsafe ByteOrder.compare(
        bytes.span.bytes.extracting(left.start..<left.end), bytes.span.bytes.extracting(right.start..<right.end))
    }
    keys[first...].sort { order($0, $1) < 0 }
    var kept = first + 1
    for next in (first + 1)..<keys.count where order(keys[kept - 1], keys[next]) != 0 {
      keys[kept] = keys[next]
      kept += 1
    }
    keys.removeSubrange(kept...)
  }
}

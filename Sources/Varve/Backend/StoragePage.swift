/// Consecutive rows of a range in one buffer: the result of one read call of a storage.
///
/// Keys and values are stored one after the other, and `ends` has the end offset of each key and each value. A page is
/// therefore two allocations, however many rows it has.
public struct StoragePage: Sendable {
  private var bytes: [UInt8] = []
  private var ends: [Int] = []
  /// Whether the range has no row after the last row of the page, in the direction of the scan.
  public var isLast = false

  /// Creates an empty page with room for `capacity` bytes and `rowCount` rows.
  public init(capacity: Int = 0, rowCount: Int = 0) {
    bytes.reserveCapacity(capacity)
    ends.reserveCapacity(2 * rowCount)
  }

  /// The number of rows.
  public var count: Int { ends.count / 2 }

  /// The total size of all keys and values in bytes.
  public var byteCount: Int { bytes.count }

  /// Adds a row after the others.
  public mutating func append(key: RawSpan, value: RawSpan) {
    bytes.append(key)
    ends.append(bytes.count)
    bytes.append(value)
    ends.append(bytes.count)
  }

  /// Adds a row after the others.
  public mutating func append(key: [UInt8], value: [UInt8]) {
    bytes.append(contentsOf: key)
    ends.append(bytes.count)
    bytes.append(contentsOf: value)
    ends.append(bytes.count)
  }

  /// Returns the range of a row's key in the buffer.
  @inline(__always)
  func keyRange(_ index: Int) -> Range<Int> { (index == 0 ? 0 : ends[2 * index - 1])..<ends[2 * index] }

  /// Returns the range of a row's value in the buffer.
  @inline(__always)
  func valueRange(_ index: Int) -> Range<Int> { ends[2 * index]..<ends[2 * index + 1] }

  /// Returns a copy of the key of a row.
  public func key(_ index: Int) -> [UInt8] { [UInt8](bytes[keyRange(index)]) }

  /// Returns a copy of the value of a row.
  public func value(_ index: Int) -> [UInt8] { [UInt8](bytes[valueRange(index)]) }

  /// Calls `body` with the key and the value of a row, which it may not keep. Nothing is copied.
  @inline(__always)
  func withEntry<Result>(
    _ index: Int, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Result
  ) rethrows -> Result {
    let all = unsafe bytes.span.bytes
    return try body(all.extracting(keyRange(index)), all.extracting(valueRange(index)))
  }

  /// The buffer that holds the keys and values of all rows.
  var buffer: [UInt8] { bytes }
}

/// Many rows of a range in one buffer: what a storage gives out a call.
///
/// Keys and values lie one after the other; `ends` has where each key and each value ends. So a page is two
/// allocations, however many rows it has.
public struct StoragePage: Sendable {
  private var bytes: [UInt8] = []
  private var ends: [Int] = []
  /// Whether the range has no row after the last of these, in the direction of the scan.
  public var isLast = false

  /// An empty page with room for so many bytes, and for so many rows.
  public init(capacity: Int = 0, rowCount: Int = 0) {
    bytes.reserveCapacity(capacity)
    ends.reserveCapacity(2 * rowCount)
  }

  /// How many rows there are.
  public var count: Int { ends.count / 2 }

  /// The bytes of all keys and values.
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

  /// Where in the buffer the key of a row lies.
  @inline(__always)
  func keyRange(_ index: Int) -> Range<Int> { (index == 0 ? 0 : ends[2 * index - 1])..<ends[2 * index] }

  /// Where in the buffer the value of a row lies.
  @inline(__always)
  func valueRange(_ index: Int) -> Range<Int> { ends[2 * index]..<ends[2 * index + 1] }

  /// The key of a row, copied.
  public func key(_ index: Int) -> [UInt8] { [UInt8](bytes[keyRange(index)]) }

  /// The value of a row, copied.
  public func value(_ index: Int) -> [UInt8] { [UInt8](bytes[valueRange(index)]) }

  /// Calls `body` with the key and the value of a row, which it may not keep. Nothing is copied.
  @inline(__always)
  func withEntry<Result>(
    _ index: Int, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Result
  ) rethrows -> Result {
    let all = unsafe bytes.span.bytes
    return try body(all.extracting(keyRange(index)), all.extracting(valueRange(index)))
  }

  /// The bytes of a row, where they are.
  var buffer: [UInt8] { bytes }
}

/// Changes that are committed together, in the order in which they were added.
///
/// The changes are packed in one buffer, so that a batch of a thousand rows is one allocation and can be sent to
/// another machine.
///
/// ```
///  operation   kind (1) │ family (4) │ key size (4) │ value size (4) │ key │ value
/// ```
/// Sizes and family numbers are little-endian. The value of a range delete is its upper bound, and that of an addition
/// is the encoded number of the counter. The value of a stamped put begins with five bytes: 0 for a stamp in the key or
/// 1 for one in the value, and its offset there (4, little-endian). The format exists in memory only.
public struct StorageBatch: Sendable {
  /// One change.
  public enum Operation: UInt8, Sendable {
    /// Sets the value of a key.
    case put
    /// Removes a key.
    case delete
    /// Removes a key that was put exactly once since it was removed last.
    case singleDelete
    /// Removes the keys from the key (included) to the value (excluded).
    case deleteRange
    /// Removes the keys from the key (included) to the end of the family.
    case deleteToEnd
    /// Applies a number to a counter.
    case add
    /// Sets the value of a key; eight bytes of the key or the value become the commit's version, big-endian.
    case putStamped
  }

  private var bytes: [UInt8] = []
  /// The number of changes.
  public private(set) var count = 0

  /// Creates an empty batch with room for `capacity` bytes.
  public init(capacity: Int = 0) { bytes.reserveCapacity(capacity) }

  /// The number of bytes of the packed changes.
  public var byteCount: Int { bytes.count }

  /// Whether the batch has no changes.
  public var isEmpty: Bool { count == 0 }

  /// Sets the value of a key.
  public mutating func put(_ key: [UInt8], _ value: [UInt8], in family: StorageFamily) {
    append(.put, key, value, family)
  }

  /// Removes a key, whether it is there or not.
  public mutating func delete(_ key: [UInt8], in family: StorageFamily) { append(.delete, key, [], family) }

  /// Removes a key that was put exactly once since it was removed last.
  public mutating func singleDelete(_ key: [UInt8], in family: StorageFamily) {
    append(.singleDelete, key, [], family)
  }

  /// Removes the keys of a range, including those that this batch put before.
  public mutating func deleteRange(_ range: StorageRange, in family: StorageFamily) {
    guard !range.isEmpty else { return }
    if let upper = range.upper {
      append(.deleteRange, range.lower, upper, family)
    } else {
      append(.deleteToEnd, range.lower, [], family)
    }
  }

  /// Applies a number to a counter, by the rule of its family.
  public mutating func add(
    _ number: Int64, by rule: CounterRule = .sum, to key: [UInt8], in family: StorageFamily
  ) {
    guard rule == .sum else { return append(.add, key, rule.bytes(number), family) }
    unsafe withUnsafeBytes(of: number.littleEndian) { unsafe append(.add, key, $0, family) }
  }

  /// Sets the value of a key, in which the commit replaces the eight bytes at `position` by its version, big-endian.
  /// The commit throws `.invalidArgument` if they are not within the key or the value.
  public mutating func putStamped(
    _ key: [UInt8], _ value: [UInt8], at position: StampPosition, in family: StorageFamily
  ) {
    putStamped(key, at: position, in: family) { $0.append(contentsOf: value) }
  }

  /// Adds a stamped put whose value `write` appends, and returns the size of that value in bytes.
  @discardableResult
  mutating func putStamped(
    _ key: [UInt8], at position: StampPosition, in family: StorageFamily, _ write: (inout [UInt8]) -> Void
  ) -> Int {
    let (kind, offset): (UInt8, Int) =
      switch position {
      case .key(let offset): (0, offset)
      case .value(let offset): (1, offset)
      }
    let start = bytes.count
    let head = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
    unsafe append(.putStamped, key, head, family)
    let valueStart = bytes.count
    bytes.append(kind)
    unsafe withUnsafeBytes(of: UInt32(clamping: offset).littleEndian) { unsafe bytes.append(contentsOf: $0) }
    write(&bytes)
    // The size of the value is known only now.
    let size = UInt32(bytes.count - valueStart).littleEndian
    unsafe bytes.withUnsafeMutableBytes { unsafe $0.storeBytes(of: size, toByteOffset: start + 9, as: UInt32.self) }
    return bytes.count - valueStart - Self.stampSize
  }

  /// The number of bytes before the value of a stamped put, in the value that `forEach` passes.
  public static let stampSize = 5

  /// Returns the position of the stamp of a stamped put, from the value that `forEach` passes.
  public static func stampPosition(_ value: RawSpan) -> StampPosition {
    let isInValue = unsafe value.unsafeLoad(fromByteOffset: 0, as: UInt8.self) == 1
    let offset = Int(UInt32(littleEndian: unsafe value.unsafeLoadUnaligned(fromByteOffset: 1, as: UInt32.self)))
    return isInValue ? .value(offset) : .key(offset)
  }

  /// Adds a change whose key and value are encoded as `forEach` passes them.
  package mutating func append(_ operation: Operation, _ key: RawSpan, _ value: RawSpan, in family: StorageFamily) {
    append(operation, key.copied, value.copied, family)
  }

  /// Adds the changes of another batch after those of this one.
  package mutating func append(_ other: StorageBatch) {
    bytes += other.bytes
    count += other.count
  }

  /// Calls `body` with every change in order.
  public func forEach(
    _ body: (Operation, _ family: UInt32, _ key: RawSpan, _ value: RawSpan) throws -> Void
  ) rethrows {
    let all = unsafe bytes.span.bytes
    var offset = 0
    for _ in 0..<count {
      let operation = Operation(rawValue: unsafe all.unsafeLoad(fromByteOffset: offset, as: UInt8.self)) ?? .put
      let family = unsafe all.unsafeLoadUnaligned(fromByteOffset: offset + 1, as: UInt32.self)
      let keySize = Int(unsafe all.unsafeLoadUnaligned(fromByteOffset: offset + 5, as: UInt32.self))
      let valueSize = Int(unsafe all.unsafeLoadUnaligned(fromByteOffset: offset + 9, as: UInt32.self))
      let key = offset + 13
      let value = key + keySize
      try body(operation, family, all.extracting(key..<value), all.extracting(value..<(value + valueSize)))
      offset = value + valueSize
    }
  }

  /// Returns the encoded value of a sum counter.
  public static func counterBytes(_ number: Int64) -> [UInt8] {
    unsafe withUnsafeBytes(of: number.littleEndian) { unsafe [UInt8]($0) }
  }

  /// Returns the number that a sum counter's value encodes, or nil if the value is not eight bytes long.
  public static func counterNumber(_ bytes: [UInt8]) -> Int64? {
    guard bytes.count == 8 else { return nil }
    return unsafe Int64(littleEndian: bytes.withUnsafeBytes { unsafe $0.loadUnaligned(as: Int64.self) })
  }

  private mutating func append(_ operation: Operation, _ key: [UInt8], _ value: [UInt8], _ family: StorageFamily) {
    unsafe value.withUnsafeBytes { unsafe append(operation, key, $0, family) }
  }

  private mutating func append(
    _ operation: Operation, _ key: [UInt8], _ value: UnsafeRawBufferPointer, _ family: StorageFamily
  ) {
    bytes.append(operation.rawValue)
    // The three numbers are appended at once, because each append checks the capacity.
    let numbers = (family.number.littleEndian, UInt32(key.count).littleEndian, UInt32(value.count).littleEndian)
    unsafe withUnsafeBytes(of: numbers) { unsafe bytes.append(contentsOf: $0) }
    bytes.append(contentsOf: key)
    unsafe bytes.append(contentsOf: value)
    count += 1
  }
}

public import Foundation
internal import UnicodeNormalForm

/// Encodes a key part by part (see `KeyTag` for the format).
///
/// An encoder that is reused with `removeAll()` allocates no memory once it is large enough.
public struct KeyEncoder: Sendable {
  /// The bytes that were appended so far.
  public internal(set) var bytes: [UInt8]
  /// The mask that is applied to each byte of a part: 0xff for descending parts, and otherwise 0.
  private var inversion: UInt8 = 0

  /// Creates an empty encoder with room for `capacity` bytes.
  public init(capacity: Int = 0) {
    // This does not use `init(unsafeUninitializedCapacity:)`, which looks up the type of the storage at each call:
    // about 1,300 instructions, compared to 200 here.
    bytes = []
    bytes.reserveCapacity(capacity)
  }

  /// Removes the bytes and keeps the memory.
  public mutating func removeAll() { bytes.removeAll(keepingCapacity: true) }

  /// Removes the bytes from `count` on.
  mutating func truncate(to count: Int) { bytes.removeSubrange(count...) }

  /// Appends parts that are already encoded.
  mutating func append(_ parts: ArraySlice<UInt8>) { bytes.append(contentsOf: parts) }

  /// Appends a key of any type as part of a longer one.
  public mutating func encode(_ key: some KeyCodable) throws { try key.encodeKey(into: &self) }

  /// Appends the parts of a key in descending order: see ``Descending``.
  public mutating func encode(descending key: some KeyCodable) throws {
    invert()
    defer { invert() }
    try key.encodeKey(into: &self)
  }

  /// Switches between ascending and descending order for the following parts.
  package mutating func invert() { inversion = ~inversion }

  /// Appends an optional without a value.
  public mutating func appendNil() { bytes.append(KeyTag.null ^ inversion) }

  /// Appends the marker of an optional with a value, which has to follow.
  public mutating func appendSome() { bytes.append(KeyTag.some ^ inversion) }

  /// Appends a Boolean. False sorts before true.
  public mutating func append(bool value: Bool) { bytes.append((value ? KeyTag.true : KeyTag.false) ^ inversion) }

  /// Appends an integer. The same number has the same encoding at every width.
  ///
  /// *Throws* `.invalidKey` below `Int128.min` and above `UInt128.max`.
  @inline(__always)
  public mutating func append(integer value: some FixedWidthInteger) throws {
    let isNegative = value < 0
    if let magnitude = UInt64(exactly: value.magnitude) {
      append(magnitude, isNegative: isNegative)
    } else {
      let magnitude = UInt128(exactly: value.magnitude)
      guard let magnitude, !isNegative || magnitude <= Int128.min.magnitude else {
        throw DatabaseError(.invalidKey, "an integer of more than 128 bits can't be a key")
      }
      append(magnitude, isNegative: isNegative)
    }
  }

  /// Appends a double. *Throws* `.invalidKey` for a NaN.
  public mutating func append(double value: Double) throws {
    guard let ordered = OrderedDouble(value) else { throw DatabaseError(.invalidKey, "a NaN can't be a key") }
    append(KeyTag.double, ordered.bits)
  }

  /// Appends a date with the full precision of its double. *Throws* `.invalidKey` if that is a NaN.
  public mutating func append(date value: Date) throws {
    guard let ordered = OrderedDouble(value.timeIntervalSinceReferenceDate) else {
      throw DatabaseError(.invalidKey, "a date of NaN seconds can't be a key")
    }
    append(KeyTag.date, ordered.bits)
  }

  /// Appends a UUID, which is sorted by its bytes.
  public mutating func append(uuid value: UUID) {
    let start = bytes.count
    bytes.append(KeyTag.uuid)
    // Safety: the bytes are read within the call.
    unsafe withUnsafeBytes(of: value.uuid) { unsafe bytes.append(contentsOf: $0) }
    if inversion != 0 { invertBytes(from: start) }
  }

  /// Appends a decimal number, which is sorted by its value and has a unique encoding. *Throws* `.invalidKey` for a
  /// NaN.
  public mutating func append(decimal value: Decimal) throws {
    guard let decimal = KeyDecimal(value) else { throw DatabaseError(.invalidKey, "a decimal NaN can't be a key") }
    let start = bytes.count
    bytes.append(KeyTag.decimal)
    decimal.append(to: &bytes)
    if inversion != 0 { invertBytes(from: start) }
  }

  /// Appends a duration with its full precision.
  public mutating func append(duration value: Duration) {
    let (seconds, attoseconds) = value.components
    let whole = Int128(seconds) * KeyTag.attosecondsPerSecond + Int128(attoseconds)
    let pattern = UInt128(bitPattern: whole) ^ (1 << 127)
    bytes.append(KeyTag.duration ^ inversion)
    for index in 0..<16 { bytes.append(UInt8(truncatingIfNeeded: pattern >> (120 - 8 * index)) ^ inversion) }
  }

  /// Appends bytes, which are sorted from the left, with a proper prefix first.
  public mutating func append(data value: Data) {
    let start = bytes.count
    bytes.append(KeyTag.data)
    // Safety: the span is used within the call.
    unsafe value.withUnsafeBytes { appendEscaped(unsafe RawSpan(_unsafeBytes: $0)) }
    bytes.append(KeyTag.terminator)
    if inversion != 0 { endDescending(from: start) }
  }

  /// Appends a string, which is sorted by its scalars in normal form C, as `<` compares two strings in that form.
  /// Strings that are equal in Swift because they differ only in composition have the same encoding.
  public mutating func append(string value: String) {
    let start = bytes.count
    bytes.append(KeyTag.string)
    appendText(value)
    bytes.append(KeyTag.terminator)
    if inversion != 0 { endDescending(from: start) }
  }

  /// Appends a string given as UTF-8, with the same encoding.
  mutating func append(utf8: RawSpan) {
    let start = bytes.count
    bytes.append(KeyTag.string)
    appendText(utf8: utf8)
    bytes.append(KeyTag.terminator)
    if inversion != 0 { endDescending(from: start) }
  }

  // MARK: - Bytes after a tag

  @inline(__always)
  private mutating func append(_ magnitude: some FixedWidthInteger & UnsignedInteger, isNegative: Bool) {
    let size = (magnitude.bitWidth &- magnitude.leadingZeroBitCount &+ 7) / 8
    let tag = isNegative ? KeyTag.integerZero &- UInt8(size) : KeyTag.integerZero &+ UInt8(size)
    let pattern = isNegative ? ~magnitude : magnitude
    let inversion = inversion
    bytes.append(addingCapacity: size &+ 1) { output in
      output.append(tag ^ inversion)
      var shift = size &* 8
      while shift > 0 {
        shift &-= 8
        output.append(UInt8(truncatingIfNeeded: pattern >> shift) ^ inversion)
      }
    }
  }

  @inline(__always)
  private mutating func append(_ tag: UInt8, _ bits: UInt64) {
    let inversion = inversion
    bytes.append(addingCapacity: 9) { output in
      output.append(tag ^ inversion)
      for index in 0..<8 { output.append(UInt8(truncatingIfNeeded: bits >> (56 &- 8 &* index)) ^ inversion) }
    }
  }

  /// Makes a string or data that was appended at `start` a descending part.
  @inline(never)
  private mutating func endDescending(from start: Int) {
    bytes.append(KeyTag.terminator)
    invertBytes(from: start)
  }

  private mutating func invertBytes(from start: Int) {
    for index in start..<bytes.count { bytes[index] = ~bytes[index] }
  }

  /// Appends the bytes of a string without its tag and its end.
  mutating func appendText(_ text: String) {
    // Safety: the spans are used within the calls.
    let isDone: Void? = unsafe text.utf8.withContiguousStorageIfAvailable {
      appendText(utf8: unsafe RawSpan(_unsafeElements: $0))
    }
    if isDone == nil {
      var copy = text
      copy.withUTF8 { appendText(utf8: unsafe RawSpan(_unsafeElements: $0)) }
    }
  }

  private mutating func appendText(utf8: RawSpan) {
    let content = ByteScan.content(of: utf8)
    if content.isBeyondLatin && !NormalForm.isComposed(utf8) {
      appendEscaped(NormalForm.composed(utf8).rawSpan)
    } else if content.hasZero {
      appendEscaped(utf8)
    } else {
      append(utf8)
    }
  }

  /// Appends bytes with each zero escaped.
  private mutating func appendEscaped(_ source: RawSpan) {
    var start = 0
    while true {
      let zero = ByteScan.firstZero(in: source, from: start)
      guard zero < source.byteCount else { break }
      append(source.extracting(start..<zero &+ 1))
      bytes.append(KeyTag.escape)
      start = zero &+ 1
    }
    append(source.extracting(start..<source.byteCount))
  }

  @inline(__always)
  private mutating func append(_ source: RawSpan) {
    // Safety: the bytes are copied within the call.
    unsafe source.withUnsafeBytes { unsafe bytes.append(contentsOf: $0) }
  }
}

/// Numbers and lengths of a record. All numbers are big-endian, so that what stands in keys is in order.
extension [UInt8] {
  @inline(__always)
  mutating func append<Number: FixedWidthInteger>(number: Number) {
    // Safety: the bytes are those of a local number, and are copied.
    unsafe Swift.withUnsafeBytes(of: number.bigEndian) { unsafe append(contentsOf: $0) }
  }

  /// A time as part of a key: the sign bit is flipped, so that earlier times come first.
  mutating func append(time: Int64) { append(number: UInt64(bitPattern: time) ^ (1 << 63)) }

  /// A length of 4 bytes, and the bytes.
  mutating func append(sized bytes: some Collection<UInt8>) {
    append(number: UInt32(bytes.count))
    append(contentsOf: bytes)
  }
}

/// Reads what `ByteWriting` has written. Bytes that end too early throw.
struct ByteReader {
  private let bytes: [UInt8]
  private(set) var offset: Int

  init(_ bytes: [UInt8], at offset: Int = 0) {
    self.bytes = bytes
    self.offset = offset
  }

  var left: Int { bytes.count - offset }

  mutating func number<Number: FixedWidthInteger>(_ type: Number.Type = Number.self) throws(DamagedTask) -> Number {
    let size = Number.bitWidth / 8
    guard left >= size else { throw DamagedTask(what: "it ends at byte \(bytes.count), within a number", bytes: bytes) }
    var value: Number = 0
    for index in offset..<(offset + size) { value = value << 8 | Number(truncatingIfNeeded: bytes[index]) }
    offset += size
    return value
  }

  mutating func time() throws(DamagedTask) -> Int64 {
    Int64(bitPattern: try number(UInt64.self) ^ (1 << 63))
  }

  mutating func byte() throws(DamagedTask) -> UInt8 { try number(UInt8.self) }

  mutating func sized() throws(DamagedTask) -> [UInt8] {
    let count = Int(try number(UInt32.self))
    guard count <= left else { throw DamagedTask(what: "\(count) bytes are to follow, and \(left) do", bytes: bytes) }
    defer { offset += count }
    return Array(bytes[offset..<(offset + count)])
  }

  mutating func text() throws(DamagedTask) -> String {
    let bytes = try sized()
    guard let text = String(validating: bytes, as: UTF8.self) else {
      throw DamagedTask(what: "a text is not UTF-8", bytes: bytes)
    }
    return text
  }
}

/// Bytes that are not those of a task.
struct DamagedTask: Error, CustomStringConvertible {
  let what: String
  let bytes: [UInt8]

  var description: String { "a row of tasks is damaged: \(what), of \(bytes.count) bytes" }
}

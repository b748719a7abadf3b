/// Appends the numbers and lengths of a record. All numbers are big-endian, so that keys sort by them.
extension [UInt8] {
  @inline(__always)
  mutating func append<Number: FixedWidthInteger>(number: Number) {
    // Safety: the bytes are those of a local number, and are copied.
    unsafe Swift.withUnsafeBytes(of: number.bigEndian) { unsafe append(contentsOf: $0) }
  }

  /// Appends a time with the sign bit flipped, so that earlier times sort first in keys.
  mutating func append(time: Int64) { append(number: UInt64(bitPattern: time) ^ (1 << 63)) }

  /// Appends a length of 4 bytes, and the bytes.
  mutating func append(sized bytes: some Collection<UInt8>) {
    append(number: UInt32(bytes.count))
    append(contentsOf: bytes)
  }
}

/// Writes into an array with a known maximum size, with one allocation and no growth.
@safe
struct ByteFiller: ~Copyable {
  private let base: UnsafeMutableRawPointer
  private let capacity: Int
  fileprivate var count = 0

  fileprivate init(_ buffer: UnsafeMutableBufferPointer<UInt8>) {
    // The base address is not nil, because a capacity of at least one byte was requested.
    unsafe base = UnsafeMutableRawPointer(buffer.baseAddress.unsafelyUnwrapped)
    capacity = buffer.count
  }

  private mutating func advance(_ size: Int) -> Int {
    precondition(size <= capacity - count, "a row of a task is longer than was reckoned")
    defer { count += size }
    return count
  }

  @inline(__always)
  mutating func put<Number: FixedWidthInteger>(_ number: Number) {
    let offset = advance(MemoryLayout<Number>.size)
    // Safety: `advance` has checked that the bytes are within the array.
    unsafe base.storeBytes(of: number.bigEndian, toByteOffset: offset, as: Number.self)
  }

  /// Writes a time as `append(time:)` does.
  mutating func put(time: Int64) { put(UInt64(bitPattern: time) ^ (1 << 63)) }

  mutating func put(_ bytes: [UInt8]) {
    let offset = advance(bytes.count)
    // Safety: `advance` has checked that the bytes are within the array, and `bytes` is another array.
    unsafe bytes.withUnsafeBytes { source in
      if let start = source.baseAddress {
        unsafe (base + offset).copyMemory(from: start, byteCount: source.count)
      }
    }
  }

  mutating func put(sized bytes: [UInt8]) {
    put(UInt32(bytes.count))
    put(bytes)
  }

  mutating func put(sized text: String) {
    var text = text
    text.withUTF8 { bytes in
      put(UInt32(bytes.count))
      let offset = advance(bytes.count)
      // Safety: `advance` has checked that the bytes are within the array.
      if let start = bytes.baseAddress { unsafe (base + offset).copyMemory(from: start, byteCount: bytes.count) }
    }
  }
}

extension [UInt8] {
  /// Creates an array from the bytes that `fill` writes, which are at most `size`.
  @inline(__always)
  init(atMost size: Int, _ fill: (inout ByteFiller) -> Void) {
    // Safety: the filler writes only within the buffer, from its beginning and without gaps.
    unsafe self.init(unsafeUninitializedCapacity: Swift.max(1, size)) { buffer, count in
      var filler = unsafe ByteFiller(buffer)
      fill(&filler)
      count = filler.count
    }
  }
}

/// Reads the numbers and lengths of a record. Throws `DamagedTask` if the bytes end too early.
struct ByteReader {
  private let bytes: [UInt8]
  private(set) var offset: Int

  init(_ bytes: [UInt8], at offset: Int = 0) {
    self.bytes = bytes
    self.offset = offset
  }

  var remaining: Int { bytes.count - offset }

  mutating func number<Number: FixedWidthInteger>(_ type: Number.Type = Number.self) throws(DamagedTask) -> Number {
    let size = Number.bitWidth / 8
    guard remaining >= size else {
      throw DamagedTask(what: "it ends at byte \(bytes.count), within a number", bytes: bytes)
    }
    defer { offset += size }
    // Safety: the bytes are within the array.
    return unsafe bytes.withUnsafeBytes { source in
      unsafe Number(bigEndian: source.loadUnaligned(fromByteOffset: offset, as: Number.self))
    }
  }

  mutating func time() throws(DamagedTask) -> Int64 {
    Int64(bitPattern: try number(UInt64.self) ^ (1 << 63))
  }

  mutating func byte() throws(DamagedTask) -> UInt8 { try number(UInt8.self) }

  mutating func sized() throws(DamagedTask) -> [UInt8] {
    let count = Int(try number(UInt32.self))
    guard count <= remaining else {
      throw DamagedTask(what: "\(count) bytes are to follow, and \(remaining) do", bytes: bytes)
    }
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

/// The error for bytes that are not those of a task.
struct DamagedTask: Error, CustomStringConvertible {
  let what: String
  let bytes: [UInt8]

  var description: String { "a row of tasks is damaged: \(what), of \(bytes.count) bytes" }
}

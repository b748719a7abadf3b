/// A cursor over bytes that may be damaged.
///
/// Each read is compared with the number of bytes that remain. A read that does not fit throws `.corruption` with the
/// position. `file` and `fileOffset` state where the bytes came from; only the error uses them.
struct ByteReader {
  private let view: ByteView
  private(set) var position: Int = 0
  private let file: String?
  private let fileOffset: UInt64

  init(_ view: ByteView, file: String? = nil, fileOffset: UInt64 = 0) {
    self.view = view
    self.file = file
    self.fileOffset = fileOffset
  }

  var remaining: Int { view.count &- position }
  var isAtEnd: Bool { remaining == 0 }

  /// Returns an error that reports corruption at the current position.
  func corruption(_ message: String) -> EngineError {
    .corruption(message, file: file, offset: fileOffset + UInt64(position))
  }

  @inline(__always)
  mutating func integer<T: FixedWidthInteger & BitwiseCopyable>(_ type: T.Type) throws(EngineError) -> T {
    let size = MemoryLayout<T>.size
    guard remaining >= size else { throw corruption("input ends inside an integer of \(size) bytes") }
    let value = view.load(position, as: T.self)
    position &+= size
    return value
  }

  mutating func varint() throws(EngineError) -> UInt64 {
    var result: UInt64 = 0
    var shift: UInt64 = 0
    while true {
      guard remaining > 0 else { throw corruption("input ends inside a varint") }
      let byte = view[position]
      guard shift < 63 || byte <= 1 else { throw corruption("varint exceeds 64 bits") }
      position &+= 1
      result |= UInt64(byte & 0x7f) << shift
      if byte < 0x80 { return result }
      shift += 7
    }
  }

  /// Reads a varint that counts objects in memory. Throws `.corruption` if it exceeds `limit`.
  mutating func count(limit: Int) throws(EngineError) -> Int {
    let value = try varint()
    guard value <= UInt64(limit) else { throw corruption("count is \(value); at most \(limit) is allowed") }
    return Int(value)
  }

  mutating func bytes(_ count: Int) throws(EngineError) -> ByteView {
    guard count >= 0, remaining >= count else {
      throw corruption("\(count) bytes were announced; \(remaining) remain")
    }
    let result = view.slice(position, position + count)
    position &+= count
    return result
  }

  /// Reads a varint count, and then that many bytes.
  mutating func lengthPrefixed() throws(EngineError) -> ByteView {
    let count = try count(limit: remaining)
    return try bytes(count)
  }
}

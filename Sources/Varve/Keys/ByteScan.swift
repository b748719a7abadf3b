/// Scans bytes eight at a time for the properties that the encoding of strings and data needs: zeros, and bytes beyond
/// ASCII.
enum ByteScan {
  /// The properties of some bytes.
  struct Content {
    /// The bitwise or of all bytes.
    fileprivate(set) var union: UInt64 = 0
    fileprivate(set) var zeroMarks: UInt64 = 0
    fileprivate(set) var combiningMarks: UInt64 = 0

    /// Whether a byte is zero.
    var hasZero: Bool { zeroMarks & ByteScan.highBits != 0 }
    /// Whether a byte is 0x80 or more.
    var isBeyondASCII: Bool { union & ByteScan.highBits != 0 }
    /// Whether a byte is 0xcc or more: in UTF-8, whether a scalar is U+0300 or more.
    var isBeyondLatin: Bool { combiningMarks & ByteScan.highBits != 0 }

    /// Adds eight bytes.
    @inline(__always)
    fileprivate mutating func add(_ word: UInt64) {
      union |= word
      // This sets the high bit of each zero byte. A borrow may also mark a byte above a zero; if no byte is zero, none
      // is marked.
      zeroMarks |= (word &- ByteScan.lowBits) & ~word
      // This sets the high bit of each byte that is at least 0xcc.
      combiningMarks |= ((word & ~ByteScan.highBits) &+ ByteScan.lowBits &* (0x80 - 0x4c)) & word
    }
  }

  fileprivate static let highBits: UInt64 = 0x8080_8080_8080_8080
  fileprivate static let lowBits: UInt64 = 0x0101_0101_0101_0101

  /// Returns the properties of some bytes. *Complexity*: O(bytes), with one step for eight bytes.
  @inline(__always)
  static func content(of bytes: RawSpan) -> Content {
    var content = Content()
    var index = 0
    while index &+ 8 <= bytes.byteCount {
      content.add(bytes.word(at: index))
      index &+= 8
    }
    if index < bytes.byteCount {
      // The remaining bytes are padded with ones, which mark nothing.
      var rest: UInt64 = lowBits
      while index < bytes.byteCount {
        rest = rest << 8 | UInt64(bytes.byte(at: index))
        index &+= 1
      }
      content.add(rest)
    }
    return content
  }

  /// Returns the offset of the first zero byte from `start` on, or the number of bytes if there is none.
  @inline(__always)
  static func firstZero(in bytes: RawSpan, from start: Int) -> Int {
    var index = start
    while index &+ 8 <= bytes.byteCount {
      let word = UInt64(littleEndian: bytes.word(at: index))
      // The lowest marked byte is a zero; bytes above it may be marked by its borrow only.
      let marks = (word &- lowBits) & ~word & highBits
      if marks != 0 { return index &+ marks.trailingZeroBitCount / 8 }
      index &+= 8
    }
    while index < bytes.byteCount, bytes.byte(at: index) != 0 { index &+= 1 }
    return index
  }

  /// Returns whether two spans have the same bytes.
  static func areEqual(_ first: RawSpan, _ second: RawSpan) -> Bool {
    guard first.byteCount == second.byteCount else { return false }
    var index = 0
    while index &+ 8 <= first.byteCount {
      guard first.word(at: index) == second.word(at: index) else { return false }
      index &+= 8
    }
    while index < first.byteCount {
      guard first.byte(at: index) == second.byte(at: index) else { return false }
      index &+= 1
    }
    return true
  }
}

extension RawSpan {
  /// Returns the byte at `offset`. Stops the process if it is out of bounds, which the caller has checked.
  @inline(__always)
  func byte(at offset: Int) -> UInt8 {
    // Safety: the load checks the offset against the count, and every byte is a valid `UInt8`.
    unsafe unsafeLoad(fromByteOffset: offset, as: UInt8.self)
  }

  /// Returns the eight bytes from `offset` on, in the byte order of the machine.
  @inline(__always)
  func word(at offset: Int) -> UInt64 {
    // Safety: the load checks the offset against the count, and any eight bytes are a valid `UInt64`.
    unsafe unsafeLoadUnaligned(fromByteOffset: offset, as: UInt64.self)
  }
}

extension [UInt8] {
  /// The bytes as a span.
  @inline(__always)
  var rawSpan: RawSpan {
    // Safety: every byte of an array of bytes is initialized, as `bytes` requires.
    @_lifetime(borrow self)
    get { unsafe span.bytes }
  }
}

/// Decodes the types that a keyed container reads without a frame. Each method is a requirement of the protocol; the
/// generic one is that of the types of integers up to 64 bits, and is inlined into each. For wider ones, and for
/// optional values, the standard library has methods of its own, which a generic one would not replace.
extension KeyedDecoding {
  func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool {
    try read(key) { source, offset throws(ReadFailure) in try source.bool(&offset) }
  }

  func decode(_ type: String.Type, forKey key: Key) throws -> String {
    try read(key) { source, offset throws(ReadFailure) in try source.string(&offset) }
  }

  func decode(_ type: Double.Type, forKey key: Key) throws -> Double {
    try read(key) { source, offset throws(ReadFailure) in try source.double(&offset) }
  }

  func decode(_ type: Float.Type, forKey key: Key) throws -> Float {
    try read(key) { source, offset throws(ReadFailure) in try source.float(&offset) }
  }

  @inline(__always)
  func decode<Integer: FixedWidthInteger & Decodable>(_ type: Integer.Type, forKey key: Key) throws -> Integer {
    try read(key) { source, offset throws(ReadFailure) in try source.integer(&offset, as: Integer.self) }
  }

  func decode(_ type: Int128.Type, forKey key: Key) throws -> Int128 {
    try read(key) { source, offset throws(ReadFailure) in try source.integer(&offset, as: Int128.self) }
  }

  func decode(_ type: UInt128.Type, forKey key: Key) throws -> UInt128 {
    try read(key) { source, offset throws(ReadFailure) in try source.integer(&offset, as: UInt128.self) }
  }

  func decodeIfPresent(_ type: Bool.Type, forKey key: Key) throws -> Bool? {
    try readIfPresent(key) { source, offset throws(ReadFailure) in try source.bool(&offset) }
  }

  func decodeIfPresent(_ type: String.Type, forKey key: Key) throws -> String? {
    try readIfPresent(key) { source, offset throws(ReadFailure) in try source.string(&offset) }
  }

  func decodeIfPresent(_ type: Double.Type, forKey key: Key) throws -> Double? {
    try readIfPresent(key) { source, offset throws(ReadFailure) in try source.double(&offset) }
  }

  func decodeIfPresent(_ type: Float.Type, forKey key: Key) throws -> Float? {
    try readIfPresent(key) { source, offset throws(ReadFailure) in try source.float(&offset) }
  }

  func decodeIfPresent(_ type: Int.Type, forKey key: Key) throws -> Int? {
    try readIfPresent(key) { source, offset throws(ReadFailure) in try source.integer(&offset, as: Int.self) }
  }

  func decodeIfPresent(_ type: Int8.Type, forKey key: Key) throws -> Int8? {
    try readIfPresent(key) { source, offset throws(ReadFailure) in try source.integer(&offset, as: Int8.self) }
  }

  func decodeIfPresent(_ type: Int16.Type, forKey key: Key) throws -> Int16? {
    try readIfPresent(key) { source, offset throws(ReadFailure) in try source.integer(&offset, as: Int16.self) }
  }

  func decodeIfPresent(_ type: Int32.Type, forKey key: Key) throws -> Int32? {
    try readIfPresent(key) { source, offset throws(ReadFailure) in try source.integer(&offset, as: Int32.self) }
  }

  func decodeIfPresent(_ type: Int64.Type, forKey key: Key) throws -> Int64? {
    try readIfPresent(key) { source, offset throws(ReadFailure) in try source.integer(&offset, as: Int64.self) }
  }

  func decodeIfPresent(_ type: Int128.Type, forKey key: Key) throws -> Int128? {
    try readIfPresent(key) { source, offset throws(ReadFailure) in try source.integer(&offset, as: Int128.self) }
  }

  func decodeIfPresent(_ type: UInt.Type, forKey key: Key) throws -> UInt? {
    try readIfPresent(key) { source, offset throws(ReadFailure) in try source.integer(&offset, as: UInt.self) }
  }

  func decodeIfPresent(_ type: UInt8.Type, forKey key: Key) throws -> UInt8? {
    try readIfPresent(key) { source, offset throws(ReadFailure) in try source.integer(&offset, as: UInt8.self) }
  }

  func decodeIfPresent(_ type: UInt16.Type, forKey key: Key) throws -> UInt16? {
    try readIfPresent(key) { source, offset throws(ReadFailure) in try source.integer(&offset, as: UInt16.self) }
  }

  func decodeIfPresent(_ type: UInt32.Type, forKey key: Key) throws -> UInt32? {
    try readIfPresent(key) { source, offset throws(ReadFailure) in try source.integer(&offset, as: UInt32.self) }
  }

  func decodeIfPresent(_ type: UInt64.Type, forKey key: Key) throws -> UInt64? {
    try readIfPresent(key) { source, offset throws(ReadFailure) in try source.integer(&offset, as: UInt64.self) }
  }

  func decodeIfPresent(_ type: UInt128.Type, forKey key: Key) throws -> UInt128? {
    try readIfPresent(key) { source, offset throws(ReadFailure) in try source.integer(&offset, as: UInt128.self) }
  }
}

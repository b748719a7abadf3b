/// Encodes the types that a keyed container writes without a frame. Each method is a requirement of the protocol; the
/// generic one is that of the types of integers up to 64 bits, and is inlined into each. For wider ones, and for
/// optional values, the standard library has methods of its own, which a generic one would not replace.
extension KeyedEncoding {
  func encode(_ value: Bool, forKey key: Key) throws {
    try begin(key)
    state.pointee.output.write(value)
  }

  func encode(_ value: String, forKey key: Key) throws {
    try begin(key)
    state.pointee.output.write(value)
  }

  func encode(_ value: Double, forKey key: Key) throws {
    try begin(key)
    state.pointee.output.write(value)
  }

  func encode(_ value: Float, forKey key: Key) throws {
    try begin(key)
    state.pointee.output.write(value)
  }

  @inline(__always)
  func encode<Integer: FixedWidthInteger & Encodable>(_ value: Integer, forKey key: Key) throws {
    try begin(key)
    state.pointee.output.write(value)
  }

  func encode(_ value: Int128, forKey key: Key) throws {
    try begin(key)
    state.pointee.output.write(value)
  }

  func encode(_ value: UInt128, forKey key: Key) throws {
    try begin(key)
    state.pointee.output.write(value)
  }

  func encodeIfPresent(_ value: Bool?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) } else { try encodeAbsent(key) }
  }

  func encodeIfPresent(_ value: String?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) } else { try encodeAbsent(key) }
  }

  func encodeIfPresent(_ value: Double?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) } else { try encodeAbsent(key) }
  }

  func encodeIfPresent(_ value: Float?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) } else { try encodeAbsent(key) }
  }

  func encodeIfPresent(_ value: Int?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) } else { try encodeAbsent(key) }
  }

  func encodeIfPresent(_ value: Int8?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) } else { try encodeAbsent(key) }
  }

  func encodeIfPresent(_ value: Int16?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) } else { try encodeAbsent(key) }
  }

  func encodeIfPresent(_ value: Int32?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) } else { try encodeAbsent(key) }
  }

  func encodeIfPresent(_ value: Int64?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) } else { try encodeAbsent(key) }
  }

  func encodeIfPresent(_ value: Int128?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) } else { try encodeAbsent(key) }
  }

  func encodeIfPresent(_ value: UInt?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) } else { try encodeAbsent(key) }
  }

  func encodeIfPresent(_ value: UInt8?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) } else { try encodeAbsent(key) }
  }

  func encodeIfPresent(_ value: UInt16?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) } else { try encodeAbsent(key) }
  }

  func encodeIfPresent(_ value: UInt32?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) } else { try encodeAbsent(key) }
  }

  func encodeIfPresent(_ value: UInt64?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) } else { try encodeAbsent(key) }
  }

  func encodeIfPresent(_ value: UInt128?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) } else { try encodeAbsent(key) }
  }
}

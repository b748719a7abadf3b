extension RawSpan {
  /// A copy of the bytes as an array.
  @inline(__always)
  var copied: [UInt8] { unsafe withUnsafeBytes { bytes in unsafe [UInt8](bytes) } }
}

extension [UInt8] {
  /// Appends the bytes of a span.
  @inline(__always)
  mutating func append(_ span: RawSpan) {
    unsafe span.withUnsafeBytes { bytes in unsafe append(contentsOf: bytes) }
  }
}

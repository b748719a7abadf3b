/// A stored object or metadata, for formats that read several versions.
public struct StoredValue: Sendable {
  private let coder: ValueCoder
  private let shape: UInt32
  private let stored: [UInt8]
  private let offset: Int

  init(coder: ValueCoder, shape: UInt32, bytes: [UInt8], offset: Int) {
    self.coder = coder
    self.shape = shape
    stored = bytes
    self.offset = offset
  }

  /// Decodes the value as the type that its version had.
  public func decode<Object: Decodable>(_ type: Object.Type = Object.self) throws -> Object {
    unsafe try coder.decode(type, from: stored.span.bytes.extracting(offset..<stored.count), shape: shape)
  }

  /// The bytes as written by the coder.
  public var bytes: [UInt8] { Array(stored[offset...]) }
}

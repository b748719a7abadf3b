internal import Synchronization

/// A coder without a database, for measurements of coders.
///
/// It does what a collection does with an object: the shapes of the binary coder are numbered once, by a registry in
/// memory, and known from then on.
@_spi(Measurement)
public struct CoderProbe: Sendable {
  private let coder: ValueCoder

  /// Creates a coder of a kind.
  public init(_ kind: CoderKind) {
    coder = ValueCoder(kind, binary: BinaryCoder(shapes: ProbeShapes()))
  }

  /// Encodes a value, and returns its size in bytes. As in a write, the bytes are lent and not copied.
  public func encodedSize<Value: Encodable>(_ value: Value) throws -> Int {
    try coder.withEncoded(value) { _, bytes in bytes.byteCount }
  }

  /// Encodes a value, and returns the number of its shape and its bytes.
  public func encode<Value: Encodable>(_ value: Value) throws -> (shape: UInt32, bytes: [UInt8]) {
    try coder.encode(value)
  }

  /// Decodes a value that this probe encoded.
  public func decode<Value: Decodable>(_ type: Value.Type, _ row: (shape: UInt32, bytes: [UInt8])) throws -> Value {
    try unsafe coder.decode(type, from: row.bytes.span.bytes, shape: row.shape)
  }
}

/// A registry of shapes in memory.
private final class ProbeShapes: ShapeRegistry {
  private let shapes = Mutex<[Shape]>([])

  func number(of shape: Shape) throws -> UInt32 {
    shapes.withLock { shapes in
      if let index = shapes.firstIndex(of: shape) { return UInt32(index + 1) }
      shapes.append(shape)
      return UInt32(shapes.count)
    }
  }

  func shape(_ number: UInt32) throws -> Shape {
    let shape = shapes.withLock { number >= 1 && number <= $0.count ? $0[Int(number) - 1] : nil }
    if let shape { return shape }
    throw DatabaseError(.corruption, "shape \(number) does not exist")
  }
}

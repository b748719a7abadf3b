/// Varve's own coder, which stores what `Codable` types encode in the format of `ValueTag`.
///
/// There is one coder per database. It may be called from any thread, also from within the encoding or decoding of
/// another value.
///
/// # Special cases
/// - `Data`, `[UInt8]`, `UUID`, `Date`, `URL` and `Decimal` have encodings of their own.
/// - Dictionaries with `String` and `Int` keys are sorted. Sets, and dictionaries with other keys, encode themselves as
///   arrays in an order that changes from process to process, as in every other format.
/// - A key that is encoded twice in one container is an error.
/// - A type may be asked to encode or decode itself again, from the beginning, if it uses its containers in an unusual
///   order; see `EncodingState` and `DecodingState`. So its coding must have no side effects.
/// - A container must not be used after the call that it was made for, nor from another thread.
package final class BinaryCoder: Sendable {
  private let shapes: ShapeCache
  private let encoders = CorePool<EncodingCore> { $0.destroy() }
  private let decoders = CorePool<DecodingCore> { $0.destroy() }

  package init(shapes registry: any ShapeRegistry) { shapes = ShapeCache(registry) }

  /// Returns an encoder for one value, which is returned by `recycle` after its bytes were read.
  @inline(__always)
  func makeEncoder() -> EncodingCore { encoders.take() ?? EncodingCore(shapes) }

  @inline(__always)
  func recycle(_ encoder: EncodingCore) { encoders.give(encoder) }

  /// Decodes a value from bytes that were encoded with the given shape.
  @inline(__always)
  func decode<T: Decodable>(_ type: T.Type, from bytes: RawSpan, shape: UInt32) throws -> T {
    let core = decoders.take() ?? DecodingCore(shapes)
    defer { decoders.give(core) }
    return try unsafe bytes.withUnsafeBytes { try unsafe core.decode(type, ByteSource($0), shape: shape) }
  }

  /// Returns a lookup of shapes for one reader of rows.
  func makeShapeLookup() -> ShapeLookup { ShapeLookup(shapes) }

  /// Reads a value without its type.
  package func untyped(from bytes: RawSpan, shape: UInt32) throws -> UntypedValue {
    try unsafe bytes.withUnsafeBytes { try unsafe UntypedReader(ByteSource($0), shapes).value(shape: shape) }
  }
}

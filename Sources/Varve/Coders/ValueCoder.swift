internal import Foundation

/// Encodes and decodes the objects of a collection with the collection's coder.
///
/// It may be called from any thread. Every error is a `DatabaseError`: `.encodingFailed` or `.decodingFailed`, with the
/// error of the type as its cause and the coding path in its message, or the error of the shapes' registry. The caller
/// adds the key and the collection to it, and does not wrap it.
struct ValueCoder: Sendable {
  let kind: CoderKind
  private let isBinary: Bool
  private let binary: BinaryCoder

  /// Creates a coder. `binary` is the database's coder, whatever the kind.
  init(_ kind: CoderKind, binary: BinaryCoder) {
    self.kind = kind
    isBinary = kind == .binary
    self.binary = binary
  }

  /// Encodes a value. Its bytes are valid only during the call of `body`, which receives the number of its shape, or 0
  /// if it has none.
  @inline(__always)
  func withEncoded<T: Encodable, Result>(
    _ value: T, _ body: (_ shape: UInt32, _ bytes: RawSpan) throws -> Result
  ) throws -> Result {
    if !isBinary { return try withOtherEncoded(value, body) }
    let encoder = binary.makeEncoder()
    defer { binary.recycle(encoder) }
    let shape: UInt32
    do { shape = try encoder.encode(value) } catch { throw ValueCoder.failure(.encodingFailed, T.self, error) }
    return try unsafe body(shape, RawSpan(_unsafeBytes: encoder.content))
  }

  /// Encodes a value.
  func encode<T: Encodable>(_ value: T) throws -> (shape: UInt32, bytes: [UInt8]) {
    try withEncoded(value) { shape, bytes in unsafe (shape, bytes.withUnsafeBytes { unsafe [UInt8]($0) }) }
  }

  /// Decodes a value from bytes that were encoded with the given shape.
  @inline(__always)
  func decode<T: Decodable>(_ type: T.Type, from bytes: RawSpan, shape: UInt32) throws -> T {
    do {
      if isBinary { return try binary.decode(type, from: bytes, shape: shape) }
      return try decodeOther(type, from: bytes, shape: shape)
    } catch {
      throw ValueCoder.failure(.decodingFailed, type, error)
    }
  }

  /// Reads a value without its type, for tools.
  func untyped(from bytes: RawSpan, shape: UInt32) throws -> UntypedValue {
    if isBinary { return try binary.untyped(from: bytes, shape: shape) }
    if kind == .raw || kind.isOwn { return unsafe .bytes(bytes.withUnsafeBytes { unsafe [UInt8]($0) }) }
    return try decode(UntypedValue.self, from: bytes, shape: shape)
  }

  // MARK: - The other coders

  private func withOtherEncoded<T: Encodable, Result>(
    _ value: T, _ body: (_ shape: UInt32, _ bytes: RawSpan) throws -> Result
  ) throws -> Result {
    if case .own(let type) = kind { return try withOwnEncoded(value, by: type, body) }
    let data: Data
    do {
      switch kind {
      case .json: data = try FoundationCoders.json.encode(value)
      case .propertyList: data = try ValueCoder.propertyList(value)
      case .raw, .binary, .own: data = try ValueCoder.rawBytes(value)
      }
    } catch {
      throw ValueCoder.failure(.encodingFailed, T.self, error)
    }
    return try unsafe data.withUnsafeBytes { try unsafe body(0, RawSpan(_unsafeBytes: $0)) }
  }

  private func withOwnEncoded<T: Encodable, Result>(
    _ value: T, by coder: any ObjectCoder.Type, _ body: (_ shape: UInt32, _ bytes: RawSpan) throws -> Result
  ) throws -> Result {
    let bytes: [UInt8]
    do { bytes = try coder.encode(value) } catch { throw ValueCoder.failure(.encodingFailed, T.self, error) }
    return try unsafe body(0, bytes.span.bytes)
  }

  private func decodeOther<T: Decodable>(_ type: T.Type, from bytes: RawSpan, shape: UInt32) throws -> T {
    guard shape == 0 else {
      throw DatabaseError(.corruption, "a row of the coder \(kind) has a shape, and must have none")
    }
    if case .own(let coder) = kind {
      return try coder.decode(type, from: unsafe bytes.withUnsafeBytes { unsafe [UInt8]($0) })
    }
    // The bytes are copied because the decoded value may keep parts of them.
    let data = unsafe bytes.withUnsafeBytes { unsafe Data($0) }
    switch kind {
    case .json: return try FoundationCoders.jsonDecoder.decode(type, from: data)
    case .propertyList: return try FoundationCoders.propertyListDecoder.decode(type, from: data)
    case .raw, .binary, .own:
      if let value = data as? T { return value }
      if let value = [UInt8](data) as? T { return value }
      throw DatabaseError(.decodingFailed, "the coder raw gives Data or [UInt8], no \(type)")
    }
  }

  /// Encodes a property list. Foundation wraps any error of a type into an error without further information, so the
  /// inner error is thrown.
  private static func propertyList<T: Encodable>(_ value: T) throws -> Data {
    do {
      return try FoundationCoders.propertyList.encode(value)
    } catch EncodingError.invalidValue(let refused, let context) {
      throw context.underlyingError ?? EncodingError.invalidValue(refused, context)
    }
  }

  private static func rawBytes<T>(_ value: T) throws -> Data {
    if let data = value as? Data { return data }
    if let bytes = value as? [UInt8] { return Data(bytes) }
    throw DatabaseError(.encodingFailed, "the coder raw takes Data or [UInt8], no \(T.self)")
  }

  // MARK: - Errors

  @inline(never)
  private static func failure(_ code: DatabaseError.Code, _ type: Any.Type, _ error: any Error) -> any Error {
    if error is DatabaseError { return error }
    let message = description(of: error).map { ": \($0)" } ?? ""
    let verb = code == .encodingFailed ? "encoded" : "decoded"
    return DatabaseError(code, "a value of type \(name(of: type)) can't be \(verb)\(message)", cause: error)
  }

  /// Returns the name of a type with those of the types that contain it, such as `BookFormat.Instance`, but without its
  /// module.
  private static func name(of type: Any.Type) -> String {
    let whole = String(reflecting: type)
    guard !whole.contains("("), let end = whole.firstIndex(of: ".") else { return String(describing: type) }
    return String(whole[whole.index(after: end)...])
  }

  /// Returns the message of a coder's error with its coding path, or nil if it has none.
  private static func description(of error: any Error) -> String? {
    switch error {
    case EncodingError.invalidValue(_, let context): text(context.codingPath, context.debugDescription)
    case DecodingError.keyNotFound(let key, let context):
      text(context.codingPath + [key], "no such field exists")
    case DecodingError.typeMismatch(_, let context): text(context.codingPath, context.debugDescription)
    case DecodingError.valueNotFound(_, let context): text(context.codingPath, context.debugDescription)
    case DecodingError.dataCorrupted(let context): text(context.codingPath, context.debugDescription)
    default: nil
    }
  }

  private static func text(_ path: [any CodingKey], _ message: String) -> String {
    "\(PathKey.text(of: path)): \(message)"
  }
}

/// Foundation's coders, configured once. Any number of threads may use them, as long as they are not modified.
private enum FoundationCoders {
  static let json: JSONEncoder = {
    let encoder = JSONEncoder()
    // Keys are sorted so that equal values have equal bytes.
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    // A number of seconds is exact; ISO 8601 would lose fractions of a second.
    encoder.dateEncodingStrategy = .deferredToDate
    encoder.dataEncodingStrategy = .base64
    encoder.nonConformingFloatEncodingStrategy = .convertToString(
      positiveInfinity: "Infinity", negativeInfinity: "-Infinity", nan: "NaN")
    return encoder
  }()

  static let jsonDecoder: JSONDecoder = {
    let decoder = JSONDecoder()
    decoder.dateDecodingStrategy = .deferredToDate
    decoder.dataDecodingStrategy = .base64
    decoder.nonConformingFloatDecodingStrategy = .convertFromString(
      positiveInfinity: "Infinity", negativeInfinity: "-Infinity", nan: "NaN")
    return decoder
  }()

  static let propertyList: PropertyListEncoder = {
    let encoder = PropertyListEncoder()
    encoder.outputFormat = .binary
    return encoder
  }()

  static let propertyListDecoder = PropertyListDecoder()
}

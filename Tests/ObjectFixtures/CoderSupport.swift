import Foundation
import Synchronization
import Testing

@testable import Varve

/// A registry of shapes in memory, with the semantics of the catalog.
final class MemoryShapes: ShapeRegistry {
  private struct State {
    var shapes: [[UInt8]] = []
    var failure: (any Error)?
  }
  private let state = Mutex(State())

  init() {}

  /// Creates a registry with shapes that have the numbers 1, 2 and so on.
  init(_ fields: [[String]]) throws {
    let shapes = try fields.map { try Shape(fields: $0).bytes }
    state.withLock { $0.shapes = shapes }
  }

  func number(of shape: Shape) throws -> UInt32 {
    try state.withLock { state in
      if let failure = state.failure { throw failure }
      if let index = state.shapes.firstIndex(of: shape.bytes) { return UInt32(index + 1) }
      state.shapes.append(shape.bytes)
      return UInt32(state.shapes.count)
    }
  }

  func shape(_ number: UInt32) throws -> Shape {
    let bytes = state.withLock { number > 0 && number <= $0.shapes.count ? $0.shapes[Int(number) - 1] : nil }
    guard let bytes else { throw DatabaseError(.corruption, "there is no shape \(number)") }
    return try Shape(bytes)
  }

  var count: Int { state.withLock { $0.shapes.count } }

  /// The shapes as text, in the order of their numbers.
  var texts: [String] {
    get throws { try state.withLock { $0.shapes }.map { try Shape($0).description } }
  }

  /// Makes every later registration throw `error`; `nil` ends that.
  func fail(_ error: (any Error)?) { state.withLock { $0.failure = error } }
}

extension ValueCoder {
  /// Creates a coder with its own shapes.
  init(_ kind: CoderKind = .binary, _ shapes: MemoryShapes = MemoryShapes()) {
    self.init(kind, binary: BinaryCoder(shapes: shapes))
  }

  func decode<T: Decodable>(_ type: T.Type = T.self, _ row: (shape: UInt32, bytes: [UInt8])) throws -> T {
    try decode(type, from: unsafe row.bytes.span.bytes, shape: row.shape)
  }

  /// Returns the decoded encoding of a value.
  func copy<T: Codable>(_ value: T) throws -> T { try decode(T.self, try encode(value)) }

  /// Encodes a value, and decodes it as another type.
  func convert<Old: Encodable, New: Decodable>(_ value: Old, to type: New.Type) throws -> New {
    try decode(type, try encode(value))
  }

  func untyped(_ row: (shape: UInt32, bytes: [UInt8])) throws -> UntypedValue {
    try untyped(from: unsafe row.bytes.span.bytes, shape: row.shape)
  }

  /// Returns the JSON that a tool would print for a value.
  func json<T: Encodable>(_ value: T) throws -> String { try untyped(try encode(value)).json }
}

/// Returns the coder's error, which the database's error wraps, or `nil` if `body` throws none.
func coderFault(_ body: () throws -> Void) -> CoderFault? {
  do {
    try body()
    return nil
  } catch let error as DatabaseError {
    return CoderFault(error)
  } catch {
    Issue.record("not an error of the database: \(error)")
    return nil
  }
}

/// A coder's error in a form that tests can compare.
struct CoderFault: Equatable, CustomStringConvertible {
  enum Kind: Equatable { case keyNotFound, typeMismatch, valueNotFound, dataCorrupted, invalidValue, other }

  let code: DatabaseError.Code
  let kind: Kind
  let path: String

  init(_ code: DatabaseError.Code, _ kind: Kind, _ path: String) {
    self.code = code
    self.kind = kind
    self.path = path
  }

  init(_ error: DatabaseError) {
    code = error.code
    guard let cause = error.cause else {
      (kind, path) = (.other, "")
      return
    }
    switch cause {
    case DecodingError.keyNotFound(let key, let context):
      kind = .keyNotFound
      path = PathKey.text(of: context.codingPath + [key])
    case DecodingError.typeMismatch(_, let context):
      (kind, path) = (.typeMismatch, PathKey.text(of: context.codingPath))
    case DecodingError.valueNotFound(_, let context):
      (kind, path) = (.valueNotFound, PathKey.text(of: context.codingPath))
    case DecodingError.dataCorrupted(let context): (kind, path) = (.dataCorrupted, PathKey.text(of: context.codingPath))
    case EncodingError.invalidValue(_, let context):
      (kind, path) = (.invalidValue, PathKey.text(of: context.codingPath))
    default: (kind, path) = (.other, "")
    }
  }

  var description: String { "\(code) \(kind) at \(path)" }
}

/// Returns the bytes of hexadecimal digits; blanks are ignored.
func hex(_ text: String) -> [UInt8] {
  let digits = text.filter { $0 != " " }
  return stride(from: 0, to: digits.count, by: 2).compactMap { start in
    UInt8(digits.dropFirst(start).prefix(2), radix: 16)
  }
}

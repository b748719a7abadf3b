import Foundation

@testable import Varve
@testable import VarveInspection

/// The target for values of the binary coder.
///
/// The input is: number of shapes (1 byte, of which three bits count), each shape with its size (1) and its bytes; the
/// number of the row's shape (1); and the row, as the binary coder writes it.
///
/// The row is read without a type and as each of several types, and is moved to another catalog and back.
enum ValueTarget {
  static func read(_ input: RawSpan) throws {
    guard let (shapes, shape, offset) = head(input) else { throw DatabaseError(.corruption, "the input ends early") }
    let row = input.extracting(offset..<input.byteCount)
    let coder = BinaryCoder(shapes: shapes)
    let values = ValueCoder(.binary, binary: coder)
    for type in ValueTypes.all { try read(row, shape, as: type, values) }
    do {
      _ = try values.decode(UntypedValue.self, from: row, shape: shape)
    } catch let error as DatabaseError {
      try check(error)
    }
    try move(row.copied, shape, shapes)
    let value = try coder.untyped(from: row, shape: shape)
    try require(!value.json.isEmpty, "a value without a text")
  }

  private static func head(_ input: RawSpan) -> (FuzzShapes, shape: UInt32, offset: Int)? {
    var offset = 0
    func next() -> Int? {
      guard offset < input.byteCount else { return nil }
      defer { offset += 1 }
      return Int(Varint.byte(input, offset))
    }
    guard let count = next() else { return nil }
    let shapes = FuzzShapes()
    for _ in 0..<(count & 7) {
      guard let size = next(), size <= input.byteCount - offset else { return nil }
      shapes.add(input.extracting(offset..<(offset + size)).copied)
      offset += size
    }
    guard let shape = next() else { return nil }
    return (shapes, UInt32(shape), offset)
  }

  /// Checks that a value that a type reads and writes again is read as the same value.
  private static func read<T: Codable>(
    _ row: RawSpan, _ shape: UInt32, as type: T.Type, _ coder: ValueCoder
  ) throws {
    let value: T
    do {
      value = try coder.decode(type, from: row, shape: shape)
    } catch let error as DatabaseError {
      return try check(error)
    }
    // The coder has its own shapes, because those of the input may be damaged or belong to other rows.
    let fresh = ValueCoder(.binary, binary: BinaryCoder(shapes: FuzzShapes()))
    let first = try objectsAgain { try fresh.encode(value) }
    let copy = try objectsAgain { try unsafe fresh.decode(type, from: first.bytes.span.bytes, shape: first.shape) }
    let second = try objectsAgain { try fresh.encode(copy) }
    try require(first == second, "\(type): \(value) changed when it was written again")
  }

  /// Checks that a value has the same text after it was moved into another catalog.
  private static func move(_ row: [UInt8], _ shape: UInt32, _ shapes: FuzzShapes) throws {
    let here = InspectedCoding(shapes)
    let portable: PortableValue
    do {
      portable = try here.portable(row[...], shape: shape, version: nil, coder: .binary)
    } catch let error as DatabaseError {
      return try check(error)
    }
    let other = FuzzShapes()
    let there = InspectedCoding(other)
    let moved = try objectsAgain { try there.stored(portable, coder: .binary) }
    guard let text = try? here.json(row[...], shape: shape, coder: .binary) else { return }
    let again = try objectsAgain { try there.json(moved.bytes[...], shape: moved.shape, coder: .binary) }
    try require(again == text, "a moved value is \(again ?? "nothing"), and was \(text)")
  }

  private static func check(_ error: DatabaseError) throws {
    switch error.code {
    case .corruption, .decodingFailed, .unsupportedVersion: break
    default: throw FuzzFailure("an error that no bytes may lead to: \(error)")
    }
  }
}

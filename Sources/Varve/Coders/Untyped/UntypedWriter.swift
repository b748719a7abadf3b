internal import Foundation

/// Writes values without their types in the format of `ValueTag`, for tools that import rows. `UntypedReader` reads
/// them.
///
/// Records inside a value are written as maps. So no shape is needed for each set of fields that some row has, and a
/// type that decodes itself from a record also accepts a map.
package struct UntypedWriter: ~Copyable {
  private var buffer = CodingBuffer()

  /// Returns the bytes of a record's fields, in the order of its shape. A nil stands for a field that the record does
  /// not have.
  ///
  /// Throws `.encodingFailed` for a value that is nested too deeply or is not valid for its kind, and `.valueTooLong`.
  package static func bytes(ofFields fields: [UntypedValue?]) throws -> [UInt8] {
    var writer = UntypedWriter()
    for field in fields {
      guard let field else {
        writer.buffer.append(byte: ValueTag.absent)
        continue
      }
      try writer.write(field, depth: 2)
    }
    return try writer.finished()
  }

  /// Returns the bytes of one value. Throws as `bytes(ofFields:)`.
  package static func bytes(of value: UntypedValue) throws -> [UInt8] {
    var writer = UntypedWriter()
    try writer.write(value, depth: 1)
    return try writer.finished()
  }

  private init() {}

  private func finished() throws -> [UInt8] {
    guard buffer.count <= CoderLimits.valueSizeMaximum else {
      throw DatabaseError(
        .valueTooLong, "the value has \(buffer.count) bytes; at most \(CoderLimits.valueSizeMaximum) are possible")
    }
    return buffer.bytes
  }

  private mutating func write(_ value: UntypedValue, depth: Int) throws {
    guard CoderLimits.hasRoom(atDepth: depth) else {
      throw DatabaseError(.encodingFailed, CoderLimits.reason(atDepth: depth))
    }
    switch value {
    case .null: buffer.append(byte: ValueTag.null)
    case .bool(let value): buffer.write(value)
    case .integer(let value): buffer.write(wide: value)
    case .unsigned(let value): buffer.write(wideUnsigned: value)
    case .float(let value): buffer.write(value)
    case .double(let value): buffer.write(value)
    case .string(let value): buffer.write(value)
    case .bytes(let value): buffer.write(value)
    case .date(let value): buffer.write(Date(timeIntervalSinceReferenceDate: value))
    case .url(let value): buffer.write(try Self.checked(URL(string: value), value, "a URL"))
    case .uuid(let value): buffer.write(try Self.checked(UUID(uuidString: value), value, "a UUID"))
    case .decimal(let value):
      buffer.write(value == "NaN" ? .nan : try Self.checked(Decimal(string: value, locale: nil), value, "a decimal"))
    case .array(let values):
      let start = buffer.count
      for value in values { try write(value, depth: depth + 1) }
      buffer.writeArrayHeader(values.count, shape: nil, at: start, size: 0)
    case .record(let fields): try write(fields, depth: depth)
    }
  }

  /// Writes a map, with its entries ascending by the bytes of the names as the format requires.
  private mutating func write(_ fields: [UntypedValue.Member], depth: Int) throws {
    let sorted = fields.sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
    for (field, next) in zip(sorted, sorted.dropFirst()) where field.name.utf8.elementsEqual(next.name.utf8) {
      throw DatabaseError(.encodingFailed, "a record has two fields \"\(field.name)\"")
    }
    let start = buffer.count
    for field in sorted {
      buffer.write(field.name)
      try write(field.value, depth: depth + 1)
    }
    buffer.writeMapHeader(sorted.count, at: start, size: 0)
  }

  private static func checked<Value>(_ value: Value?, _ text: String, _ what: String) throws -> Value {
    if let value { return value }
    throw DatabaseError(.encodingFailed, "\"\(text)\" is not \(what)")
  }
}

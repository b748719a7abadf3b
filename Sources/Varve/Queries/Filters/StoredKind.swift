internal import Foundation

/// A kind of field whose key can be read from the stored row.
struct StoredKind: Sendable {
  /// Appends the key of the stored value at an offset. Throws if the value is not of the type.
  let append: @Sendable (ByteSource, inout Int, inout KeyEncoder) throws -> Void
  var isOptional = false
  /// Whether the field is a list, in which case `append` is for its elements.
  var isList = false

  /// Returns the kind of a field type, or nil for a type whose rows have to be decoded.
  static func of(_ type: Any.Type) -> StoredKind? {
    if let optional = type as? any OptionalValue.Type {
      guard var kind = of(optional.wrapped), !kind.isOptional else { return nil }
      kind.isOptional = true
      return kind
    }
    if let list = type as? any ListValue.Type {
      guard var kind = of(list.element), !kind.isOptional, !kind.isList else { return nil }
      kind.isList = true
      return kind
    }
    return plain(type)
  }

  private static func plain(_ type: Any.Type) -> StoredKind? {
    switch type {
    case is String.Type: text
    case is Int.Type: integer(Int.self)
    case is Int8.Type: integer(Int8.self)
    case is Int16.Type: integer(Int16.self)
    case is Int32.Type: integer(Int32.self)
    case is Int64.Type: integer(Int64.self)
    case is UInt.Type: integer(UInt.self)
    case is UInt8.Type: integer(UInt8.self)
    case is UInt16.Type: integer(UInt16.self)
    case is UInt32.Type: integer(UInt32.self)
    case is UInt64.Type: integer(UInt64.self)
    case is Double.Type:
      StoredKind(append: { source, offset, encoder in try encoder.append(double: try source.double(&offset)) })
    case is Bool.Type:
      StoredKind(append: { source, offset, encoder in encoder.append(bool: try source.bool(&offset)) })
    case is Date.Type:
      StoredKind(append: { source, offset, encoder in try encoder.append(date: try source.date(&offset)) })
    case is UUID.Type:
      StoredKind(append: { source, offset, encoder in encoder.append(uuid: try source.uuid(&offset)) })
    default: (type as? any (KeyCodable & RawRepresentable).Type).flatMap { raw($0) }
    }
  }

  private static var text: StoredKind {
    StoredKind(append: { source, offset, encoder in try source.appendText(&offset, to: &encoder) })
  }

  private static func integer<Value: FixedWidthInteger & KeyCodable>(_ type: Value.Type) -> StoredKind {
    StoredKind(append: { source, offset, encoder in
      try encoder.append(integer: try source.integer(&offset, as: Value.self))
    })
  }

  /// Returns the kind of a type that is coded as its raw value, such as an enum.
  private static func raw<Value: KeyCodable & RawRepresentable>(_ type: Value.Type) -> StoredKind? {
    func kind<Raw>(_ read: @escaping @Sendable (ByteSource, inout Int) throws -> Raw) -> StoredKind? {
      StoredKind(append: { source, offset, encoder in
        guard let raw = try read(source, &offset) as? Value.RawValue, let value = Value(rawValue: raw) else {
          throw ReadFailure.doesNotFit
        }
        try value.encodeKey(into: &encoder)
      })
    }
    return switch Value.RawValue.self {
    case is String.Type: kind { source, offset in try source.string(&offset) }
    case is Int.Type: kind { source, offset in try source.integer(&offset, as: Int.self) }
    default: nil
    }
  }
}

extension ByteSource {
  /// Appends a stored string as a key, without creating a `String`.
  fileprivate func appendText(_ offset: inout Int, to encoder: inout KeyEncoder) throws(ReadFailure) {
    let tag = try byte(offset)
    let size: Int
    if tag >= ValueTag.shortString && tag < ValueTag.mediumInteger {
      offset &+= 1
      size = Int(tag & 0x3f)
    } else if tag == ValueTag.string {
      offset &+= 1
      size = try count(&offset, sizeMinimum: 1)
    } else {
      return encoder.append(string: try string(&offset))
    }
    unsafe try withBytes(&offset, size: size) { unsafe encoder.append(utf8: RawSpan(_unsafeBytes: $0)) }
  }
}

private protocol OptionalValue {
  static var wrapped: Any.Type { get }
}

extension Optional: OptionalValue {
  fileprivate static var wrapped: Any.Type { Wrapped.self }
}

private protocol ListValue {
  static var element: Any.Type { get }
}

extension Array: ListValue {
  fileprivate static var element: Any.Type { Element.self }
}

extension Set: ListValue {
  fileprivate static var element: Any.Type { Element.self }
}

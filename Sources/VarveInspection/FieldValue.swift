public import Foundation
internal import Varve

/// The value of a field of an object that is created without its type, for tools that import from other formats.
///
/// The program decodes a field as the type that it declares, with the conversions of the coder `binary`: integers of
/// all widths, a text as a URL or as an enum with a raw value, and a number as a decimal.
public indirect enum FieldValue: Hashable, Sendable {
  /// An optional without a value inside an array or a map. A missing field of an object is absent instead.
  case null
  /// A Boolean.
  case bool(Bool)
  /// An integer of any width.
  case integer(Int128)
  /// A floating-point number.
  case double(Double)
  /// A text.
  case text(String)
  /// `Data`, or an array of bytes.
  case data([UInt8])
  /// A date.
  case date(Date)
  /// A UUID.
  case uuid(UUID)
  /// An array or a set.
  case array([FieldValue])
  /// A dictionary with texts for keys, or a value with fields.
  case map([String: FieldValue])

  fileprivate var untyped: UntypedValue {
    switch self {
    case .null: .null
    case .bool(let value): .bool(value)
    case .integer(let value): .integer(value)
    case .double(let value): .double(value)
    case .text(let value): .string(value)
    case .data(let value): .bytes(value)
    case .date(let value): .date(value.timeIntervalSinceReferenceDate)
    case .uuid(let value): .uuid(value.uuidString)
    case .array(let values): .array(values.map(\.untyped))
    case .map(let fields): .record(fields.map { UntypedValue.Member($0.key, $0.value.untyped) })
    }
  }
}

extension PortableValue {
  /// Creates an object of the coder `binary` from its fields; the value `nil` stands for a field that the object lacks.
  ///
  /// All objects of a collection should have the same field names in the same order, so that the catalog stores them
  /// only once.
  ///
  /// Throws `.invalidArgument` if two fields have the same name or there are no fields, `.encodingFailed` for values
  /// nested too deeply, `.valueTooLong`. Complexity: O(size of the values).
  public init(fields: [(name: String, value: FieldValue?)], version: String? = nil) throws {
    let names = fields.map(\.name)
    // As the coder does for a type with that many fields, this writes a map, which has no shape.
    if (try? Shape(fields: names)) == nil, Set(names).count == names.count, !names.isEmpty {
      let members = fields.compactMap { field in
        field.value.map { UntypedValue.Member(field.name, $0.untyped) }
      }
      self.init(version: version, bytes: try UntypedWriter.bytes(of: .record(members)))
      return
    }
    _ = try Shape(fields: names)
    self.init(
      version: version, shape: names, bytes: try UntypedWriter.bytes(ofFields: fields.map { $0.value?.untyped }))
  }
}

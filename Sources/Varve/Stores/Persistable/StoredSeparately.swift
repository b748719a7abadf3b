/// A property that is omitted when its type is encoded, and nil when it is decoded. A ``Persistable`` item uses it for
/// its metadata, which is stored separately.
///
/// ```swift
/// struct Photo: Persistable {
///   static let collection = "photos"
///   var id: UUID
///   var name: String
///   @StoredSeparately var metadata: Size? = nil
/// }
/// ```
///
/// It works with the `Codable` conformance that the compiler synthesizes; a type that implements its own omits the
/// property itself.
@propertyWrapper
public struct StoredSeparately<Value: Codable & Sendable>: Codable, Sendable {
  /// The value of the property.
  public var wrappedValue: Value?

  /// Creates a property with a value.
  public init(wrappedValue: Value?) { self.wrappedValue = wrappedValue }

  /// Creates a property without a value, whatever is encoded.
  public init(from decoder: any Decoder) throws { wrappedValue = nil }

  /// Encodes nothing.
  public func encode(to encoder: any Encoder) throws {}
}

extension StoredSeparately: Equatable where Value: Equatable {}
extension StoredSeparately: Hashable where Value: Hashable {}

// The compiler's `Codable` implementation selects these two methods by the property's type, so that no field is encoded
// at all.

extension KeyedEncodingContainer {
  /// Encodes nothing.
  public mutating func encode<Value>(_ value: StoredSeparately<Value>, forKey key: Key) throws {}
}

extension KeyedDecodingContainer {
  /// Returns a property without a value, whatever is encoded.
  public func decode<Value>(_ type: StoredSeparately<Value>.Type, forKey key: Key) throws -> StoredSeparately<Value> {
    StoredSeparately(wrappedValue: nil)
  }
}

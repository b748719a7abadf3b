/// A property that is left out when its type is encoded, and nil when it is decoded: where a ``Persistable`` item has
/// its metadata, which is stored beside it.
///
/// ```swift
/// struct Photo: Persistable {
///   static let collection = "photos"
///   var id: UUID
///   var name: String
///   @KeptApart var metadata: Size? = nil
/// }
/// ```
///
/// It works with the `Codable` that the compiler writes; a type that writes its own leaves the property out itself.
@propertyWrapper
public struct KeptApart<Value: Codable & Sendable>: Codable, Sendable {
  /// The value.
  public var wrappedValue: Value?

  /// A value.
  public init(wrappedValue: Value?) { self.wrappedValue = wrappedValue }

  /// Nil, whatever is encoded.
  public init(from decoder: any Decoder) throws { wrappedValue = nil }

  /// Encodes nothing.
  public func encode(to encoder: any Encoder) throws {}
}

extension KeptApart: Equatable where Value: Equatable {}
extension KeptApart: Hashable where Value: Hashable {}

// The compiler's `Codable` finds these two, because they are of the property's type: so there is no field at all.

extension KeyedEncodingContainer {
  /// Encodes nothing.
  public mutating func encode<Value>(_ value: KeptApart<Value>, forKey key: Key) throws {}
}

extension KeyedDecodingContainer {
  /// Nil, whatever is encoded.
  public func decode<Value>(_ type: KeptApart<Value>.Type, forKey key: Key) throws -> KeptApart<Value> {
    KeptApart(wrappedValue: nil)
  }
}

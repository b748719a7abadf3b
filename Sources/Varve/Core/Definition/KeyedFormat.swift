internal import Foundation

/// A format whose instances don't know their identifiers: each call names the one that it means, as in a dictionary.
///
/// ```swift
/// try await thumbnails.persist(png, for: id)
/// ```
///
/// A program that needs neither versions nor a coder of its own takes ``ValueFormat``, which
/// ``Store/init(of:key:metadata:in:collection:)`` makes.
public protocol KeyedFormat<Instance, Identifier>: RowFormat {
  /// What is stored, as the program uses it now.
  override associatedtype Instance
  /// What instances are found by.
  override associatedtype Identifier
}

/// The format of values of one type with keys of one type. A collection that is defined already keeps its coder and its
/// storage. One that is not gets the coder of the options, or where the values are `Data`, `.raw`: the bytes are stored
/// as they are then, with nothing around them but the header of a row.
public struct ValueFormat<Key: KeyCodable, Value: Codable & Sendable, Beside: Codable & Sendable>:
  KeyedFormat, AdoptingFormat
{
  /// The type of the values.
  public typealias Instance = Value
  /// The type of the keys.
  public typealias Identifier = Key
  /// The type of the metadata; `Never` where there are none.
  public typealias Metadata = Beside
  /// None.
  public typealias Version = SingleVersion

  /// A format.
  public init() {}

  /// `.raw` where the values are `Data`, and else `.binary`.
  public static var coder: CoderKind { firstCoder ?? .binary }

  static var firstCoder: CoderKind? { Value.self == Data.self ? .raw : nil }
}

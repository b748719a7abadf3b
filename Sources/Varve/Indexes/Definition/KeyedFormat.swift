internal import Foundation

/// A format whose instances don't know their identifiers: each call specifies the identifier, as in a dictionary.
///
/// ```swift
/// try await thumbnails.persist(png, for: id)
/// ```
///
/// A program that needs neither versions nor a coder of its own uses ``ValueFormat``, which
/// ``Store/init(of:key:metadata:in:collection:)`` makes.
public protocol KeyedFormat<Instance, Identifier>: RowFormat {
  /// The type that is stored, as the program uses it now.
  override associatedtype Instance
  /// The type of the identifiers by which instances are found.
  override associatedtype Identifier
}

/// A format of values of one type with keys of one type.
///
/// A collection that is defined already keeps its coder and its storage. Otherwise it gets the coder of the options, or
/// `.raw` if the values are `Data`: the bytes are then stored as they are, with only the header of a row.
public struct ValueFormat<Key: KeyCodable, Value: Codable & Sendable, Beside: Codable & Sendable>:
  KeyedFormat, AdoptingFormat
{
  /// The type of the values.
  public typealias Instance = Value
  /// The type of the keys.
  public typealias Identifier = Key
  /// The type of the metadata, or `Never` if there are none.
  public typealias Metadata = Beside
  /// The format has no versions.
  public typealias Version = SingleVersion

  /// Creates a format.
  public init() {}

  /// The coder: `.raw` if the values are `Data`, and `.binary` otherwise.
  public static var coder: CoderKind { firstCoder ?? .binary }

  static var firstCoder: CoderKind? { Value.self == Data.self ? .raw : nil }
}

public import Varve

/// A coder, identified by its name as the tool prints it.
///
/// The coder is one of Varve's or a program's own; the type of the latter need not exist in this process.
public struct CoderName: Hashable, Sendable, CustomStringConvertible {
  /// `raw`, `binary`, `json`, `propertyList`, or the stored name of an `ObjectCoder`.
  public let name: String

  /// Creates the identifier of the coder with a name.
  public init(_ name: String) { self.name = name }

  /// Creates the identifier of one of Varve's coders.
  public init(_ kind: CoderKind) { name = kind.description }

  /// The kind of the coder, or `nil` if it is not one of Varve's.
  public var kind: CoderKind? { CoderKind.allCases.first { $0.description == name } }

  /// The coder of the metadata that accompanies its objects.
  public var ofMetadata: CoderName { kind.map { CoderName($0.ofMetadata) } ?? self }

  /// The name.
  public var description: String { name }
}

extension CoderName {
  /// Uninterpreted bytes.
  public static let raw = CoderName(CoderKind.raw)
  /// Varve's binary coder.
  public static let binary = CoderName(CoderKind.binary)
  /// JSON.
  public static let json = CoderName(CoderKind.json)
  /// Property lists.
  public static let propertyList = CoderName(CoderKind.propertyList)
}

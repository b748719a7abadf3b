public import Varve

/// A coder by its name, as the tool prints it: one of Varve's, or a program's own, whose type need not exist here.
public struct CoderName: Hashable, Sendable, CustomStringConvertible {
  /// `raw`, `binary`, `json`, `propertyList`, or the stored name of an `ObjectCoder`.
  public let name: String

  /// The coder with a name.
  public init(_ name: String) { self.name = name }

  /// The name of a coder.
  public init(_ kind: CoderKind) { name = kind.description }

  /// The coder, if it is one of Varve's.
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

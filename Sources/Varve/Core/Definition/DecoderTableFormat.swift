/// A format whose versions are decoded by a closure each.
///
/// ```swift
/// static let decoders: Decoders = [
///   .first: { try Book($0.decode(BookV1.self)) },
///   .second: { try $0.decode() },
/// ]
/// ```
///
/// The same as the switch of ``StoreFormat/decode(_:version:)``, and weaker in one thing: a version that is forgotten
/// compiles. It is found when the format is defined, which throws `.invalidDefinition` with its name.
public protocol DecoderTableFormat: StoreFormat {
  /// A closure for each version.
  static var decoders: Decoders { get }
}

extension DecoderTableFormat {
  /// What makes an instance of a row, by the version that wrote it.
  public typealias Decoders = [Version: @Sendable (StoredValue) throws -> Instance]

  /// The instance, by the closure of its version.
  public static func decode(_ stored: StoredValue, version: Version) throws -> Instance {
    guard let decode = decoders[version] else {
      throw DatabaseError(.invalidDefinition, "\(Self.self) has no decoder for version \"\(version.rawValue)\"")
    }
    return try decode(stored)
  }

  /// Throws `.invalidDefinition` with the versions that have no closure.
  static func checkDecoders() throws {
    let decoders = decoders
    let missing = Version.allCases.filter { decoders[$0] == nil }.map { "\"\($0.rawValue)\"" }
    guard missing.isEmpty else {
      throw DatabaseError(
        .invalidDefinition, "\(Self.self) has no decoder for \(missing.joined(separator: ", "))", collection: collection
      )
    }
  }
}

extension DecoderTableFormat where Version == SingleVersion {
  /// The instance, by the one closure.
  public static func decode(_ stored: StoredValue, version: SingleVersion) throws -> Instance {
    guard let decode = decoders[version] else {
      throw DatabaseError(.invalidDefinition, "\(Self.self) has no decoder")
    }
    return try decode(stored)
  }
}

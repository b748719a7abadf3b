/// A format with a closure for each version that decodes it.
///
/// ```swift
/// static let decoders: Decoders = [
///   .first: { try Book($0.decode(BookV1.self)) },
///   .second: { try $0.decode() },
/// ]
/// ```
///
/// It replaces the switch in ``StoreFormat/decode(_:version:)``, and is weaker in one respect: a program with a missing
/// version compiles. The omission is detected when the format is defined, which throws `.invalidDefinition` with the
/// version's name.
public protocol DecoderTableFormat: StoreFormat {
  /// The closures, one for each version.
  static var decoders: Decoders { get }
}

extension DecoderTableFormat {
  /// The closures that make an instance from a row, by the version that wrote the row.
  public typealias Decoders = [Version: @Sendable (StoredValue) throws -> Instance]

  /// Decodes the instance with the closure of its version.
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
  /// Decodes the instance with the only closure.
  public static func decode(_ stored: StoredValue, version: SingleVersion) throws -> Instance {
    guard let decode = decoders[version] else {
      throw DatabaseError(.invalidDefinition, "\(Self.self) has no decoder")
    }
    return try decode(stored)
  }
}

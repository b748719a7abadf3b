import Varve

/// The key of a package, with its version because an index may contain several versions of a package.
struct PackageID: KeyCodable, Codable, Comparable {
  var name: String
  var version: String

  static var keyType: KeyType { .compound(.string, .string) }

  func encodeKey(into encoder: inout KeyEncoder) throws {
    try encoder.encode(name)
    try encoder.encode(version)
  }

  static func decodeKey(from decoder: inout KeyDecoder) throws -> PackageID {
    PackageID(name: try decoder.decode(), version: try decoder.decode())
  }

  static func < (left: PackageID, right: PackageID) -> Bool {
    (left.name, left.version) < (right.name, right.version)
  }
}

/// A package of a Debian index, as the database stores it.
struct DebianPackage: Codable, Hashable, Identifiable, Sendable {
  /// The metadata, which is read without the package.
  struct Metadata: Codable, Hashable, Sendable {
    var architecture: String?
    /// The priority of the package, from `required` to `optional`.
    var priority: String?
  }

  let id: PackageID
  var maintainer: String?
  var section: String?
  /// The size of the installed package in KiB.
  var installedSize: Int?
  /// The packages that must be installed with it: each is a name, or several alternatives, with version bounds.
  var dependencies: [String] = []
  /// The lines of all other fields, unchanged.
  var otherFields = ""
  @StoredSeparately var metadata: Metadata?
}

/// The format that packages are stored in, with their indexes.
struct PackageFormat: StoreFormat {
  typealias Instance = DebianPackage
  typealias Metadata = DebianPackage.Metadata

  enum Version: String, CaseIterable, Sendable { case first = "2026-11-22" }

  let byMaintainer = Index(\.maintainer)
  let bySection = Index(\.section, \.installedSize, counted: true)
  let byName = Index({ $0.id.name })

  static let collection = "packages"
  static let currentVersion = Version.first
  static var metadataPath: (any WritableKeyPath<DebianPackage, Metadata?> & Sendable)? { \DebianPackage.metadata }

  static func decode(_ stored: StoredValue, version: Version) throws -> DebianPackage {
    switch version {
    case .first: try stored.decode()
    }
  }

  static func decodeMetadata(_ stored: StoredValue, version: Version) throws -> Metadata {
    switch version {
    case .first: try stored.decode()
    }
  }
}

// MARK: - Parsing

extension DebianPackage {
  /// Creates the package that a stanza describes, or `nil` if it has no name or no version.
  ///
  /// A field is a line and the following lines that begin with a blank. If a field occurs twice, the first counts, and
  /// the second stays among the other fields.
  init?(stanza: ArraySlice<UInt8>) {
    var values: [Field: String] = [:]
    var others: [UInt8] = []
    var start = stanza.startIndex
    while start < stanza.endIndex {
      var end = start
      repeat {
        end = stanza[end...].firstIndex(of: 0x0a).map { $0 + 1 } ?? stanza.endIndex
      } while end < stanza.endIndex && Self.isBlank(stanza[end])
      let lines = stanza[start..<end]
      if let field = Field.allCases.first(where: { lines.starts(with: $0.rawValue.utf8) }), values[field] == nil {
        values[field] = Self.text(lines.dropFirst(field.rawValue.utf8.count))
      } else {
        others += lines
      }
      start = end
    }
    guard let name = values[.name], let version = values[.version], !name.isEmpty, !version.isEmpty else { return nil }
    id = PackageID(name: name, version: version)
    maintainer = values[.maintainer]
    section = values[.section]
    // A value larger than any disk is not a size.
    installedSize = values[.installedSize].flatMap { UInt32($0) }.map { Int($0) }
    dependencies = Self.list(values[.dependencies] ?? "")
    otherFields = String(decoding: others, as: UTF8.self)
    metadata = Metadata(architecture: values[.architecture], priority: values[.priority])
  }

  private enum Field: String, CaseIterable {
    case name = "Package:"
    case version = "Version:"
    case architecture = "Architecture:"
    case maintainer = "Maintainer:"
    case dependencies = "Depends:"
    case section = "Section:"
    case priority = "Priority:"
    case installedSize = "Installed-Size:"
  }

  private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

  private static func text(_ bytes: ArraySlice<UInt8>) -> String {
    func isOutside(_ byte: UInt8) -> Bool { isBlank(byte) || byte == 0x0a }
    let inner = bytes.drop(while: isOutside)
    let end = inner.lastIndex { !isOutside($0) }.map { $0 + 1 } ?? inner.startIndex
    return String(decoding: inner[..<end], as: UTF8.self)
  }

  private static func list(_ text: String) -> [String] {
    text.utf8.split(separator: 0x2c).map { Self.text(ArraySlice($0)) }.filter { !$0.isEmpty }
  }
}

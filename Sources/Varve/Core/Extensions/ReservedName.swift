/// Names of extensions that begin with "varve.": of those that the database registers itself.
enum ReservedName {
  static let prefix = "varve."

  static func isReserved(_ name: String) -> Bool { name.hasPrefix(prefix) }
}

/// An extension that the database registers itself, under a reserved name.
protocol ReservedExtension: DatabaseExtension {}

/// The names of extensions that the database registers itself: they begin with "varve.".
enum ReservedName {
  static let prefix = "varve."

  static func isReserved(_ name: String) -> Bool { name.hasPrefix(prefix) }
}

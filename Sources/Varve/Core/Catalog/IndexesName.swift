/// The name under which the extension of a collection's indexes is registered.
package enum IndexesName {
  private static let prefix = ReservedName.prefix + "indexes."

  /// Returns the name for a collection. Characters that are not allowed in names of extensions are percent-encoded. The
  /// name is on disk and must never change.
  package static func name(for collection: String) -> String {
    var name = prefix
    for character in collection {
      switch character {
      case "%": name += "%25"
      case "=": name += "%3D"
      case "\u{1F}": name += "%1F"
      default: name.append(character)
      }
    }
    return Name.composed(name)
  }
}

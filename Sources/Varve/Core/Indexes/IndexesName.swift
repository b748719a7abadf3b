/// What the extension of a collection's indexes is registered as.
package enum IndexesName {
  private static let prefix = ReservedName.prefix + "indexes."

  /// The name for a collection: signs that names of extensions can't have are written as `%` and their number. On disk:
  /// never change.
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

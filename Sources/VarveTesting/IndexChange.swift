/// An index that a snapshot has in another way than the present definition.
public struct IndexChange: Hashable, Sendable, CustomStringConvertible {
  /// What has changed.
  public enum Kind: String, Hashable, Sendable {
    /// The snapshot does not have it: it is built when a database of that version is opened.
    case added
    /// The definition does not have it: its entries are dropped.
    case removed
    /// Its definition is another one: it is built again, and throws `.notReady` until it is.
    case redefined
  }

  /// What has changed.
  public let kind: Kind
  /// The collection, by its present name.
  public let collection: String
  /// The name of the index.
  public let index: String
  /// Its definition in the snapshot: kind, types, fields and condition, as the catalog has them; nil where it has none.
  public let stored: String?
  /// Its present definition; nil where there is none.
  public let present: String?

  /// `index "title" of "books" is redefined: index|string|false|title, now index|string|true|title`.
  public var description: String {
    let what =
      switch kind {
      case .added: "added: \(present ?? "")"
      case .removed: "removed: \(stored ?? "")"
      case .redefined: "redefined: \(stored ?? ""), now \(present ?? "")"
      }
    return "index \"\(index)\" of \"\(collection)\" is \(what)"
  }
}

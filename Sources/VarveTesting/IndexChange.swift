/// An index that differs between a snapshot and the current definition.
public struct IndexChange: Hashable, Sendable, CustomStringConvertible {
  /// The kind of a change.
  public enum Kind: String, Hashable, Sendable {
    /// The snapshot does not have the index: it is built when a database of that version is opened.
    case added
    /// The definition does not have the index: its entries are dropped.
    case removed
    /// The definition of the index differs: the index is built again, and throws `.notReady` until it is built.
    case redefined
  }

  /// The kind of the change.
  public let kind: Kind
  /// The current name of the collection.
  public let collection: String
  /// The name of the index.
  public let index: String
  /// The index's definition in the snapshot (kind, types, fields and condition, as the catalog has them), or `nil` if
  /// the snapshot does not have the index.
  public let stored: String?
  /// The index's current definition, or `nil` if the definition does not have the index.
  public let present: String?

  /// A description such as `index "title" of "books" is redefined: index|string|false|title, now
  /// index|string|true|title`.
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

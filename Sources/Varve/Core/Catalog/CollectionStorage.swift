public import VarveEngine

/// The storage of a collection's rows. It is chosen when the collection is made.
public enum CollectionStorage: Hashable, Sendable {
  /// The rows are stored with those of other collections.
  case shared
  /// The rows are stored in families of their own, with the given compression, or that of the database's other families
  /// if it is `nil`.
  case own(compression: CompressionKind? = nil)
}

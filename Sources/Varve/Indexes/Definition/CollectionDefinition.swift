/// The definition of a collection.
public struct CollectionDefinition: Sendable {
  /// The definition of the rows.
  var rows: RowDefinition
  /// The format that made the definition. It is `nil` also if instances don't know their identifiers.
  var format: (any StoreFormat.Type)?
  /// The indexes of the collection, or `nil` if the definition does not mention any, so that those in the database
  /// stay.
  var indexing: (any IndexSpecification)?
  /// The indexing to which indexes of rows are added, or `nil` if the collection has a format.
  var indexable: (any IndexSpecification)?

  /// The name of the collection.
  public var name: String { rows.name }
  /// The coder that encodes the collection's objects.
  public var coder: CoderKind { rows.coder }
  /// The coders of rows that were written before `coder` was chosen, if they were others.
  public var formerCoders: [CoderKind] { rows.formerCoders }
  /// The former names of the collection: see ``formerly(_:)``.
  public var formerKeys: [String] { rows.formerKeys }
  /// The storage of the collection's rows.
  public var storage: CollectionStorage { rows.storage }

  /// Creates the definition of a collection with objects of one type and keys of one type.
  public init<Object: Codable & Sendable, Key: KeyCodable>(
    _ name: String, _ object: Object.Type, key: Key.Type, coder: CoderKind = .binary,
    formerCoders: [CoderKind] = [], storage: CollectionStorage = .shared
  ) {
    rows = RowDefinition(
      name: name, key: key, coder: coder, formerCoders: formerCoders, storage: storage, codec: ObjectCodec(object))
    indexable = RowIndexSpecification<Object>(indexes: [])
  }

  init(_ rows: RowDefinition) { self.rows = rows }

  /// Returns the definition with the names that the collection had in earlier versions of the program, the newest
  /// first.
  ///
  /// ```swift
  /// CollectionDefinition("letters", Letter.self, key: UUID.self).formerly("mails", "messages")
  /// ```
  ///
  /// If the database has a collection under one of these names, and none under the current name, opening the database
  /// renames it in one commit: see `Database.renameCollection`. If it has both, or two under former names, opening
  /// throws `.invalidDefinition`, because it is not clear which rows are meant. A read-only database stays as it is,
  /// and using the collection throws `.readOnly` until a program that writes has renamed it.
  public func formerly(_ names: String...) -> CollectionDefinition {
    var copy = self
    copy.rows.formerKeys += names
    return copy
  }
}

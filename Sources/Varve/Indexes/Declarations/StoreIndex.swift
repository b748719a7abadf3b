/// An index of a format: a stored property of the format, made by one of the index kinds of ``StoreFormat``.
///
/// ```swift
/// struct BookFormat: StoreFormat {
///   typealias Instance = Book
///   static let collection = "books"
///   let byYear = Index(\.year, \.title)
///   let isbn = OneToOneIndex(\.isbn)
///   let tags = ManyToManyIndex(\.tags)
/// }
/// ```
///
/// It is a value, and safe to use from any thread.
public protocol StoreIndex<Instance, Value>: Sendable {
  /// The type that is indexed.
  associatedtype Instance
  /// The type of the values by which instances are found.
  associatedtype Value: KeyCodable
  /// The declaration of the index.
  var declaration: IndexDeclaration<Instance> { get set }
}

/// An index in which a value has one instance.
public protocol UniqueStoreIndex<Instance, Value>: StoreIndex {}

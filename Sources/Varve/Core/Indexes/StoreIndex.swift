/// An index of a format: a stored property of it, made by one of the index kinds of ``StoreFormat``.
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
/// A value: safe from any thread.
public protocol StoreIndex<Instance, Value>: Sendable {
  /// What is indexed.
  associatedtype Instance
  /// What instances are found by.
  associatedtype Value: KeyCodable
  /// What the index keeps of each instance.
  var declaration: IndexDeclaration<Instance> { get set }
}

/// An index in which a value has one instance.
public protocol UniqueStoreIndex<Instance, Value>: StoreIndex {}

/// A property wrapper that stores the row with the keys of an index, so that loading by the index needs no further
/// lookup: `@Direct var isbn = OneToOneIndex(\.isbn)`.
///
/// It costs the size of the row once more for each such index, and a write whenever the row changes.
@propertyWrapper
public struct Direct<Index: StoreIndex>: Sendable {
  /// The index.
  public var wrappedValue: Index

  /// Creates an index that stores rows with its keys.
  public init(wrappedValue: Index) {
    self.wrappedValue = wrappedValue
    self.wrappedValue.declaration.isDirect = true
  }
}

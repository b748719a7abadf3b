/// Keeps the row beside the keys of an index, so that loading by it looks nowhere else: `@Direct var isbn =
/// OneToOneIndex(\.isbn)`.
///
/// Costs the size of the row once more in each index that has it, and a write whenever the row changes.
@propertyWrapper
public struct Direct<Index: StoreIndex>: Sendable {
  /// The index.
  public var wrappedValue: Index

  /// The index with rows beside its keys.
  public init(wrappedValue: Index) {
    self.wrappedValue = wrappedValue
    self.wrappedValue.declaration.isDirect = true
  }
}

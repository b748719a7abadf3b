/// The path from an instance to one of its fields: two are equal if they name the same properties.
public struct FieldPath: @unchecked Sendable {
  // Unchecked: paths are made of `KeyPath & Sendable` alone, and of appending these to each other.
  let path: AnyKeyPath
  /// The paths as they were written, of which `path` is made: `home` and `city` of `$0.home.city`.
  let components: [AnyKeyPath]

  init(path: AnyKeyPath, components: [AnyKeyPath]? = nil) {
    self.path = path
    self.components = components ?? [path]
  }
}

extension FieldPath: Hashable {
  /// Whether both name the same properties.
  public static func == (left: FieldPath, right: FieldPath) -> Bool { left.path == right.path }

  /// Hashes what is named.
  public func hash(into hasher: inout Hasher) { hasher.combine(path) }
}

/// The fields of a type, in the closure of a condition.
///
/// ```swift
/// let old = Condition<Book> { $0.year < 1950 && !$0.tags.contains("lost") }
/// ```
@dynamicMemberLookup
public struct Fields<Root>: Sendable {
  init() {}

  /// A field.
  public subscript<Value>(dynamicMember path: any KeyPath<Root, Value> & Sendable) -> Field<Root, Value> {
    Field(path: path, components: [path])
  }
}

/// A field of a type, in the closure of a condition or of an index: what operators and functions make conditions of.
///
/// A field of a field is a field, also where the first is optional: `$0.home.city` is nil where `home` is.
@dynamicMemberLookup
public struct Field<Root, Value> {
  let path: KeyPath<Root, Value>
  let components: [AnyKeyPath]
  /// The field that this one sorts the other way.
  var ascending: FieldPath?

  var fieldPath: FieldPath { FieldPath(path: path, components: components) }

  /// A field of the field.
  public subscript<Inner>(dynamicMember inner: any KeyPath<Value, Inner> & Sendable) -> Field<Root, Inner> {
    Field<Root, Inner>(path: path.appending(path: inner), components: components + [inner])
  }

  /// A field of an optional field: nil where that is.
  public subscript<Wrapped, Inner>(
    dynamicMember inner: any KeyPath<Wrapped, Inner> & Sendable
  ) -> Field<Root, Inner?> where Value == Wrapped? {
    Field<Root, Inner?>(path: path.appending(path: \Wrapped?.[chained: inner]), components: components + [inner])
  }
}

extension Field {
  /// An optional field of an optional field: nil where one of them is.
  public subscript<Wrapped, Inner>(
    dynamicMember inner: any KeyPath<Wrapped, Inner?> & Sendable
  ) -> Field<Root, Inner?> where Value == Wrapped? {
    Field<Root, Inner?>(path: path.appending(path: \Wrapped?.[flatChained: inner]), components: components + [inner])
  }
}

extension Field where Value: KeyCodable {
  /// The field as a part of an index that sorts the other way: `Index({ $0.shelf }, { $0.year.descending })`.
  public var descending: Field<Root, Descending<Value>> {
    Field<Root, Descending<Value>>(path: path.appending(path: \.reversed), components: components, ascending: fieldPath)
  }
}

extension KeyCodable {
  fileprivate var reversed: Descending<Self> { Descending(self) }
}

extension Optional {
  /// The value at a path from the wrapped value; nil for nil.
  fileprivate subscript<Inner>(flatChained path: KeyPath<Wrapped, Inner?>) -> Inner? { self?[keyPath: path] ?? nil }
  /// The value at a path from the wrapped value; nil for nil.
  fileprivate subscript<Inner>(chained path: KeyPath<Wrapped, Inner>) -> Inner? { self?[keyPath: path] }
}

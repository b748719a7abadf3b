/// The path from an instance to one of its fields: two are equal if they name the same properties.
public struct FieldPath: @unchecked Sendable, Hashable {
  // Unchecked: paths are made of `KeyPath & Sendable` alone, and of appending these to each other.
  let path: AnyKeyPath
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
    Field(path: path)
  }
}

/// A field of a type, in the closure of a condition: what operators and functions make conditions of.
///
/// A field of a field is a field, also where the first is optional: `$0.home.city` is nil where `home` is.
@dynamicMemberLookup
public struct Field<Root, Value> {
  let path: KeyPath<Root, Value>

  var fieldPath: FieldPath { FieldPath(path: path) }

  /// A field of the field.
  public subscript<Inner>(dynamicMember inner: any KeyPath<Value, Inner> & Sendable) -> Field<Root, Inner> {
    Field<Root, Inner>(path: path.appending(path: inner))
  }

  /// A field of an optional field: nil where that is.
  public subscript<Wrapped, Inner>(
    dynamicMember inner: any KeyPath<Wrapped, Inner> & Sendable
  ) -> Field<Root, Inner?> where Value == Wrapped? {
    Field<Root, Inner?>(path: path.appending(path: \Wrapped?.[chained: inner]))
  }
}

extension Optional {
  /// The value at a path from the wrapped value; nil for nil.
  fileprivate subscript<Inner>(chained path: KeyPath<Wrapped, Inner>) -> Inner? { self?[keyPath: path] }
}

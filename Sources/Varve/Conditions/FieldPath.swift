/// The path from an instance to one of its fields. Two paths are equal if they have the same properties.
public struct FieldPath: @unchecked Sendable {
  // Sendable is not checked: paths are only built from `KeyPath & Sendable`, and by appending these.
  let path: AnyKeyPath
  /// The key paths of which `path` is composed: `home` and `city` for `$0.home.city`.
  let components: [AnyKeyPath]

  init(path: AnyKeyPath, components: [AnyKeyPath]? = nil) {
    self.path = path
    self.components = components ?? [path]
  }

  /// Whether the field is the folded form of a text (`String.folded`).
  var isFolded: Bool { components.last == \String.folded }

  /// Returns a value as the field would have it: folded, if the field is.
  func fitted<Value>(_ value: Value) -> Value { isFolded ? FoldedParts.folded(value) : value }
}

extension FieldPath: Hashable {
  /// Returns whether both paths have the same properties.
  public static func == (left: FieldPath, right: FieldPath) -> Bool { left.path == right.path }

  /// Hashes the properties.
  public func hash(into hasher: inout Hasher) { hasher.combine(path) }
}

/// The fields of a type, as the argument of a condition's closure.
///
/// ```swift
/// let old = Condition<Book> { $0.year < 1950 && !$0.tags.contains("lost") }
/// ```
@dynamicMemberLookup
public struct Fields<Root>: Sendable {
  init() {}

  /// Returns the field at a key path.
  public subscript<Value>(dynamicMember path: any KeyPath<Root, Value> & Sendable) -> Field<Root, Value> {
    Field(path: path, components: [path])
  }
}

/// A field of a type in the closure of a condition or of an index, from which operators and methods create conditions.
///
/// A field of a field is a field, too, even if the first is optional: `$0.home.city` is nil if `home` is.
@dynamicMemberLookup
public struct Field<Root, Value> {
  let path: KeyPath<Root, Value>
  let components: [AnyKeyPath]
  /// The path of the field that this one reverses.
  var ascending: FieldPath?

  var fieldPath: FieldPath { FieldPath(path: path, components: components) }

  /// Returns a field of the field.
  public subscript<Inner>(dynamicMember inner: any KeyPath<Value, Inner> & Sendable) -> Field<Root, Inner> {
    Field<Root, Inner>(path: path.appending(path: inner), components: components + [inner])
  }

  /// Returns a field of an optional field, which is nil if the optional field is.
  public subscript<Wrapped, Inner>(
    dynamicMember inner: any KeyPath<Wrapped, Inner> & Sendable
  ) -> Field<Root, Inner?> where Value == Wrapped? {
    Field<Root, Inner?>(path: path.appending(path: \Wrapped?.[chained: inner]), components: components + [inner])
  }
}

extension Field {
  /// Returns an optional field of an optional field, which is nil if one of them is.
  public subscript<Wrapped, Inner>(
    dynamicMember inner: any KeyPath<Wrapped, Inner?> & Sendable
  ) -> Field<Root, Inner?> where Value == Wrapped? {
    Field<Root, Inner?>(path: path.appending(path: \Wrapped?.[flatChained: inner]), components: components + [inner])
  }
}

extension Field where Value: KeyCodable {
  /// The field as a part of an index in descending order: `Index({ $0.shelf }, { $0.year.descending })`.
  public var descending: Field<Root, Descending<Value>> {
    Field<Root, Descending<Value>>(path: path.appending(path: \.reversed), components: components, ascending: fieldPath)
  }
}

extension KeyCodable {
  fileprivate var reversed: Descending<Self> { Descending(self) }
}

extension Optional {
  /// Returns the value at a path of the wrapped value, or nil if there is none.
  fileprivate subscript<Inner>(flatChained path: KeyPath<Wrapped, Inner?>) -> Inner? { self?[keyPath: path] ?? nil }
  /// Returns the value at a path of the wrapped value, or nil if there is none.
  fileprivate subscript<Inner>(chained path: KeyPath<Wrapped, Inner>) -> Inner? { self?[keyPath: path] }
}

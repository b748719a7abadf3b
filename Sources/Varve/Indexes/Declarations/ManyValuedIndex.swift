/// An index in which an instance has several values, and a value may have many instances:
/// `StoreFormat.ManyToManyIndex`.
///
/// Duplicate values of an instance count once. An instance without values is not in the index.
public struct ManyValuedIndex<Instance, Value: KeyCodable>: StoreIndex {
  /// The declaration of the index.
  public var declaration: IndexDeclaration<Instance>

  /// Creates an index of the elements of a stored property. The parameters are those of ``PlainIndex``.
  public init<Values: Sequence<Value> & SendableMetatype>(
    _ path: any KeyPath<Instance, Values> & Sendable, name: String? = nil, version: Int = 0,
    counted: Bool = false, skipsInvalid: Bool = false,
    where condition: ((Fields<Instance>) -> Condition<Instance>)? = nil
  ) {
    declaration = .elements(
      .manyToMany, path,
      IndexOptions(
        name: name, version: version, isCounted: counted, skipsInvalid: skipsInvalid,
        condition: condition?(Fields())))
  }

  /// Creates an index of the elements of an optional property. A nil property has no elements.
  public init<Values: Sequence<Value> & SendableMetatype>(
    _ path: any KeyPath<Instance, Values?> & Sendable, name: String? = nil, version: Int = 0,
    counted: Bool = false, skipsInvalid: Bool = false,
    where condition: ((Fields<Instance>) -> Condition<Instance>)? = nil
  ) {
    declaration = .elements(
      .manyToMany, path,
      IndexOptions(
        name: name, version: version, isCounted: counted, skipsInvalid: skipsInvalid,
        condition: condition?(Fields())))
  }
}

/// An index in which an instance has several values, and a value has one instance: `StoreFormat.ManyToOneIndex`.
///
/// An instance with a value that another instance has is refused, as in ``UniqueIndex``.
public struct ManyValuedUniqueIndex<Instance, Value: KeyCodable>: UniqueStoreIndex {
  /// The declaration of the index.
  public var declaration: IndexDeclaration<Instance>

  /// Creates an index of the elements of a stored property. The parameters are those of ``UniqueIndex``.
  public init<Values: Sequence<Value> & SendableMetatype>(
    _ path: any KeyPath<Instance, Values> & Sendable, name: String? = nil, version: Int = 0,
    counted: Bool = false, deferred: Bool = false, skipsInvalid: Bool = false,
    where condition: ((Fields<Instance>) -> Condition<Instance>)? = nil
  ) {
    declaration = .elements(
      .manyToOne, path,
      IndexOptions(
        name: name, version: version, isDeferred: deferred, isCounted: counted, skipsInvalid: skipsInvalid,
        condition: condition?(Fields()))
    )
  }

  /// Creates an index of the elements of an optional property. A nil property has no elements.
  public init<Values: Sequence<Value> & SendableMetatype>(
    _ path: any KeyPath<Instance, Values?> & Sendable, name: String? = nil, version: Int = 0,
    counted: Bool = false, deferred: Bool = false, skipsInvalid: Bool = false,
    where condition: ((Fields<Instance>) -> Condition<Instance>)? = nil
  ) {
    declaration = .elements(
      .manyToOne, path,
      IndexOptions(
        name: name, version: version, isDeferred: deferred, isCounted: counted, skipsInvalid: skipsInvalid,
        condition: condition?(Fields()))
    )
  }
}

extension IndexDeclaration {
  fileprivate static func elements<Values: Sequence & SendableMetatype>(
    _ kind: IndexKind, _ path: any KeyPath<Instance, Values> & Sendable, _ options: IndexOptions<Instance>
  ) -> IndexDeclaration where Values.Element: KeyCodable {
    elements(kind, path, Values.Element.self, options) { instance, body in
      for element in instance[keyPath: path] { try body(element) }
    }
  }

  fileprivate static func elements<Values: Sequence & SendableMetatype>(
    _ kind: IndexKind, _ path: any KeyPath<Instance, Values?> & Sendable, _ options: IndexOptions<Instance>
  ) -> IndexDeclaration where Values.Element: KeyCodable {
    elements(kind, path, Values.Element.self, options) { instance, body in
      guard let values = instance[keyPath: path] else { return }
      for element in values { try body(element) }
    }
  }

  private static func elements<Element: KeyCodable>(
    _ kind: IndexKind, _ path: any AnyKeyPath & Sendable, _ type: Element.Type, _ options: IndexOptions<Instance>,
    _ forEach: @escaping @Sendable (Instance, (Element) throws -> Void) throws -> Void
  ) -> IndexDeclaration {
    let field = IndexField<Instance>(elementsOf: FieldPath(path: path), Element.keyType)
    let skipsInvalid = options.skipsInvalid
    return IndexDeclaration(kind, [field], Element.keyType, options) { instance, _, index, keys in
      let first = keys.keys.count
      try forEach(instance.instance(as: Instance.self)) { element in
        do { try keys.appendPart { try element.encodeKey(into: &$0) } } catch {
          // The other elements have valid keys and are kept.
          guard skipsInvalid else { throw error }
          return keys.dropValue()
        }
        keys.endValue(of: index)
      }
      keys.sort(from: first)
    }
  }
}

/// Fields of the instances of a query. Where an index has the fields, the order and the whole condition, its entries alone are
/// read: strings come in normal form C then, which equals what is stored.
///
/// Each throws what ``StoreQuery/fetch(in:)`` does.
extension StoreQuery {
  // MARK: - Inside of a transaction

  /// A field of each instance, in the order of the query.
  public func values<Value: KeyCodable>(
    of path: any KeyPath<Format.Instance, Value> & Sendable, in tx: ReadTransaction
  ) throws -> [Value] {
    var values: [Value] = []
    try QueryValues(self, [QueryOrder(IndexField(path), isDescending: false)], tx)?.forEach(path) { values.append($0) }
    return values
  }

  /// The values of a field, each once, ascending; nil is first. Values without a key, as a NaN, are left out.
  public func distinct<Value: KeyCodable>(
    _ path: any KeyPath<Format.Instance, Value> & Sendable, in tx: ReadTransaction
  ) throws -> [Value] {
    try grouped(by: path, in: tx).map(\.value)
  }

  /// The elements of a field with several values, each once, ascending.
  public func distinct<Values: Sequence & SendableMetatype>(
    elementsOf path: any KeyPath<Format.Instance, Values> & Sendable, in tx: ReadTransaction
  ) throws -> [Values.Element] where Values.Element: KeyCodable {
    try grouped(byElementsOf: path, in: tx).map(\.value)
  }

  /// The least value of a field; nil without instances. A value without a key, as a NaN, does not count.
  ///
  /// Complexity: a seek where an index has the field next to what the condition bounds; else O(n).
  public func min<Value: KeyCodable>(
    of path: any KeyPath<Format.Instance, Value> & Sendable, in tx: ReadTransaction
  ) throws -> Value? {
    try end(path, descending: false, tx)
  }

  /// The least value of an optional field that is not nil; nil where there is none.
  public func min<Value: KeyCodable>(
    of path: any KeyPath<Format.Instance, Value?> & Sendable, in tx: ReadTransaction
  ) throws -> Value? {
    try end(path, descending: false, tx) ?? nil
  }

  /// The greatest value of a field; nil without instances. A value without a key, as a NaN, does not count.
  ///
  /// Complexity: a seek where an index has the field next to what the condition bounds; else O(n).
  public func max<Value: KeyCodable>(
    of path: any KeyPath<Format.Instance, Value> & Sendable, in tx: ReadTransaction
  ) throws -> Value? {
    try end(path, descending: true, tx)
  }

  /// The greatest value of an optional field that is not nil; nil where there is none.
  public func max<Value: KeyCodable>(
    of path: any KeyPath<Format.Instance, Value?> & Sendable, in tx: ReadTransaction
  ) throws -> Value? {
    try end(path, descending: true, tx) ?? nil
  }

  private func end<Value: KeyCodable>(
    _ path: any KeyPath<Format.Instance, Value> & Sendable, descending: Bool, _ tx: ReadTransaction
  ) throws -> Value? {
    let field = QueryOrder(IndexField(path), isDescending: false)
    if maximum != nil {
      // The instances that the limit keeps have to be found first.
      var best: (key: [UInt8], value: Value)?
      try QueryValues(self, [field], tx)?.forEach(path) { value in
        guard let key = value.fieldKey else { return }
        let isBetter =
          best.map { descending ? ByteOrder.precedes($0.key, key) : ByteOrder.precedes(key, $0.key) } ?? true
        if isBetter { best = (key, value) }
      }
      return best?.value
    }
    var query = unordered.sorted(by: path, descending: descending).limit(1)
    if let present = Condition<Format.Instance>.isKeyed(path) { query = query.filter(present) }
    if query.condition == nil || condition == nil { query = query.scan() }
    var value: Value?
    try QueryValues(query, [field], tx)?.forEach(path) { value = $0 }
    return value
  }

  // MARK: - By itself

  /// A field of each instance, in the order of the query.
  public func values<Value: KeyCodable>(
    of path: any KeyPath<Format.Instance, Value> & Sendable
  ) async throws -> [Value] {
    try await store.database.read { tx in try values(of: path, in: tx) }
  }

  /// The values of a field, each once, ascending; nil is first. Values without a key, as a NaN, are left out.
  public func distinct<Value: KeyCodable>(
    _ path: any KeyPath<Format.Instance, Value> & Sendable
  ) async throws -> [Value] {
    try await store.database.read { tx in try distinct(path, in: tx) }
  }

  /// The elements of a field with several values, each once, ascending.
  public func distinct<Values: Sequence & SendableMetatype>(
    elementsOf path: any KeyPath<Format.Instance, Values> & Sendable
  ) async throws -> [Values.Element] where Values.Element: KeyCodable {
    try await store.database.read { tx in try distinct(elementsOf: path, in: tx) }
  }

  /// The least value of a field; nil without instances. A value without a key, as a NaN, does not count.
  public func min<Value: KeyCodable>(of path: any KeyPath<Format.Instance, Value> & Sendable) async throws -> Value? {
    try await store.database.read { tx in try min(of: path, in: tx) }
  }

  /// The least value of an optional field that is not nil; nil where there is none.
  public func min<Value: KeyCodable>(of path: any KeyPath<Format.Instance, Value?> & Sendable) async throws -> Value? {
    try await store.database.read { tx in try min(of: path, in: tx) }
  }

  /// The greatest value of a field; nil without instances. A value without a key, as a NaN, does not count.
  public func max<Value: KeyCodable>(of path: any KeyPath<Format.Instance, Value> & Sendable) async throws -> Value? {
    try await store.database.read { tx in try max(of: path, in: tx) }
  }

  /// The greatest value of an optional field that is not nil; nil where there is none.
  public func max<Value: KeyCodable>(of path: any KeyPath<Format.Instance, Value?> & Sendable) async throws -> Value? {
    try await store.database.read { tx in try max(of: path, in: tx) }
  }
}

extension KeyCodable {
  /// The key of a field's value; nil where it has none, and for nil.
  var fieldKey: [UInt8]? {
    guard let bytes = try? encoded(), bytes.first != KeyTag.null else { return nil }
    return bytes
  }
}

extension Condition {
  /// That a field has a value with a key and is not nil; nil where each value is so.
  static func isKeyed<Value: KeyCodable>(_ path: any KeyPath<Root, Value> & Sendable) -> Condition? {
    if Value.keyType.hasKeyForEachValue, !Value.keyType.name.hasPrefix("optional(") { return nil }
    // Keys of nil are before all others.
    let keys = KeySet(from: [KeyTag.null + 1])
    return Condition(
      ConditionTerm(
        path: FieldPath(path: path), question: .keyed, keys: keys, test: { $0[keyPath: path].fieldKey != nil },
        key: { try? $0[keyPath: path].encoded() }))
  }
}

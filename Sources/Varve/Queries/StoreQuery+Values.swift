/// Reads fields of a query's instances. If an index has the fields and the order, and covers the whole condition, only
/// its entries are read. Strings are then in normal form C, which compares equal to the stored string.
///
/// Each method throws what ``StoreQuery/fetch(in:)`` does.
extension StoreQuery {
  // MARK: - Inside a transaction

  /// Returns a field of each instance, in the order of the query.
  public func values<Value: KeyCodable>(
    of path: any KeyPath<Format.Instance, Value> & Sendable, in tx: ReadTransaction
  ) throws -> [Value] {
    var values: [Value] = []
    try QueryValues(self, [QueryOrder(IndexField(path), isDescending: false)], tx)?.forEach(path) { values.append($0) }
    return values
  }

  /// Returns the distinct values of a field in ascending order, with nil first. Values without a key, such as a NaN,
  /// are left out.
  public func distinct<Value: KeyCodable>(
    _ path: any KeyPath<Format.Instance, Value> & Sendable, in tx: ReadTransaction
  ) throws -> [Value] {
    try grouped(by: path, in: tx).map(\.value)
  }

  /// Returns the distinct elements of a field with several values, in ascending order.
  public func distinct<Values: Sequence & SendableMetatype>(
    elementsOf path: any KeyPath<Format.Instance, Values> & Sendable, in tx: ReadTransaction
  ) throws -> [Values.Element] where Values.Element: KeyCodable {
    try grouped(byElementsOf: path, in: tx).map(\.value)
  }

  /// Returns the distinct elements of an optional field with several values, in ascending order.
  public func distinct<Values: Sequence & SendableMetatype>(
    elementsOf path: any KeyPath<Format.Instance, Values?> & Sendable, in tx: ReadTransaction
  ) throws -> [Values.Element] where Values.Element: KeyCodable {
    try grouped(byElementsOf: path, in: tx).map(\.value)
  }

  /// Returns the smallest value of a field, or nil if there is no instance. Values without a key, such as a NaN, are
  /// ignored.
  ///
  /// Complexity: one seek if an index has the field next to what the condition bounds, and otherwise O(n).
  public func min<Value: KeyCodable>(
    of path: any KeyPath<Format.Instance, Value> & Sendable, in tx: ReadTransaction
  ) throws -> Value? {
    try end(path, descending: false, tx)
  }

  /// Returns the smallest value of an optional field that is not nil, or nil if there is none.
  public func min<Value: KeyCodable>(
    of path: any KeyPath<Format.Instance, Value?> & Sendable, in tx: ReadTransaction
  ) throws -> Value? {
    try end(path, descending: false, tx) ?? nil
  }

  /// Returns the greatest value of a field, or nil if there is no instance. Values without a key, such as a NaN, are
  /// ignored.
  ///
  /// Complexity: one seek if an index has the field next to what the condition bounds, and otherwise O(n).
  public func max<Value: KeyCodable>(
    of path: any KeyPath<Format.Instance, Value> & Sendable, in tx: ReadTransaction
  ) throws -> Value? {
    try end(path, descending: true, tx)
  }

  /// Returns the greatest value of an optional field that is not nil, or nil if there is none.
  public func max<Value: KeyCodable>(
    of path: any KeyPath<Format.Instance, Value?> & Sendable, in tx: ReadTransaction
  ) throws -> Value? {
    try end(path, descending: true, tx) ?? nil
  }

  private func end<Value: KeyCodable>(
    _ path: any KeyPath<Format.Instance, Value> & Sendable, descending: Bool, _ tx: ReadTransaction
  ) throws -> Value? {
    let field = QueryOrder(IndexField(path), isDescending: false)
    if maximum != nil || Format.undecodable.standIn != nil {
      // The instances within the limit have to be found first. A stand-in may be anywhere in the order of an index.
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

  // MARK: - In a transaction of its own

  /// Returns a field of each instance, in the order of the query.
  public func values<Value: KeyCodable>(
    of path: any KeyPath<Format.Instance, Value> & Sendable
  ) async throws -> [Value] {
    try await store.database.read { tx in try values(of: path, in: tx) }
  }

  /// Returns the distinct values of a field in ascending order, with nil first. Values without a key, such as a NaN,
  /// are left out.
  public func distinct<Value: KeyCodable>(
    _ path: any KeyPath<Format.Instance, Value> & Sendable
  ) async throws -> [Value] {
    try await store.database.read { tx in try distinct(path, in: tx) }
  }

  /// Returns the distinct elements of a field with several values, in ascending order.
  public func distinct<Values: Sequence & SendableMetatype>(
    elementsOf path: any KeyPath<Format.Instance, Values> & Sendable
  ) async throws -> [Values.Element] where Values.Element: KeyCodable {
    try await store.database.read { tx in try distinct(elementsOf: path, in: tx) }
  }

  /// Returns the distinct elements of an optional field with several values, in ascending order.
  public func distinct<Values: Sequence & SendableMetatype>(
    elementsOf path: any KeyPath<Format.Instance, Values?> & Sendable
  ) async throws -> [Values.Element] where Values.Element: KeyCodable {
    try await store.database.read { tx in try distinct(elementsOf: path, in: tx) }
  }

  /// Returns the smallest value of a field, or nil if there is no instance. Values without a key, such as a NaN, are
  /// ignored.
  public func min<Value: KeyCodable>(of path: any KeyPath<Format.Instance, Value> & Sendable) async throws -> Value? {
    try await store.database.read { tx in try min(of: path, in: tx) }
  }

  /// Returns the smallest value of an optional field that is not nil, or nil if there is none.
  public func min<Value: KeyCodable>(of path: any KeyPath<Format.Instance, Value?> & Sendable) async throws -> Value? {
    try await store.database.read { tx in try min(of: path, in: tx) }
  }

  /// Returns the greatest value of a field, or nil if there is no instance. Values without a key, such as a NaN, are
  /// ignored.
  public func max<Value: KeyCodable>(of path: any KeyPath<Format.Instance, Value> & Sendable) async throws -> Value? {
    try await store.database.read { tx in try max(of: path, in: tx) }
  }

  /// Returns the greatest value of an optional field that is not nil, or nil if there is none.
  public func max<Value: KeyCodable>(of path: any KeyPath<Format.Instance, Value?> & Sendable) async throws -> Value? {
    try await store.database.read { tx in try max(of: path, in: tx) }
  }
}

extension KeyCodable {
  /// The key of a field's value, or nil if the value is nil or has no key.
  var fieldKey: [UInt8]? {
    guard let bytes = try? encoded(), bytes.first != KeyTag.null else { return nil }
    return bytes
  }
}

extension Condition {
  /// Returns the condition that a field is not nil and has a key, or nil if every value fulfills it.
  static func isKeyed<Value: KeyCodable>(_ path: any KeyPath<Root, Value> & Sendable) -> Condition? {
    if Value.keyType.hasKeyForEachValue, !Value.keyType.name.hasPrefix("optional(") { return nil }
    // The keys of nil are before all others.
    let keys = KeySet(from: [KeyTag.null + 1])
    return Condition(
      ConditionTerm(
        path: FieldPath(path: path), comparison: .keyed, keys: keys, test: { $0[keyPath: path].fieldKey != nil },
        key: { try? $0[keyPath: path].encoded() }))
  }
}

extension StorageRange {
  /// Creates the range of keys that begin with the parts of a key, or with the values of a shorter `Compound`, as an
  /// index uses it to look up one value.
  ///
  /// It differs from `StorageRange(prefix: key.encoded())`, because the bytes of "a" also begin "a\0". Throws
  /// `.invalidKey`.
  ///
  /// ```swift
  /// // The part has keys of an author and a row.
  /// let entries = try context.cursor("byAuthor", StorageRange(beginningWith: author))
  /// ```
  public init(beginningWith key: some KeyCodable) throws {
    let parts = try key.encoded()
    self.init(lower: parts, upper: KeyRange.end(ofParts: parts))
  }

  /// Creates the range of keys that begin with a value of a range, whatever parts come after it:
  /// `StorageRange(beginningWith: 1 ..> 3)`. Throws `.invalidKey`.
  public init<First: KeyCodable>(beginningWith range: some KeyBounds<First>) throws {
    let (lower, upper) = try EncodedKeyRange(with: range).bounds()
    self.init(lower: lower, upper: upper)
  }

  /// Creates the range of keys in a range of values, for keys that have no parts after them. Throws `.invalidKey`.
  public init<Key: KeyCodable>(_ bounds: some KeyBounds<Key>) throws {
    if let (lower, upper) = try bounds.beginning?.bounds() {
      self.init(lower: lower, upper: upper)
      return
    }
    var lower = try bounds.lowerKey?.encoded() ?? []
    // No key is a prefix of another, so no key lies between the bound itself and this.
    if bounds.lowerKey != nil, !bounds.includesLowerKey { lower.append(0) }
    var upper = try bounds.upperKey?.encoded()
    if bounds.includesUpperKey { upper?.append(0) }
    self.init(lower: lower, upper: upper)
  }
}

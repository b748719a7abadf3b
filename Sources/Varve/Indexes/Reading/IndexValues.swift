/// The values of an index whose instances or rows a call loads or counts: one value, a range, or all.
///
/// ```swift
/// let emmas = try books.load(.value("Emma"), from: \.title, in: tx)
/// let some = try books.load(.range("A"..<"C"), from: \.title, in: tx)
/// let year = try books.load(.prefix(1815), from: \.byYear, in: tx)    // an index by year and title
/// let count = try books.count(.all, from: \.title, in: tx)
/// let songs = try tx.rows(.value("Nina Simone"), from: byArtist)      // a RowIndex
/// ```
///
/// The values of an index of several fields are ``Compound``. Those of an index of one field are given as the field's
/// own type, and those of an optional field also as the wrapped type; a range of the wrapped type has no instances
/// without a value, and `.value(nil)` has only those. A value that can't be a key is reported by the call.
public struct IndexValues<Value: KeyCodable>: Sendable {
  /// Returns the bounds of the encoded values; `folded` has the parts whose text is folded.
  let bounds: @Sendable (_ folded: FoldedParts) throws -> (lower: [UInt8], upper: [UInt8]?)

  /// The values that equal one, or begin with it.
  fileprivate init(beginningWith first: some KeyCodable) {
    bounds = { folded in
      let bytes = try folded.fitted(first).encoded()
      return (bytes, KeyRange.end(ofParts: bytes))
    }
  }

  private init<Bound: KeyCodable>(in range: some KeyBounds<Bound>) { bounds = EncodedKeyRange(with: range).bounds }

  /// All values of the index.
  public static var all: Self { Self(in: KeyInterval<Value>()) }

  /// One value.
  public static func value(_ value: Value) -> Self { Self(beginningWith: value) }
  /// One value of an index of one field.
  public static func value<Field>(_ value: Field) -> Self where Value == Compound<Field> { Self(beginningWith: value) }
  /// One value of an index of one optional field.
  public static func value<Wrapped: KeyCodable>(_ value: Wrapped) -> Self where Value == Compound<Wrapped?> {
    Self(beginningWith: Optional(value))
  }

  /// Use `all` instead.
  @available(*, unavailable, message: "the whole range of an index is .all")
  public static func range(_ all: UnboundedRange) -> Self { .all }
  /// The values in a range.
  public static func range(_ range: some KeyBounds<Value>) -> Self { Self(in: range) }
  /// The values of an index of one field that are in a range: `.range("A"..<"B")`.
  public static func range<Field: KeyCodable>(_ range: some KeyBounds<Field>) -> Self where Value == Compound<Field> {
    Self(in: range)
  }
  /// The values of an index of one optional field that are in a range.
  public static func range<Wrapped: KeyCodable>(
    _ range: some KeyBounds<Wrapped>
  ) -> Self where Value == Compound<Wrapped?> {
    Self(in: KeyInterval(ofValues: range))
  }

  /// The values of an index of several fields that begin with one of the first field.
  public static func prefix<First: KeyCodable, each Other: KeyCodable>(
    _ first: First
  ) -> Self where Value == Compound<First, repeat each Other> {
    Self(beginningWith: first)
  }
}

/// The value of an index whose one instance or row a call loads: `books.load(.value("0141"), from: \.isbn)`.
///
/// It is given in the same types as ``IndexValues``. No instance of a unique index is found by nil, or by a
/// ``Compound`` with a part that is nil: several instances may have such values, which `load` of ``IndexValues``
/// returns.
public struct IndexValue<Value: KeyCodable>: Sendable {
  let values: IndexValues<Value>

  /// A value.
  public static func value(_ value: Value) -> Self { Self(values: .value(value)) }
  /// A value of an index of one field.
  public static func value<Field>(_ value: Field) -> Self where Value == Compound<Field> {
    Self(values: .value(value))
  }
  /// A value of an index of one optional field.
  public static func value<Wrapped: KeyCodable>(_ value: Wrapped) -> Self where Value == Compound<Wrapped?> {
    Self(values: .value(value))
  }
}

extension KeyInterval {
  /// Creates the range of an optional field from a range of its wrapped type. It begins after the rows without a value.
  fileprivate init<Wrapped: KeyCodable>(ofValues range: some KeyBounds<Wrapped>) where Bound == Wrapped? {
    let lower = range.lowerKey.map { range.includesLowerKey ? End.including($0) : .excluding($0) }
    let upper = range.upperKey.map { range.includesUpperKey ? End.including($0) : .excluding($0) }
    self.init(from: lower ?? .excluding(nil), to: upper ?? .unbounded)
  }
}

// What looks like a condition and is not one: each is a single error of the compiler that says what to write.

private func refused<Result>() -> Result { fatalError("the compiler accepts no call of what is unavailable") }

extension Field {
  /// Makes a prefix condition on a field that has no text a single compiler error.
  @available(
    *, unavailable, message: "only a text has a prefix; for a list write `$0.tags.any.hasPrefix(text)`"
  )
  @_disfavoredOverload
  public func hasPrefix(_ prefix: String) -> Condition<Root> { refused() }

  /// Makes a suffix condition on a field that has no text a single compiler error.
  @available(
    *, unavailable, message: "only a text has a suffix; for a list write `$0.tags.any.hasSuffix(text)`"
  )
  @_disfavoredOverload
  public func hasSuffix(_ suffix: String) -> Condition<Root> { refused() }
}

extension Field where Value: QueryableText {
  /// Makes the conversion a compiler error.
  @available(
    *, unavailable, message: "write `$0.title.folded == text`, which ignores case and accents"
  )
  public func lowercased() -> Field<Root, String> { refused() }

  /// Makes the conversion a compiler error.
  @available(
    *, unavailable, message: "write `$0.title.folded == text`, which ignores case and accents"
  )
  public func uppercased() -> Field<Root, String> { refused() }

  /// Makes the test a compiler error.
  @available(*, unavailable, message: "write `$0.title.hasPrefix(text)`")
  public func starts(with prefix: String) -> Condition<Root> { refused() }

  /// Makes the test a compiler error.
  @available(*, unavailable, message: "write `$0.title.folded.contains(text)`")
  public func localizedCaseInsensitiveContains(_ text: String) -> Condition<Root> { refused() }

  /// Makes the test a compiler error.
  @available(*, unavailable, message: "write `$0.title.folded.contains(text)`")
  public func localizedStandardContains(_ text: String) -> Condition<Root> { refused() }
}

extension Field where Value: Collection {
  /// Makes a comparison of a list with one value a compiler error.
  @available(
    *, unavailable, message: "a list is compared with a list; write `$0.tags.any == value` for one of its values"
  )
  public static func == (field: Self, value: Value.Element) -> Condition<Root> { refused() }

  /// Makes a comparison of a list with values a compiler error.
  @available(
    *, unavailable, message: "the field is a list; write `$0.tags.any.isIn(values)` for one of its values"
  )
  @_disfavoredOverload
  public func isIn(_ values: some Sequence<Value.Element>) -> Condition<Root> { refused() }

  /// Makes a test by a closure a compiler error.
  @available(
    *, unavailable, message: "a condition calls no closure; write `$0.tags.any == value`, `$0.tags.any.hasPrefix(text)`"
  )
  @_disfavoredOverload
  public func contains(where predicate: (Value.Element) throws -> Bool) -> Condition<Root> { refused() }
}

extension Field where Value: Collection, Value.Element: Comparable {
  /// Makes a comparison of a list with a range a compiler error.
  @available(
    *, unavailable, message: "the field is a list; write `$0.years.any.isIn(range)` for one of its values"
  )
  public func isIn(_ range: Range<Value.Element>) -> Condition<Root> { refused() }

  /// Makes a comparison of a list with a range a compiler error.
  @available(
    *, unavailable, message: "the field is a list; write `$0.years.any.isIn(range)` for one of its values"
  )
  public func isIn(_ range: ClosedRange<Value.Element>) -> Condition<Root> { refused() }

  /// Makes a comparison of a list with a range a compiler error.
  @available(
    *, unavailable, message: "the field is a list; write `$0.years.any.isIn(range)` for one of its values"
  )
  public func isIn(_ range: PartialRangeFrom<Value.Element>) -> Condition<Root> { refused() }

  /// Makes a comparison of a list with a range a compiler error.
  @available(
    *, unavailable, message: "the field is a list; write `$0.years.any.isIn(range)` for one of its values"
  )
  public func isIn(_ range: PartialRangeThrough<Value.Element>) -> Condition<Root> { refused() }

  /// Makes a comparison of a list with a range a compiler error.
  @available(
    *, unavailable, message: "the field is a list; write `$0.years.any.isIn(range)` for one of its values"
  )
  public func isIn(_ range: PartialRangeUpTo<Value.Element>) -> Condition<Root> { refused() }
}

// MARK: - Two fields

extension Field {
  /// Makes a comparison of two fields a compiler error.
  @available(
    *, unavailable, message: "a field is compared with a value; for two fields, index a computed property"
  )
  public static func == <Other>(field: Self, other: Field<Root, Other>) -> Condition<Root> { refused() }

  /// Makes a comparison of two fields a compiler error.
  @available(
    *, unavailable, message: "a field is compared with a value; for two fields, index a computed property"
  )
  public static func != <Other>(field: Self, other: Field<Root, Other>) -> Condition<Root> { refused() }

  /// Makes a comparison of two fields a compiler error.
  @available(
    *, unavailable, message: "a field is compared with a value; for two fields, index a computed property"
  )
  public static func < <Other>(field: Self, other: Field<Root, Other>) -> Condition<Root> { refused() }

  /// Makes a comparison of two fields a compiler error.
  @available(
    *, unavailable, message: "a field is compared with a value; for two fields, index a computed property"
  )
  public static func <= <Other>(field: Self, other: Field<Root, Other>) -> Condition<Root> { refused() }

  /// Makes a comparison of two fields a compiler error.
  @available(
    *, unavailable, message: "a field is compared with a value; for two fields, index a computed property"
  )
  public static func > <Other>(field: Self, other: Field<Root, Other>) -> Condition<Root> { refused() }

  /// Makes a comparison of two fields a compiler error.
  @available(
    *, unavailable, message: "a field is compared with a value; for two fields, index a computed property"
  )
  public static func >= <Other>(field: Self, other: Field<Root, Other>) -> Condition<Root> { refused() }
}

// Ranges with one end, such as `1900...`: the same conditions as the comparisons with that end.
//
// A `PartialRangeFrom` of integers is a sequence without end, so without these `isIn` and `contains` would read it as a
// sequence of values, forever.

extension Field where Value: Hashable & Comparable & Sendable {
  /// Returns the condition that the field is in a range: `$0.year.isIn(1900...)` is `$0.year >= 1900`.
  public func isIn(_ range: PartialRangeFrom<Value>) -> Condition<Root> { self >= range.lowerBound }

  /// Returns the condition that the field is in a range: `$0.year.isIn(...1900)` is `$0.year <= 1900`.
  public func isIn(_ range: PartialRangeThrough<Value>) -> Condition<Root> { self <= range.upperBound }

  /// Returns the condition that the field is in a range: `$0.year.isIn(..<1900)` is `$0.year < 1900`.
  public func isIn(_ range: PartialRangeUpTo<Value>) -> Condition<Root> { self < range.upperBound }
}

extension Field {
  /// Returns the condition that the field has a value in a range. Nil is in none.
  public func isIn<Wrapped: Hashable & Comparable & Sendable>(_ range: PartialRangeFrom<Wrapped>) -> Condition<Root>
  where Value == Wrapped? { self >= range.lowerBound }

  /// Returns the condition that the field has a value in a range. Nil is in none.
  public func isIn<Wrapped: Hashable & Comparable & Sendable>(_ range: PartialRangeThrough<Wrapped>) -> Condition<Root>
  where Value == Wrapped? { self <= range.upperBound }

  /// Returns the condition that the field has a value in a range. Nil is in none.
  public func isIn<Wrapped: Hashable & Comparable & Sendable>(_ range: PartialRangeUpTo<Wrapped>) -> Condition<Root>
  where Value == Wrapped? { self < range.upperBound }
}

extension FieldElement where Value: Hashable & Comparable & Sendable {
  /// Returns the condition that one of the values is in a range.
  public func isIn(_ range: PartialRangeFrom<Value>) -> Condition<Root> { self >= range.lowerBound }

  /// Returns the condition that one of the values is in a range.
  public func isIn(_ range: PartialRangeThrough<Value>) -> Condition<Root> { self <= range.upperBound }

  /// Returns the condition that one of the values is in a range.
  public func isIn(_ range: PartialRangeUpTo<Value>) -> Condition<Root> { self < range.upperBound }
}

// MARK: - The range on the left

extension PartialRangeFrom where Bound: Hashable & Sendable {
  /// Returns the condition that a field is in the range.
  public func contains<Root>(_ field: Field<Root, Bound>) -> Condition<Root> { field.isIn(self) }

  /// Returns the condition that a field has a value in the range.
  public func contains<Root>(_ field: Field<Root, Bound?>) -> Condition<Root> { field.isIn(self) }
}

extension PartialRangeThrough where Bound: Hashable & Sendable {
  /// Returns the condition that a field is in the range.
  public func contains<Root>(_ field: Field<Root, Bound>) -> Condition<Root> { field.isIn(self) }

  /// Returns the condition that a field has a value in the range.
  public func contains<Root>(_ field: Field<Root, Bound?>) -> Condition<Root> { field.isIn(self) }
}

extension PartialRangeUpTo where Bound: Hashable & Sendable {
  /// Returns the condition that a field is in the range.
  public func contains<Root>(_ field: Field<Root, Bound>) -> Condition<Root> { field.isIn(self) }

  /// Returns the condition that a field has a value in the range.
  public func contains<Root>(_ field: Field<Root, Bound?>) -> Condition<Root> { field.isIn(self) }
}

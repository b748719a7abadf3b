// The same conditions with the value on the left: `1900 < $0.year`, `(1900..<2000).contains($0.year)`.

extension Field where Value: Hashable & Sendable {
  /// Returns the condition that the field has a value; nil equals nil.
  public static func == (value: Value, field: Self) -> Condition<Root> { field == value }

  /// Returns the condition that the field has another value, or is nil.
  public static func != (value: Value, field: Self) -> Condition<Root> { field != value }
}

extension Field where Value: Hashable & Comparable & Sendable {
  /// Returns the condition that a value is less than the field.
  public static func < (value: Value, field: Self) -> Condition<Root> { field > value }

  /// Returns the condition that a value is less than or equal to the field.
  public static func <= (value: Value, field: Self) -> Condition<Root> { field >= value }

  /// Returns the condition that a value is greater than the field.
  public static func > (value: Value, field: Self) -> Condition<Root> { field < value }

  /// Returns the condition that a value is greater than or equal to the field.
  public static func >= (value: Value, field: Self) -> Condition<Root> { field <= value }
}

extension Field {
  /// Returns the condition that the field is not nil, and a value is less than it.
  public static func < <Wrapped: Hashable & Comparable & Sendable>(value: Wrapped, field: Self) -> Condition<Root>
  where Value == Wrapped? { field > value }

  /// Returns the condition that the field is not nil, and a value is less than or equal to it.
  public static func <= <Wrapped: Hashable & Comparable & Sendable>(value: Wrapped, field: Self) -> Condition<Root>
  where Value == Wrapped? { field >= value }

  /// Returns the condition that the field is not nil, and a value is greater than it.
  public static func > <Wrapped: Hashable & Comparable & Sendable>(value: Wrapped, field: Self) -> Condition<Root>
  where Value == Wrapped? { field < value }

  /// Returns the condition that the field is not nil, and a value is greater than or equal to it.
  public static func >= <Wrapped: Hashable & Comparable & Sendable>(value: Wrapped, field: Self) -> Condition<Root>
  where Value == Wrapped? { field <= value }
}

extension Sequence where Element: Hashable & Sendable {
  /// Returns the condition that a field has one of the values.
  public func contains<Root>(_ field: Field<Root, Element>) -> Condition<Root> { field.isIn(self) }
}

extension Range where Bound: Hashable & Sendable {
  /// Returns the condition that a field is in the range.
  public func contains<Root>(_ field: Field<Root, Bound>) -> Condition<Root> { field.isIn(self) }

  /// Returns the condition that a field has a value in the range.
  public func contains<Root>(_ field: Field<Root, Bound?>) -> Condition<Root> { field.isIn(self) }
}

extension ClosedRange where Bound: Hashable & Sendable {
  /// Returns the condition that a field is in the range.
  public func contains<Root>(_ field: Field<Root, Bound>) -> Condition<Root> { field.isIn(self) }

  /// Returns the condition that a field has a value in the range.
  public func contains<Root>(_ field: Field<Root, Bound?>) -> Condition<Root> { field.isIn(self) }
}

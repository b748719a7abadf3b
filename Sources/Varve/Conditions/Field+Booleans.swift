// A Boolean field is a condition, alone and combined with others.

extension Field where Value == Bool {
  /// The condition that the field is true.
  public var isTrue: Condition<Root> { self == true }

  /// Returns the condition that the field is true, and a condition is fulfilled.
  public static func && (field: Self, condition: Condition<Root>) -> Condition<Root> { field.isTrue && condition }

  /// Returns the condition that a condition is fulfilled, and the field is true.
  public static func && (condition: Condition<Root>, field: Self) -> Condition<Root> { condition && field.isTrue }

  /// Returns the condition that both fields are true.
  public static func && (left: Self, right: Self) -> Condition<Root> { left.isTrue && right.isTrue }

  /// Returns the condition that the field is true, or a condition is fulfilled.
  public static func || (field: Self, condition: Condition<Root>) -> Condition<Root> { field.isTrue || condition }

  /// Returns the condition that a condition is fulfilled, or the field is true.
  public static func || (condition: Condition<Root>, field: Self) -> Condition<Root> { condition || field.isTrue }

  /// Returns the condition that at least one of both fields is true.
  public static func || (left: Self, right: Self) -> Condition<Root> { left.isTrue || right.isTrue }

  /// Returns the condition that the field is false.
  public static prefix func ! (field: Self) -> Condition<Root> { !field.isTrue }
}

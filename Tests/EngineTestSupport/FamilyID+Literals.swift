public import VarveEngine

/// Allows tests to write the identifier of a family as an integer literal.
extension FamilyID: ExpressibleByIntegerLiteral {
  /// Creates an identifier from its number.
  public init(integerLiteral value: UInt32) { self.init(value) }
}

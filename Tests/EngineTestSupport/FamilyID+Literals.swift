public import VarveEngine

/// So that tests can write the id of a family as its number.
extension FamilyID: ExpressibleByIntegerLiteral {
  /// An id of its number.
  public init(integerLiteral value: UInt32) { self.init(value) }
}

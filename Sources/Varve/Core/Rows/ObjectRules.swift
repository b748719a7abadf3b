/// The rules of a definition that are applied to each object before and after its write.
struct ObjectRules: Sendable {
  /// Returns the object that is encoded instead of the given one, or `nil` if the row must be removed.
  var before: (@Sendable (Any) throws -> Any?)?
  /// Receives the encoded object after the write.
  var after: (@Sendable (Any) -> Void)?
  /// The types for which the rules were written.
  var types: [any (Codable & Sendable).Type] = []
}

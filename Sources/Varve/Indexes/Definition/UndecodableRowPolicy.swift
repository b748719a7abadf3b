/// The answer that a format has for a row that this build of the program can't decode.
///
/// ```swift
/// static let undecodable: UndecodablePolicy = .skips
/// static let undecodable: UndecodablePolicy = .fallback { row in
///   (try? row.key.key(as: UUID.self)).map { Book(id: $0, title: "Needs a newer version") }
/// }
/// ```
///
/// A row can't be decoded if a newer program has written it, if its type has changed without a version, if its coder is
/// not known, or if its bytes are damaged. The article *Queries* has a table of what one such row does to each kind of
/// answer. Errors of the storage are not concerned: they are thrown under each policy.
///
/// The policy is one of reading. Calls that change an instance, or return the former one, decode the row itself: no
/// call stores a stand-in over a row.
public enum UndecodableRowPolicy<Instance: Sendable>: Sendable {
  /// An answer that needs the row throws the error of the row.
  case `throws`
  /// Answers are as if there were no such row. ``ReadTransaction/skippedRows`` has what was left out.
  ///
  /// An answer that an index would give without reading rows, such as a count, decodes each row that it has.
  case skips
  /// Answers have the instance that the closure returns. If it returns nil, the row is left out, as with `skips`.
  ///
  /// The closure must return equal instances for equal rows, with the identifier of the row. It is called for each
  /// read, and by indexes for rows that they have no values of.
  case fallback(@Sendable (UndecodableRow) -> Instance?)

  /// Whether answers throw.
  var isThrowing: Bool {
    if case .throws = self { return true }
    return false
  }

  /// The function that makes a stand-in, or nil if the policy has none.
  var standIn: (@Sendable (UndecodableRow) -> Instance?)? {
    if case .fallback(let make) = self { return make }
    return nil
  }
}

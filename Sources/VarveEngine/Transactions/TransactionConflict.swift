/// A conflicting change between a transaction's snapshot and its commit, as the cause of an error with the code
/// `.conflict`.
public struct TransactionConflict: Error, Hashable, Sendable, CustomStringConvertible {
  /// The name of the column family.
  public let family: String
  /// The key that was changed, or the start of a range delete. It is `nil` if the whole family was dropped.
  public let key: [UInt8]?
  /// The commit that changed the key, or `nil` for a dropped family.
  public let sequence: SequenceNumber?

  /// The change as text.
  public var description: String {
    guard let key, let sequence else { return "column family \"\(family)\" was dropped" }
    return "key \(key.withByteView { $0.printable }) of column family \"\(family)\" was changed at sequence \(sequence)"
  }

  /// Returns the error of a commit that has the conflict.
  func error(snapshot: SequenceNumber) -> EngineError {
    EngineError(.conflict, "the transaction read at sequence \(snapshot), and a later commit conflicts", cause: self)
  }
}

/// The changes by other commits that make a transaction fail.
public enum TransactionIsolation: Sendable, Hashable {
  /// The transaction reads from one snapshot, and no other commit wrote a key that it writes. Two transactions that
  /// each read what the other writes can both commit (write skew).
  case snapshot
  /// The result equals some serial order of the transactions: no key that the transaction read and no range that its
  /// cursors iterated was changed after its snapshot.
  case serializable
}

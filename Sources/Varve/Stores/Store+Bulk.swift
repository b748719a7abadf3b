/// Inserting many instances.
extension Store where Format: StoreFormat {
  /// Inserts instances that do not exist, and commits them in pieces. Returns their number.
  ///
  /// ```swift
  /// let count = try await books.insert(bulk: lines.lazy.map(Book.init)) { print("\($0) so far") }
  /// ```
  ///
  /// Use it for what is too large for one transaction (`DatabaseOptions.transactionBytes`), such as a first import.
  /// The sequence is read as it is inserted, so memory is only needed for one piece, and other writers can run in
  /// between. `progress` is called after each commit with the number of instances that are committed.
  ///
  /// If this throws or the task is cancelled, the pieces before are committed, and `progress` has said how many
  /// instances they have. Throws `.alreadyExists` for an instance that exists, what ``insert(_:in:)`` throws, and
  /// `.invalidArgument` inside a transaction.
  @discardableResult
  public func insert(
    bulk instances: some Sequence<Instance> & Sendable, label: String? = nil, durability: StorageDurability? = nil,
    progress: (@Sendable (_ count: Int) -> Void)? = nil
  ) async throws -> Int {
    try database.core.requireNoTransaction("instances are inserted in pieces")
    let pieces = BulkPieces(instances, database.core.limits)
    var sum = 0
    while true {
      try Task.checkCancellation()
      let count = try await database.write(label: label, durability: durability) { tx in
        try pieces.next(tx) { try insert($0, in: tx) }
      }
      if count == 0 { return sum }
      sum += count
      progress?(sum)
    }
  }

  /// Inserts instances in pieces, and blocks the calling thread: see the asynchronous form.
  @_disfavoredOverload
  @discardableResult
  public func insert(
    bulk instances: some Sequence<Instance>, label: String? = nil, durability: StorageDurability? = nil,
    progress: ((_ count: Int) -> Void)? = nil
  ) throws -> Int {
    try database.core.requireNoTransaction("instances are inserted in pieces")
    let pieces = BulkPieces(instances, database.core.limits)
    var sum = 0
    while true {
      let count = try database.core.write(WriteTerms(label: label, durability: durability)) { tx in
        try pieces.next(tx) { try insert($0, in: tx) }
      }
      if count == 0 { return sum }
      sum += count
      progress?(sum)
    }
  }
}

/// A sequence that is read in pieces, each in a transaction.
private final class BulkPieces<Source: Sequence>: @unchecked Sendable {
  // Sendable: the transactions follow one another, so the iterator is used by one thread at a time.
  private var iterator: Source.Iterator
  /// The element that did not fit in the piece before.
  private var held: Source.Element?
  private let byteLimit: Int

  /// The bytes of changes, and the number of rows, at which a piece ends. Larger pieces are not faster.
  private static var bytesMaximum: Int { 8 << 20 }
  private static var rowsMaximum: Int { 10_000 }

  init(_ source: Source, _ limits: StorageLimits) {
    iterator = source.makeIterator()
    byteLimit = min(Self.bytesMaximum, limits.batchSize / 4)
  }

  /// Calls `body` with the elements of the next piece. Returns their number, which is 0 at the end.
  ///
  /// A large element that does not fit with those before it begins the next piece.
  func next(_ tx: WriteTransaction, _ body: (Source.Element) throws -> Void) throws -> Int {
    var count = 0
    while count < Self.rowsMaximum, tx.pending.byteCount < byteLimit, let element = held ?? iterator.next() {
      held = nil
      do {
        try body(element)
      } catch let error as DatabaseError where error.code == .batchTooLarge && count > 0 {
        held = element
        return count
      }
      count += 1
    }
    return count
  }
}

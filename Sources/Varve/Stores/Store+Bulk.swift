/// Writing many instances.
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
  /// The sequence is read on threads of the database, one at a time: it may be one that isn't `Sendable`, if the caller
  /// does not use it afterward. A closure of a lazy sequence that is written on an actor, or in the `main()` of a
  /// program, belongs to that actor unless it is `@Sendable`: `lines.lazy.map { @Sendable line in … }`. The compiler
  /// refuses one that is not, except in `sequence(state:next:)` and `sequence(first:next:)`, whose types are `Sendable`
  /// whatever their closures are: there the program ends.
  ///
  /// If this throws or the task is cancelled, the pieces before are committed. `progress` and the message of a
  /// `DatabaseError` say how many instances they have. Throws `.alreadyExists` for an instance that exists, also after
  /// such an end: ``persist(bulk:label:durability:progress:)`` can be repeated. Throws what ``insert(_:in:)`` throws,
  /// and `.invalidArgument` inside a transaction.
  @discardableResult
  public func insert(
    bulk instances: sending some Sequence<Instance>, label: String? = nil, durability: StorageDurability? = nil,
    progress: ((_ count: Int) -> Void)? = nil
  ) async throws -> Int {
    try await write(
      AwaitedElements(instances), WriteTerms(label: label, durability: durability), progress
    ) { instance, tx in try insert(instance, in: tx) }
  }

  /// Inserts instances in pieces, and blocks the calling thread: see the asynchronous form.
  @_disfavoredOverload
  @discardableResult
  public func insert(
    bulk instances: some Sequence<Instance>, label: String? = nil, durability: StorageDurability? = nil,
    progress: ((_ count: Int) -> Void)? = nil
  ) throws -> Int {
    try writeBlocking(
      AwaitedElements(instances), WriteTerms(label: label, durability: durability), progress
    ) { instance, tx in try insert(instance, in: tx) }
  }

  /// Sets instances, whether they exist or not, and commits them in pieces. Returns their number, in which an instance
  /// counts each time that the sequence has it.
  ///
  /// An import that has ended early can be repeated by this from the beginning. Otherwise as
  /// ``insert(bulk:label:durability:progress:)``: the previous instances are not decoded, and throws what
  /// ``persist(contentsOf:in:)`` throws.
  @discardableResult
  public func persist(
    bulk instances: sending some Sequence<Instance>, label: String? = nil, durability: StorageDurability? = nil,
    progress: ((_ count: Int) -> Void)? = nil
  ) async throws -> Int {
    try await write(
      AwaitedElements(instances), WriteTerms(label: label, durability: durability), progress
    ) { instance, tx in try access.set(instance, Format.identifier(of: instance), access.own, tx) }
  }

  /// Sets instances in pieces, and blocks the calling thread: see the asynchronous form.
  @_disfavoredOverload
  @discardableResult
  public func persist(
    bulk instances: some Sequence<Instance>, label: String? = nil, durability: StorageDurability? = nil,
    progress: ((_ count: Int) -> Void)? = nil
  ) throws -> Int {
    try writeBlocking(
      AwaitedElements(instances), WriteTerms(label: label, durability: durability), progress
    ) { instance, tx in try access.set(instance, Format.identifier(of: instance), access.own, tx) }
  }

  // MARK: - Pieces

  private func write(
    _ instances: AwaitedElements<Instance>, _ terms: WriteTerms, _ progress: ((Int) -> Void)?,
    _ body: @escaping @Sendable (Instance, WriteTransaction) throws -> Void
  ) async throws -> Int {
    try database.core.requireNoTransaction("instances are written in pieces")
    let pieces = BulkPieces(instances, database.core.limits)
    var sum = 0
    while true {
      try Task.checkCancellation()
      let count: Int
      do {
        count = try await database.write(label: terms.label, durability: terms.durability) { tx in
          try pieces.next(tx) { try body($0, tx) }
        }
      } catch let error as DatabaseError { throw error.after(committed: sum) }
      if count == 0 { return sum }
      sum += count
      progress?(sum)
    }
  }

  private func writeBlocking(
    _ instances: AwaitedElements<Instance>, _ terms: WriteTerms, _ progress: ((Int) -> Void)?,
    _ body: (Instance, WriteTransaction) throws -> Void
  ) throws -> Int {
    try database.core.requireNoTransaction("instances are written in pieces")
    let pieces = BulkPieces(instances, database.core.limits)
    var sum = 0
    while true {
      let count: Int
      do {
        count = try database.core.write(terms) { tx in try pieces.next(tx) { try body($0, tx) } }
      } catch let error as DatabaseError { throw error.after(committed: sum) }
      if count == 0 { return sum }
      sum += count
      progress?(sum)
    }
  }
}

/// A sequence that is read in pieces, each in a transaction.
private final class BulkPieces<Element>: @unchecked Sendable {
  // Sendable: the transactions follow one another, so the elements are used by one thread at a time.
  private let elements: AwaitedElements<Element>
  /// The element that did not fit in the piece before.
  private var held: Element?
  private let byteLimit: Int

  /// The bytes of changes, and the number of rows, at which a piece ends. Larger pieces are not faster.
  private static var bytesMaximum: Int { 8 << 20 }
  private static var rowsMaximum: Int { 10_000 }

  init(_ elements: AwaitedElements<Element>, _ limits: StorageLimits) {
    self.elements = elements
    byteLimit = min(Self.bytesMaximum, limits.batchSize / 4)
  }

  /// Calls `body` with the elements of the next piece. Returns their number, which is 0 at the end.
  ///
  /// A large element that does not fit with those before it begins the next piece.
  func next(_ tx: WriteTransaction, _ body: (Element) throws -> Void) throws -> Int {
    var count = 0
    while count < Self.rowsMaximum, tx.pending.byteCount < byteLimit, let element = held ?? elements.next() {
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

extension DatabaseError {
  /// Returns the error of a piece, whose text says how many instances the pieces before have.
  fileprivate func after(committed count: Int) -> DatabaseError {
    DatabaseError(
      code, "\(message); \(count) instances of the pieces before are committed", collection: collection, key: key,
      cause: cause)
  }
}

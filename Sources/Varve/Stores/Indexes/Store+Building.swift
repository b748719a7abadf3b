/// The progress of building the indexes of a store.
public enum WarmProgress: Hashable, Sendable {
  /// The work is being determined.
  case evaluating
  /// Rows are being added to the indexes: `current` rows of about `total` are in them, and `current` is less than
  /// `total`, so the row that is being added is number `current + 1`.
  case working(current: Int, total: Int)
  /// All indexes have all `total` rows.
  case complete(total: Int)
}

/// Building the indexes of a format.
///
/// New indexes of a format are detected when the database is opened, and built in the background from then on, while
/// others read and write. A build survives a crash, and continues at the next open. Until an index has all rows, its
/// use throws `.notReady`; other indexes answer.
extension Store where Format: StoreFormat {
  /// Waits until all indexes are built.
  ///
  /// ```swift
  /// try await books.warm { progress in
  ///   switch progress {
  ///   case .evaluating: print("Looking at the indexes")
  ///   case .working(let current, let total): print("\(current) of \(total)")
  ///   case .complete(let total): print("\(total) books")
  ///   }
  /// }
  /// ```
  ///
  /// Cancelling the task ends the wait, but not the build. A build that a storage error has ended is continued. A
  /// unique index is also built if several rows have the same value: each use of it then throws `.notUnique`. Throws
  /// the error that has ended the build, `.unknownExtension` if the database was opened without the format, and
  /// `.invalidArgument` inside a transaction.
  public func warm(_ progress: (@Sendable (WarmProgress) -> Void)? = nil) async throws {
    let waiting = try beginWarming(progress)
    defer { waiting?.end() }
    if let waiting {
      let core = database.core
      while let building = try core.building(waiting.name) {
        if try await building.build.waitForEndSuspended() { continue }
        try core.requireReady(building)
      }
    }
    progress?(.complete(total: try await count))
  }

  /// Waits until all indexes are built, and blocks the calling thread: see the asynchronous form.
  @_disfavoredOverload
  public func warm(_ progress: (@Sendable (WarmProgress) -> Void)? = nil) throws {
    let waiting = try beginWarming(progress)
    defer { waiting?.end() }
    if let waiting {
      let core = database.core
      while let building = try core.building(waiting.name) {
        if building.build.waitForEnd() { continue }
        try core.requireReady(building)
      }
    }
    progress?(.complete(total: try database.core.read { tx in try access.count(tx) }))
  }

  /// Builds one index again from the rows, and returns when it is built. The index cannot be used meanwhile. Use this
  /// for a computation that was changed without a new `version:`, and for differences that ``verifyIndexes(sample:)``
  /// has found.
  ///
  /// If the build of all indexes has failed, or a storage error has ended it, that build is repeated first. Throws as
  /// ``warm(_:)``, and `.notUnique` if several rows have the same value of a unique index.
  public func rebuild<Index: StoreIndex>(_ index: KeyPath<Format, Index>) async throws {
    let access = access
    let slot = try DeclaredIndexes<Format>.found().slot(of: index)
    let core = database.core
    try core.requireNoTransaction("an index is built again")
    if try await core.writerExecutor.run({ try access.continueBuild() }) { try await warm() }
    try await core.writerExecutor.run { try access.rebuild(slot) }
    try await warm()
    _ = try await database.read { tx in try access.indexes(tx)?.indexes.readable(slot) != nil }
  }

  /// Builds one index again, and blocks the calling thread: see the asynchronous form.
  @_disfavoredOverload
  public func rebuild<Index: StoreIndex>(_ index: KeyPath<Format, Index>) throws {
    let slot = try DeclaredIndexes<Format>.found().slot(of: index)
    let warmed: (Store) throws -> Void = { try $0.warm() }
    if try access.continueBuild() { try warmed(self) }
    try access.rebuild(slot)
    try warmed(self)
    try database.core.read { tx in _ = try access.indexes(tx)?.indexes.readable(slot) }
  }

  /// Returns the rows that are in no index, because they cannot be decoded or have a value that cannot be a key.
  public func unindexedRows(in tx: ReadTransaction) throws -> [UnindexedRow] {
    if try DeclaredIndexes<Format>.found().list.isEmpty { return [] }
    return try access.indexes(tx)?.indexes.unindexedRows() ?? []
  }

  /// Returns the rows that are in no index.
  public func unindexedRows() async throws -> [UnindexedRow] {
    let store = self
    return try await database.read { tx in try store.unindexedRows(in: tx) }
  }

  /// Compares the indexes with the rows, and returns at most 1,000 differences. There are none, unless bytes on the
  /// disk are damaged or a computation was changed without a new `version:`.
  ///
  /// `sample` is the approximate number of rows and of entries of each index that are compared, or nil for all. Indexes
  /// that are being built are skipped, and a format without indexes has no differences. Complexity: O(n) in the rows
  /// and entries.
  public func verifyIndexes(sample: Int? = nil) async throws -> [IndexDifference] {
    let store = self
    return try await database.read { tx in try store.indexDifferences(sample: sample, in: tx) }
  }

  /// Compares the indexes with the rows, and blocks the calling thread: see the asynchronous form.
  @_disfavoredOverload
  public func verifyIndexes(sample: Int? = nil) throws -> [IndexDifference] {
    try database.core.read { tx in try indexDifferences(sample: sample, in: tx) }
  }

  func indexDifferences(sample: Int? = nil, in tx: ReadTransaction) throws -> [IndexDifference] {
    if let sample, sample < 1 {
      throw DatabaseError(.invalidArgument, "a sample has at least 1 row, and \(sample) were asked for")
    }
    if try DeclaredIndexes<Format>.found().list.isEmpty { return [] }
    guard let (info, indexes) = try access.indexes(tx) else { return [] }
    var verification = try IndexVerification(indexes, info, sample: sample, in: tx)
    try verification.run()
    return verification.differences
  }

  /// Begins to wait for the indexes, or returns nil if the format has none.
  private func beginWarming(_ progress: (@Sendable (WarmProgress) -> Void)?) throws -> Warming? {
    let core = database.core
    try core.requireNoTransaction("the indexes of a store are waited for")
    try core.requireNoBuild("the indexes of a store are waited for")
    progress?(.evaluating)
    if try DeclaredIndexes<Format>.found().list.isEmpty { return nil }
    let name = IndexesName.name(for: collection)
    guard let registered = core.extensions.list[name] else {
      throw DatabaseError(
        .unknownExtension,
        "the indexes are not in use: add \(Format.self) to the definition that the database is opened with",
        collection: collection)
    }
    try core.continueBuild(of: name)
    return Warming(registered, progress)
  }
}

/// A call that waits for indexes and reports their progress.
private struct Warming {
  private let registered: RegisteredExtension
  private let number: Int?

  var name: String { registered.name }

  init(_ registered: RegisteredExtension, _ progress: (@Sendable (WarmProgress) -> Void)?) {
    self.registered = registered
    number = progress.map { progress in
      registered.addWaiting { now in
        if now.rowsDone < now.rowsTotal { progress(.working(current: now.rowsDone, total: now.rowsTotal)) }
      }
    }
  }

  func end() {
    if let number { registered.removeWaiting(number) }
  }
}

extension RowAccess where Format: StoreFormat {
  /// Returns whether the indexes could not be used at all, in which case their build was restarted.
  fileprivate func continueBuild() throws -> Bool {
    try core.requireNoTransaction("an index is built again")
    return try core.continueBuild(of: IndexesName.name(for: name), orIfFailed: true)
  }

  /// Empties an index and begins to build it.
  fileprivate func rebuild(_ slot: Int) throws {
    try core.rebuild([slot], of: IndexesName.name(for: name)) { tx in
      try indexes(tx)?.indexes.forgetCollisions(of: [slot])
    }
  }
}

/// Changing what a query finds. All rows are found first, and then changed one by one, with the hooks and rules that a call of the
/// store would run. So a change never makes the query find a row again.
///
/// Each returns how many instances the query named, whatever hooks made of them. Each throws what ``StoreQuery/fetch(in:)`` and writing throw.
extension StoreQuery {
  // MARK: - Inside of a transaction

  /// Removes the instances.
  @discardableResult
  public func delete(in tx: WriteTransaction) throws -> Int {
    let ids = try ids(in: tx)
    try store.delete(ids: ids, in: tx)
    return ids.count
  }

  /// Changes the instances. One that a hook has removed meanwhile is left alone. Throws `.invalidArgument` where `body` gives an
  /// instance another identifier, and what `body` throws.
  @discardableResult
  public func update(in tx: WriteTransaction, _ body: (inout Format.Instance) throws -> Void) throws -> Int {
    let ids = try ids(in: tx)
    for id in ids where try store.contains(id, in: tx) { try store.modify(id, in: tx, body) }
    return ids.count
  }

  // MARK: - By itself

  /// Removes the instances, in one transaction.
  @discardableResult
  public func delete(label: String? = nil, durability: StorageDurability? = nil) async throws -> Int {
    try await store.database.write(label: label, durability: durability) { tx in try delete(in: tx) }
  }

  /// Changes the instances, in one transaction. Throws `.invalidArgument` where `body` gives an instance another identifier,
  /// and what `body` throws.
  @discardableResult
  public func update(
    label: String? = nil, durability: StorageDurability? = nil,
    _ body: @Sendable (inout Format.Instance) throws -> Void
  ) async throws -> Int {
    try await store.database.write(label: label, durability: durability) { tx in try update(in: tx, body) }
  }

  /// Removes the instances, so many in one transaction: other writers get their turns, and memory is for one batch. An instance
  /// that does not fulfil the condition any more when it is its turn is left alone. Where it throws, batches before are committed.
  /// Returns how many were removed. Throws `.invalidArgument` for a batch of less than 1.
  @discardableResult
  public func delete(
    inBatchesOf size: Int, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Int {
    try await inBatches(of: size, label, durability) { ids, tx in _ = try store.delete(ids: ids, in: tx) }
  }

  /// Changes the instances, so many in one transaction: other writers get their turns, and memory is for one batch. An instance
  /// that does not fulfil the condition any more when it is its turn is left alone. Where it throws, batches before are committed.
  /// Returns how many were changed. Throws `.invalidArgument` for a batch of less than 1, and where `body` gives an
  /// instance another identifier.
  @discardableResult
  public func update(
    inBatchesOf size: Int, label: String? = nil, durability: StorageDurability? = nil,
    _ body: @Sendable (inout Format.Instance) throws -> Void
  ) async throws -> Int {
    try await inBatches(of: size, label, durability) { ids, tx in
      for id in ids where try store.contains(id, in: tx) { try store.modify(id, in: tx, body) }
    }
  }

  private func inBatches(
    of size: Int, _ label: String?, _ durability: StorageDurability?,
    _ body: @Sendable ([Format.Identifier], WriteTransaction) throws -> Void
  ) async throws -> Int {
    guard size > 0 else {
      throw DatabaseError(.invalidArgument, "the size of a batch is \(size); it must be at least 1")
    }
    let ids = try await ids()
    var count = 0
    var start = 0
    while start < ids.count {
      try Task.checkCancellation()
      let batch = Array(ids[start..<Swift.min(start + size, ids.count)])
      start += batch.count
      count += try await store.database.write(label: label, durability: durability) { tx in
        let present = try zip(batch, try store.load(ids: batch, in: tx)).filter { _, instance in
          guard let instance else { return false }
          return try condition?.holds(for: instance) ?? true
        }.map(\.0)
        try body(present, tx)
        return present.count
      }
    }
    return count
  }
}

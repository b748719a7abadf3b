/// Changes the instances that a query finds. All rows are found first, and then changed one by one, with the hooks and
/// rules of the store's methods. So the query never finds a row again because of the change.
///
/// Each method returns the number of instances that the query found, whatever hooks do with them. Each throws what
/// ``StoreQuery/fetch(in:)`` and writing throw.
///
/// Rows that can't be decoded are treated as the format says (``RowFormat/undecodable``): a deletion removes the
/// instances that `fetch` returns, including stand-ins, and leaves what `fetch` leaves out, which
/// ``ReadTransaction/skippedRows`` has. An update also leaves out the rows for which there are stand-ins.
extension StoreQuery {
  // MARK: - Inside a transaction

  /// Removes the instances.
  @discardableResult
  public func delete(in tx: WriteTransaction) throws -> Int {
    let ids = try ids(in: tx)
    try store.delete(ids: ids, in: tx)
    return ids.count
  }

  /// Changes the instances. An instance that a hook has removed meanwhile is skipped. Throws `.invalidArgument` if
  /// `body` changes the identifier of an instance, and what `body` throws.
  @discardableResult
  public func update(in tx: WriteTransaction, _ body: (inout Format.Instance) throws -> Void) throws -> Int {
    let ids = try ids(in: tx)
    var leftOut = 0
    for id in ids {
      switch try store.access.state(of: id, tx) {
      case .absent: continue
      case .undecodable: leftOut += 1
      case .present: try store.modify(id, in: tx, body)
      }
    }
    return ids.count - leftOut
  }

  // MARK: - In transactions of their own

  /// Removes the instances, in one transaction.
  @discardableResult
  public func delete(label: String? = nil, durability: StorageDurability? = nil) async throws -> Int {
    try await store.database.write(label: label, durability: durability) { tx in try delete(in: tx) }
  }

  /// Changes the instances, in one transaction. Throws `.invalidArgument` if `body` changes the identifier of an
  /// instance, and what `body` throws.
  @discardableResult
  public func update(
    label: String? = nil, durability: StorageDurability? = nil,
    _ body: sending (inout Format.Instance) throws -> Void
  ) async throws -> Int {
    try await withAwaitedChange(body) { body in
      try await store.database.write(label: label, durability: durability) { tx in try update(in: tx, body) }
    }
  }

  /// Removes the instances in batches of `size`, each in its own transaction, so that other writers can run in between
  /// and memory is only needed for one batch.
  ///
  /// An instance that no longer fulfills the condition when its batch is processed is skipped. If this throws, the
  /// batches before are committed. Returns the number of removed instances. Throws `.invalidArgument` for a size below
  /// 1.
  @discardableResult
  public func delete(
    inBatchesOf size: Int, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Int {
    try await inBatches(of: size, label, durability) { ids, tx in
      _ = try store.delete(ids: ids, in: tx)
      return ids.count
    }
  }

  /// Changes the instances in batches of `size`, each in its own transaction, so that other writers can run in between
  /// and memory is only needed for one batch.
  ///
  /// An instance that no longer fulfills the condition when its batch is processed is skipped. If this throws, the
  /// batches before are committed. Returns the number of changed instances. Throws `.invalidArgument` for a size below
  /// 1, and if `body` changes the identifier of an instance.
  @discardableResult
  public func update(
    inBatchesOf size: Int, label: String? = nil, durability: StorageDurability? = nil,
    _ body: sending (inout Format.Instance) throws -> Void
  ) async throws -> Int {
    try await withAwaitedChange(body) { body in
      try await inBatches(of: size, label, durability) { ids, tx in
        let states = try ids.map { try store.access.state(of: $0, tx) }
        for (id, state) in zip(ids, states) where state == .present {
          if try store.contains(id, in: tx) { try store.modify(id, in: tx, body) }
        }
        return states.count { $0 != .undecodable }
      }
    }
  }

  private func inBatches(
    of size: Int, _ label: String?, _ durability: StorageDurability?,
    _ body: @Sendable ([Format.Identifier], WriteTransaction) throws -> Int
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
        return try body(present, tx)
      }
    }
    return count
  }
}

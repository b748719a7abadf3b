/// Brings an extension up to date that missed changes, by what the feed says of them.
///
/// Its record says from where on. Chunk by chunk, each an ordinary write, what was changed there is delivered to it, every
/// row as it is now, and the position moves with the same commit. While it lags it is notified of no change of others: the
/// feed has those, too, and the chunk that comes to the end of the feed, which no one can be adding to meanwhile, makes
/// it ready. So a crash, or a program that does not register it, only leaves more to be delivered.
///
/// A row that was changed several times may be passed several times, always as it is. Where a removal of all rows takes away a row
/// that has been added since and was passed before, the feed passes that row again.
struct CatchingUp {
  let core: DatabaseCore
  let registered: RegisteredExtension

  /// The feed has not all of it, or the extension can't do with what it says: it has to be built again.
  private struct Impossible: Error {}

  /// One chunk, as much as the pace says, for the caller to commit: how many changes it gave, and the extension's state
  /// after it. Nil where it can't catch up: then nothing was done.
  func step(
    from position: FeedPosition, _ pace: CatchingUpPace, _ transaction: WriteTransaction
  ) throws -> (state: ExtensionRecord.State, count: Int)? {
    do {
      return try transaction.savepoint { try receive(from: position, pace, transaction) }
    } catch is Impossible {
      return nil
    }
  }

  private func receive(
    from position: FeedPosition, _ pace: CatchingUpPace, _ transaction: WriteTransaction
  ) throws -> (state: ExtensionRecord.State, count: Int) {
    var missed = try readable { try CatchUpChanges(core.catalog, transaction.snapshot, at: position) }
    let open = try transaction.dooming { try transaction.open(registered) }
    // New parts are built afterwards.
    let parts = registered.record.wholeParts
    var announced: Set<[UInt8]> = []
    var count = 0
    while !pace.isEnough(count) {
      guard let change = try readable({ .some(try missed.next()) }) else {
        // What it has written to rows itself it has not heard of: that is in the feed after this commit.
        guard transaction.changes.isEmpty else { break }
        // From here on, and in what is flushed, as one that is ready.
        transaction.setReach(BuildReach(whole: parts), of: registered)
        return (.ready, count)
      }
      count += 1
      guard try receive(change, to: open, parts, &announced, transaction) else { throw Impossible() }
    }
    return (.stale(missed.position), count)
  }

  /// What the feed has. Objects are more than it: where it is damaged, the extension is built from those.
  private func readable<Result>(_ body: () throws -> Result?) throws -> Result {
    do {
      if let found = try body() { return found }
    } catch let error as DatabaseError where error.code == .corruption {
      DatabaseLog.unreadableFeed(error, name: registered.name)
    }
    throw Impossible()
  }

  /// False where the extension can't do with that.
  private func receive(
    _ change: CatchUpChanges.Change, to open: OpenExtension, _ parts: PartSet, _ announced: inout Set<[UInt8]>,
    _ transaction: WriteTransaction
  ) throws -> Bool {
    try transaction.dooming {
      try open.activate(parts)
      guard let hearer = open.hearer else { return true }
      switch change {
      case .everythingRemoved:
        announced = []
        return try hearer.removesAll(in: nil)
      case .removed(let name) where registered.traits.scope.contains(name):
        announced = []
        return try hearer.removesAll(in: name)
      case .row(let info, let key) where registered.traits.scope.contains(info.name):
        guard announced.insert(info.scanKey(key)).inserted else { return true }
        try hearer.didMiss(info.key(of: key), try transaction.row(key, info))
      case .removed, .row, .toldAlready: break
      }
      return true
    }
  }
}

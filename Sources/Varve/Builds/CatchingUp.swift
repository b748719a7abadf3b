/// Brings an extension that missed changes up to date from the feed.
///
/// The extension's record contains the position in the feed from which it continues. Chunk by chunk, each in an
/// ordinary write, the rows that changed after that position are delivered to it in their current state, and the
/// position moves in the same commit. Until it has caught up, it is not notified of other changes: the feed contains
/// these, too. The chunk that reaches the end of the feed, to which no commit can be adding meanwhile, makes it ready.
/// A crash, or a program that does not register the extension, therefore only leaves more to be delivered.
///
/// A row that was changed several times may be passed several times, always in its current state. If a removal of all
/// rows removes a row that was added since and was passed before, the feed passes that row again.
struct CatchingUp {
  let core: DatabaseCore
  let registered: RegisteredExtension

  /// Thrown if the feed does not contain all missed changes, or the extension can't process one of them: it has to be
  /// built again.
  private struct CannotCatchUp: Error {}

  /// Delivers one chunk, as large as the pace allows, for the caller to commit. Returns the extension's state after it
  /// and the number of delivered changes, or `nil` if the extension can't catch up; nothing was changed in that case.
  func step(
    from position: FeedPosition, _ pace: CatchingUpPace, _ transaction: WriteTransaction
  ) throws -> (state: ExtensionRecord.State, count: Int)? {
    do {
      return try transaction.savepoint { try receive(from: position, pace, transaction) }
    } catch is CannotCatchUp {
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
        // The extension has not received its own changes of rows: they will be in the feed after this commit.
        guard transaction.changes.isEmpty else { break }
        // From here on, including the flush, the extension receives changes like one that is ready.
        transaction.setReach(BuildReach(whole: parts), of: registered)
        return (.ready, count)
      }
      count += 1
      guard try receive(change, to: open, parts, &announced, transaction) else { throw CannotCatchUp() }
    }
    return (.stale(missed.position), count)
  }

  /// Returns what `body` reads from the feed. If the feed is damaged, the extension is built from the objects instead,
  /// which contain everything.
  private func readable<Result>(_ body: () throws -> Result?) throws -> Result {
    do {
      if let found = try body() { return found }
    } catch let error as DatabaseError where error.code == .corruption {
      DatabaseLog.unreadableFeed(error, name: registered.name)
    }
    throw CannotCatchUp()
  }

  /// Delivers one change. Returns false if the extension can't process it.
  private func receive(
    _ change: CatchUpChanges.Change, to open: OpenExtension, _ parts: PartSet, _ announced: inout Set<[UInt8]>,
    _ transaction: WriteTransaction
  ) throws -> Bool {
    try transaction.dooming {
      try open.activate(parts)
      guard let listener = open.listener else { return true }
      switch change {
      case .everythingRemoved:
        announced = []
        return try listener.removesAll(in: nil)
      case .removed(let name) where registered.traits.scope.contains(name):
        announced = []
        return try listener.removesAll(in: name)
      case .row(let info, let key) where registered.traits.scope.contains(info.name):
        guard announced.insert(info.scanKey(key)).inserted else { return true }
        try listener.didMiss(info.key(of: key), try transaction.row(key, info))
      case .removed, .row, .delivered: break
      }
      return true
    }
  }
}

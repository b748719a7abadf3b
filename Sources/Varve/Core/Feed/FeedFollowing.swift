/// Delivers what another process commits, as its commits would be delivered here: reads the feed whenever there is
/// something new.
///
/// Runs as long as there is a subscription, and ends with the database.
struct FeedFollowing: Sendable {
  let database: DatabaseCore
  /// By which the hub knows this one.
  let number: UInt64
  /// Where it begins.
  let start: CommitVersion

  func run() async {
    do {
      try await follow()
    } catch is CancellationError {
      // No one listens any more, the database was closed, or no one else can write it.
    } catch {
      database.changes.fail(error, fromFollowing: number)
    }
  }

  private func follow() async throws {
    var position = start
    while !Task.isCancelled {
      let from = position
      guard let page = try await database.readAside({ try database.readFeed(after: from) }) else { return }
      for event in page.events {
        database.changes.deliver(event, fromFollowing: number)
        position = event.version
      }
      if page.isComplete { _ = try await database.backend.changes(since: page.version) }
    }
  }
}

extension DatabaseCore {
  /// Runs `body`, which reads the storage, where it holds no one up; nil where the database is closed.
  func readAside<Result: Sendable>(_ body: @Sendable () throws -> Result) async throws -> Result? {
    if backend.isInMemory { return try changes.whileOpen(body) }
    return try await executor.run { try changes.whileOpen(body) }
  }

  /// The same for a read of this module's that may be run twice: at once where nothing has to be waited for.
  func readAtOnceOrAside<Result: Sendable>(_ body: @Sendable () throws -> Result) async throws -> Result? {
    if !backend.isInMemory {
      let found: Result?? = try changes.whileOpen {
        var result: Result?
        return try backend.withoutWaiting { result = try body() } ? result : nil
      }
      guard let found else { return nil }
      if let found { return found }
    }
    return try await readAside(body)
  }

  /// Adds a subscription, after `version`, or where that is nil with the next commit. Also says where it begins.
  func subscribe(
    after version: CommitVersion?, capacity: Int, readsFeed: Bool = true
  ) throws -> (HeldSubscription, CommitVersion) {
    // Of a closed database the hub makes one that has ended.
    let present = try changes.whileOpen { try Present(self, version) } ?? Present()
    let start: ChangeHub.Start = version.map { .after($0, isKnown: present.isKnown) } ?? .now
    let following = present.followed.map { followed in
      ChangeHub.Following(after: followed) { number in
        // On the database's own threads: it catches up where it waits.
        Task.detached(executorPreference: self.executor) {
          await FeedFollowing(database: self, number: number, start: followed).run()
        }
      }
    }
    let added = changes.add(start, capacity: capacity, readsFeed: readsFeed, following: following)
    return (HeldSubscription(added.subscription, added.number, self), added.position)
  }

  /// Where the database stands when a subscription is made.
  private struct Present {
    /// The last commit, where other processes make them.
    var followed: CommitVersion?
    /// Whether the version that the subscription begins after was reached.
    var isKnown = true

    init() {}

    init(_ database: DatabaseCore, _ version: CommitVersion?) throws {
      if database.backend.isReadOnly {
        let last = try database.publication.snapshot().version
        followed = last
        isKnown = version.map { $0 <= last } ?? true
      } else if let version {
        // What was applied and is not acknowledged yet is known too: a transaction may have seen it.
        isKnown = try version <= database.backend.snapshot().version
      }
    }
  }
}

/// Delivers the commits of another process as the hub would deliver them in that process: it reads the feed whenever
/// there are new commits.
///
/// It runs as long as there is a subscription, and ends when the database is closed.
struct FeedFollowing: Sendable {
  let database: DatabaseCore
  /// The number by which the hub identifies this task.
  let number: UInt64
  /// The version after which it begins.
  let start: CommitVersion

  func run() async {
    do {
      try await follow()
    } catch is CancellationError {
      // There are no subscriptions left, the database was closed, or no other process can write it.
    } catch {
      database.changes.fail(error, fromFollowing: number)
    }
  }

  private func follow() async throws {
    var position = start
    var present = start
    while !Task.isCancelled {
      let from = position
      guard let page = try await database.readOnExecutor({ try database.readFeed(after: from) }) else { return }
      for event in page.events {
        database.changes.deliver(event, fromFollowing: number)
        position = event.version
      }
      if page.events.isEmpty, page.version > present {
        database.changes.deliverMove(to: page.version, fromFollowing: number)
      }
      present = page.version
      if page.isComplete { _ = try await database.backend.changes(since: page.version) }
    }
  }
}

extension DatabaseCore {
  /// Runs `body`, which reads the storage, on a thread where it delays no other work. Returns `nil` if the database is
  /// closed.
  func readOnExecutor<Result: Sendable>(_ body: @Sendable () throws -> Result) async throws -> Result? {
    if backend.isInMemory { return try changes.whileOpen(body) }
    return try await executor.run { try changes.whileOpen(body) }
  }

  /// Runs `body`, a read of this module that may be run twice: at once if it need not wait, and otherwise like
  /// `readOnExecutor(_:)`.
  func readAtOnceOrOnExecutor<Result: Sendable>(_ body: @Sendable () throws -> Result) async throws -> Result? {
    if !backend.isInMemory {
      let found: Result?? = try changes.whileOpen {
        var result: Result?
        return try backend.withoutWaiting { result = try body() } ? result : nil
      }
      guard let found else { return nil }
      if let found { return found }
    }
    return try await readOnExecutor(body)
  }

  /// Adds a subscription that begins after `version`, or with the next commit if that is `nil`. Also returns the
  /// version after which it begins.
  func subscribe(
    after version: CommitVersion?, capacity: Int, readsFeed: Bool = true
  ) throws -> (HeldSubscription, CommitVersion) {
    // If the database is closed, the hub makes a subscription that has ended.
    let present = try changes.whileOpen { try Present(self, version) } ?? Present()
    let start: ChangeHub.Start = version.map { .after($0, isKnown: present.isKnown) } ?? .now
    let following = present.followed.map { followed in
      ChangeHub.Following(after: followed) { number in
        // The task runs on the database's own threads, because it waits there.
        Task.detached(executorPreference: self.executor) {
          await FeedFollowing(database: self, number: number, start: followed).run()
        }
      }
    }
    let added = changes.add(start, capacity: capacity, readsFeed: readsFeed, following: following)
    return (HeldSubscription(added.subscription, added.number, self), added.position)
  }

  /// The state of the database when a subscription is made.
  private struct Present {
    /// The last commit, if other processes make the commits.
    var followed: CommitVersion?
    /// Whether the database has reached the version after which the subscription begins.
    var isKnown = true

    init() {}

    init(_ database: DatabaseCore, _ version: CommitVersion?) throws {
      if database.backend.isReadOnly {
        let last = try database.publication.snapshot().version
        followed = last
        isKnown = version.map { $0 <= last } ?? true
      } else if let version {
        // A commit that was applied but is not acknowledged yet counts as well, because a transaction may have seen it.
        isKnown = try version <= database.backend.snapshot().version
      }
    }
  }
}

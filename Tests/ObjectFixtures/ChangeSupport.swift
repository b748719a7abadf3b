import Dispatch
import EngineTestSupport
import Foundation
import Synchronization
import Testing
import VarveEngine

@testable import Varve

/// The value of the rows of the tests.
struct ChangedNote: Codable, Hashable, Sendable {
  var text: String

  init(_ text: String) { self.text = text }
}

struct Stop: Error {}

/// A wall clock that advances only on request.
final class ManualTime: Sendable {
  private let seconds: Mutex<Int64>

  init(_ seconds: Int64 = 1_700_000_000) { self.seconds = Mutex(seconds) }

  func advance(_ by: Int64) { seconds.withLock { $0 += by } }

  var clock: WallClock { WallClock { [self] in seconds.withLock { $0 } } }
}

extension Database {
  /// Calls the synchronous `write`. A name without an asynchronous overload lets asynchronous tests call it.
  @discardableResult
  func change<Result>(
    _ label: String? = nil, durability: StorageDurability? = nil, _ body: (WriteTransaction) throws -> Result
  ) throws -> Result {
    try write(label: label, durability: durability, body)
  }

  /// Reads the state that the next writer builds on. It may contain commits that are not acknowledged.
  ///
  /// The transaction ends with an error, because one that changes nothing waits for these commits.
  func lookApplied<Result>(_ body: (WriteTransaction) throws -> Result) throws -> Result {
    var result: Result?
    do {
      try core.write(WriteTerms()) { tx in
        result = try body(tx)
        throw LookEnded()
      }
    } catch is LookEnded {}
    guard let result else { throw LookEnded() }
    return result
  }

  func look<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result { try read(body) }

  /// Commits one note, and returns the key.
  @discardableResult
  func put(_ key: String, _ text: String = "", in collection: String = "notes") throws -> String {
    try change { try $0.set(ChangedNote(text), key: key, in: collection) }
    return key
  }

  func besides(_ body: (WriteTransaction) throws -> Void) throws { try writeConcurrently(body) }

  func feedEvents(after version: CommitVersion = .zero, limit: Int = 100) throws -> [ChangeEvent] {
    try feed(after: version, limit: limit)
  }

  func endNow() throws { try close() }

  /// Returns the version of the last commit that is visible to readers.
  func lastVersion() throws -> CommitVersion { try look { $0.version } }
}

extension ChangeSequence.Iterator {
  /// Waits for the next event, and throws if it is not a commit.
  mutating func nextChanges() async throws -> ChangeSet {
    guard case .changes(let changes) = try await next() else { throw Unexpected(what: "no commit came") }
    return changes
  }

  /// Waits for the next `count` events, and returns them as text.
  mutating func next(_ count: Int) async throws -> [String] {
    var events: [String] = []
    while events.count < count, let event = try await next() { events.append(event.text) }
    return events
  }
}

struct Unexpected: Error { let what: String }

extension ChangeEvent {
  var changes: ChangeSet? {
    if case .changes(let changes) = self { return changes }
    return nil
  }

  /// The event as text: `+a ~b -c` for rows that were inserted, changed and removed, `!notes` for a collection that
  /// was cleared, or `gap`.
  var text: String { changes?.text ?? "gap" }
}

extension ChangeSet {
  var text: String {
    var parts = clearedCollections.map { "!\($0)" }
    for name in changedCollections {
      let inserted = Set(insertedKeys(in: name))
      parts += changedKeys(in: name).map { (inserted.contains($0) ? "+" : "~") + $0.string }
      parts += removedKeys(in: name).map { "-" + $0.string }
    }
    return parts.joined(separator: " ")
  }
}

extension RowKey {
  var string: String { (try? key(as: String.self)) ?? text }
}

/// An in-memory database whose files are kept when it is closed.
struct KeptDatabase {
  let environment = EngineEnvironment.inMemory()
  var options = DatabaseOptions()

  func open(definition: DatabaseDefinition = DatabaseDefinition()) throws -> Database {
    let engine = try Engine.open(at: "/kept", options: options.engineOptions, environment: environment)
    let backend = try EngineBackend(engine, isInMemory: true)
    return try Database.open(backend, path: "/kept", definition: definition, options: options)
  }
}

/// Runs `body` on another thread, and waits until it ends.
@available(*, noasync, message: "it blocks a thread that other tests need: use Threads.alone")
func otherThread(_ body: @escaping @Sendable () throws -> Void) throws {
  let outcome = Mutex<Result<Void, any Error>?>(nil)
  let done = DispatchSemaphore(value: 0)
  let box = OutcomeOfThread(outcome: outcome, done: done)
  Thread.detachNewThread { box.set(Result { try body() }) }
  try box.wait()
}

private final class OutcomeOfThread: Sendable {
  private let outcome: Mutex<Result<Void, any Error>?>
  private let done: DispatchSemaphore

  init(outcome: consuming Mutex<Result<Void, any Error>?>, done: DispatchSemaphore) {
    self.outcome = outcome
    self.done = done
  }

  func set(_ result: Result<Void, any Error>) {
    outcome.withLock { $0 = result }
    done.signal()
  }

  func wait() throws {
    done.wait()
    try outcome.withLock { $0 }?.get()
  }
}

/// Returns a generator with a seed that is printed, so that a failure can be reproduced.
func seededRandom(_ what: String, _ seed: UInt64) -> SeededRandom {
  print("\(what): seed \(seed)")
  return SeededRandom(seed: seed)
}

/// Ends a transaction that has only looked.
private struct LookEnded: Error {}

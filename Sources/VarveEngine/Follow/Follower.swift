internal import Synchronization

/// Follows a database that another process writes: an engine to read from, which stands still between two calls
/// of `catchUp` or `waitForCommit`.
///
/// ```swift
/// let follower = try Engine.follow(at: "/tmp/example.varve")
/// var last = follower.engine.visibleSequence
/// while let commit = try follower.waitForCommit(after: last, timeout: 60_000_000_000) {
///   print(try follower.engine.get(Array("key".utf8)) ?? [])
///   last = commit
/// }
/// try follower.close()
/// ```
///
/// # What it sees
/// Whole batches, all of them, in the order of their commits, and never less than before. A commit is seen when
/// it is as durable as its writer was promised: at once by default, with `Durability.power` after its sync, and
/// commits after such a one not before it. Commits with `Durability.none` are seen when they were flushed,
/// perhaps after later ones.
///
/// Where the engine that writes maps files, it wakes followers within microseconds; a follower that may not
/// write the file `SHARED` looks each millisecond. Where it doesn't, followers look into the log each
/// millisecond, and see a commit with `Durability.power` perhaps before it was synced. `Engine.explain()` of both
/// says which it is.
///
/// # What it costs the writer
/// Nothing but the wake-ups. The follower writes nothing but a count into `SHARED`. It holds what is not in tables
/// yet in memtables of its own, at most what the writer's log holds, and the files of up to half of
/// `EngineOptions.openTableCount` tables open. Beyond that a snapshot or cursor may meet a table that the writer
/// removed, and throws `.notFound`; after `catchUp` the same read works.
///
/// Safe from any thread.
public final class Follower: Sendable {
  /// What is read from. It is read-only; `close` of the follower closes it.
  public let engine: Engine
  private let following: Following
  private let isClosed = Atomic<Bool>(false)
  private let streams = Mutex<[CommitStream]>([])

  init(_ engine: Engine, _ following: Following) {
    self.engine = engine
    self.following = following
  }

  /// Goes up to the last commit that the writer has told of, and returns it. Reads that are under way, cursors
  /// and snapshots go on with what they see.
  ///
  /// Throws `.rewound` where a loss of power took commits away that were read here, `.corruption`, and what the
  /// file system threw; then reads see what they saw before.
  /// Complexity: O(what came since).
  @discardableResult
  public func catchUp() throws(EngineError) -> SequenceNumber {
    engine.checkOpen()
    return try following.catchUp()
  }

  /// Waits until a commit after `sequence` is visible here, and returns the last visible one; nil where
  /// `nanoseconds` pass first, or the follower is closed. Throws like `catchUp`.
  public func waitForCommit(
    after sequence: SequenceNumber, timeout nanoseconds: UInt64? = nil
  ) throws(EngineError) -> SequenceNumber? {
    let clock = engine.environment.clock
    let start = clock.now()
    while !isClosed.load(ordering: .acquiring) {
      do throws(EngineError) {
        let visible = try following.catchUp()
        if visible > sequence { return visible }
      } catch {
        if isClosed.load(ordering: .acquiring) { break }
        throw error
      }
      var rest = UInt64.max
      if let nanoseconds {
        let passed = clock.now() - start
        guard passed < nanoseconds else { return nil }
        rest = nanoseconds - passed
      }
      following.sleep(nanoseconds: rest)
    }
    return nil
  }

  /// The visible sequence each time that it rose, as long as the follower is open. Who takes them slowly misses
  /// numbers, not commits: each stands for all before it. Each sequence of them has a thread of its own, which
  /// catches up.
  public func commits() -> AsyncThrowingStream<SequenceNumber, any Error> {
    AsyncThrowingStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
      let stream = CommitStream()
      continuation.onTermination = { [following] _ in
        stream.end()
        following.interrupt()
      }
      let first = engine.visibleSequence
      stream.start { [self] in feed(continuation, while: { !stream.hasEnded }, after: first) }
      let gone = streams.withLock { streams in
        let gone = streams.filter(\.isDone)
        streams.removeAll(where: \.isDone)
        streams.append(stream)
        return gone
      }
      for stream in gone { stream.join() }
    }
  }

  private func feed(
    _ continuation: AsyncThrowingStream<SequenceNumber, any Error>.Continuation, while isWanted: () -> Bool,
    after first: SequenceNumber
  ) {
    var last = first
    do throws(EngineError) {
      while isWanted(), !isClosed.load(ordering: .acquiring) {
        guard let next = try waitForCommit(after: last, timeout: Self.lookInterval) else { continue }
        last = next
        continuation.yield(next)
      }
      continuation.finish()
    } catch {
      continuation.finish(throwing: error)
    }
  }

  /// How often a sequence of commits looks whether it is still wanted.
  private static let lookInterval: UInt64 = 100_000_000

  /// Ends the follower and its engine; waits end with nil. Snapshots and cursors must be gone. A second call
  /// does nothing.
  public func close() throws(EngineError) {
    guard !isClosed.exchange(true, ordering: .sequentiallyConsistent) else { return }
    following.interrupt()
    let running = streams.withLock { streams in
      defer { streams = [] }
      return streams
    }
    for stream in running { stream.join() }
    try following.end { () throws(EngineError) in try engine.close() }
  }
}

/// The thread that feeds one sequence of commits.
private final class CommitStream: Sendable {
  private let ended = Atomic<Bool>(false)
  private let done = Atomic<Bool>(false)
  private let thread = Mutex<EngineThread?>(nil)

  var hasEnded: Bool { ended.load(ordering: .acquiring) }
  var isDone: Bool { done.load(ordering: .acquiring) }

  func end() { ended.store(true, ordering: .releasing) }

  func start(_ body: @escaping @Sendable () -> Void) {
    thread.withLock { thread in
      thread = EngineThread(name: "varve-follow") { [self] in
        body()
        done.store(true, ordering: .releasing)
      }
    }
  }

  func join() { thread.withLock { $0 }?.join() }
}

extension Engine {
  /// Opens a database to follow it: read-only, beside a process that writes it or may begin to.
  ///
  /// Nothing is made or changed but a count in the file `SHARED`, where that may be written. Of the options those
  /// for memory count. Throws as `open` does for `readOnly`.
  public static func follow(
    at path: String, options: EngineOptions = EngineOptions(), environment: EngineEnvironment = .system
  ) throws(EngineError) -> Follower {
    var options = options
    options.readOnly = true
    options.createIfMissing = false
    let opening = Opening(path: path, options: options, environment: environment)
    try options.validate()
    try opening.prepareDirectory()
    let (engine, following) = try opening.openReadOnly()
    engine.views?.describe { [weak following] in following?.overview ?? "" }
    return Follower(engine, following)
  }
}

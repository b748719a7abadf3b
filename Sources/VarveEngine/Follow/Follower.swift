internal import Synchronization

/// Follows a database that another process writes: an engine for reading, whose state changes only in `catchUp` and
/// `waitForCommit`.
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
/// # Visible state
/// The visible state consists of complete batches, all of them, in commit order; it never goes back. A commit is
/// visible when it has the durability that its writer requested: at once by default, after its sync with
/// `Durability.power`, and not before an earlier such commit. Commits with `Durability.none` are visible after they
/// were flushed, possibly after later ones.
///
/// If the writing engine maps files, it wakes followers within microseconds; a follower without write permission for
/// the file `SHARED` polls each millisecond. Otherwise followers poll the log each millisecond, and a commit with
/// `Durability.power` can be visible before it was synced. `Engine.explain()` says which method is used.
///
/// # Cost for the writer
/// The writer's only costs are the wake-ups, and the disk space of segments of the log that it keeps while a follower
/// that it has overtaken reads them. The follower keeps entries that are not in tables yet in its own memtables, at
/// most as many as are in the writer's log, so their size follows from the writer's memory budget. It keeps up to half
/// of `EngineOptions.openTableCount` tables open. Beyond that, a snapshot or cursor can need a table that the writer
/// removed, and throws `.notFound`; after `catchUp` the same read succeeds.
///
/// Safe from any thread.
public final class Follower: Sendable {
  /// The engine to read from. It is read-only; `close` of the follower closes it.
  public let engine: Engine
  private let following: Following
  private let isClosed = Atomic<Bool>(false)
  private let streams = Mutex<[CommitStream]>([])

  init(_ engine: Engine, _ following: Following) {
    self.engine = engine
    self.following = following
  }

  /// Advances to the last commit that the writer has announced, and returns its sequence number. Running reads, cursors
  /// and snapshots keep their state.
  ///
  /// Throws `.rewound` if a power loss took back commits that were read here or the database was replaced by
  /// other files, `.busy` if the writer freed its log faster
  /// than this process could read it, `.corruption`, and errors of the file system; reads then see the earlier state.
  /// Complexity: O(n) in the bytes written since the last call, and at most those of the writer's log, which is read up
  /// to three times if the writer frees it meanwhile.
  @discardableResult
  public func catchUp() throws(EngineError) -> SequenceNumber {
    try engine.core.requireOpen()
    return try following.catchUp()
  }

  /// Waits until a commit after `sequence` is visible here, and returns the last visible one.
  ///
  /// Returns `nil` if `nanoseconds` pass first, or if the follower is closed. Throws like `catchUp`.
  public func waitForCommit(
    after sequence: SequenceNumber, timeout nanoseconds: UInt64? = nil
  ) throws(EngineError) -> SequenceNumber? {
    let clock = engine.core.environment.clock
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

  /// Returns a stream of the visible sequence number each time it rises, as long as the follower is open. It is empty
  /// if the follower is closed.
  ///
  /// A slow consumer misses numbers but no commits: each number stands for all commits before it. Each stream has its
  /// own thread, which catches up.
  public func commits() -> AsyncThrowingStream<SequenceNumber, any Error> {
    AsyncThrowingStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
      let stream = CommitStream()
      continuation.onTermination = { [following] _ in
        stream.end()
        following.interrupt()
      }
      guard !isClosed.load(ordering: .acquiring) else { return continuation.finish() }
      // The engine may be closed at any time, and its public calls then stop the process.
      let first = engine.core.pipeline.visible
      let isStarted = stream.start { [self] in feed(continuation, while: { !stream.hasEnded }, after: first) }
      guard isStarted else {
        return continuation.finish(throwing: EngineError(.noMemory, "the system starts no thread for the commits"))
      }
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

  /// The interval at which a commit stream checks whether it is still in use.
  private static let lookInterval: UInt64 = 100_000_000

  /// Closes the follower and its engine; waiting calls return `nil`.
  ///
  /// Release snapshots and cursors before. A second call has no effect.
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

/// The thread that feeds one stream of commits.
private final class CommitStream: Sendable {
  private let ended = Atomic<Bool>(false)
  private let done = Atomic<Bool>(false)
  private let thread = Mutex<EngineThread?>(nil)

  var hasEnded: Bool { ended.load(ordering: .acquiring) }
  var isDone: Bool { done.load(ordering: .acquiring) }

  func end() { ended.store(true, ordering: .releasing) }

  /// Starts the thread. Returns false if the system can't create one.
  func start(_ body: @escaping @Sendable () -> Void) -> Bool {
    thread.withLock { thread in
      thread = EngineThread(ifPossible: "varve-follow") { [self] in
        body()
        done.store(true, ordering: .releasing)
      }
      return thread != nil
    }
  }

  func join() { thread.withLock { $0 }?.join() }
}

extension Engine {
  /// Opens a database read-only to follow it, while another process writes it or may start to.
  ///
  /// Changes only the file `SHARED`, if it has write permission: a count, and a slot while it reads the log of a
  /// faster writer. Only the options for memory apply. Throws the errors of `open` with `readOnly`.
  public static func follow(
    at path: String, options: EngineOptions = EngineOptions(), environment: EngineEnvironment = .system
  ) throws(EngineError) -> Follower {
    var options = options
    options.readOnly = true
    options.createIfMissing = false
    if options.raisesDescriptorLimit { DescriptorLimit.raise() }
    let opening = Opening(path: path, options: options, environment: environment)
    try options.validate()
    try opening.prepareDirectory()
    let (engine, following) = try opening.anchored().openReadOnly()
    engine.core.views?.describe { [weak following] in following?.overview ?? "" }
    return Follower(engine, following)
  }
}

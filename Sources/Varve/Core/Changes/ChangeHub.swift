internal import Dispatch
internal import FutexLocks
internal import Synchronization

/// Delivers each acknowledged commit to the subscriptions, and what commits without changes of rows have written to the
/// listener.
///
/// ```
///  Publication ─▶ deliver ─┬▶ buffer of each subscription ─▶ its consumer, at its own pace
///                          ├▶ one subscription for all observations
///                          └▶ the listener: what was written to observed parts
/// ```
/// A commit costs a lock, and an append for each subscription, whatever the consumers do. In a database that other
/// processes write, a task reads the feed and delivers in place of the committing call (`FeedFollowing`), as long as
/// there is a subscription.
///
/// # Concurrency
/// There is one lock, which is never held while a consumer is woken or anything is read. Deliveries come one at a time.
final class ChangeHub: Sendable {
  fileprivate struct State {
    var subscriptions: [UInt64: ChangeSubscription] = [:]
    var nextNumber: UInt64 = 0
    /// The last commit that was delivered.
    var last: CommitVersion
    var isClosed = false
    /// The task that delivers the commits of other processes; the number distinguishes it from earlier ones.
    var following: (number: UInt64, task: Task<Void, Never>)?
    /// The object that receives what commits without changes of rows have written, or `nil` if nothing was observed
    /// yet.
    var listener: (any PartWriteListener)?
    /// The number of reads of the storage for subscriptions and observations.
    var readCount = 0
    /// Semaphores of the callers that wait for the last of these reads.
    var waiters: [DispatchSemaphore] = []
  }

  private let state: FutexLock<State>

  /// Creates a hub. `last` is the last commit that needs no delivery.
  init(after last: CommitVersion) { state = FutexLock(State(last: last)) }

  /// The last commit that was delivered.
  var last: CommitVersion { state.withLock { $0.last } }

  /// The number of subscriptions.
  var subscriptionCount: Int { state.withLock { $0.subscriptions.count } }

  // MARK: - Delivering

  /// Delivers an acknowledged commit. Calls come in commit order. `changeSet` is called only if there is a
  /// subscription.
  func deliver(_ version: CommitVersion, _ changeSet: () -> ChangeSet) {
    notify(state.withLock { $0.add(version) { .changes(changeSet()) } })
  }

  /// Delivers a gap for a commit that makes earlier changes meaningless.
  func deliverGap(_ version: CommitVersion) {
    notify(
      state.withLock { state in
        let last = state.last
        return state.add(version) { .gap(from: last, to: version) }
      })
  }

  /// Delivers an event of another process, unless the task that follows the process has been ended.
  func deliver(_ event: ChangeEvent, fromFollowing number: UInt64) {
    notify(state.withLock { state in state.following?.number == number ? state.add(event.version) { event } : [] })
  }

  /// Ends all subscriptions with an error, because the task that follows another process can't continue.
  func fail(_ error: any Error, fromFollowing number: UInt64) {
    notify(
      state.withLock { state in
        guard state.following?.number == number else { return [] }
        state.following = nil
        return state.end(error)
      })
  }

  /// Delivers what an acknowledged commit that changes no row has written to parts.
  func deliver(_ version: CommitVersion, _ parts: PartWrites.Noted) {
    state.withLock { $0.listener }?.didWrite(parts, version)
  }

  /// Notes that another process has committed something that changes no row, unless the task that follows the process
  /// has been ended.
  func deliverMove(to version: CommitVersion, fromFollowing number: UInt64) {
    state.withLock { $0.following?.number == number ? $0.listener : nil }?.didMove(to: version)
  }

  /// Returns the listener, which the first call makes.
  func listener<Listener: PartWriteListener>(_ make: () -> Listener) -> Listener {
    state.withLock { state in
      if let known = state.listener as? Listener { return known }
      let made = make()
      state.listener = made
      return made
    }
  }

  private func notify(_ subscriptions: [ChangeSubscription]) {
    for subscription in subscriptions { subscription.wake() }
  }

  // MARK: - Subscribing

  /// The position at which a subscription begins.
  enum Start {
    /// With the next commit.
    case now
    /// After a commit. `isKnown` says whether the database has reached it.
    case after(CommitVersion, isKnown: Bool)
  }

  /// The task that delivers the commits of other processes.
  struct Following {
    let version: CommitVersion
    let begin: (UInt64) -> Task<Void, Never>

    /// Creates a description of the task. `begin` starts it after `version`, with the number that its deliveries carry.
    init(after version: CommitVersion, begin: @escaping (UInt64) -> Task<Void, Never>) {
      self.version = version
      self.begin = begin
    }
  }

  /// Adds a subscription, and starts following other processes if that is not running yet. Returns the subscription's
  /// number, and the position at which it begins.
  func add(
    _ start: Start, capacity: Int, readsFeed: Bool, following: Following? = nil
  ) -> (subscription: ChangeSubscription, number: UInt64, position: CommitVersion) {
    state.withLock { state in
      state.nextNumber += 1
      let number = state.nextNumber
      if let following, state.following == nil, !state.isClosed {
        state.last = max(state.last, following.version)
        state.following = (number, following.begin(number))
      }
      let position: CommitVersion
      var isLagging = false
      switch start {
      case .now: position = max(state.last, following?.version ?? .zero)
      case .after(let version, let isKnown):
        position = version
        isLagging = version < state.last || !isKnown
      }
      let subscription = ChangeSubscription(
        ChangeBuffer(
          after: position, isLagging: isLagging, newest: state.last, capacity: capacity, readsFeed: readsFeed)
      )
      if state.isClosed {
        subscription.end(nil)
      } else {
        state.subscriptions[number] = subscription
      }
      return (subscription, number, position)
    }
  }

  /// Removes a subscription.
  func remove(_ number: UInt64) {
    // The subscription is released outside of the lock, because it may contain values of the program.
    let (gone, task) = state.withLock { state in
      let gone = state.subscriptions.removeValue(forKey: number)
      guard state.subscriptions.isEmpty else { return (gone, nil as Task<Void, Never>?) }
      defer { state.following = nil }
      return (gone, state.following?.task)
    }
    task?.cancel()
    withExtendedLifetime(gone) {}
  }

  // MARK: - Reading, and the end

  /// Runs `body`, which reads the storage, or returns `nil` if the database is closed. `close` waits for it.
  func whileOpen<Result>(_ body: () throws -> Result) rethrows -> Result? {
    let isOpen = state.withLock { state in
      if !state.isClosed { state.readCount += 1 }
      return !state.isClosed
    }
    guard isOpen else { return nil }
    defer { leave() }
    return try body()
  }

  private func leave() {
    let waiters = state.withLock { state in
      state.readCount -= 1
      guard state.readCount == 0 else { return [DispatchSemaphore]() }
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.signal() }
  }

  /// Ends all subscriptions after their current events, and returns when no reads of the storage run any longer.
  func close() {
    let idle = DispatchSemaphore(value: 0)
    let (ended, task) = state.withLock { state in
      state.isClosed = true
      if state.readCount == 0 { idle.signal() } else { state.waiters.append(idle) }
      defer { state.following = nil }
      return (state.end(nil), state.following?.task)
    }
    task?.cancel()
    notify(ended)
    idle.wait()
  }
}

extension ChangeHub.State {
  /// Adds an event to all subscriptions. Returns those to wake.
  fileprivate mutating func add(_ version: CommitVersion, _ event: () -> ChangeEvent) -> [ChangeSubscription] {
    last = max(last, version)
    if subscriptions.isEmpty { return [] }
    let event = event()
    for subscription in subscriptions.values { subscription.add(event) }
    return Array(subscriptions.values)
  }

  fileprivate mutating func end(_ error: (any Error)?) -> [ChangeSubscription] {
    defer { subscriptions = [:] }
    for subscription in subscriptions.values { subscription.end(error) }
    return Array(subscriptions.values)
  }
}

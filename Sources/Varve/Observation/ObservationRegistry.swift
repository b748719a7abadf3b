internal import FutexLocks
internal import Synchronization

/// The observers of rows and collections.
///
/// All observers share one subscription, from which one task takes the commits and notifies the observers concerned: a
/// commit costs the committing thread the same for one observer and for thousands. The observers of a row are found by
/// its key, so unconcerned observers cost nothing either. Observers that examine rows themselves, as queries do, share
/// the rows that are read for them.
///
/// # Concurrency
/// There is one lock, which is never held while an observer is notified. The task runs as long as there are observers.
final class ObservationRegistry: PartWriteListener {
  fileprivate struct Watchers {
    var collection: [UInt64: Observation] = [:]
    /// The observers of rows, by the encoded key of the row.
    var rows: [[UInt8]: [UInt64: Observation]] = [:]
    /// The observers that examine the collection's rows.
    var watched: [UInt64: Watched] = [:] { didSet { listed = nil } }
    private var listed: [Watched]?

    /// Returns all of `watched`. The array is made only once until `watched` changes.
    mutating func allWatched() -> [Watched] {
      if let listed { return listed }
      let made = Array(watched.values)
      listed = made
      return made
    }

    var isEmpty: Bool { collection.isEmpty && rows.isEmpty && watched.isEmpty }
  }

  fileprivate struct Watched {
    let observation: Observation
    let watcher: any RowWatcher
  }

  fileprivate struct State {
    var watchers: [String: Watchers] = [:]
    /// The observers that examine whole commits.
    var watched: [UInt64: Watched] = [:]
    var nextNumber: UInt64 = 0
    /// The task that takes commits from the subscription; the number distinguishes it from earlier ones.
    var task: (number: UInt64, task: Task<Void, Never>)?
    /// The last commit up to which all observers were notified.
    var delivered = CommitVersion.zero
    /// The callers that wait for the delivery of a later commit.
    var waiting: [(version: CommitVersion, continuation: CheckedContinuation<Void, Never>)] = []
    /// The writes to parts by commits that change no row, and the last of these commits. A task will process them.
    var partWrites: (noted: PartWrites.Noted, version: CommitVersion)?

    /// Notes that commits up to a version are delivered. Returns the continuations that need not wait any longer.
    mutating func deliver(through version: CommitVersion) -> [CheckedContinuation<Void, Never>] {
      delivered = max(delivered, version)
      let done = waiting.filter { $0.version <= delivered }.map(\.continuation)
      waiting.removeAll { $0.version <= delivered }
      return done
    }
  }

  private let state = FutexLock(State())
  /// The collections whose rows observers compare with their previous content.
  private let rows: ObservedRows
  let sharedReads = SharedReads()

  init(_ rows: ObservedRows) { self.rows = rows }

  /// Whether there are no observers.
  var isEmpty: Bool { state.withLock { $0.watchers.isEmpty && $0.watched.isEmpty } }

  // MARK: - Observers

  /// Adds an observer, whose first notification is due at once.
  func observe(_ location: ObservedTarget, in database: DatabaseCore) throws -> HeldObservation {
    let compared = location.comparedCollection
    if let compared { rows.add(compared) }
    do {
      // The subscription is made outside of the lock, because making it may read, and is dropped if another observer
      // was faster.
      var begun = try state.withLock { $0.task == nil } ? Self.begin(database) : nil
      while true {
        if let held = add(location, begun, database) { return held }
        begun = try Self.begin(database)
      }
    } catch {
      if let compared { rows.remove(compared) }
      throw error
    }
  }

  private static func begin(_ database: DatabaseCore) throws -> (HeldSubscription, CommitVersion) {
    try database.subscribe(after: nil, capacity: ChangeLimits.bufferedEvents, readsFeed: false)
  }

  /// Adds an observer. Returns `nil` if no task takes commits and no subscription was passed.
  private func add(
    _ location: ObservedTarget, _ begun: (subscription: HeldSubscription, position: CommitVersion)?,
    _ database: DatabaseCore
  ) -> HeldObservation? {
    state.withLock { state in
      state.nextNumber += 1
      let number = state.nextNumber
      if state.task == nil {
        guard let begun else { return nil }
        state.delivered = begun.position
        state.task = (number, Task.detached { [self] in await run(begun.subscription, number, database) })
      }
      // A reader from now on sees this commit, and is notified of those after it.
      let observation = Observation(location, after: database.changes.last)
      switch location {
      case .collection(let name): state.watchers[name, default: Watchers()].collection[number] = observation
      case .row(let row):
        state.watchers[row.collection, default: Watchers()].rows[row.bytes, default: [:]][number] = observation
      case .watched(let watcher, let name?):
        state.watchers[name, default: Watchers()].watched[number] = Watched(observation: observation, watcher: watcher)
      case .watched(let watcher, nil): state.watched[number] = Watched(observation: observation, watcher: watcher)
      }
      return HeldObservation(observation, number, self, database)
    }
  }

  /// Removes an observer.
  func remove(_ location: ObservedTarget, _ number: UInt64) {
    if let compared = location.comparedCollection { rows.remove(compared) }
    let task = state.withLock { state in
      state.remove(location, number)
      guard state.watchers.isEmpty, state.watched.isEmpty else { return nil as Task<Void, Never>? }
      defer { state.task = nil }
      return state.task?.task
    }
    // No consumer waits, because each waiting consumer holds an observation.
    task?.cancel()
  }

  // MARK: - Commits

  private func run(_ subscription: HeldSubscription, _ number: UInt64, _ database: DatabaseCore) async {
    do {
      while let event = try await subscription.next() {
        notify(event, number)
        if case .changes(let changes) = event { await show(changes, number, database) }
        resume(through: event.version, number)
      }
      end(nil, number)
    } catch is CancellationError {
      // A cancellation means that there are no observers left.
    } catch {
      end(error, number)
    }
  }

  private func resume(through version: CommitVersion, _ number: UInt64) {
    let done = state.withLock { state in state.task?.number == number ? state.deliver(through: version) : [] }
    for continuation in done { continuation.resume() }
  }

  /// Waits until every observer is notified of the commits up to a version that was delivered to subscriptions, or
  /// until delivery has ended.
  func delivered(through version: CommitVersion) async {
    await withCheckedContinuation { continuation in
      let isDone = state.withLock { state in
        if state.delivered >= version || state.task == nil { return true }
        state.waiting.append((version, continuation))
        return false
      }
      if isDone { continuation.resume() }
    }
  }

  /// Notifies the observers that an event concerns, unless another task has taken over.
  private func notify(_ event: ChangeEvent, _ number: UInt64) {
    if event.isUnknown {
      let watched = state.withLock { $0.task?.number == number ? Array($0.watched.values) : [] }
      for one in watched { one.watcher.didMiss() }
    }
    let concerned: [(Observation, ObservedChange)] = state.withLock { state in
      guard state.task?.number == number else { return [] }
      switch event {
      case .changes(let changeSet): return state.concerned(by: changeSet)
      case .gap(_, let to): return state.all.map { ($0, ObservedChange(version: to, isReload: true)) }
      }
    }
    for (observation, change) in concerned { observation.add(change) }
  }

  /// Passes a commit to the observers that examine changes themselves.
  private func show(_ changes: ChangeSet, _ number: UInt64, _ database: DatabaseCore) async {
    let (whole, byCollection) = state.withLock { state -> ([Watched], [(String, [Watched])]) in
      guard state.task?.number == number, !changes.isEverythingCleared else { return ([], []) }
      var watched: [(String, [Watched])] = []
      for (name, rows) in changes.collections where !rows.isCleared {
        if let all = state.watchers[name]?.allWatched(), !all.isEmpty { watched.append((name, all)) }
      }
      return (Array(state.watched.values), watched)
    }
    for one in whole where one.watcher.mayConcern(changes) {
      one.observation.add(ObservedChange(version: changes.version, isReload: true))
    }
    for (name, watched) in byCollection { await show(name, changes, to: watched, database) }
  }

  private func show(
    _ name: String, _ changes: ChangeSet, to watched: [Watched], _ database: DatabaseCore
  ) async {
    let reload = ObservedChange(version: changes.version, isReload: true)
    guard let rows = changes.collections[name], rows.states.count <= ChangeLimits.observedKeys else {
      for one in watched { one.observation.add(reload) }
      return
    }
    let keys = rows.states.pairs.map { rows.key($0.key) }
    // The rows were just written, so they are usually in memory.
    let isRead: Void?? = try? await database.readAtOnceOrOnExecutor {
      try database.atPresent { snapshot in
        try database.read(at: snapshot) { tx in
          guard let info = try tx.knownInfo(name) else { return }
          let shown = ChangedRows(info, keys, tx)
          for one in watched {
            let concerned = try one.watcher.concerned(shown)
            if concerned.isEmpty { continue }
            let noted = Dictionary(concerned.map { ($0, rows.observed($0)) }) { first, _ in first }
            one.observation.add(ObservedChange(version: changes.version, rows: noted))
          }
        }
      }
    }
    // If the rows can't be read here, a reload lets the observers encounter the error.
    if isRead == nil { for one in watched { one.observation.add(reload) } }
  }

  /// Called when a commit that changes no row is acknowledged. Every observer that has not seen the commit is
  /// registered by now.
  func didWrite(_ parts: PartWrites.Noted, _ version: CommitVersion) {
    let isFirst = state.withLock { state in
      if state.watched.isEmpty { return false }
      guard var (noted, _) = state.partWrites else {
        state.partWrites = (parts, version)
        return true
      }
      noted.merge(parts)
      state.partWrites = (noted, version)
      return false
    }
    // The observers are notified on another thread, because this one commits.
    if isFirst { Task.detached { [self] in showParts() } }
  }

  /// Called when another program has committed something that changes no row.
  func didMove(to version: CommitVersion) {
    let woken = state.withLock { state in state.watched.values.filter { $0.watcher.isWokenByAll } }
    for one in woken { one.observation.add(ObservedChange(version: version, isReload: true)) }
  }

  private func showParts() {
    let (watched, written) = state.withLock { state in
      defer { state.partWrites = nil }
      return (Array(state.watched.values), state.partWrites)
    }
    guard let written else { return }
    for one in watched where one.watcher.mayConcern(written.noted) {
      one.observation.add(ObservedChange(version: written.version, isReload: true))
    }
  }

  /// Ends all observations, because no more commits are delivered.
  private func end(_ error: (any Error)?, _ number: UInt64) {
    let (all, waiting) = state.withLock { state in
      guard state.task?.number == number else {
        return ([Observation](), [CheckedContinuation<Void, Never>]())
      }
      defer {
        state.task = nil
        state.watchers = [:]
        state.watched = [:]
      }
      return (state.all, state.deliver(through: CommitVersion(.max)))
    }
    for observation in all { observation.end(error) }
    for continuation in waiting { continuation.resume() }
  }
}

extension ChangeEvent {
  /// Whether the changed rows are not known.
  var isUnknown: Bool {
    if case .changes(let changes) = self { return changes.isEverythingCleared }
    return true
  }
}

extension ObservationRegistry.Watchers {
  fileprivate var all: [Observation] {
    Array(collection.values) + rows.values.flatMap(\.values) + watched.values.map(\.observation)
  }
}

extension ObservationRegistry.State {
  fileprivate var all: [Observation] {
    watchers.values.flatMap(\.all) + watched.values.map(\.observation)
  }

  fileprivate mutating func remove(_ location: ObservedTarget, _ number: UInt64) {
    switch location {
    case .collection(let name): change(name) { $0.collection[number] = nil }
    case .row(let row):
      change(row.collection) { found in
        found.rows[row.bytes]?[number] = nil
        if found.rows[row.bytes]?.isEmpty == true { found.rows[row.bytes] = nil }
      }
    case .watched(_, let name?): change(name) { $0.watched[number] = nil }
    case .watched(_, nil): watched[number] = nil
    }
  }

  private mutating func change(_ name: String, _ body: (inout ObservationRegistry.Watchers) -> Void) {
    guard var found = watchers.removeValue(forKey: name) else { return }
    body(&found)
    if !found.isEmpty { watchers[name] = found }
  }

  fileprivate func concerned(by changeSet: ChangeSet) -> [(Observation, ObservedChange)] {
    var concerned: [(Observation, ObservedChange)] = []
    let reload = ObservedChange(version: changeSet.version, isReload: true)
    if changeSet.isEverythingCleared { return all.map { ($0, reload) } }
    for (name, changes) in changeSet.collections {
      guard let watchers = watchers[name] else { continue }
      if changes.isCleared {
        concerned += watchers.all.map { ($0, reload) }
        continue
      }
      if !watchers.collection.isEmpty {
        let change = Self.change(changes, changeSet.version)
        concerned += watchers.collection.values.map { ($0, change) }
      }
      concerned += rows(watchers.rows, changes).map { ($0, ObservedChange(version: changeSet.version)) }
    }
    return concerned
  }

  /// Returns the observers of the changed rows. It iterates over the changed rows or over the observed keys, whichever
  /// are fewer.
  private func rows(
    _ observed: [[UInt8]: [UInt64: Observation]], _ changes: ChangeSet.Rows
  ) -> [Observation] {
    if observed.count <= changes.states.count {
      return observed.filter { changes.state($0.key) != nil }.flatMap { $0.value.values }
    }
    return changes.states.pairs.flatMap { observed[changes.key($0.key)].map { Array($0.values) } ?? [] }
  }

  private static func change(_ changes: ChangeSet.Rows, _ version: CommitVersion) -> ObservedChange {
    guard changes.states.count <= ChangeLimits.observedKeys else {
      return ObservedChange(version: version, isReload: true)
    }
    let rows = changes.states.pairs.map { (changes.key($0.key), ObservedChange.Row(isRemoved: $0.value.isRemoved)) }
    return ObservedChange(version: version, rows: Dictionary(uniqueKeysWithValues: rows))
  }
}

/// An observation that ends when this object is released.
final class HeldObservation: Sendable {
  let observation: Observation
  let database: DatabaseCore
  private let registry: ObservationRegistry
  private let number: UInt64

  init(_ observation: Observation, _ number: UInt64, _ registry: ObservationRegistry, _ database: DatabaseCore) {
    self.observation = observation
    self.number = number
    self.registry = registry
    self.database = database
  }

  deinit { registry.remove(observation.location, number) }
}

extension DatabaseCore {
  /// The observers of the database. They are made at the first observation, and listen to the commits from then on.
  var observations: ObservationRegistry { changes.listener { ObservationRegistry(observedRows) } }
}

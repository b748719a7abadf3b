internal import FutexLocks

/// Keeps the values that a user interface shows at one commit: its members change together, in one turn of the main
/// actor.
///
/// ```swift
/// let scope = LiveScope(database)
/// let books = LiveQuery(store.query.sorted(by: \.title).limit(50), in: scope)
/// let author = LiveItem(id, of: authors, in: scope)
/// ```
///
/// When a commit changes something that one of the queries and items has read, all of them are read again in one
/// transaction, on a thread that neither commits nor is the main thread, and then updated. Lists read what each commit
/// has changed, at the same snapshot. Commits that happen meanwhile lead to one more update. A scope lives as long as
/// it or one of its members is referenced.
@MainActor
public final class LiveScope {
  private let database: Database
  private var members: [ObjectIdentifier: WeakMember] = [:]
  private var task: Task<Void, Never>?
  /// Holds the snapshot that lists show, if there are any.
  private var connection: Connection?
  /// The members whose values were read last.
  private var valued: Set<ObjectIdentifier> = []
  /// Whether the database is closed.
  private var isClosed = false
  private nonisolated let waker = LiveWaker()

  private struct WeakMember {
    weak var member: (any LiveMember)?
  }

  /// Creates a scope of a database.
  public init(_ database: Database) { self.database = database }

  deinit { task?.cancel() }

  /// Adds a member, which receives its first value with the next update.
  @_spi(Extensions) public func add(_ member: any LiveMember) {
    members[ObjectIdentifier(member)] = WeakMember(member: member)
    if isClosed { return member.end() }
    if task == nil { begin() } else { wake() }
  }

  /// Updates the members that receive steps, without a commit: because one needs other data, or is released.
  @_spi(Extensions) public nonisolated func wake() { waker.wake() }

  /// Observes the commits, until there are no members.
  private func begin() {
    let core = database.core
    let watcher = LiveWatcher(core)
    let held: HeldObservation
    do { held = try core.observations.observe(.watched(watcher, collection: nil), in: core) } catch {
      fail(error)
      if let error = error as? DatabaseError, error.code == .closed { close() }
      return
    }
    waker.begin(held.observation)
    task = Task { [weak self] in
      do {
        while try await held.observation.next() != nil {
          guard let update = self?.nextUpdate(core, watcher) else { return }
          do {
            guard let read = try await update.read() else { break }
            held.observation.didSee(read.version)
            self?.apply(read)
          } catch let error where !(error is CancellationError) {
            self?.fail(error)
          }
        }
        self?.close()
      } catch { self?.end(error) }
    }
  }

  /// Returns what must be read now, or `nil` if there are no members any more.
  private func nextUpdate(_ core: DatabaseCore, _ watcher: LiveWatcher) -> LiveUpdate? {
    members = members.filter { $0.value.member != nil }
    var update = LiveUpdate(core: core, watcher: watcher)
    var valued: Set<ObjectIdentifier> = []
    for (id, member) in members {
      switch member.member?.reading {
      case .value(let read)?:
        update.values.append(read)
        valued.insert(id)
      case .steps(let read)?:
        update.steps.append(
          LiveUpdate.Step(read: read) { [weak member = member.member] error in
            LiveValue { [weak member] in member?.fail(error) }
          })
      case nil: continue
      }
    }
    watcher.watchesAll(!update.steps.isEmpty)
    if update.steps.isEmpty {
      connection = nil
    } else if connection == nil {
      connection = database.connection(cacheLimit: 0)
    }
    update.connection = connection
    update.hasNewValues = !valued.isSubset(of: self.valued)
    self.valued = valued
    if !members.isEmpty { return update }
    end(CancellationError())
    return nil
  }

  private func apply(_ read: LiveUpdate.Read) {
    for value in read.values { value.apply() }
  }

  private func end(_ error: any Error) {
    task = nil
    connection = nil
    waker.begin(nil)
    fail(error)
  }

  /// Notes that the database is closed. Members keep what they show.
  private func close() {
    isClosed = true
    connection = nil
    waker.begin(nil)
    for member in members.values { member.member?.end() }
  }

  private func fail(_ error: any Error) {
    // What could not be read is read again with the next commit.
    valued = []
    if error is CancellationError { return }
    for member in members.values { member.member?.fail(error) }
  }
}

/// Wakes the task of a scope. It is safe to use from any thread.
private final class LiveWaker: Sendable {
  private let observation = FutexLock<Observation?>(nil)

  func begin(_ observation: Observation?) { self.observation.withLock { $0 = observation } }

  func wake() {
    // It is after all commits, so that none of them includes it.
    observation.withLock { $0 }?.add(ObservedChange(version: CommitVersion(.max), isReload: true))
  }
}

internal import FutexLocks

/// An update of the members of a scope.
struct LiveUpdate: Sendable {
  let core: DatabaseCore
  let watcher: LiveWatcher
  var values: [@Sendable (ReadTransaction) -> LiveValue] = []
  var steps: [Step] = []
  /// Holds the snapshot, if there are members that receive steps.
  var connection: Connection?
  /// Whether there are members whose values were never read.
  var hasNewValues = false

  init(core: DatabaseCore, watcher: LiveWatcher) {
    self.core = core
    self.watcher = watcher
  }

  /// How one member reads its next value, and the value that it has if that fails.
  struct Step: Sendable {
    let read: @Sendable (LiveStep) throws -> LiveValue?
    let failed: @Sendable (any Error) -> LiveValue
  }

  struct Read: Sendable {
    let version: CommitVersion
    let values: [LiveValue]
  }

  /// Reads on a thread of the database. Returns `nil` if the database is closed.
  func read() async throws -> Read? {
    var attempts = 1
    while true {
      do {
        let attempt = attempts
        return try await core.executor.run { [self] in try core.changes.whileOpen { try readHere(attempt) } }
      } catch let error as DatabaseError where core.isToRepeat(error, attempts) { attempts += 1 }
    }
  }

  private func readHere(_ attempt: Int) throws -> Read {
    try Task.checkCancellation()
    do { return try readValuesAndSteps(attempt) } catch {
      // The values have not been set, so they are read again.
      watcher.didMiss()
      throw error
    }
  }

  private func readValuesAndSteps(_ attempt: Int) throws -> Read {
    // A commit after the snapshot must be compared with what is read now, so the watcher is notified before.
    let isDue = !values.isEmpty && (watcher.takeDue() || hasNewValues || connection == nil)
    if isDue { watcher.begin() }
    guard let connection else {
      return try core.atPresent { snapshot in Read(version: snapshot.version, values: try readValues(snapshot)) }
    }
    let step = try connection.takeStep()
    // The watcher may not have been notified yet of commits that the step contains.
    let isUnknown =
      !values.isEmpty && !isDue && step.events.contains { $0.isUnknown || watcher.isConcerned(by: $0) }
    if isUnknown {
      watcher.begin()
      // A commit since the snapshot may have been compared with what was read before.
      watcher.didMiss()
    }
    var read = isDue || isUnknown ? try readValues(step.new.snapshot) : []
    for member in steps {
      do {
        if let value = try member.read(step) { read.append(value) }
      } catch let error as CancellationError { throw error } catch {
        if let error = error as? DatabaseError, core.isToRepeat(error, attempt) { throw error }
        read.append(member.failed(error))
      }
    }
    return Read(version: step.new.version, values: read)
  }

  private func readValues(_ snapshot: any StorageSnapshot) throws -> [LiveValue] {
    let (read, reads) = try core.recording(at: snapshot) { tx in values.map { $0(tx) } }
    watcher.end(reads)
    return read
  }
}

/// A watcher that compares commits with what the members of a scope have read.
final class LiveWatcher: RowWatcher {
  private let reads: ReadWatcher
  private let state = FutexLock(State())

  private struct State {
    var watchesAll = false
    var isDue = true
  }

  init(_ database: DatabaseCore) { reads = ReadWatcher(database) }

  func begin() { reads.begin() }
  func end(_ found: RecordedReads) { reads.end(found) }

  /// Sets whether every commit wakes the scope, because it has members that receive steps.
  func watchesAll(_ watchesAll: Bool) { state.withLock { $0.watchesAll = watchesAll } }

  /// Returns whether what was read has changed, and notes that it is read again.
  func takeDue() -> Bool {
    state.withLock { state in
      defer { state.isDue = false }
      return state.isDue
    }
  }

  /// Returns whether a commit changes what was read.
  func isConcerned(by event: ChangeEvent) -> Bool {
    guard case .changes(let changes) = event else { return true }
    return reads.mayConcern(changes)
  }

  func mayConcern(_ changes: ChangeSet) -> Bool { note(reads.mayConcern(changes)) }
  func mayConcern(_ parts: PartWrites.Noted) -> Bool { note(reads.mayConcern(parts)) }
  func didMiss() { state.withLock { $0.isDue = true } }
  var isWokenByAll: Bool { state.withLock { $0.watchesAll } }
  func concerned(_ rows: ChangedRows) -> [[UInt8]] { rows.keys }

  private func note(_ isChanged: Bool) -> Bool {
    state.withLock { state in
      if isChanged { state.isDue = true }
      return isChanged || state.watchesAll
    }
  }
}

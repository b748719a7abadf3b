internal import Foundation
internal import Synchronization
@_spi(Extensions) public import Varve

extension TaskScheduler {
  /// Accepts a type: its objects may be set and removed through the inbox (`TaskInbox`). Call this before `start`.
  public func accept<Object: Persistable>(_ type: Object.Type) where Object.ID: Decodable {
    let accepted = AcceptedType(
      set: { data, tx in try JSONDecoder().decode(Object.self, from: data).persist(in: tx) },
      remove: { data, tx in
        let ids = try JSONDecoder().decode([Object.ID].self, from: data)
        return try ids.count { try Object.deleteIfPresent($0, in: tx) != nil } > 0
      })
    state.withLock { $0.accepted[Object.collection] = accepted }
  }

  private var inbox: TaskInbox { TaskInbox(database.path, state.withLock { $0.inboxFiles }) }

  /// The age in seconds from which on an unfinished file is one whose sender has died.
  private static let unfinishedMaximum: TimeInterval = 86_400

  /// Begins to apply the files of the inbox: those that exist now, and each file that arrives later.
  func openInbox() throws {
    let inbox = inbox
    if !inbox.files.exists(database.path) { return }
    try inbox.files.createDirectory(inbox.directory)
    // Files have times of the system's clock.
    inbox.files.removeAbandoned(inbox.directory, before: Date(timeIntervalSinceNow: -Self.unfinishedMaximum))
    let watch = DirectoryChanges(inbox.directory, suffix: InboxFile.suffix) { [weak self] in self?.wakeInbox() }
    if watch == nil { SchedulerLog.inbox(logger, inbox.directory) }
    state.withLock { $0.watch = watch }
    wakeInbox()
  }

  /// Applies no further files. A file whose transaction waits for the writer is applied after the next start: until
  /// then, the scheduler might not be able to commit what its handlers have done.
  func closeInbox() {
    // The watch ends when it is released, which is after the lock.
    let (watch, reading) = state.withLock { ($0.watch.take(), $0.inboxReading) }
    withExtendedLifetime(watch) { reading?.cancel() }
  }

  /// Returns when no file is being applied any more.
  func endInbox() async {
    let reading = state.withLock { $0.inboxReading }
    reading?.cancel()
    await reading?.value
  }

  /// Requests that the files be applied. Only one caller at a time applies them, one after the other.
  func wakeInbox() {
    state.withLock { state in
      // The next start applies all files.
      guard state.isRunning else { return }
      state.inboxRequests += 1
      guard state.inboxRequests == 1 else { return }
      state.inboxReading = Task.detached { [weak self] in await self?.readInbox() }
    }
  }

  private func readInbox() async {
    while true {
      let (requests, isRunning) = state.withLock { ($0.inboxRequests, $0.isRunning) }
      if isRunning { await applyFiles() }
      let isDone = state.withLock { state in
        if state.inboxRequests != requests, state.isRunning { return false }
        state.inboxRequests = 0
        state.inboxReading = nil
        return true
      }
      if isDone { return }
    }
  }

  private func applyFiles() async {
    let inbox = inbox
    let (names, areLeft) = inbox.files.applicableFiles(inbox.directory)
    if areLeft { wakeInbox() }
    for name in names {
      guard state.withLock({ $0.isRunning }), !Task.isCancelled else { return }
      let path = inbox.directory + "/" + name
      do {
        try await apply(name, inbox)
        state.withLock { $0.inboxDelays[name] = nil }
        try inbox.files.remove(path)
      } catch let refusal as InboxRefusal {
        state.withLock { $0.inboxDelays[name] = nil }
        refuse(name, refusal.cause, inbox)
      } catch let error as DatabaseError where error.code == .conflict {
        // The program has meanwhile changed what the transaction reads. The file is applied again, before the others.
        noteDelay(of: path, name, error, weight: 1)
        await Task.yield()
        return wakeInbox()
      } catch let error as DatabaseError where error.code == .writerBusy {
        // A long transaction has the writer, so the file is applied again as after a conflict, but not at once.
        noteDelay(of: path, name, error, weight: Self.delayMaximum)
        try? await clock.sleep(until: clock.continuousNow + Self.busyPause)
        return wakeInbox()
      } catch let error as DatabaseError where error.code != .corruption {
        // The database can't be written. All files stay, and are tried again with the next one that arrives.
        return report(error, path)
      } catch {
        // What the commands change is damaged, or the file can't be read or removed, so that it would stop the others
        // for ever. It stays, and is tried again with the next one that arrives.
        report(error, path)
      }
    }
    guard state.withLock({ $0.isRunning }), !Task.isCancelled else { return }
    inbox.files.removeAbandoned(inbox.directory, before: Date(timeIntervalSinceNow: -Self.unfinishedMaximum))
    // If this fails, the remaining notes are deleted with the next file, or after the next start.
    do { try await forgetFiles() } catch is CancellationError {
      // The scheduler is being stopped.
    } catch { report(error, inbox.directory) }
  }

  /// The time for which no file is applied after a wait for the writer that was in vain.
  private static let busyPause = Duration.milliseconds(100)

  /// The time that a file whose transaction has conflicted waits for the writer while the scheduler commits nothing.
  private static let turnTimeout = Duration.milliseconds(100)

  /// The weight of the delays of a file at which they are logged: one wait for the writer that was in vain, which has
  /// taken long, or several conflicts.
  private static let delayMaximum = 4

  /// Notes that a file could not be applied yet. The log has one line about it, with the reason.
  private func noteDelay(of path: String, _ name: String, _ error: any Error, weight: Int) {
    let isLong = state.withLock { state in
      let before = state.inboxDelays[name] ?? 0
      state.inboxDelays[name] = before + weight
      return before < Self.delayMaximum && before + weight >= Self.delayMaximum
    }
    if isLong { SchedulerLog.inboxDelayed(logger, path, error) }
  }

  /// Logs an error of the database, or of the file or directory at a path.
  private func report(_ error: any Error, _ path: String) {
    // The database may have been closed meanwhile, or the scheduler is being stopped.
    guard state.withLock({ $0.isRunning }), !(error is CancellationError) else { return }
    if error is DatabaseError {
      SchedulerLog.failed(logger, error)
    } else {
      SchedulerLog.inboxFailed(logger, path, error)
    }
  }

  private func apply(_ name: String, _ inbox: TaskInbox) async throws {
    let file = try inbox.read(name)
    let changed: [Int]
    do { changed = try await apply(file) } catch let error as DatabaseError where error.code == .conflict {
      // A transaction that changes many tasks is so long that some of them end while it runs, in each attempt again. So
      // the scheduler commits nothing while the next attempt is made. Handlers continue to run. It waits for the writer
      // for a short time only: a long transaction of the program must not stop the scheduler.
      changed = try await commitMutex.withLock { [self] in try await apply(file, writerTimeout: Self.turnTimeout) }
    }
    try inbox.answer(file, changed)
  }

  /// Applies the commands of a file in one transaction, unless they were applied before. Returns what each has changed.
  private func apply(_ file: InboxFile, writerTimeout: Duration? = nil) async throws -> [Int] {
    let (accepted, now) = (state.withLock { $0.accepted }, WallTime.milliseconds(clock.wallNow))
    return try await database.write(label: "tasks: inbox", durability: .power, writerTimeout: writerTimeout) { tx in
      try file.apply(to: tx, accepted, now)
    }
  }

  private func refuse(_ name: String, _ error: any Error, _ inbox: TaskInbox) {
    SchedulerLog.refused(logger, name, error)
    do { try inbox.refuse(name, error) } catch { SchedulerLog.inboxFailed(logger, inbox.directory + "/" + name, error) }
  }

  /// Deletes the notes of files that are gone for good. A file that a power loss could bring back keeps its note.
  private func forgetFiles() async throws {
    let noted = try await database.read { tx in
      var keys: [[UInt8]] = []
      var cursor = try tx.tasks.config.cursor(StorageRange(prefix: [ConfigKeys.inbox]), keysOnly: true)
      while let (key, _) = try cursor.next() { keys.append(key) }
      return keys
    }
    if noted.isEmpty { return }
    let inbox = inbox
    try inbox.files.syncDirectory(inbox.directory)
    let left = Set(inbox.files.commandFiles(inbox.directory).compactMap { InboxFile.id(ofName: $0) })
    let gone = noted.filter { !left.contains(Array($0.dropFirst())) }
    if gone.isEmpty { return }
    try await database.commitIndependently(label: "tasks: inbox") { parts in
      let config = try TaskParts(parts).config
      for key in gone { try config.delete(key) }
    }
  }
}

internal import Foundation
internal import Synchronization
@_spi(Extensions) public import Varve

/// The operations that set and remove an object of a collection by commands of the inbox.
struct AcceptedType: Sendable {
  let set: @Sendable (Data, WriteTransaction) throws -> Void
  let remove: @Sendable (Data, WriteTransaction) throws -> Void
}

extension TaskScheduler {
  /// Accepts a type: its objects may be set and removed through the inbox (`TaskInbox`). Call this before `start`.
  public func accept<Object: Persistable>(_ type: Object.Type) where Object.ID: Decodable {
    let accepted = AcceptedType(
      set: { data, tx in try JSONDecoder().decode(Object.self, from: data).persist(in: tx) },
      remove: { data, tx in
        for id in try JSONDecoder().decode([Object.ID].self, from: data) { _ = try Object.deleteIfPresent(id, in: tx) }
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
    for name in inbox.files.commandFiles(inbox.directory) {
      guard state.withLock({ $0.isRunning }), !Task.isCancelled else { return }
      let path = inbox.directory + "/" + name
      do {
        try await apply(path, inbox.files)
        state.withLock { $0.inboxDelays[name] = nil }
        try inbox.files.remove(path)
      } catch let refusal as InboxRefusal {
        state.withLock { $0.inboxDelays[name] = nil }
        refuse(path, name, refusal.cause, inbox)
      } catch let error as DatabaseError where error.code == .conflict {
        // The program has meanwhile changed what the transaction reads. The file is applied again when the others are.
        noteDelay(of: path, name, error, weight: 1)
        await Task.yield()
        wakeInbox()
      } catch let error as DatabaseError where error.code == .writerBusy {
        // A long transaction has the writer, so the file is applied again as after a conflict, but not at once.
        noteDelay(of: path, name, error, weight: Self.delayMaximum)
        try? await clock.sleep(until: clock.continuousNow + Self.busyPause)
        wakeInbox()
      } catch {
        // The database can't be written, or the file can't be read or removed. The file stays, and is tried again with
        // the next one.
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

  /// The error for a file that can't be applied.
  private struct InboxRefusal: Error { let cause: any Error }

  /// The errors of a transaction that say nothing about the commands. The file stays.
  private static let passingErrors: Set<DatabaseError.Code> = [
    .conflict, .storage, .notReadableNow, .outcomeUnknown, .closed, .notReady, .readOnly, .corruption,
  ]

  private func apply(_ path: String, _ files: any InboxFiles) async throws {
    let file: InboxFile
    // Reading a pipe could wait without end.
    if try !files.isFile(path) { throw InboxRefusal(cause: DamagedInbox(what: "it is not a regular file")) }
    let size = try files.size(path)
    let bytes = size > InboxFile.sizeMaximum ? [] : try files.read(path)
    do {
      if size > InboxFile.sizeMaximum {
        throw TaskError.tooLarge(what: "a file of the inbox", size: size, limit: InboxFile.sizeMaximum)
      }
      file = try InboxFile(bytes)
      guard (path as NSString).lastPathComponent == InboxFile.name(file.id) else {
        throw DamagedInbox(what: "its id is not that of its name")
      }
    } catch { throw InboxRefusal(cause: error) }
    let changed: [Int]
    do { changed = try await apply(file) } catch let error as DatabaseError where error.code == .conflict {
      // A transaction that changes many tasks is so long that some of them end while it runs, in each attempt again. So
      // the scheduler commits nothing while the next attempt is made. Handlers continue to run. It waits for the writer
      // for a short time only: a long transaction of the program must not stop the scheduler.
      changed = try await commitMutex.withLock { [self] in try await apply(file, writerTimeout: Self.turnTimeout) }
    }
    guard file.wantsAnswer else { return }
    // If the process dies before the file of commands is removed, the answer is written again.
    let answer = (path as NSString).deletingLastPathComponent + "/" + InboxFile.answerName(file.id)
    try files.writeWhole(Array(try JSONEncoder().encode(AnswerRecord(applied: changed))), answer)
  }

  /// Applies the commands of a file in one transaction, unless they were applied before. Returns what each has changed.
  private func apply(_ file: InboxFile, writerTimeout: Duration? = nil) async throws -> [Int] {
    let accepted = state.withLock { $0.accepted }
    let (key, now) = (ConfigKeys.inbox(file.id), WallTime.milliseconds(clock.wallNow))
    return try await database.write(label: "tasks: inbox", durability: .power, writerTimeout: writerTimeout) { tx in
      let config = try tx.tasks.config
      if let value = try config.get(key) { return try ConfigKeys.changed(ofInbox: value) }
      var changed: [Int] = []
      do {
        for command in file.commands {
          if let count = try Self.apply(command, accepted, tx) { changed.append(count) }
        }
      } catch let error as DatabaseError where Self.passingErrors.contains(error.code) { throw error } catch {
        throw InboxRefusal(cause: error)
      }
      try config.put(key, ConfigKeys.inbox(now, changed: file.wantsAnswer ? changed : []))
      return changed
    }
  }

  /// Applies a command. Returns the number of tasks, queues or rows that it has changed, or `nil` if it changes
  /// nothing.
  private static func apply(
    _ command: InboxCommand, _ accepted: [String: AcceptedType], _ tx: WriteTransaction
  ) throws -> Int? {
    func type(_ collection: String) throws -> AcceptedType {
      if let type = accepted[collection] { return type }
      throw TaskError.invalidValue("no type was accepted for the objects of collection \"\(collection)\"")
    }
    switch command {
    case .enqueue(let kind, let version, let payload, var options):
      let tasks = try tx.tasks
      try tasks.dispatcher.middleware?.enqueuing(kind, &options, in: tx)
      _ = try tasks.enqueue(kind, version: version, Array(payload), options)
    case .cancel(let query): return try tx.cancel(query)
    case .retry(let query): return try tx.retryNow(query)
    case .revive(let query): return try tx.revive(query)
    case .delete(let query):
      let tasks = try tx.tasks
      let ids = try tasks.ids(query)
      // None of those that do not run begins before its deletion, which would then throw.
      try tasks.hold(ids)
      var count = 0
      for id in ids where tasks.dispatcher.run(id) == nil { count += try tx.delete(.id(id)) }
      // No task has the unique key any more, so only the key is released.
      if ids.isEmpty { _ = try tasks.forgetKey(query) }
      return count
    case .signal(let text): return try tx.signal(WakeSignal(text))
    case .pause(let queue): try tx.pause(queue)
    case .resume(let queue): try tx.resume(queue)
    case .drain(let queue): try tx.drain(queue)
    case .release: return try tx.releaseTasks() ? 1 : 0
    case .set(let collection, let object): try type(collection).set(object, tx)
    case .remove(let collection, let id): try type(collection).remove(id, tx)
    case .answer: return nil
    }
    return 1
  }

  /// Moves a file to `refused`, beside a text with the reason. Both survive a power loss when the call returns.
  private func refuse(_ path: String, _ name: String, _ error: any Error, _ inbox: TaskInbox) {
    SchedulerLog.refused(logger, name, error)
    do {
      try inbox.files.createDirectory(inbox.refusedDirectory)
      let target = try inbox.refusedDirectory + "/" + freeName(path, name, inbox)
      let reason = target + ".txt"
      try inbox.files.write(Array("\(error)\n".utf8), reason)
      try inbox.files.sync(reason)
      try inbox.files.move(path, to: target)
      try inbox.files.syncDirectory(inbox.refusedDirectory)
      try inbox.files.syncDirectory(inbox.directory)
    } catch { SchedulerLog.inboxFailed(logger, path, error) }
  }

  /// Returns the name that a refused file gets. A file replaces one that was refused before, but a directory can't.
  private func freeName(_ path: String, _ name: String, _ inbox: TaskInbox) throws -> String {
    if try inbox.files.isFile(path) { return name }
    let taken = Set(inbox.files.names(inbox.refusedDirectory))
    var (free, number) = (name, 1)
    while taken.contains(free) {
      number += 1
      free = "\(name).\(number)"
    }
    return free
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
    let left = Set(inbox.files.commandFiles(inbox.directory))
    let gone = noted.filter { !left.contains(InboxFile.name(Array($0.dropFirst()))) }
    if gone.isEmpty { return }
    try await database.commitIndependently(label: "tasks: inbox") { parts in
      let config = try TaskParts(parts).config
      for key in gone { try config.delete(key) }
    }
  }
}

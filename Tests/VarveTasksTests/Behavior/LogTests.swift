import EngineTestSupport
import Foundation
import Logging
import Synchronization
import Testing
import Varve
import VarveEngine
import VarveTestSupport

@_spi(Extensions) @testable import VarveTasks
@testable import VarveTesting

/// Tests of the lines that a scheduler writes to its log: those of the table in the guide "Operating tasks".
struct LogTests {
  private let directory: TemporaryDirectory
  private let recorder = LogRecorder()

  init() throws { directory = try TemporaryDirectory() }

  /// A situation in which a scheduler writes a line. The raw values are the messages.
  enum Situation: String, CaseIterable, Sendable {
    case dead = "a task is dead"
    case damaged = "a task can't be read, and is left out"
    case failed = "the scheduler could not write to the database, and tries again"
    case full = "the disk is full: no task begins until there is space again"
    case unreadable = "a part of the database can't be read, and what needs it is left out"
    case slot = "a task of a schedule could not be made, and its slot is left out"
    case abandoned = "handlers do not return, and are abandoned"
    case unwatched = "the inbox can't be watched, and is looked at when the scheduler starts"
    case refused = "a file of the inbox can't be applied"
    case inboxFailed = "an operation on a file of the inbox has failed, and is tried again later"
    case inboxDelayed = "a file of the inbox could not be applied yet, and is tried again"
    case held = "the database is a copy, and none of its tasks is started until releaseTasks() is called"
    case setBack = "the clock was set back: tasks have run at a later time"
    case wrongDate =
      "the last slot of a schedule is more than a day ahead of the clock, and the schedule continues from now"
    case unhandled = "no handler is registered for a kind of tasks, which wait for one"
    case orphans = "tasks were running when the process ended"
    case waits = "a handler waits for its own end, until it is cancelled"
    case awaited = "a task has waited for a minute for the end of a handler, which must not wait for the task"
    case ignored =
      "a handler has failed or returned another outcome after complete, which has no effect: the task is done"
    case stops = "a handler stops the scheduler, which ends when the handler has returned"
  }

  private struct Row {
    let level: String
    let keys: Set<String>
  }

  private static let attemptKeys: Set = ["task.id", "task.kind", "task.queue", "task.attempt", "task.epoch"]

  /// Returns the rows of the table in the guide by their messages.
  private static func table() throws -> [String: Row] {
    var root = URL(fileURLWithPath: #filePath)
    for _ in 0..<4 { root.deleteLastPathComponent() }
    let path = root.appending(path: "Sources/VarveTasks/VarveTasks.docc/Guides/OperatingTasks.md")
    let text = try String(contentsOf: path, encoding: .utf8)
    let start = try #require(text.range(of: "| Level | Line | Metadata |"))
    let lines = text[start.upperBound...].split(separator: "\n").dropFirst().prefix { $0.hasPrefix("|") }
    var rows: [String: Row] = [:]
    for line in lines {
      let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
      try #require(cells.count == 3)
      let words = cells[2].split(separator: "`", omittingEmptySubsequences: false)
      let keys = Set(words.indices.filter { !$0.isMultiple(of: 2) }.map { String(words[$0]) })
      let hasAttempt = cells[2].hasPrefix("that of the attempt")
      rows[cells[1]] = Row(level: cells[0], keys: hasAttempt ? keys.union(attemptKeys) : keys)
    }
    return rows
  }

  @Test func `the table of the guide has the messages of all situations, and no others`() throws {
    #expect(try Set(Self.table().keys) == Set(Situation.allCases.map(\.rawValue)))
  }

  // MARK: - Schedulers

  private static func memory() throws -> Database {
    try Database.inMemory(definition: DatabaseDefinition { TaskStorage.handle })
  }

  private func onDisk(_ name: String) throws -> Database {
    try Database.open(at: directory.path + "/" + name, definition: DatabaseDefinition { TaskStorage.handle })
  }

  /// Returns a scheduler that writes to the recorder, and abandons handlers at once when it stops.
  private func scheduler(
    _ database: Database, _ clock: ManualSchedulerClock = ManualSchedulerClock(), maxCrashes: Int = 3
  ) throws -> TaskScheduler {
    var configuration = TaskScheduler.Configuration()
    configuration.workers = 1
    configuration.drainTimeout = .zero
    configuration.abandonAfter = .zero
    configuration.maxCrashes = maxCrashes
    return try TaskScheduler(database, configuration: configuration, clock: clock, logger: recorder.logger())
  }

  /// Calls the blocking form.
  private func enqueue(_ database: Database, _ text: String = "a") throws -> TaskID {
    try database.write { tx in try tx.enqueue(Note(text)).id }
  }

  private func start(
    _ scheduler: TaskScheduler,
    _ handle: @escaping @Sendable (Note, TaskContext) async throws -> TaskOutcome = { _, _ in .done }
  ) async throws {
    try scheduler.register(Note.self, handle)
    try await scheduler.start()
    await scheduler.waitUntilIdle()
  }

  private func attempt(_ id: TaskID, _ error: String) -> [String: String] {
    [
      "task.id": "\(id)", "task.kind": "note", "task.queue": "default", "task.attempt": "1", "task.epoch": "1",
      "error": error,
    ]
  }

  // MARK: - Situations

  /// Brings about a situation. Returns the values of the metadata of its line that are known.
  private func bringAbout(_ situation: Situation) async throws -> [String: String] {
    switch situation {
    case .dead:
      let scheduler = try scheduler(Self.memory())
      let id = try enqueue(scheduler.database)
      try await start(scheduler) { _, _ in .discard("no") }
      await scheduler.stop()
      return attempt(id, "no")
    case .damaged: return try await readDamaged()
    case .failed: return try await failToWrite()
    case .full:
      let backend = FullBackend(try EngineBackend.inMemory())
      backend.fill(true)
      let definition = DatabaseDefinition { TaskStorage.handle }
      let scheduler = try scheduler(try await Database.open(backend, path: "/db", definition: definition))
      try await start(scheduler)
      await scheduler.stop()
      return [:]
    case .unreadable: return try await failToRead()
    case .slot: return try await failToMakeSlot()
    case .abandoned: return try await abandon()
    case .unwatched: return try await openUnwatched()
    case .refused: return try await refuseFile()
    case .inboxFailed: return try await failToRemoveFile()
    case .inboxDelayed: return try await conflict()
    case .held: return try await openCopy()
    case .setBack: return try await setBack()
    case .wrongDate: return try await correctDate()
    case .unhandled:
      let scheduler = try scheduler(Self.memory())
      let id = try await scheduler.database.write { tx in try tx.enqueue(Other()).id }
      try await start(scheduler)
      await scheduler.stop()
      return ["task.kind": "other", "task.id": "\(id)", "task.queue": "default"]
    case .orphans:
      let scheduler = try scheduler(Self.memory())
      _ = try await claim(in: scheduler.database)
      try await start(scheduler)
      await scheduler.stop()
      return ["count": "1"]
    case .ignored:
      let scheduler = try scheduler(Self.memory())
      let id = try enqueue(scheduler.database)
      try await start(scheduler) { _, context in
        try await context.complete { _ in }
        throw Broken()
      }
      await scheduler.stop()
      return attempt(id, "Broken()").reduce(into: [:]) { $0[$1.key == "error" ? "outcome" : $1.key] = $1.value }
    case .waits, .stops: return try await waitInHandler(situation)
    case .awaited: return try await waitForChild()
    }
  }

  private func waitForChild() async throws -> [String: String] {
    let clock = ManualSchedulerClock()
    let scheduler = try scheduler(Self.memory(), clock)
    let (enqueued, mayEnd) = (AsyncFlag(), AsyncFlag())
    let database = scheduler.database
    try scheduler.register(Note.self) { note, context in
      if note.text != "a" { return .done }
      try await database.write { tx in
        var options = TaskOptions()
        options.dependsOn = [context.id]
        for text in ["b", "c"] { try tx.enqueue(Note(text), options) }
      }
      enqueued.set()
      await mayEnd.wait()
      return .done
    }
    try await scheduler.start()
    let id = try enqueue(database)
    await enqueued.wait()
    clock.advance(by: .seconds(59))
    await waitUntil { clock.deadlines.contains { $0 == clock.continuousNow + .seconds(1) } }
    #expect(recorder.entries.isEmpty)
    clock.advance(by: .seconds(1))
    await waitUntil { !recorder.entries.isEmpty }
    mayEnd.set()
    await scheduler.waitUntilIdle()
    #expect(try await database.read { tx in try tx.tasks(.all).count } == 0)
    await scheduler.stop()
    var known = attempt(id, "")
    known["error"] = nil
    known["child"] = "2"
    return known
  }

  private func waitInHandler(_ situation: Situation) async throws -> [String: String] {
    let scheduler = try scheduler(Self.memory())
    let returned = AsyncFlag()
    try scheduler.register(Note.self) { _, _ in
      if situation == .stops { await scheduler.stop() } else { await scheduler.waitUntilIdle() }
      returned.set()
      return .done
    }
    try await scheduler.start()
    let id = try enqueue(scheduler.database)
    if situation == .waits {
      await waitUntil { recorder.entries.contains { $0.message == situation.rawValue } }
      await scheduler.stop()
    }
    await returned.wait()
    await scheduler.stop()
    var known = attempt(id, "")
    known["error"] = nil
    known["call"] = situation == .waits ? "waitUntilIdle()" : nil
    return known
  }

  /// Enqueues a task and claims it as a process that has died.
  private func claim(in database: Database) async throws -> TaskID {
    let id = try enqueue(database)
    try await database.claimAndDie([id])
    return id
  }

  private func readDamaged() async throws -> [String: String] {
    let scheduler = try scheduler(Self.memory())
    let id = try enqueue(scheduler.database)
    try await scheduler.database.commitIndependently { parts in
      let parts = try TaskParts(parts)
      guard var position = try parts.position(of: id)?.position else { return }
      position.ordinal += 1
      try parts.live.put(position.key(of: TaskID(rawValue: 1 << 40)), [0xFF])
    }
    try await start(scheduler)
    await scheduler.stop()
    return [:]
  }

  private func failToWrite() async throws -> [String: String] {
    let backend = FailingBackend(try EngineBackend.inMemory())
    let database = try await Database.open(backend, path: "/db", definition: DatabaseDefinition { TaskStorage.handle })
    let clock = ManualSchedulerClock()
    let scheduler = try scheduler(database, clock)
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    try await start(scheduler) { _, _ in
      begun.set()
      await mayEnd.wait()
      return .done
    }
    _ = try enqueue(database)
    await begun.wait()
    backend.fail(.max)
    mayEnd.set()
    // The scheduler waits a second before it tries again.
    await waitUntil { clock.sleepCount > 0 }
    backend.mend()
    await scheduler.advance(clock, by: .seconds(1))
    #expect(try await database.read { tx in try tx.tasks(.all).count } == 0)
    await scheduler.stop()
    try await database.close()
    return ["error": "\(FailingBackend.error)"]
  }

  private func failToRead() async throws -> [String: String] {
    let backend = DamagedBackend(try EngineBackend.inMemory())
    let database = try await Database.open(backend, path: "/db", definition: DatabaseDefinition { TaskStorage.handle })
    let clock = ManualSchedulerClock()
    let scheduler = try scheduler(database, clock)
    try enqueueKept(database)
    try await start(scheduler)
    await scheduler.stop()
    // The task must be forgotten by now.
    clock.advance(by: .seconds(100))
    backend.damage(StorageRange(prefix: [EndedKeys.history]), of: "ended")
    try await scheduler.start()
    await scheduler.stop()
    try await database.close()
    return ["error": "\(DamagedBackend.error)"]
  }

  /// Calls the blocking form, for a task that is kept for a second.
  private func enqueueKept(_ database: Database) throws {
    var options = Note.defaults
    options.retention = .keep(.seconds(1))
    try database.write { tx in _ = try tx.enqueue(Note("a"), options) }
  }

  private func failToMakeSlot() async throws -> [String: String] {
    let clock = ManualSchedulerClock()
    let scheduler = try scheduler(Self.memory(), clock)
    try scheduler.schedule("minutes", "* * * * *") { _ -> Note in throw Broken() }
    try await start(scheduler)
    await scheduler.advance(clock, by: .seconds(60))
    await scheduler.stop()
    return ["schedule": "minutes", "slot": "\(clock.wallNow)", "error": "Broken()"]
  }

  private func abandon() async throws -> [String: String] {
    let scheduler = try scheduler(Self.memory())
    let (begun, mayEnd) = (AsyncFlag(), AsyncFlag())
    try await start(scheduler) { _, _ in
      begun.set()
      await mayEnd.wait()
      return .done
    }
    _ = try enqueue(scheduler.database)
    await begun.wait()
    await scheduler.stop()
    mayEnd.set()
    return ["count": "1"]
  }

  private func openUnwatched() async throws -> [String: String] {
    let database = try onDisk("db")
    let scheduler = try scheduler(database)
    let path = database.path + "/inbox"
    let manager = FileManager.default
    try manager.createDirectory(atPath: path, withIntermediateDirectories: true)
    // A directory that can't be read can't be watched either.
    try manager.setAttributes([.posixPermissions: 0o300], ofItemAtPath: path)
    try await start(scheduler)
    await scheduler.stop()
    try manager.setAttributes([.posixPermissions: 0o700], ofItemAtPath: path)
    // The superuser may read, and therefore watch, every directory.
    if getuid() == 0 { SchedulerLog.inbox(scheduler.logger, path) }
    try await database.close()
    return ["path": path]
  }

  private func refuseFile() async throws -> [String: String] {
    let database = try onDisk("db")
    let scheduler = try scheduler(database)
    let path = database.path + "/inbox"
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    try Data("garbage".utf8).write(to: URL(fileURLWithPath: path + "/bad.commands"))
    try await start(scheduler)
    await waitUntil { SystemInboxFiles().commandFiles(path) == [] }
    await scheduler.stop()
    try await database.close()
    return ["file": "bad.commands"]
  }

  /// The files of the operating system, of which none can be removed.
  private struct LastingFiles: InboxFiles {
    private let base = SystemInboxFiles()

    func exists(_ path: String) -> Bool { base.exists(path) }
    func createDirectory(_ path: String) throws { try base.createDirectory(path) }
    func names(_ directory: String) -> [String] { base.names(directory) }
    func isFile(_ path: String) throws -> Bool { try base.isFile(path) }
    func size(_ path: String) throws -> Int { try base.size(path) }
    func modified(_ path: String) -> Date? { base.modified(path) }
    func read(_ path: String) throws -> [UInt8] { try base.read(path) }
    func write(_ bytes: [UInt8], _ path: String) throws { try base.write(bytes, path) }
    func sync(_ path: String) throws { try base.sync(path) }
    func move(_ path: String, to newPath: String) throws { try base.move(path, to: newPath) }
    func remove(_ path: String) throws { throw Broken() }
    func syncDirectory(_ path: String) throws { try base.syncDirectory(path) }
  }

  private func failToRemoveFile() async throws -> [String: String] {
    let database = try onDisk("db")
    let scheduler = try scheduler(database)
    scheduler.state.withLock { $0.inboxFiles = LastingFiles() }
    let inbox = TaskInbox(database.path)
    try inbox.send { $0.pause("paused") }
    let name = try #require(inbox.files.commandFiles(inbox.directory).first)
    try await start(scheduler)
    await waitUntil { !recorder.entries.isEmpty }
    await scheduler.stop()
    #expect(try await database.read { tx in try tx.taskQueueState("paused").isPaused })
    try await database.close()
    return ["path": inbox.directory + "/" + name, "error": "Broken()"]
  }

  private func conflict() async throws -> [String: String] {
    let path = directory.path + "/db"
    let backend = FailingBackend(
      try EngineBackend(try Engine.open(at: path, options: StorageSite.options, environment: .system)))
    let definition = DatabaseDefinition { TaskStorage.handle }
    let database = try await Database.open(backend, path: path, definition: definition)
    let scheduler = try scheduler(database)
    try await start(scheduler)
    let error = DatabaseError(.conflict, "something was changed")
    backend.fail(20, of: .power, with: error)
    let inbox = TaskInbox(path)
    try inbox.send { $0.pause("paused") }
    await waitUntil { inbox.files.commandFiles(inbox.directory) == [] }
    await scheduler.stop()
    #expect(try await database.read { tx in try tx.taskQueueState("paused").isPaused })
    try await database.close()
    return ["error": "\(error)"]
  }

  private func openCopy() async throws -> [String: String] {
    let original = try onDisk("db")
    _ = try enqueue(original)
    let path = directory.path + "/copy"
    try await original.backup(to: path)
    try await original.close()
    let copy = try onDisk("copy")
    let scheduler = try scheduler(copy)
    try await start(scheduler)
    await scheduler.stop()
    try await copy.close()
    return ["path": copy.path]
  }

  private func setBack() async throws -> [String: String] {
    let clock = ManualSchedulerClock()
    let scheduler = try scheduler(Self.memory(), clock)
    try await start(scheduler)
    await scheduler.stop()
    let latest = clock.wallNow
    clock.setWall(latest.addingTimeInterval(-7_200))
    try await scheduler.start()
    await scheduler.stop()
    return ["now": "\(clock.wallNow)", "latest": "\(latest)"]
  }

  private func correctDate() async throws -> [String: String] {
    let clock = ManualSchedulerClock()
    let scheduler = try scheduler(Self.memory(), clock)
    try scheduler.schedule("yearly", "@yearly") { _ in Note("a") }
    try await start(scheduler)
    let latest = clock.wallNow
    clock.setWall(latest.addingTimeInterval(-172_800))
    // The clock is looked at once a minute.
    await scheduler.advance(clock, by: .seconds(60))
    let now = clock.wallNow
    await scheduler.advance(clock, by: .seconds(60))
    await scheduler.stop()
    return ["schedule": "yearly", "now": "\(now)", "latest": "\(latest)"]
  }

  // MARK: - Their lines

  @Test(arguments: Situation.allCases)
  func `a situation writes its line with the level and the metadata of the table, once, and no other line`(
    situation: Situation
  ) async throws {
    let values = try await bringAbout(situation)
    let row = try #require(try Self.table()[situation.rawValue])
    let entries = recorder.entries
    #expect(entries.map(\.message) == [situation.rawValue])
    let entry = try #require(entries.first)
    #expect("\(entry.level)" == row.level)
    #expect(Set(entry.metadata.keys) == row.keys)
    for (key, value) in values { #expect(entry.metadata[key] == value, "\(key)") }
    #expect(entry.metadata.values.allSatisfy { !$0.isEmpty })
  }

  @Test func `a task that is dead because of crashes writes the same line as one whose handler gives it up`()
    async throws
  {
    let scheduler = try scheduler(Self.memory(), maxCrashes: 1)
    let id = try await claim(in: scheduler.database)
    try await start(scheduler)
    await scheduler.stop()
    let entries = recorder.entries
    #expect(entries.map(\.message) == [Situation.dead.rawValue, Situation.orphans.rawValue])
    #expect(entries.first?.metadata == attempt(id, "the process died 1 times while the task ran"))
    #expect(entries.first?.level == .error && entries.last?.metadata == ["count": "1"])
  }

  @Test func `the error of a task that is dead is one line, without characters that control a terminal`() async throws {
    let scheduler = try scheduler(Self.memory())
    let id = try enqueue(scheduler.database)
    let error = "no\r\n\u{1B}[31mred\u{7F}\u{85}\u{2028}\t\0 \"caf\u{E9}\" e\u{301} \\ \u{1F469}\u{200D}\u{1F52C}"
    try await start(scheduler) { _, _ in .discard(error) }
    await scheduler.stop()
    let escaped = #"no\r\n\u{1B}[31mred\u{7F}\u{85}\u{2028}\t\u{0} "#
    let rest = "\"caf\u{E9}\" e\u{301} \\ \u{1F469}\u{200D}\u{1F52C}"
    #expect(recorder.entries.map(\.metadata) == [attempt(id, escaped + rest)])
  }

  @Test func `attempts that fail and are repeated, are parked, postponed or done write no line`() async throws {
    let clock = ManualSchedulerClock()
    let scheduler = try scheduler(Self.memory(), clock)
    for text in ["fails", "parks", "snoozes", "done"] { _ = try enqueue(scheduler.database, text) }
    try await start(scheduler) { note, context in
      if context.failures > 0 || context.run.record.progress.snoozes > 0 { return .done }
      switch note.text {
      case "fails": throw Broken()
      case "parks": return .park()
      case "snoozes": return .snooze(for: .seconds(10))
      default: return .done
      }
    }
    await scheduler.advance(clock, by: .seconds(3_600))
    await scheduler.stop()
    #expect(recorder.entries.map(\.message) == [])
  }
}

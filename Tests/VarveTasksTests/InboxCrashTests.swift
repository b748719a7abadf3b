import EngineTestSupport
import Foundation
import Synchronization
import Testing
import Varve
import VarveEngine
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of a power loss, or the death of a process, at any operation on the files of an inbox: in the process that
/// sends commands, and in the one that applies them.
///
/// Each file of commands sets a letter and enqueues a task, whose effect is counted by `complete`. On each image of the
/// disk, a scheduler applies the files that are there: then each file has been applied once, or not at all if its
/// sender had not returned.
///
///     VARVE_TEST_SCALE=5 ./tools/test --filter InboxCrashTests
struct InboxCrashTests {
  struct Letter: Persistable {
    static let collection = "letters"
    var id: Int
  }

  private struct Point: Sendable {
    let crash: CrashPoint
    /// The number of files whose senders had returned.
    let sent: Int
  }

  /// What has happened to a file of commands at a crash.
  private enum Stage: String, CaseIterable {
    /// Its sender had not renamed it.
    case unfinished
    /// It was sent, and not applied.
    case sent
    /// It was applied, and not removed.
    case applied
    /// It was removed, and the note that it was applied was still there.
    case removed
    /// The note was deleted, too.
    case forgotten
  }

  private static let inbox = TaskDisk.path + "/inbox"
  private static let damaged = "0.commands"

  private static func open(_ disk: CrashFileSystem, seed: UInt64) throws -> TaskFixture {
    let database = try TaskDisk.open(
      disk, seed: seed,
      DatabaseDefinition {
        Letter.self
        CollectionDefinition("effects", Int.self, key: String.self)
        TaskStorage.handle
      })
    let fixture = try TaskFixture(database, workers: 2, maxCrashes: 0)
    fixture.scheduler.accept(Letter.self)
    fixture.scheduler.state.withLock { $0.inboxFiles = CrashInboxFiles(disk: disk) }
    try fixture.handle { note, context in
      try await context.complete(counting: note.text)
      return .done
    }
    return fixture
  }

  /// Returns a disk with a database that is closed.
  private static func makeDisk() throws -> CrashFileSystem {
    let disk = CrashFileSystem(seed: 23)
    let database = try open(disk, seed: 23).database
    try database.write(durability: .power) { tx in try tx.set(0, key: "setup", in: "effects") }
    try database.close()
    return disk
  }

  private static func close(_ fixture: TaskFixture) throws { try fixture.database.close() }

  private static func send(_ number: Int, _ disk: CrashFileSystem) throws {
    try TaskInbox(TaskDisk.path, CrashInboxFiles(disk: disk)).send { batch in
      try batch.set(Letter(id: number))
      try batch.enqueue(Note("\(number)"))
    }
  }

  // MARK: - The state of the files

  /// Returns what has happened to the files, before a scheduler is started.
  private static func stages(_ fixture: TaskFixture, _ disk: CrashFileSystem) throws -> Set<Stage> {
    let names = CrashInboxFiles(disk: disk).names(inbox)
    let files = Set(names.filter { $0 != damaged }.compactMap { InboxFile.id(ofName: $0) })
    return try fixture.read { tx in
      var notes: Set<[UInt8]> = []
      var cursor = try tx.tasks.config.cursor(StorageRange(prefix: [ConfigKeys.inbox]), keysOnly: true)
      while let (key, _) = try cursor.next() { notes.insert(Array(key.dropFirst())) }
      var stages: Set<Stage> = []
      if names.contains(where: { $0.hasSuffix(InboxFile.suffix + InboxFile.partSuffix) }) { stages.insert(.unfinished) }
      if !files.subtracting(notes).isEmpty { stages.insert(.sent) }
      if !files.isDisjoint(with: notes) { stages.insert(.applied) }
      if !notes.subtracting(files).isEmpty { stages.insert(.removed) }
      // The commit that notes a file also sets its letter.
      if try tx.count(in: Letter.collection) > notes.count { stages.insert(.forgotten) }
      return stages
    }
  }

  /// Waits until all files are applied or refused, their tasks have run, and no note of a file is left.
  private static func drain(_ fixture: TaskFixture, _ disk: CrashFileSystem) async {
    let files = CrashInboxFiles(disk: disk)
    await fixture.poll {
      let noteCount = try fixture.read { tx in
        try tx.tasks.config.count(StorageRange(prefix: [ConfigKeys.inbox]))
      }
      return noteCount == 0 && files.commandFiles(inbox).isEmpty
    }
    await fixture.scheduler.waitUntilIdle()
  }

  /// Checks that each of the files was applied once as a whole, or not at all; the first `sent` were applied. Returns
  /// the number of those that were.
  private static func check(
    _ fixture: TaskFixture, _ disk: CrashFileSystem, sent: Int, of total: Int, isOwner: Bool
  ) throws -> Int {
    let files = CrashInboxFiles(disk: disk)
    let left = files.commandFiles(inbox)
    guard left.isEmpty else { throw ContractBroken("files are left: \(left)") }
    let refused = Set(files.names(inbox + "/refused"))
    // A crash may come before the damaged file is refused, or undo the name of the reason.
    let allowed: Set<String> = isOwner ? [damaged, damaged + ".txt"] : []
    guard refused.isSubset(of: allowed) else { throw ContractBroken("files were refused: \(refused)") }
    return try fixture.read { tx in
      var count = 0
      for number in 1...total {
        let effect = try tx.object(Int.self, key: "\(number)", in: "effects") ?? 0
        let hasLetter = try Letter.load(number, in: tx) != nil
        guard effect == (hasLetter ? 1 : 0) else {
          throw ContractBroken("file \(number) was applied \(effect) times, and its letter is there: \(hasLetter)")
        }
        if number <= sent, effect == 0 { throw ContractBroken("file \(number) of \(sent) was lost") }
        count += effect
      }
      let others = Set(try tx.keys(String.self, in: "effects")).subtracting((1...total).map { "\($0)" } + ["setup"])
      guard others.isEmpty else { throw ContractBroken("effects of no file: \(others)") }
      let rows = try tx.tasks.parts.live.count()
      guard rows == 0 else { throw ContractBroken("\(rows) rows of tasks are left") }
      return count
    }
  }

  /// Opens an image of the disk, and applies the files that are there. Returns what had happened to the files, and the
  /// number of those that are applied in the end.
  private static func trial(
    _ point: Point, _ policy: CrashPolicy, seed: UInt64, of total: Int, isOwner: Bool
  ) async throws -> (stages: Set<Stage>, count: Int) {
    let disk = point.crash.image(seed: seed, policy: policy)
    let fixture = try open(disk, seed: seed)
    let stages = try Self.stages(fixture, disk)
    try await fixture.scheduler.start()
    await drain(fixture, disk)
    let count = try check(fixture, disk, sent: point.sent, of: total, isOwner: isOwner)
    // The inbox still works, also beside what the crash has left in it.
    try send(total + 1, disk)
    fixture.scheduler.wakeInbox()
    await drain(fixture, disk)
    let later = try check(fixture, disk, sent: point.sent, of: total + 1, isOwner: isOwner)
    guard later == count + 1 else { throw ContractBroken("\(later) files are applied, expected \(count + 1)") }
    await fixture.scheduler.stop()
    try close(fixture)
    return (stages, count)
  }

  private static func text(_ found: [Stage: Int]) -> String {
    Stage.allCases.map { "\($0) \(found[$0] ?? 0)" }.joined(separator: ", ")
  }

  // MARK: - The sender

  private static let sendCount = 3

  /// Sends files one after the other while no scheduler runs. Returns a point for each operation, and one after the
  /// last.
  private static func recordSends() throws -> [Point] {
    let disk = try makeDisk()
    let points = Mutex<[Point]>([])
    let sent = Mutex(0)
    disk.observe { _, capture in
      let point = Point(crash: capture(), sent: sent.withLock { $0 })
      points.withLock { $0.append(point) }
    }
    for number in 1...sendCount {
      try send(number, disk)
      sent.withLock { $0 = number }
    }
    disk.observe(nil)
    return points.withLock { $0 } + [Point(crash: disk.crashPoint, sent: sendCount)]
  }

  /// Returns the numbers of files that may be applied after a crash at a point. The sender works on one file at a time.
  private static func expected(_ point: Point, _ policy: CrashPolicy) -> ClosedRange<Int> {
    switch point.crash.operation?.kind {
    case .rename?: point.sent...(point.sent + 1)
    case .syncDirectory?: (policy == .processKill ? point.sent + 1 : point.sent)...(point.sent + 1)
    default: point.sent...point.sent
    }
  }

  @Test func `a sender that dies at any operation leaves no file of commands, or a whole one that is applied once`()
    async throws
  {
    let points = try Self.recordSends()
    var (found, counts, renamed) = ([Stage: Int](), Set<Int>(), Set<Int>())
    var trials = 0
    for (index, point) in points.enumerated() {
      let kind = point.crash.operation?.kind
      // Of these operations, an image has all, nothing or a part.
      let rounds = kind == .rename || kind == .write ? TestScale.count(4) : 1
      for (number, policy) in CrashPolicy.allCases.enumerated() {
        for round in 0..<rounds {
          let seed = UInt64(1_000 * index + 10 * round + number)
          let name = "image \(index), \(point.crash.operation.map { "\($0)" } ?? "the end"), \(policy), seed \(seed)"
          do {
            let (stages, count) = try await Self.trial(point, policy, seed: seed, of: Self.sendCount, isOwner: false)
            #expect(Self.expected(point, policy).contains(count), "\(count) files after \(name)")
            for stage in stages { found[stage, default: 0] += 1 }
            counts.insert(count)
            if kind == .rename { renamed.insert(count - point.sent) }
            trials += 1
          } catch {
            Issue.record(error, "\(name)")
            return
          }
        }
      }
    }
    print("crashes of senders: \(points.count) images in \(trials) trials, \(Self.text(found))")
    let kinds = Set(points.compactMap { $0.crash.operation?.kind })
    #expect(kinds == [.createDirectory, .createFile, .write, .sync, .rename, .syncDirectory])
    guard TestScale.isWhole else { return }
    #expect(counts == [0, 1, 2, 3] && renamed == [0, 1], "\(counts) \(renamed)")
    #expect(found[.unfinished] ?? 0 > 5 && found[.sent] ?? 0 > 5)
  }

  // MARK: - The owner

  private static let ownerPointLimit = TestScale.count(35)

  /// Applies files that were sent before the start, and then others while they are sent. Returns a point for each
  /// operation on the inbox, and for every nth other one, and the number of operations.
  private static func recordOwner(everyNth stride: Int) async throws -> (points: [Point], operationCount: Int) {
    let disk = try makeDisk()
    for number in 1...2 { try send(number, disk) }
    try CrashInboxFiles(disk: disk).writeWhole(Array("garbage".utf8), inbox + "/" + damaged)
    let fixture = try open(disk, seed: 23)
    let points = Mutex<[Point]>([])
    let sent = Mutex(2)
    let before = disk.operationCount
    disk.observe { operation, capture in
      guard operation.path.contains(inbox) || operation.number % stride == 0 else { return }
      // Files that are sent meanwhile may be there as well.
      let number = sent.withLock { $0 }
      let point = Point(crash: capture(), sent: number)
      points.withLock { $0.append(point) }
    }
    try await fixture.scheduler.start()
    await drain(fixture, disk)
    for number in 3...4 {
      try send(number, disk)
      sent.withLock { $0 = number }
      fixture.scheduler.wakeInbox()
    }
    await drain(fixture, disk)
    disk.observe(nil)
    let count = disk.operationCount - before
    await fixture.scheduler.stop()
    #expect(try check(fixture, disk, sent: 4, of: 4, isOwner: true) == 4)
    // What was refused stays refused after a loss of power.
    for policy in CrashPolicy.allCases {
      let files = CrashInboxFiles(disk: disk.crashPoint.image(seed: 23, policy: policy))
      #expect(files.names(inbox + "/refused") == [damaged, damaged + ".txt"], "\(policy)")
      #expect(files.commandFiles(inbox) == [], "\(policy)")
      #expect(try !files.read(inbox + "/refused/" + damaged + ".txt").isEmpty, "\(policy)")
    }
    try close(fixture)
    return (points.withLock { $0 }, count)
  }

  @Test func `an owner that dies at any operation while it applies and removes files applies each of them once`()
    async throws
  {
    let count = try await Self.recordOwner(everyNth: .max).operationCount
    let points = try await Self.recordOwner(everyNth: max(1, count / Self.ownerPointLimit)).points
    var (found, counts) = ([Stage: Int](), Set<Int>())
    for (index, point) in points.enumerated() {
      for (number, policy) in CrashPolicy.allCases.enumerated() {
        let seed = UInt64(1_000 * index + number)
        do {
          let (stages, count) = try await Self.trial(point, policy, seed: seed, of: 4, isOwner: true)
          for stage in stages { found[stage, default: 0] += 1 }
          counts.insert(count)
        } catch {
          let operation = point.crash.operation.map { "\($0)" } ?? ""
          Issue.record(error, "image \(index), \(operation), \(policy), seed \(seed)")
          return
        }
      }
    }
    print("crashes of owners: \(points.count) images in 4 ways, \(Self.text(found))")
    let removals = points.count { $0.crash.operation?.kind == .remove }
    #expect(removals >= 4, "\(removals) removals of files")
    guard TestScale.isWhole else { return }
    #expect(Set(found.keys) == Set(Stage.allCases), "\(found)")
    #expect(counts == [2, 3, 4], "\(counts)")
  }

  // MARK: - Processes that die alone

  /// The files of a process that dies at one of its operations: it writes a part of a file, or does nothing. After that
  /// the process does nothing any more.
  private final class DyingFiles: InboxFiles {
    struct Died: Error {}
    private let base = SystemInboxFiles()
    private let end: Int
    private let count = Atomic(0)

    init(at end: Int) { self.end = end }

    private func perform(_ body: () throws -> Void) throws {
      guard count.add(1, ordering: .relaxed).newValue < end else { throw Died() }
      try body()
    }

    func exists(_ path: String) -> Bool { base.exists(path) }
    func names(_ directory: String) -> [String] { base.names(directory) }
    func isFile(_ path: String) throws -> Bool { try base.isFile(path) }
    func size(_ path: String) throws -> Int { try base.size(path) }
    func modified(_ path: String) -> Date? { base.modified(path) }
    func read(_ path: String) throws -> [UInt8] { try base.read(path) }
    func createDirectory(_ path: String) throws { try perform { try base.createDirectory(path) } }
    func sync(_ path: String) throws { try perform { try base.sync(path) } }
    func move(_ path: String, to newPath: String) throws { try perform { try base.move(path, to: newPath) } }
    func remove(_ path: String) throws { try perform { try base.remove(path) } }
    func syncDirectory(_ path: String) throws { try perform { try base.syncDirectory(path) } }

    func write(_ bytes: [UInt8], _ path: String) throws {
      do { try perform { try base.write(bytes, path) } } catch {
        if count.load(ordering: .relaxed) == end { try base.write(Array(bytes.prefix(bytes.count / 2)), path) }
        throw error
      }
    }
  }

  @Test func `a sender that dies alone never disturbs the owner, and what it has left is removed after a day`()
    async throws
  {
    let directory = try TemporaryDirectory()
    let database = try await Database.open(at: directory.path + "/db") { TaskStorage.handle }
    let fixture = try TaskFixture(database)
    try fixture.handle()
    try await fixture.scheduler.start()
    let inbox = TaskInbox(database.path)
    // The operations are: create the directory, write, sync, rename, and sync two directories.
    var number = 1
    while true {
      let dying = TaskInbox(database.path, DyingFiles(at: number))
      do { try dying.send { try $0.enqueue(Note("\(number)")) } } catch is DyingFiles.Died {
        number += 1
        continue
      }
      break
    }
    #expect(number == 7)
    try inbox.send { try $0.enqueue(Note("another")) }
    await fixture.poll { fixture.lines.count >= 4 && inbox.files.commandFiles(inbox.directory).isEmpty }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().sorted() == ["5", "6", "7", "another"])
    func unfinished() -> [String] {
      inbox.files.names(inbox.directory).filter { $0.hasSuffix(InboxFile.partSuffix) }.sorted()
    }
    let left = unfinished()
    #expect(left.count == 3)
    await fixture.scheduler.stop()
    for name in left.dropFirst() {
      try FileManager.default.setAttributes(
        [.modificationDate: Date(timeIntervalSinceNow: -90_000)], ofItemAtPath: inbox.directory + "/" + name)
    }
    try await fixture.scheduler.start()
    // The sender of a file that was written within a day may still live.
    #expect(unfinished() == Array(left.prefix(1)))
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == [])
    await fixture.scheduler.stop()
    try await database.close()
  }
}

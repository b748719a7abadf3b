import EngineTestSupport
import Foundation
import Synchronization
import Testing
import Varve
import VarveEngine
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of commands of other processes, which are files.
struct InboxTests {
  struct Letter: Persistable, Hashable {
    static let collection = "letters"
    var id: Int
    var text: String
  }

  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  private var path: String { directory.path + "/db" }
  private var inbox: TaskInbox { TaskInbox(path) }

  private func fixture() throws -> TaskFixture {
    let database = try Database.open(
      at: path,
      definition: DatabaseDefinition {
        Letter.self
        TaskStorage.handle
      })
    let fixture = try TaskFixture(database)
    fixture.scheduler.accept(Letter.self)
    try fixture.handle()
    return fixture
  }

  private func files(_ directory: String) -> [String] {
    ((try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []).sorted()
  }

  @Test func `commands sent before the start are applied at the start, in order, and later ones at once`() async throws
  {
    var fixture = try fixture()
    let parked = try fixture.enqueue("parked") { $0.start = .parked() }
    let cancelled = try fixture.enqueue("cancelled") { $0.start = .parked() }
    try inbox.send { batch in
      try batch.set(Letter(id: 1, text: "a"))
      try batch.set(Letter(id: 2, text: "b"))
      try batch.remove(Letter.self, 1)
      try batch.enqueue(Note("sent"), TaskOptions(queue: "mail"))
      batch.cancel(.id(cancelled))
      batch.retryNow(.id(parked))
      batch.pause("mail")
    }
    try await fixture.scheduler.start()
    await fixture.poll { files(inbox.directory).isEmpty }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["parked"])
    #expect(try fixture.read { tx in try Letter.load(2, in: tx)?.text } == "b")
    #expect(try fixture.read { tx in try Letter.load(1, in: tx) } == nil)
    #expect(try fixture.state(cancelled) == nil)
    try inbox.send { $0.resume("mail") }
    await fixture.poll { fixture.lines.count == 1 }
    #expect(fixture.lines.take() == ["sent"])
    // No record of a file is left.
    await fixture.poll { try fixture.configCount(ConfigKeys.inbox) == 0 }
    try await fixture.close()
    fixture = try self.fixture()
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().isEmpty)
    try await fixture.close()
  }

  @Test func `a file that comes back after it was applied is not applied again`() async throws {
    let fixture = try fixture()
    try inbox.send { try $0.enqueue(Note("once")) }
    let name = try #require(files(inbox.directory).first)
    let file = try Data(contentsOf: URL(fileURLWithPath: inbox.directory + "/" + name))
    // The record of a file that was applied, and not removed.
    let key = ConfigKeys.inbox(try InboxFile(Array(file)).id)
    try fixture.write { tx in try tx.tasks.config.put(key, [0, 0, 0, 0, 0, 0, 0, 0]) }
    try await fixture.scheduler.start()
    await fixture.poll { files(inbox.directory).isEmpty }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().isEmpty)
    try await fixture.close()
  }

  @Test func `a file that can't be applied is refused as a whole, with the reason, and never stops the next`()
    async throws
  {
    let fixture = try fixture()
    struct Unknown: Persistable {
      static let collection = "unknown"
      var id: Int
    }
    try inbox.send { batch in
      try batch.enqueue(Note("not"))
      try batch.set(Unknown(id: 1))
    }
    try inbox.send { try $0.enqueue(Note("good")) }
    for (number, bytes) in [Data(), Data("garbage".utf8), Data("VARVEIN1".utf8) + Data(repeating: 7, count: 40)]
      .enumerated()
    {
      try bytes.write(to: URL(fileURLWithPath: "\(inbox.directory)/\(number).commands"))
    }
    var random = SeededRandom(seed: 3)
    let good = try InboxFile(id: Array(repeating: 1, count: 16), commands: [.pause("a"), .resume("b")]).bytes()
    var refused = 0
    for _ in 0..<500 {
      var bytes = good
      bytes[random.below(bytes.count)] ^= UInt8(1 + random.below(255))
      do { _ = try InboxFile(bytes) } catch { refused += 1 }
    }
    // A flip within the identifier alone is not detected here, because the name contains it too.
    #expect(refused > 300)
    try await fixture.scheduler.start()
    await fixture.poll { files(inbox.directory) == ["refused"] && fixture.lines.count == 1 }
    #expect(fixture.lines.take() == ["good"])
    let names = files(inbox.refusedDirectory)
    #expect(names.count { $0.hasSuffix(".commands") } == 4 && names.count { $0.hasSuffix(".txt") } == 4)
    let reasons = try names.filter { $0.hasSuffix(".txt") }.map {
      try String(contentsOfFile: inbox.refusedDirectory + "/" + $0, encoding: .utf8)
    }
    #expect(reasons.contains { $0.contains("\"unknown\"") })
    #expect(try fixture.taskCount() == 0)
    try await fixture.close()
  }

  @Test func `a file whose transaction conflicts with commits of the scheduler is applied again at once`() async throws
  {
    let backend = FailingBackend(
      try EngineBackend(try Engine.open(at: path, options: StorageSite.options, environment: .system)))
    let definition = DatabaseDefinition { TaskStorage.handle }
    let fixture = try TaskFixture(try await Database.open(backend, path: path, definition: definition))
    try fixture.handle()
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    backend.fail(3, of: .power, with: DatabaseError(.conflict, "something was changed"))
    try inbox.send { try $0.enqueue(Note("sent")) }
    await fixture.poll { files(inbox.directory).isEmpty }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["sent"])
    #expect(backend.hasFailed)
    try await fixture.close()
  }

  /// A storage that counts the commits that survive a power loss, also those that conflict.
  private final class CountedCommits: ForwardingBackend, @unchecked Sendable {
    // Sendable: it has only atomic state.
    let count = Atomic(0)

    override func commit(
      _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
    ) throws -> any StorageTicket {
      if durability == .power { count.add(1, ordering: .relaxed) }
      return try super.commit(batch, check: check, durability: durability)
    }
  }

  @Test(arguments: [false, true])
  func `a file that cancels or deletes the tasks of a busy queue is applied in one or two attempts, and once`(
    isDelete: Bool
  ) async throws {
    let backend = CountedCommits(
      try EngineBackend(try Engine.open(at: path, options: StorageSite.options, environment: .system)))
    let definition = DatabaseDefinition { TaskStorage.handle }
    let fixture = try TaskFixture(try await Database.open(backend, path: path, definition: definition), workers: 4)
    try fixture.handle()
    try fixture.write { tx in for number in 0..<3_000 { try tx.enqueue(Note("\(number)")) } }
    try await fixture.scheduler.start()
    await fixture.poll { fixture.lines.count > 0 }
    backend.count.store(0, ordering: .relaxed)
    try inbox.send { if isDelete { $0.delete(.queue("default")) } else { $0.cancel(.queue("default")) } }
    await fixture.poll { files(inbox.directory).isEmpty }
    let attempts = backend.count.load(ordering: .relaxed)
    #expect(attempts == 1 || attempts == 2)
    await fixture.scheduler.waitUntilIdle()
    try fixture.expectNothingLeft()
    for state in TaskState.allCases { #expect(try fixture.count(state) == 0, "\(state)") }
    let begun = fixture.lines.take()
    #expect(Set(begun).count == begun.count)
    try await fixture.close()
  }

  @Test func `after a conflict the scheduler commits nothing while the file is applied, and its handlers run on`()
    async throws
  {
    let gate = Gate()
    let failing = FailingBackend(
      try EngineBackend(try Engine.open(at: path, options: StorageSite.options, environment: .system)))
    let backend = HeldBackend(failing, gate, holding: .power)
    let definition = DatabaseDefinition { TaskStorage.handle }
    let fixture = try TaskFixture(try await Database.open(backend, path: path, definition: definition))
    let (begun, mayEnd, hasEnded) = (AsyncFlag(), AsyncFlag(), AsyncFlag())
    try fixture.handle { _, _ in
      begun.set()
      await mayEnd.wait()
      hasEnded.set()
      return .done
    }
    try await fixture.scheduler.start()
    try fixture.enqueue("runs")
    await begun.wait()
    gate.shut()
    failing.fail(1, of: .power, with: DatabaseError(.conflict, "something was changed"))
    _ = backend.takeCommits()
    try inbox.send { $0.pause("paused") }
    await fixture.poll { gate.waitingCount > 0 }
    mayEnd.set()
    await hasEnded.wait()
    // A commit that does not wait has the time to be made.
    var commits = backend.takeCommits()
    for _ in 0..<20_000 where commits.count < 2 {
      await Task.yield()
      commits += backend.takeCommits()
    }
    #expect(commits.map(\.durability) == [.power])
    gate.open()
    await fixture.poll { files(inbox.directory).isEmpty }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["runs"])
    try fixture.expectNothingLeft()
    #expect(try fixture.read { tx in try tx.taskQueueState("paused").isPaused })
    try await fixture.close()
  }

  @Test func `a directory, a link and a pipe that are named like files of the inbox are refused once, also again`()
    async throws
  {
    let fixture = try fixture()
    let manager = FileManager.default
    try manager.createDirectory(atPath: inbox.directory, withIntermediateDirectories: true)
    for round in 1...2 {
      try manager.createDirectory(atPath: inbox.directory + "/a.commands/b", withIntermediateDirectories: true)
      try manager.createSymbolicLink(
        atPath: inbox.directory + "/c.commands", withDestinationPath: directory.path + "/nothing")
      #expect(unsafe mkfifo(inbox.directory + "/d.commands", 0o600) == 0)
      try inbox.send { try $0.enqueue(Note("good")) }
      try await fixture.scheduler.start()
      await fixture.poll { files(inbox.directory) == ["refused"] }
      await fixture.scheduler.waitUntilIdle()
      #expect(fixture.lines.take() == ["good"])
      let names = ["a", "c", "d"].map { "\($0).commands" }
      let refused = round == 1 ? names : names + names.map { "\($0).2" }
      #expect(files(inbox.refusedDirectory) == (refused + refused.map { "\($0).txt" }).sorted())
      await fixture.scheduler.stop()
    }
    let reason = try String(contentsOfFile: inbox.refusedDirectory + "/d.commands.txt", encoding: .utf8)
    #expect(reason.contains("it is not a regular file"))
    try await fixture.close()
  }

  @Test func `a file whose transaction waits for the writer in vain is applied after a pause, without another file`()
    async throws
  {
    let fixture = try impatient()
    try fixture.handle()
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    let open = await OpenTransaction(fixture) { _ in }
    try inbox.send { try $0.enqueue(Note("sent")) }
    // Nothing else waits for a time.
    await fixture.poll { fixture.clock.sleepCount > 0 }
    #expect(files(inbox.directory).count == 1 && fixture.lines.count == 0)
    try await open.finish()
    await fixture.poll {
      fixture.clock.advance(by: .seconds(1))
      return files(inbox.directory).isEmpty
    }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["sent"])
    try await fixture.close()
  }

  /// Returns a fixture whose transactions wait only a short time for the writer.
  private func impatient() throws -> TaskFixture {
    var options = DatabaseOptions()
    options.writerTimeout = .milliseconds(10)
    return try TaskFixture(
      try Database.open(at: path, definition: DatabaseDefinition { TaskStorage.handle }, options: options))
  }

  @Test func `send writes no file if its closure throws or adds no command`() throws {
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    #expect(throws: Broken.self) {
      try inbox.send { batch in
        try batch.enqueue(Note("x"))
        throw Broken()
      }
    }
    try inbox.send { _ in }
    #expect(files(inbox.directory).isEmpty)
    var options = TaskOptions()
    options.maxAttempts = 0
    #expect(throws: TaskError.self) { try inbox.send { try $0.enqueue(Note("x"), options) } }
  }
}

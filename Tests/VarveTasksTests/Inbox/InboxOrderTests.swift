import EngineTestSupport
import Foundation
import Synchronization
import Testing
import Varve
import VarveEngine
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of the order in which the files of an inbox are applied.
struct InboxOrderTests {
  private typealias Letter = InboxTests.Letter

  private let directory: TemporaryDirectory
  private var path: String { directory.path + "/db" }
  private var inbox: TaskInbox { TaskInbox(path) }

  init() throws { directory = try TemporaryDirectory() }

  private static var definition: DatabaseDefinition {
    DatabaseDefinition {
      Letter.self
      TaskStorage.handle
    }
  }

  private func fixture(_ database: Database? = nil) throws -> TaskFixture {
    let database = try database ?? Database.open(at: path, definition: Self.definition)
    let fixture = try TaskFixture(database, rules: .all(isSerial: true))
    fixture.scheduler.accept(Letter.self)
    try fixture.handle()
    return fixture
  }

  private func isEmpty() -> Bool { inbox.files.commandFiles(inbox.directory).isEmpty }

  @Test(arguments: [false, true])
  func `what a process sends is applied in the order of sending, before a start and while a scheduler runs`(
    isRunning: Bool
  ) async throws {
    let fixture = try fixture()
    if isRunning { try await fixture.scheduler.start() }
    for number in 0..<40 {
      try inbox.send { batch in
        try batch.enqueue(Note("\(number)"))
        try batch.set(Letter(id: 1, text: "\(number)"))
        if number.isMultiple(of: 2) { batch.pause("other") } else { batch.resume("other") }
      }
    }
    if !isRunning { try await fixture.scheduler.start() }
    await fixture.poll { isEmpty() }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == (0..<40).map { "\($0)" })
    #expect(try fixture.read { tx in try Letter.load(1, in: tx)?.text } == "39")
    #expect(try fixture.read { tx in try tx.taskQueueState("other").isPaused } == false)
    try await fixture.close()
  }

  @Test func `a file whose transaction conflicts is applied before those that were sent after it`() async throws {
    let backend = FailingBackend(
      try EngineBackend(try Engine.open(at: path, options: StorageSite.options, environment: .system)))
    let database = try await Database.open(backend, path: path, definition: Self.definition)
    let fixture = try fixture(database)
    for text in ["first", "second"] { try inbox.send { try $0.set(Letter(id: 1, text: text)) } }
    // Both attempts at the first file.
    backend.fail(2, of: .power, with: DatabaseError(.conflict, "something was changed"))
    try await fixture.scheduler.start()
    await fixture.poll { isEmpty() }
    #expect(backend.hasFailed)
    #expect(try fixture.read { tx in try Letter.load(1, in: tx)?.text } == "second")
    try await fixture.close()
  }

  @Test func `a file of an earlier version has no time in its name, and is applied before all others`() async throws {
    let fixture = try fixture()
    try inbox.send { try $0.enqueue(Note("new")) }
    for digit: UInt8 in [0x00, 0xFF] {
      var batch = TaskInbox.Batch()
      try batch.enqueue(Note("old \(digit)"))
      let file = InboxFile(id: Array(repeating: digit, count: 16), commands: batch.commands)
      let digits = String(repeating: digit == 0 ? "00" : "ff", count: 16)
      try Data(file.bytes()).write(to: URL(fileURLWithPath: inbox.directory + "/\(digits).commands"))
    }
    try await fixture.scheduler.start()
    await fixture.poll { isEmpty() }
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["old 0", "old 255", "new"])
    try await fixture.close()
  }

  @Test func `the times of a process ascend although its clock is set back, and a name has its time and id`() {
    let (times, now) = (SendingTimes(), Date())
    let first = times.take(now)
    #expect(times.take(now.addingTimeInterval(-86_400)) > first)
    let later = times.take(now.addingTimeInterval(3_600))
    #expect(later >= first + 3_599_000_000_000)
    #expect(times.take(Date(timeIntervalSince1970: .nan)) == later + 1)
    let id = (0..<16).map { UInt8($0) * 17 }
    let name = InboxFile.name(id, sentAt: first)
    #expect(InboxFile.id(ofName: name) == id)
    #expect(InboxFile.precedes(name, InboxFile.name(id, sentAt: .max)))
    #expect(!InboxFile.precedes(name, "ffffffffffffffffffffffffffffffff.commands"))
    for other in ["", ".commands", "a.commands", "g" + name, "-" + name, String(name.dropLast())] {
      #expect(InboxFile.id(ofName: other) == nil, "\(other)")
    }
  }

  /// A directory whose listings are given.
  private struct ListedFiles: InboxFiles {
    final class Listings: Sendable {
      let left: Mutex<[[String]]>
      init(_ listings: [[String]]) { left = Mutex(listings) }
    }
    let listings: Listings

    func names(_ directory: String) -> [String] {
      listings.left.withLock { $0.isEmpty ? [] : $0.removeFirst() }
    }
    func exists(_ path: String) -> Bool { true }
    func createDirectory(_ path: String) throws {}
    func isFile(_ path: String) throws -> Bool { true }
    func size(_ path: String) throws -> Int { 0 }
    func modified(_ path: String) -> Date? { nil }
    func read(_ path: String) throws -> [UInt8] { [] }
    func write(_ bytes: [UInt8], _ path: String) throws {}
    func sync(_ path: String) throws {}
    func move(_ path: String, to newPath: String) throws {}
    func remove(_ path: String) throws {}
    func syncDirectory(_ path: String) throws {}
  }

  @Test func `a file waits if a second listing has an earlier one that the first has missed`() {
    let names = (0..<4).map { InboxFile.name(Array(repeating: 0, count: 16), sentAt: UInt64($0) + 1) }
    func applicable(_ first: [Int], _ second: [Int]) -> (names: [String], areLeft: Bool) {
      let listings = [first, second].map { $0.map { names[$0] } }
      return ListedFiles(listings: .init(listings)).applicableFiles("inbox")
    }
    #expect(applicable([1], [1, 0]) == ([], true))
    #expect(applicable([2, 0], [0, 1, 2]) == ([names[0]], true))
    #expect(applicable([1, 0], [0, 1, 3]) == ([names[0], names[1]], false))
    #expect(applicable([3, 2], [2, 3]) == ([names[2], names[3]], false))
    #expect(applicable([], []) == ([], false))
  }

  @Test func `an answer says which commands have changed nothing, and a sender may wait for it`() async throws {
    let fixture = try fixture()
    func unique(_ conflict: Uniqueness.OnConflict) -> (inout TaskOptions) -> Void {
      { $0.unique = Uniqueness(key: "k", onConflict: conflict) }
    }
    let receipt = try inbox.sendForAnswer { batch in
      batch.pause("default")
      try batch.enqueue(Note("a"), unique(.skip))
      try batch.enqueue(Note("b"), unique(.skip))
      try batch.enqueue(Note("c"), unique(.replacePayload))
      try batch.set(Letter(id: 1, text: "x"))
      try batch.remove(Letter.self, 1)
      try batch.remove(Letter.self, 1)
    }
    try await fixture.scheduler.start()
    #expect(try await receipt.wait() == .applied([1, 1, 0, 1, 1, 1, 0]))
    let waiting = Task { [inbox] in try await inbox.sendForAnswer { $0.pause("default") }.wait() }
    #expect(try await waiting.value == .applied([1]))
    await fixture.scheduler.stop()
    let never = try inbox.sendForAnswer { $0.pause("default") }
    let cancelled = Task { try await never.wait() }
    cancelled.cancel()
    await #expect(throws: CancellationError.self) { try await cancelled.value }
    try await fixture.database.close()
  }
}

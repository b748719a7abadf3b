import EngineTestSupport
import Foundation
import Testing
import Varve

@_spi(Extensions) @testable import VarveTasks

/// Tests of the answers to commands of other processes.
struct InboxReceiptTests {
  private let directory: TemporaryDirectory
  private var path: String { directory.path + "/db" }
  private var inbox: TaskInbox { TaskInbox(path) }

  init() throws { directory = try TemporaryDirectory() }

  private func fixture() throws -> TaskFixture {
    let fixture = try TaskFixture(try Database.open(at: path, definition: DatabaseDefinition { TaskStorage.handle }))
    try fixture.handle()
    return fixture
  }

  private func names() -> [String] {
    ((try? FileManager.default.contentsOfDirectory(atPath: inbox.directory)) ?? []).sorted()
  }

  private func answer(_ receipt: InboxReceipt) async throws -> InboxReceipt.Answer {
    while true {
      if let answer = try receipt.answer() { return answer }
      await Task.yield()
    }
  }

  @Test func `an answer has what each command has changed, and the receipt keeps it`() async throws {
    let fixture = try fixture()
    let first = try fixture.enqueue("a") { $0.start = .parked() }
    _ = try fixture.enqueue("b") { $0.start = .parked() }
    let receipt = try inbox.sendForAnswer { batch in
      batch.cancel(.id(first))
      batch.cancel(.id(first))
      batch.pause("mail")
      try batch.enqueue(Note("sent"), TaskOptions(queue: "mail"))
      batch.delete(.state(.parked))
      batch.releaseTasks()
    }
    #expect(try receipt.answer() == nil)
    try await fixture.scheduler.start()
    #expect(try await answer(receipt) == .applied([1, 0, 1, 1, 1, 0]))
    #expect(try receipt.answer() == .applied([1, 0, 1, 1, 1, 0]))
    await fixture.poll { names().isEmpty }
    // Only a sender that wants an answer gets one.
    try inbox.send { $0.resume("mail") }
    await fixture.poll { names().isEmpty }
    try await fixture.close()
  }

  @Test func `a refusal has the reason`() async throws {
    let fixture = try fixture()
    struct Unknown: Persistable {
      static let collection = "unknown"
      var id: Int
    }
    let receipt = try inbox.sendForAnswer { try $0.set(Unknown(id: 1)) }
    try await fixture.scheduler.start()
    guard case .refused(let reason) = try await answer(receipt) else {
      Issue.record("applied")
      return
    }
    #expect(reason.contains("\"unknown\"") && !reason.hasSuffix("\n"))
    try await fixture.close()
    #expect(throws: TaskError.self) { try inbox.sendForAnswer { _ in } }
  }

  @Test func `commands that were applied before the process died are answered after the next start`() async throws {
    let fixture = try fixture()
    let receipt = try inbox.sendForAnswer { $0.cancel(.all) }
    // What a process leaves that died between its commit and the answer.
    try fixture.write { tx in
      try tx.tasks.config.put(ConfigKeys.inbox(receipt.id), ConfigKeys.inbox(1, changed: [17]))
    }
    try await fixture.scheduler.start()
    #expect(try await answer(receipt) == .applied([17]))
    await fixture.poll { names().isEmpty }
    await fixture.poll { try fixture.configCount(ConfigKeys.inbox) == 0 }
    try await fixture.close()
  }

  @Test func `an answer that no one has read for a day is removed, and a damaged one is an error`() async throws {
    let fixture = try fixture()
    let receipt = try inbox.sendForAnswer { $0.pause("a") }
    for age in [0, 100_000] {
      let file = inbox.directory + "/\(age).answer"
      try Data("{".utf8).write(to: URL(fileURLWithPath: file))
      try FileManager.default.setAttributes(
        [.modificationDate: Date(timeIntervalSinceNow: -Double(age))], ofItemAtPath: file)
    }
    try await fixture.scheduler.start()
    _ = try await answer(receipt)
    #expect(names().filter { $0.hasSuffix(".answer") } == ["0.answer"])
    let other = try inbox.sendForAnswer { $0.pause("a") }
    _ = try await answer(other)
    let unread = InboxReceipt(id: other.id, fileName: "", inbox: inbox)
    let damaged = inbox.directory + "/" + InboxFile.answerName(other.id)
    try Data("{".utf8).write(to: URL(fileURLWithPath: damaged))
    #expect(throws: TaskError.self) { try unread.answer() }
    try await fixture.close()
  }

  @Test func `the note of a file has its counts, and damaged notes are errors`() throws {
    for counts in [[], [0], [1, .max, 3]] {
      let bytes = ConfigKeys.inbox(7, changed: counts)
      #expect(try ConfigKeys.changed(ofInbox: bytes) == counts)
      for size in 0..<bytes.count where size != 8 && size % 8 != 0 {
        #expect(throws: DamagedTask.self) { try ConfigKeys.changed(ofInbox: Array(bytes[..<size])) }
      }
    }
    let names: Set = ["", "a", "é"]
    let bytes = ConfigKeys.declared(names)
    #expect(try ConfigKeys.declared(bytes) == names)
    #expect(throws: DamagedTask.self) { try ConfigKeys.declared(Array(bytes.dropLast())) }
  }

  #if os(Linux)
    @Test func `the inboxes of a process, of its schedulers and its databases, have one watch of the system`()
      async throws
    {
      let other = try TemporaryDirectory()
      let fixtures = [
        try fixture(),
        try TaskFixture(
          try await Database.open(at: other.path + "/db", definition: DatabaseDefinition { TaskStorage.handle })),
      ]
      for fixture in fixtures { try await fixture.scheduler.start() }
      let descriptors = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")
      let targets = descriptors.compactMap {
        try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/" + $0)
      }
      #expect(targets.filter { $0.contains("inotify") }.count == 1)
      for fixture in fixtures { try await fixture.close() }
    }
  #endif
}

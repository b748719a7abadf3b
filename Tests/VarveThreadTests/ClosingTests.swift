import EngineTestSupport
import Foundation
import Testing
import VarveEngine
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of concurrent closes of one database.
struct ClosingTests {
  private let called = Called()
  /// The gate at which closing the storage waits.
  private let end = Gate()

  private func open(_ options: DatabaseOptions = DatabaseOptions()) throws -> Database {
    let engine = try Engine.open(at: "/closing", environment: .inMemory())
    let backend = try SlowlyClosingBackend(EngineBackend(engine, isInMemory: true), called, end)
    return try Database.open(backend, path: "/closing", options: options)
  }

  private enum Form: CaseIterable { case sync, async }

  /// Starts to close the database on a separate thread, and records when the call has returned.
  private func close(_ database: Database, _ form: Form, _ name: String) -> Threads.Started {
    Threads.start { _ in
      called.add("\(name) begins")
      switch form {
      case .sync: try database.endNow()
      case .async: try Blocked.run { try await database.close() }
      }
      called.add("\(name) is back")
    }
  }

  /// Waits until the call has begun, which gives a call that does not wait the time to return.
  private func waitUntilBegun(_ name: String) {
    while !called.all.contains("\(name) begins") { sched_yield() }
    for _ in 0..<2_000 where !called.all.contains("\(name) is back") { sched_yield() }
  }

  @Test(arguments: Form.allCases, Form.allCases)
  private func `a second close returns once the storage is closed`(first: Form, second: Form) throws {
    let database = try open()
    end.shut()
    let one = close(database, first, "the first")
    end.waitUntilHeld()
    let other = close(database, second, "the second")
    waitUntilBegun("the second")
    end.open()
    one.join()
    other.join()
    let order = called.all
    let closed = try #require(order.firstIndex(of: "the storage is closed"))
    #expect(try #require(order.firstIndex(of: "the second is back")) > closed)
    #expect(order.count { $0 == "the storage is closed" } == 1)
    // A later close must return, too.
    close(database, second, "the third").join()
  }

  @Test func `withOpen closes what it opened, even if the closure throws or the task is canceled`() async throws {
    struct Stop: Error {}
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    let kept = try await Database.withOpen(at: path) { database in
      try await database.write { tx in try tx.set("a", key: 1, in: "letters") }
      return database
    }
    #expect(errorCode { try kept.read { _ in } } == .closed)
    var thrown: Database?
    do {
      try await Database.withOpen(at: path) { database in
        thrown = database
        try await database.write { tx in try tx.set("b", key: 2, in: "letters") }
        throw Stop()
      }
      Issue.record("the error of the closure is lost")
    } catch is Stop {}
    #expect(errorCode { try thrown?.read { _ in } } == .closed)
    let task = Task {
      try await Database.withOpen(at: path) { database in
        unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
        try await database.write { tx in try tx.set("c", key: 3, in: "letters") }
      }
    }
    await #expect(throws: CancellationError.self) { try await task.value }
    let keys = try await Database.withOpen(at: path) { database in
      try await database.read { tx in try tx.keys(Int.self, in: "letters") }
    }
    #expect(keys == [1, 2])
  }

  @Test func `a second close waits for the transactions that the first waits for`() throws {
    let database = try open()
    let reading = Gate()
    reading.shut()
    let reader = Threads.start { [called] _ in
      try database.look { _ in
        reading.pass()
        called.add("the read ends")
      }
    }
    reading.waitUntilHeld()
    let one = close(database, .async, "the first")
    while (try? database.look({ _ in })) != nil { sched_yield() }
    let others = [close(database, .async, "the second"), close(database, .sync, "the third")]
    waitUntilBegun("the second")
    waitUntilBegun("the third")
    reading.open()
    for started in [reader, one] + others { started.join() }
    let order = called.all
    let closed = try #require(order.firstIndex(of: "the storage is closed"))
    #expect(try #require(order.firstIndex(of: "the read ends")) < closed)
    for name in ["the second", "the third"] {
      #expect(try #require(order.firstIndex(of: "\(name) is back")) > closed)
    }
  }

  @Test func `a second close on a thread times out while the first close waits for a read`() throws {
    var options = DatabaseOptions()
    options.writerTimeout = .milliseconds(20)
    let database = try open(options)
    let reading = Gate()
    reading.shut()
    let reader = Threads.start { _ in try database.look { _ in reading.pass() } }
    reading.waitUntilHeld()
    let one = close(database, .async, "the first")
    while (try? database.look({ _ in })) != nil { sched_yield() }
    #expect(errorCode { try database.endNow() } == .writerBusy)
    reading.open()
    reader.join()
    one.join()
    try database.endNow()
  }

  @Test func `a database closed twice at once can be reopened after either close`() async throws {
    let directory = try TemporaryDirectory()
    for _ in 0..<20 {
      let database = try await Database.open(at: directory.path + "/db")
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<2 { group.addTask { try await database.close() } }
        try await group.next()
        let again = try await Database.open(at: directory.path + "/db")
        try await again.close()
        try await group.waitForAll()
      }
    }
  }
}

/// Runs a task from a thread that may block. The threads of tests are not used, because all of them may be waiting.
private enum Blocked {
  private static let executor = DatabaseExecutor()

  static func run(_ body: @escaping @Sendable () async throws -> Void) throws {
    let failure = Called()
    let done = DispatchSemaphore(value: 0)
    Task.detached(executorPreference: executor) {
      do { try await body() } catch { failure.add("\(error)") }
      done.signal()
    }
    done.wait()
    if let message = failure.all.first { throw Unexpected(what: message) }
  }
}

/// A storage whose close waits at a gate.
private final class SlowlyClosingBackend: ForwardingBackend, @unchecked Sendable {
  private let called: Called
  private let end: Gate

  init(_ base: EngineBackend, _ called: Called, _ end: Gate) {
    self.called = called
    self.end = end
    super.init(base)
  }

  override func close() throws {
    end.pass()
    called.add("the storage is closed")
    try super.close()
  }
}

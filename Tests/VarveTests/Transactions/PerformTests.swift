import Synchronization
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of the transactions of tasks: `perform`, and the asynchronous forms of `read` and `write`.
struct PerformTests {
  private let database: Database
  init() throws { database = try Database.inMemory(options: .patient) }

  private struct Stop: Error {}

  private func keys(_ collection: String = "c") throws -> [Int] {
    try database.read { tx in try tx.keys(Int.self, in: collection) }
  }

  private func number(_ key: String, in collection: String) throws -> Int? {
    try database.read { tx in try tx.object(Int.self, key: key, in: collection) }
  }

  @Test func `calls inside perform belong to one transaction`() async throws {
    try await database.perform {
      try await database.write { tx in try tx.set("a", key: 1, in: "c") }
      #expect(try await database.read { tx in try tx.keys(Int.self, in: "c") } == [1])
      // The row is not visible elsewhere: a detached task does not inherit the task-local transaction.
      #expect(try await Task.detached { try await database.read { tx in try tx.count(in: "c") } }.value == 0)
      try await database.write { tx in try tx.set("b", key: 2, in: "c") }
    }
    #expect(try keys() == [1, 2])
  }

  @Test func `synchronous code inside perform belongs to it, too`() async throws {
    let connection = database.connection()
    @Sendable func put(_ number: Int) throws { try database.write { tx in try tx.set("a", key: number, in: "c") } }
    func seen() throws -> [[Int]] {
      try [keys(), connection.read { tx in try tx.keys(Int.self, in: "c") }]
    }
    func refused() -> [DatabaseError.Code?] {
      [
        errorCode { try database.registerReady(Hooks(), as: "hooks") }, errorCode { try database.unregister("hooks") },
      ]
    }
    func putAndFail() throws {
      try connection.write { tx in
        try tx.set("a", key: 9, in: "c")
        throw Stop()
      }
    }
    try await database.perform {
      try put(1)
      try await database.write { tx in
        try tx.set("b", key: 2, in: "c")
        try put(3)
      }
      #expect(try seen() == [[1, 2, 3], [1, 2, 3]])
      #expect(throws: Stop.self) { try putAndFail() }
      #expect(refused() == [.invalidArgument, .invalidArgument])
      // Other threads do not see the rows yet.
      await Threads.start { _ throws in #expect(try keys() == []) }.join()
    }
    #expect(try seen() == [[1, 2, 3], [1, 2, 3]])
    await #expect(throws: Stop.self) {
      try await database.perform {
        try put(4)
        throw Stop()
      }
    }
    #expect(try seen() == [[1, 2, 3], [1, 2, 3]])
  }

  @Test func `a perform that throws writes nothing`() async throws {
    await #expect(throws: Stop.self) {
      try await database.perform {
        try await database.write { tx in try tx.set("a", key: 1, in: "c") }
        throw Stop()
      }
    }
    #expect(try keys() == [])
  }

  @Test func `a perform inside another is undone alone`() async throws {
    try await database.perform {
      try await database.write { tx in try tx.set("a", key: 1, in: "c") }
      await #expect(throws: Stop.self) {
        try await database.perform {
          try await database.write { tx in try tx.set("b", key: 2, in: "c") }
          throw Stop()
        }
      }
      try await database.perform { try await database.write { tx in try tx.set("c", key: 3, in: "c") } }
    }
    #expect(try keys() == [1, 3])
  }

  @Test func `calls of child tasks take turns and all succeed`() async throws {
    try await database.perform {
      try await withThrowingTaskGroup(of: Void.self) { group in
        for number in 0..<50 {
          group.addTask {
            try await database.write { tx in
              let before = try tx.object(Int.self, key: "sum", in: "sums") ?? 0
              try tx.set(before + 1, key: "sum", in: "sums")
              try tx.set("x", key: number, in: "c")
            }
          }
        }
        try await group.waitForAll()
      }
    }
    #expect(try number("sum", in: "sums") == 50)
    #expect(try keys() == Array(0..<50))
  }

  @Test func `a task that outlives its perform gets an error`() async throws {
    let gate = AsyncStream<Void>.makeStream()
    let late = try await database.perform {
      Task {
        for await _ in gate.stream { break }
        try await database.write { tx in try tx.set("late", key: 1, in: "c") }
      }
    }
    gate.continuation.yield()
    let error = await #expect(throws: DatabaseError.self) { try await late.value }
    #expect(error?.code == .transactionEnded)
    #expect(try keys() == [])
  }

  @Test func `a detached write that is awaited inside perform fails, and nothing hangs`() async throws {
    var options = DatabaseOptions()
    options.writerTimeout = .milliseconds(20)
    let database = try await Database.inMemory(options: options)
    let error = await #expect(throws: DatabaseError.self) {
      try await database.perform(label: "outer") {
        try await Task.detached { try await database.write { tx in try tx.set("x", key: 1, in: "c") } }.value
      }
    }
    #expect(error?.code == .writerBusy)
    #expect(error?.message.contains("outer") == true, "\(error?.message ?? "")")
    try await database.write { tx in try tx.set("x", key: 1, in: "c") }
  }

  @Test func `a task that is canceled while it waits for the writer returns at once`() async throws {
    let begun = AsyncStream<Void>.makeStream()
    let end = AsyncStream<Void>.makeStream()
    let holder = Task {
      try await database.perform {
        begun.continuation.yield()
        for await _ in end.stream { break }
      }
    }
    for await _ in begun.stream { break }
    let waiter = Task { try await database.write { tx in try tx.set("x", key: 1, in: "c") } }
    waiter.cancel()
    await #expect(throws: CancellationError.self) { try await waiter.value }
    end.continuation.yield()
    try await holder.value
    #expect(try keys() == [])
    try await database.write { tx in try tx.set("x", key: 2, in: "c") }
    #expect(try keys() == [2])
  }

  @Test func `task-locals are those of the caller`() async throws {
    enum Local { @TaskLocal static var name = "none" }
    let onDisk = database
    try await Local.$name.withValue("mine") {
      let seen = try await onDisk.write { _ in Local.name }
      let read = try await onDisk.read { _ in Local.name }
      #expect([seen, read] == ["mine", "mine"])
    }
  }

  @Test func `writers of many tasks run one after the other`() async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<200 {
        group.addTask {
          try await database.write { tx in
            try tx.set((try tx.object(Int.self, key: "n", in: "c2") ?? 0) + 1, key: "n", in: "c2")
          }
        }
      }
      try await group.waitForAll()
    }
    #expect(try number("n", in: "c2") == 200)
  }

  @Test func `a database can't be closed inside perform, and stays open`() async throws {
    func closeHere() throws { try database.close() }
    try await database.perform {
      try await database.write { tx in try tx.set("a", key: 1, in: "c") }
      #expect(errorCode { try closeHere() } == .writerBusy)
      #expect(await errorCode { try await database.close() } == .writerBusy)
      try await database.perform { #expect(await errorCode { try await database.close() } == .writerBusy) }
      // Other tasks can still read.
      #expect(try await Task.detached { try await database.read { tx in try tx.count(in: "c") } }.value == 0)
      try await database.write { tx in try tx.set("b", key: 2, in: "c") }
    }
    #expect(try keys() == [1, 2])
    let other = try await Database.inMemory()
    try await database.perform { try await other.close() }
    try await database.close()
  }

  @Test func `closing waits for running calls, and later ones are refused`() async throws {
    let database = database
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<20 { group.addTask { try await database.write { tx in try tx.set(1, key: number, in: "c") } } }
      try await group.waitForAll()
    }
    try await database.close()
    try await database.close()
    let error = await #expect(throws: DatabaseError.self) { try await database.read { tx in try tx.count() } }
    #expect(error?.code == .closed)
  }

  // MARK: - End

  @Test func `a perform that iterates while close begins runs to its end`() async throws {
    let database = try await Database.inMemory()
    try database.change { tx in for key in 0..<2_000 { try tx.set(key, key: key, in: "rows") } }
    let closing = Mutex<Task<Void, any Error>?>(nil)
    let count = try await database.perform {
      var count = 0
      for try await _ in database.rows(in: "rows") {
        count += 1
        guard count == 1 else { continue }
        closing.withLock { $0 = Task.detached { try await database.close() } }
        while !database.core.isClosing { await Task.yield() }
      }
      try await database.write { tx in try tx.set(-1, key: -1, in: "rows") }
      return count
    }
    #expect(count == 2_000)
    try await closing.withLock { $0 }?.value
  }

  @Test func `a task that outlives its perform reads normally, and its writes throw the reason`()
    async throws
  {
    let database = try await Database.inMemory()
    let gate = AsyncStream<Void>.makeStream()
    let task = Mutex<Task<(Int, DatabaseError?), any Error>?>(nil)
    try await database.perform {
      try await database.write { tx in try tx.set(1, key: 1, in: "rows") }
      task.withLock {
        $0 = Task {
          for await _ in gate.stream { break }
          let count = try await database.read { tx in try tx.count() }
          do {
            try await database.write { tx in try tx.set(2, key: 2, in: "rows") }
            return (count, nil)
          } catch let error as DatabaseError {
            return (count, error)
          }
        }
      }
    }
    gate.continuation.yield()
    let (count, error) = try await #require(task.withLock { $0 }).value
    #expect(count == 1)
    #expect(error?.code == .transactionEnded)
    #expect(error?.message.contains("perform") == true)
    try await database.close()
  }
}

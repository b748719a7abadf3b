import Dispatch
import Synchronization
import Testing
import Varve

/// Tests of the rules of blocking transactions.
struct TransactionRuleTests {
  private let database: Database
  init() throws { database = try Database.inMemory() }

  private func code(_ body: () throws -> Void) -> DatabaseError.Code? {
    do {
      try body()
      return nil
    } catch {
      return (error as? DatabaseError)?.code
    }
  }

  @Test func `a cursor of an undone savepoint has ended, and an earlier one never saw what was undone`() throws {
    try database.write { tx in for key in 0..<3 { try tx.set(key, key: key, in: "c") } }
    try database.write { tx in
      try tx.set(3, key: 3, in: "c")
      var before = try tx.rows(in: "c")
      var inside: RowCursor?
      #expect(
        code {
          try tx.savepoint {
            try tx.remove(key: 0, in: "c")
            inside = try tx.rows(in: "c")
            try tx.rollBack()
          }
        } == .rolledBack)
      #expect(code { _ = try inside?.next() } == .cursorEnded)
      try tx.remove(key: 1, in: "c")
      #expect(try before.compactMap { try $0.key(as: Int.self) } == [0, 1, 2, 3])
      var after = try tx.rows(in: "c")
      #expect(try after.compactMap { try $0.key(as: Int.self) } == [0, 2, 3])
    }
  }

  @Test func `a transaction can't be used after its closure`() throws {
    var kept: ReadTransaction?
    try database.read { tx in kept = tx }
    #expect(code { _ = try kept?.count() } == .transactionEnded)
    var writing: WriteTransaction?
    try database.write { tx in writing = tx }
    #expect(code { try writing?.set(1, key: 1, in: "c") } == .transactionEnded)
    var rows: RowCursor?
    try database.write { tx in
      try tx.set(1, key: 1, in: "c")
      rows = try tx.rows(in: "c")
    }
    #expect(code { _ = try rows?.next() } == .transactionEnded)
  }

  @Test func `a write inside a read on the same thread is refused`() throws {
    try database.read { _ in
      #expect(code { try database.write { tx in try tx.set(1, key: 1, in: "c") } } == .writeInsideRead)
    }
    try database.write { tx in try tx.set(1, key: 1, in: "c") }
  }

  @Test func `a read inside a write sees what that has written`() throws {
    var seen: [Int] = []
    try database.write { tx in
      try tx.set(1, key: 7, in: "c")
      seen = try database.read { inner in try inner.keys(Int.self, in: "c") }
    }
    #expect(seen == [7])
  }

  @Test func `rollback leaves no trace, and its write throws`() throws {
    let completed = Mutex(0)
    let error = #expect(throws: DatabaseError.self) {
      try database.write { tx in
        try tx.set(1, key: 1, in: "c")
        tx.onCommit { completed.withLock { $0 += 1 } }
        try tx.rollBack()
      }
    }
    #expect(error?.code == .rolledBack)
    #expect(completed.withLock { $0 } == 0)
    let (count, collections) = try database.read { tx in (try tx.count(in: "c"), try tx.collections()) }
    #expect(count == 0)
    #expect(collections == [])
  }

  @Test func `rollback in a nested write undoes that one alone`() throws {
    try database.write { tx in
      try tx.set(1, key: 1, in: "c")
      do {
        try database.write { inner in
          try inner.set(2, key: 2, in: "c")
          try inner.rollBack()
        }
      } catch let error as DatabaseError where error.code == .rolledBack {}
      try tx.set(3, key: 3, in: "c")
    }
    #expect(try database.read { tx in try tx.keys(Int.self, in: "c") } == [1, 3])
  }

  @Test func `a rollback that the closure catches still undoes its write, and no other`() throws {
    let outermost = code {
      try database.write { tx in
        try tx.set(1, key: 1, in: "c")
        do { try tx.rollBack() } catch {}
        try tx.set(2, key: 2, in: "c")
        // A nested transaction after it is independent, and is undone with the outer one.
        try database.write { inner in try inner.set(3, key: 3, in: "c") }
      }
    }
    #expect(outermost == .rolledBack)
    #expect(try database.read { tx in try tx.count(in: "c") } == 0)
    try database.write { tx in
      try tx.set(1, key: 1, in: "c")
      let nested = code {
        try database.write { inner in
          try inner.set(2, key: 2, in: "c")
          do { try tx.rollBack() } catch {}
        }
      }
      #expect(nested == .rolledBack)
      try tx.set(3, key: 3, in: "c")
    }
    #expect(try database.read { tx in try tx.keys(Int.self, in: "c") } == [1, 3])
  }

  @Test func `a rollback that is caught within a perform undoes its write alone`() async throws {
    let database = self.database
    try await database.perform {
      try await database.write { tx in try tx.set(4, key: 4, in: "c") }
      await #expect(throws: DatabaseError.self) {
        try await database.write { tx in
          try tx.set(5, key: 5, in: "c")
          do { try tx.rollBack() } catch {}
        }
      }
    }
    #expect(try await database.read { tx in try tx.keys(Int.self, in: "c") } == [4])
  }

  @Test func `the error of a writer that times out names the transaction that has the writer`() throws {
    var options = DatabaseOptions()
    options.writerTimeout = .milliseconds(10)
    let database = try Database.inMemory(options: options)
    let waiting = DispatchSemaphore(value: 0)
    let found = Mutex<DatabaseError?>(nil)
    try database.write(label: "the long one") { _ in
      DispatchQueue.global().async {
        do {
          try database.write { tx in try tx.set(1, key: 1, in: "c") }
        } catch {
          found.withLock { $0 = error as? DatabaseError }
        }
        waiting.signal()
      }
      waiting.wait()
    }
    let error = found.withLock { $0 }
    #expect(error?.code == .writerBusy)
    #expect(error?.message.contains("the long one") == true)
  }

  @Test func `readers see complete commits, and one snapshot`() throws {
    try database.write { tx in
      for key in 0..<10 { try tx.set(0, key: key, in: "c") }
    }
    let isDone = Atomic<Bool>(false)
    let queue = DispatchQueue(label: "readers", attributes: .concurrent)
    let group = DispatchGroup()
    let failures = Mutex<[String]>([])
    for _ in 0..<3 {
      queue.async(group: group) {
        while !isDone.load(ordering: .acquiring) {
          do {
            let values = try database.read { tx in
              try (0..<10).compactMap { try tx.object(Int.self, key: $0, in: "c") }
            }
            if Set(values).count != 1 || values.count != 10 { failures.withLock { $0.append("\(values)") } }
          } catch {
            failures.withLock { $0.append("\(error)") }
          }
        }
      }
    }
    for number in 1...200 {
      try database.write { tx in
        for key in 0..<10 { try tx.set(number, key: key, in: "c") }
      }
    }
    isDone.store(true, ordering: .releasing)
    group.wait()
    #expect(failures.withLock { $0 } == [])
  }

  @Test func `concurrent writers that conflict retry, and no change is lost`() throws {
    let attempts = Atomic<Int>(0)
    let failures = Mutex<[String]>([])
    DispatchQueue.concurrentPerform(iterations: 4) { _ in
      for _ in 0..<100 {
        do {
          try database.writeConcurrently { tx in
            attempts.add(1, ordering: .relaxed)
            let before = try tx.object(Int.self, key: "sum", in: "c") ?? 0
            try tx.set(before + 1, key: "sum", in: "c")
          }
        } catch {
          failures.withLock { $0.append("\(error)") }
        }
      }
    }
    #expect(failures.withLock { $0 } == [])
    #expect(try database.read { tx throws in try tx.object(Int.self, key: "sum", in: "c") } == 400)
    #expect(try database.read { tx throws in try tx.count(in: "c") } == 1)
    #expect(attempts.load(ordering: .relaxed) >= 400)
  }

  @Test func `concurrent writers of different rows do not conflict by counts and row numbers`() throws {
    let attempts = Atomic<Int>(0)
    let failures = Mutex<[String]>([])
    // The creation of the collection is a change on which two of the writers may conflict.
    try database.write { tx in try tx.set(0, key: -1, in: "c") }
    DispatchQueue.concurrentPerform(iterations: 4) { writer in
      for number in 0..<100 {
        do {
          try database.writeConcurrently { tx in
            attempts.add(1, ordering: .relaxed)
            try tx.set(number, key: writer * 1_000 + number, in: "c")
          }
        } catch {
          failures.withLock { $0.append("\(error)") }
        }
      }
    }
    #expect(failures.withLock { $0 } == [])
    #expect(attempts.load(ordering: .relaxed) == 400)
    #expect(try database.read { tx throws in try tx.count(in: "c") } == 401)
    let ids = try database.read { tx in
      var rows = try tx.rows(in: "c")
      return try rows.compactMap { $0.id }
    }
    #expect(Set(ids).count == 401)
  }
}

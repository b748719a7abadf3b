import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of where the closure of an asynchronous write runs: a change of the executor costs more than most writes.
struct InlineWriteTests {
  @Test
  func `a write that waits for nothing but its sync runs on the calling thread, any other on the database's threads`()
    async throws
  {
    let backend = ToyBackend()
    let database = try await Database.open(backend, path: "toy")
    try await withTaskExecutorPreference(Caller()) { () async throws in
      #expect(try await database.write { _ in Caller.isHere })
      #expect(try await database.write(durability: .power) { _ in Caller.isHere })
      backend.mayDelayCommits = true
      #expect(try await database.write { _ in Caller.isHere } == false)
      backend.mayDelayCommits = false
      #expect(try await database.write { _ in Caller.isHere })
      #expect(try await database.read { _ in Caller.isHere } == false)
    }
  }

  @Test func `a write that has to wait for the writer runs on the database's threads`() async throws {
    let database = try await Database.open(ToyBackend(), path: "toy")
    let writer = database.core.writer
    #expect(try writer.tryAcquire(nil))
    let isHere = Task {
      try await withTaskExecutorPreference(Caller()) { () async throws in
        try await database.write { _ in Caller.isHere }
      }
    }
    while writer.waiterCount == 0 { await Task.yield() }
    writer.release()
    #expect(try await isHere.value == false)
  }

  @Test func `the closure of a perform, its calls and its commit run on the database's threads`() async throws {
    let called = Called()
    let database = try await Database.open(CommitPositions(ToyBackend(), called), path: "toy")
    try await withTaskExecutorPreference(Caller()) { () async throws in
      for durability in [StorageDurability.process, .power] {
        try await database.perform(durability: durability) {
          #expect(!Caller.isHere)
          #expect(try await database.write { _ in Caller.isHere } == false)
          #expect(try await database.writeConcurrently { _ in Caller.isHere } == false)
          #expect(try await database.read { _ in Caller.isHere } == false)
          try await database.write { tx in try tx.set("a", key: 1, in: "c") }
        }
        #expect(Caller.isHere)
      }
    }
    #expect(called.all.suffix(2) == ["false", "false"])
  }

  @Test func `in memory no write waits for a disk`() async throws {
    let database = try await Database.inMemory()
    try await withTaskExecutorPreference(Caller()) { () async throws in
      #expect(try await database.write(durability: .power) { _ in Caller.isHere })
      #expect(try await database.read { _ in Caller.isHere })
    }
  }
}

/// A backend that records whether commits are made on the calling thread.
private final class CommitPositions: ForwardingBackend, @unchecked Sendable {
  private let called: Called

  init(_ base: any StorageBackend, _ called: Called) {
    self.called = called
    super.init(base)
  }

  override var isInMemory: Bool { false }

  override func commit(
    _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
  ) throws -> any StorageTicket {
    called.add("\(Caller.isHere)")
    return try super.commit(batch, check: check, durability: durability)
  }
}

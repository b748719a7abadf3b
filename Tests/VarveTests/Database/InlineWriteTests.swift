import Testing
import Varve
import VarveTestSupport

/// Where the closure of an asynchronous write runs: a hop costs more than most writes.
struct InlineWriteTests {
  @Test func `a write that waits for nothing runs where it is called, any other on threads of the database's own`()
    async throws
  {
    let backend = ToyBackend()
    let database = try Database.open(backend, path: "toy")
    try await withTaskExecutorPreference(Caller()) { () async throws in
      #expect(try await database.write { _ in Caller.isHere })
      #expect(try await database.write(durability: .power) { _ in Caller.isHere } == false)
      backend.mayDelayCommits = true
      #expect(try await database.write { _ in Caller.isHere } == false)
      backend.mayDelayCommits = false
      #expect(try await database.write { _ in Caller.isHere })
      #expect(try await database.read { _ in Caller.isHere } == false)
    }
  }

  @Test func `in memory nothing waits for a disk`() async throws {
    let database = try Database.inMemory()
    try await withTaskExecutorPreference(Caller()) { () async throws in
      #expect(try await database.write(durability: .power) { _ in Caller.isHere })
      #expect(try await database.read { _ in Caller.isHere })
    }
  }
}

import EngineTestSupport
import Foundation
import Synchronization
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of commits of independent parts, concurrent with the writer.
struct IndependentCommitTests {
  private struct Stop: Error {}

  private static func scripted(sharesRows: Bool = false) -> Scripted {
    var scripted = Scripted(events: sharesRows ? .inserts : [])
    var values = PartDefinition("values")
    var counts = PartDefinition("counts", .counters(.sum))
    values.isIndependent = true
    counts.isIndependent = true
    scripted.configuration.parts = [values, counts, PartDefinition("own")]
    return scripted
  }

  private static func open(_ site: StorageSite) throws -> (Database, ExtensionHandle<Scripted>) {
    let database = try Database.open(try site.open(), path: "aside")
    return (database, try database.registerReady(scripted(), as: "jobs"))
  }

  private static func number(_ bytes: [UInt8]?) -> UInt64 { bytes.flatMap { BigEndian.number($0) } ?? 0 }

  /// Reads a number, and writes the next one.
  private static func increase(_ part: Part, _ key: [UInt8]) throws {
    try part.put(key, BigEndian.bytes(number(try part.get(key)) + 1))
  }

  @Test(arguments: StorageKind.allCases)
  func `independent commits run while a transaction has the writer, and both are there afterwards`(
    kind: StorageKind
  ) async throws {
    let site = try StorageSite(kind)
    let (database, handle) = try Self.open(site)
    try await database.perform {
      try await database.write { tx in try tx.set("row", key: 1, in: "rows") }
      for number in 1...3 {
        let count = try await database.commitIndependently { parts in
          let values = try parts.part("values", of: handle)
          try values.put([UInt8(number)], [1])
          try parts.part("counts", of: handle).add(1, to: [1])
          return try values.count()
        }
        #expect(count == number)
      }
      // Outside of the transaction, readers already see the independent commits, but not the row.
      let seen = try database.core.read { tx in (try tx[handle].part("values").count(), try tx.count(in: "rows")) }
      #expect(seen == (3, 0))
    }
    try await database.read { tx throws in
      #expect(try tx[handle].part("values").count() == 3)
      #expect(try tx[handle].part("counts").counter([1]) == 3)
      #expect(try tx.count(in: "rows") == 1)
    }
    #expect(database.statistics.independentCommits == 3 && database.statistics.independentConflicts == 0)
    try await database.close()
    let (again, handleAgain) = try Self.open(site)
    try await again.read { tx throws in #expect(try tx[handleAgain].part("values").count() == 3) }
    try await again.close()
  }

  @Test(arguments: StorageKind.allCases)
  func `a transaction conflicts with an independent commit only by the keys of independent parts that it used`(
    kind: StorageKind
  ) async throws {
    let site = try StorageSite(kind)
    let (database, handle) = try Self.open(site)
    typealias Use = @Sendable (Part) throws -> Void
    let conflicts: [(String, Use)] = [
      ("get", { _ = try $0.get([1]) }), ("put", { try $0.put([1], [9]) }), ("delete", { try $0.delete([1]) }),
      ("cursor", { _ = try $0.cursor(StorageRange(upper: [2])).count() }), ("first", { _ = try $0.first() }),
      ("count", { _ = try $0.count() }), ("range", { try $0.deleteRange(StorageRange()) }),
      ("values", { _ = try $0.values([[0], [1]]) }), ("bytes", { _ = try $0.withValue(of: [1]) { _ in } }),
    ]
    let others: [(String, Use)] = [
      ("another key", { _ = try $0.get([2]) }), ("another range", { _ = try $0.count(StorageRange(lower: [2])) }),
      ("another put", { try $0.put([3], [9]) }),
    ]
    func run(_ use: @escaping Use, _ key: Int) async throws {
      try await database.perform {
        try await database.write { tx in
          try tx.set("row", key: key, in: "rows")
          try use(try tx[handle].part("values"))
        }
        try await database.commitIndependently { try $0.part("values", of: handle).put([1], [UInt8(key)]) }
      }
    }
    for (index, (name, use)) in conflicts.enumerated() {
      await #expect(throws: DatabaseError.self, "\(name)") {
        do { try await run(use, index) } catch let error as DatabaseError {
          #expect(error.code == .conflict, "\(name)")
          throw error
        }
      }
      #expect(try database.look { tx in try tx.count(in: "rows") } == 0, "\(name): the row was committed")
      #expect(try database.look { tx in try tx[handle].part("values").get([1]) } == [UInt8(index)], "\(name)")
    }
    for (index, (_, use)) in others.enumerated() { try await run(use, index) }
    #expect(try database.look { tx in try tx.count(in: "rows") } == others.count)
    try await database.close()
  }

  @Test(arguments: StorageKind.allCases)
  func `an independent commit runs again if something that it read has changed`(kind: StorageKind) async throws {
    let site = try StorageSite(kind)
    let (database, handle) = try Self.open(site)
    let attempts = Mutex(0)
    try await database.commitIndependently { parts in
      let part = try parts.part("values", of: handle)
      let before = try part.get([1])
      let attempt = attempts.withLock { attempts in
        attempts += 1
        return attempts
      }
      if attempt <= 3 {
        try database.core.write(WriteTerms()) { try $0[handle].part("values").put([1], [UInt8(attempt)]) }
      }
      try part.put([2], before ?? [0])
    }
    #expect(attempts.withLock { $0 } == 4)
    #expect(try database.look { try $0[handle].part("values").get([2]) } == [3])
    attempts.withLock { $0 = 0 }
    await #expect(throws: DatabaseError.self) {
      try await database.commitIndependently { parts in
        attempts.withLock { $0 += 1 }
        let part = try parts.part("values", of: handle)
        try Self.increase(part, [5])
        try database.core.write(WriteTerms()) { try Self.increase(try $0[handle].part("values"), [5]) }
      }
    }
    #expect(attempts.withLock { $0 } == 64)
    #expect(try database.look { Self.number(try $0[handle].part("values").get([5])) } == 64)
    try await database.close()
  }

  @Test(arguments: StorageKind.allCases)
  func `many tasks of independent commits and transactions lose no change, and readers never see an older version`(
    kind: StorageKind
  ) async throws {
    let site = try StorageSite(kind)
    if kind == .toy {
      site.faults.seed = UInt64.random(in: .min ... .max)
      site.faults.lateOneIn = 3
    }
    let (database, handle) = try Self.open(site)
    let count = TestScale.atMost(40)
    let isDone = Mutex(false)
    let reader = Threads.start(1) { _ in
      var last = CommitVersion.zero
      var sum: Int64 = 0
      while !isDone.withLock({ $0 }) {
        let (version, now) = try database.core.read { tx in (tx.version, try tx[handle].part("counts").counter([1])) }
        #expect(
          version >= last && now >= sum,
          "\(kind): a reader went back, from version \(last) with \(sum) to \(version) with \(now)")
        (last, sum) = (version, now)
        // The tasks need the processor, and three of these readers run at once.
        sched_yield()
      }
    }
    let outcome: Result<Void, any Error>
    do {
      try await Self.mix(database, handle, count)
      outcome = .success(())
    } catch { outcome = .failure(error) }
    isDone.withLock { $0 = true }
    await reader.join()
    try outcome.get()
    try await database.read { tx throws in
      #expect(try tx[handle].part("counts").counter([1]) == Int64(6 * count))
      #expect(Self.number(try tx[handle].part("values").get([1])) == UInt64(4 * count + 2 * ((count + 3) / 4)))
    }
    try await database.close()
  }

  /// The observations of threads around one commit.
  private final class Seen: Sendable {
    let isArmed = Mutex(true)
    let early = Mutex<CommitVersion?>(nil)
    let late = Mutex<CommitVersion?>(nil)
    let reader = Mutex<Threads.Started?>(nil)
  }

  /// The catalog commits definitions by itself: here, another program's commit takes that role.
  @Test func `readers never see an older version if the catalog commits between an independent commit's two steps`()
    async throws
  {
    let site = try StorageSite(.toy)
    let backend = try #require(try site.open() as? ToyBackend)
    let database = try await Database.open(backend, path: "aside")
    let handle = try database.registerReady(Self.scripted(), as: "jobs")
    let family = try #require(try backend.families().first)
    let core = database.core
    let seen = Seen()
    try await database.commitIndependently { parts in
      try parts.part("values", of: handle).put([1], [1])
      // From here on, the next snapshot is the one before the commit.
      backend.onAnswer { call in
        switch call {
        case .snapshot:
          let isFirst = seen.isArmed.withLock { isArmed in
            defer { isArmed = false }
            return isArmed
          }
          guard isFirst else { return }
          var batch = StorageBatch()
          batch.put([0xff, 0xff, 0xff], [], in: family)
          _ = try? backend.commit(batch, check: nil, durability: .process)
          let reader = Threads.start { _ in
            let version = try core.publication.snapshot().version
            seen.early.withLock { $0 = version }
          }
          seen.reader.withLock { $0 = reader }
          // The loop takes enough time for a reader that does not wait; a reader that waits for the commit comes
          // after it.
          for _ in 0..<20_000 where seen.early.withLock({ $0 }) == nil { sched_yield() }
        case .commit:
          if seen.isArmed.withLock({ $0 }) || seen.late.withLock({ $0 }) != nil { return }
          guard let early = seen.early.withLock({ $0 }) else { return }
          guard let version = try? core.publication.snapshot().version else { return }
          seen.late.withLock { $0 = version }
          #expect(version >= early, "a reader saw version \(early), and the next one \(version)")
        }
      }
    }
    backend.onAnswer(nil)
    #expect(!seen.isArmed.withLock { $0 })
    let reader = try #require(seen.reader.withLock { $0 })
    await reader.join()
    #expect(try database.look { try $0[handle].part("values").get([1]) } == [1])
    try await database.close()
  }

  /// Runs four tasks of independent commits and two of writes, with both durabilities.
  private static func mix(_ database: Database, _ handle: ExtensionHandle<Scripted>, _ count: Int) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for task in 0..<4 {
        group.addTask {
          for round in 0..<count {
            let durability: StorageDurability = (round + task) % 3 == 0 ? .power : .process
            try await Self.again {
              try await database.commitIndependently(durability: durability) { parts in
                try parts.part("counts", of: handle).add(1, to: [1])
                try Self.increase(try parts.part("values", of: handle), [1])
              }
            }
          }
        }
      }
      for task in 0..<2 {
        group.addTask {
          for round in 0..<count {
            let durability: StorageDurability = (round + task) % 2 == 0 ? .power : .process
            try await Self.again {
              try await database.write(durability: durability) { tx in
                try tx.set(round, key: round, in: "rows \(task)")
                try tx[handle].part("counts").add(1, to: [1])
                if round % 4 == 0 { try Self.increase(try tx[handle].part("values"), [1]) }
              }
            }
          }
        }
      }
      try await group.waitForAll()
    }
  }

  /// Calls `body` until there is no conflict.
  private static func again(_ body: @Sendable () async throws -> Void) async throws {
    while true {
      do { return try await body() } catch let error as DatabaseError where error.code == .conflict {}
    }
  }

  @Test func `after a sync that fails, no commit of either lane is acknowledged`() async throws {
    let site = try StorageSite(.toy)
    let backend = try #require(try site.open() as? ToyBackend)
    let database = try await Database.open(backend, path: "failing")
    let handle = try database.registerReady(Self.scripted(), as: "jobs")
    try database.change { try $0.set(0, key: 0, in: "rows") }
    try await database.commitIndependently { try $0.part("values", of: handle).put([0], []) }
    backend.inject(.failing(isDurable: false))
    func code(_ body: () async throws -> Void) async -> DatabaseError.Code? {
      do {
        try await body()
        return nil
      } catch { return (error as? DatabaseError)?.code }
    }
    for key in [UInt8(1), 2] {
      #expect(
        await code { try await database.commitIndependently { try $0.part("values", of: handle).put([key], []) } }
          == .outcomeUnknown)
    }
    #expect(await code { try await database.write { try $0.set(1, key: 1, in: "rows") } } == .outcomeUnknown)
    #expect(try database.look { try $0[handle].part("values").count() } == 1)
    try? await database.close()
  }

  @Test(arguments: StorageKind.allCases)
  func `an acknowledged independent commit survives the death of the process`(kind: StorageKind) async throws {
    let site = try StorageSite(kind)
    let (database, handle) = try Self.open(site)
    // The toy storage ends with the process.
    try? await database.perform {
      try await database.write { tx in try tx.set("row", key: 1, in: "rows") }
      try await database.commitIndependently(durability: .power) { try $0.part("values", of: handle).put([1], [1]) }
      try site.abandon()
    }
    let (again, handleAgain) = try Self.open(site)
    try await again.read { tx throws in
      #expect(try tx[handleAgain].part("values").get([1]) == [1])
      #expect(try tx.count(in: "rows") == 0)
    }
    try await again.close()
    try? await database.close()
  }

  @Test(arguments: StorageKind.allCases)
  func `savepoints undo their part, and an error undoes everything`(kind: StorageKind) async throws {
    let site = try StorageSite(kind)
    let (database, handle) = try Self.open(site)
    try await database.commitIndependently { parts in
      let part = try parts.part("values", of: handle)
      try part.put([1], [1])
      try? parts.savepoint {
        try part.put([2], [2])
        try part.delete([1])
        throw Stop()
      }
      try parts.savepoint { try part.put([3], [3]) }
    }
    await #expect(throws: Stop.self) {
      try await database.commitIndependently { parts in
        try parts.part("values", of: handle).put([4], [4])
        throw Stop()
      }
    }
    try await database.read { tx throws in
      let part = try tx[handle].part("values")
      #expect(try part.values([[1], [2], [3], [4]]) == [[1], nil, [3], nil])
    }
    try await database.close()
  }

  @Test func `parts that are not independent, not built or not registered are refused`() async throws {
    let database = try await Database.inMemory()
    let handle = try database.registerReady(Self.scripted(), as: "jobs")
    func code(_ body: @escaping @Sendable (IndependentParts) throws -> Void) async -> DatabaseError.Code? {
      do {
        try await database.commitIndependently { try body($0) }
        return nil
      } catch { return (error as? DatabaseError)?.code }
    }
    #expect(await code { _ = try $0.part("own", of: handle) } == .invalidArgument)
    #expect(await code { _ = try $0.part("none", of: handle) } == .invalidArgument)
    #expect(await code { _ = try $0.part("values", of: Self.scripted().named("none")) } == .unknownExtension)
    var scratch = PartDefinition("scratch", .scratch)
    scratch.isIndependent = true
    var wrong = Scripted(events: [])
    wrong.configuration.parts = [scratch]
    #expect(errorCode { try database.registerReady(wrong, as: "wrong") } == .invalidDefinition)
    try await database.close()
  }

  @Test func `a concurrent write takes the writer at the first change that an extension receives which needs it`()
    throws
  {
    let database = try Database.inMemory()
    var deaf = Self.scripted(sharesRows: true)
    deaf.configuration.scope = .only(["heard"])
    deaf.did = { tx, change in try tx.part("own").put(change.key.bytes, []) }
    let handle = try database.registerReady(deaf, as: "deaf")
    var attempts = 0
    try database.core.writeConcurrently(WriteTerms()) { tx in
      attempts += 1
      try tx.set(1, key: 1, in: "others")
    }
    #expect(attempts == 1 && database.statistics.writesThatTookTheWriter == 0)
    attempts = 0
    try database.core.writeConcurrently(WriteTerms()) { tx in
      attempts += 1
      // An error that is caught still ends the attempt.
      try? tx.set(1, key: 1, in: "heard")
      try? tx.set(2, key: 2, in: "others")
    }
    #expect(attempts == 2 && database.statistics.writesThatTookTheWriter == 1)
    attempts = 0
    try database.core.writeConcurrently(WriteTerms()) { tx in
      attempts += 1
      try tx[handle].part("own").put([9], [])
    }
    #expect(attempts == 2 && database.statistics.writesThatTookTheWriter == 2)
    try database.look { tx throws in
      #expect(try tx[handle].part("own").count() == 2)
      #expect(try tx.count(in: "others") == 2)
      #expect(try tx.count(in: "heard") == 1)
    }
  }
}

import EngineTestSupport
import Foundation
import Synchronization
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of writers that block the threads of tasks, together with suspended writers: none may wait for a thread that
/// another one keeps.
///
/// Each of these cases stalled until the writer timeout when a suspended writer needed one of those threads.
@Suite(.serialized) struct LaneTests {
  private static func with(_ isInMemory: Bool, _ body: (Database) async throws -> Void) async throws {
    if isInMemory {
      let database = try await Database.inMemory(options: .patient)
      try await body(database)
      try await database.close()
    } else {
      let directory = try TemporaryDirectory()
      let database = try await Database.open(at: directory.path + "/db", options: .patient)
      try await body(database)
      try await database.close()
    }
  }

  private static func writeHere(_ database: Database, _ key: Int) throws {
    try database.write { tx in try tx.set(key, key: key, in: "rows") }
  }

  enum Durability: String, CaseIterable, CustomTestStringConvertible {
    case process, power
    var value: StorageDurability { self == .process ? .process : .power }
    var testDescription: String { rawValue }
  }

  @Test(arguments: [true, false], Durability.allCases)
  func `tasks whose writes suspend and tasks whose writes block all write`(
    isInMemory: Bool, durability: Durability
  ) async throws {
    try await Self.with(isInMemory) { database in
      for taskCount in [16, 200] {
        try await withThrowingTaskGroup(of: Void.self) { group in
          for task in 0..<taskCount {
            group.addTask {
              for number in 0..<5 {
                let key = task * 5 + number
                if task % 2 == 0 {
                  try await database.write(durability: durability.value) { tx in
                    try tx.set(key, key: key, in: "rows")
                  }
                } else {
                  try Self.writeHere(database, key)
                }
              }
            }
          }
          try await group.waitForAll()
        }
        #expect(try await database.read { tx in try tx.count(in: "rows") } == taskCount * 5)
      }
    }
  }

  @Test(arguments: [true, false])
  func `a perform suspended between writes continues while all task threads wait for it`(
    isInMemory: Bool
  ) async throws {
    try await Self.with(isInMemory) { database in
      let isHeld = Gate()
      isHeld.shut()
      let performing = Task {
        try await database.perform {
          isHeld.open()
          await Self.yield { database.core.writer.waiterCount > 0 }
          for key in 0..<20 {
            await withCheckedContinuation { continuation in Thread.detachNewThread { continuation.resume() } }
            try await database.write { tx in try tx.set(key, key: key, in: "rows") }
          }
        }
      }
      await isHeld.passSuspended()
      try await withThrowingTaskGroup(of: Void.self) { group in
        for task in 0..<8 { group.addTask { try Self.writeHere(database, 100 + task) } }
        try await group.waitForAll()
      }
      try await performing.value
      #expect(try await database.read { tx in try tx.count(in: "rows") } == 28)
    }
  }

  /// The number of times that a Swift task has run.
  private final class Ticks: Sendable {
    private let number = Atomic(0)
    let isOver = Atomic(false)

    var count: Int { number.load(ordering: .acquiring) }
    func add() { number.add(1, ordering: .releasing) }
  }

  @Test @MainActor func `a write does not run on the actor that calls it`() async throws {
    let database = try await Database.inMemory(options: .patient)
    let ticks = Ticks()
    let ticking = Task { @MainActor in
      while !ticks.isOver.load(ordering: .acquiring) {
        ticks.add()
        await Task.yield()
      }
    }
    let (wasOnMain, passed) = try await database.write { tx in
      for key in 0..<100 { try tx.set(key, key: key, in: "rows") }
      // The actor is free meanwhile, so the transaction can wait for it.
      let before = ticks.count
      while ticks.count < before + 10, !Thread.isMainThread { sched_yield() }
      return (Thread.isMainThread, ticks.count - before)
    }
    ticks.isOver.store(true, ordering: .releasing)
    await ticking.value
    #expect(!wasOnMain)
    #expect(passed >= 10)
    // The same holds for the calls of stores, and for a `perform`.
    let locations = try await database.perform {
      let inside = try await database.write { _ in Thread.isMainThread }
      return [inside, try await database.read { _ in Thread.isMainThread }]
    }
    #expect(locations == [false, false])
    #expect(try await database.writeConcurrently { _ in Thread.isMainThread } == false)
    #expect(try await database.read { _ in Thread.isMainThread } == false)
    try await database.close()
  }

  @Test func `a write does not wait for a thread that reads use`() async throws {
    let directory = try TemporaryDirectory()
    let database = try await Database.open(at: directory.path + "/db", options: .patient)
    let gate = Gate()
    gate.shut()
    let readerCount = DatabaseExecutor.usualLimit + 8
    var readers: [Task<Void, any Error>] = []
    for _ in 0..<readerCount { readers.append(Task { try await database.read { _ in gate.pass() } }) }
    await Self.yield { gate.waitingCount == readerCount }
    try await database.write(durability: .power) { tx in try tx.set(1, key: 1, in: "rows") }
    try await database.perform { try await database.write { tx in try tx.set(2, key: 2, in: "rows") } }
    gate.open()
    for reader in readers { try await reader.value }
    #expect(try await database.read { tx in try tx.count(in: "rows") } == 2)
    try await database.close()
  }

  private static func yield(until isTrue: () -> Bool) async { while !isTrue() { await Task.yield() } }
}

import EngineTestSupport
import Foundation
import Synchronization
import Testing
import VarveEngine
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of transactions that change nothing, while a commit that they have read is not acknowledged.
struct UnchangedWriteTests {
  enum Form: CaseIterable { case write, concurrent, suspended, perform, independent }

  private let gate = Gate()
  private let backend: HeldBackend
  private let database: Database
  private let handle: ExtensionHandle<Scripted>

  init() throws {
    let engine = try Engine.open(at: "/unchanged", environment: .inMemory())
    backend = HeldBackend(try EngineBackend(engine), gate)
    database = try Database.open(backend, path: "/unchanged")
    var scripted = Scripted(events: [])
    var values = PartDefinition("values")
    values.isIndependent = true
    scripted.configuration.parts = [values]
    handle = try database.registerReady(scripted, as: "jobs")
  }

  /// Reads in a transaction that changes nothing, and then in one that reads. Returns what each of them has seen.
  private func look(_ form: Form) async throws -> [Bool] {
    let inside: Bool
    switch form {
    case .write: inside = try await onThread { try $0.change { try $0.contains(key: 1, in: "c") } }
    case .concurrent:
      inside = try await onThread { try $0.writeConcurrently { try $0.contains(key: 1, in: "c") } }
    case .suspended: inside = try await database.write { tx throws in try tx.contains(key: 1, in: "c") }
    case .perform: inside = try await database.perform { try await database.read { try $0.contains(key: 1, in: "c") } }
    case .independent:
      inside = try await database.commitIndependently { [handle] in try $0.part("values", of: handle).get([1]) != nil }
    }
    return [inside, try database.look { try $0.contains(key: 1, in: "c") }]
  }

  /// Runs what waits at the gate on a separate thread: the threads of Swift's pool are needed to open it.
  private func onThread(_ body: @escaping @Sendable (Database) throws -> Bool) async throws -> Bool {
    try await withCheckedThrowingContinuation { continuation in
      Thread.detachNewThread { [database] in continuation.resume(with: Result { try body(database) }) }
    }
  }

  private func waitUntilHeld(_ count: Int) async { while gate.waitingCount < count { await Task.yield() } }

  /// Begins a commit that is applied, and does not become durable while the gate is shut. It waits on a separate
  /// thread.
  private func beginCommit() async {
    gate.shut()
    Thread.detachNewThread { [database, handle] in
      try? database.change(durability: .power) { tx in
        try tx.set("row", key: 1, in: "c")
        try tx[handle].part("values").put([1], [])
      }
    }
    await waitUntilHeld(1)
  }

  @Test(arguments: Form.allCases)
  func `a transaction that changes nothing returns when the commits that it has read are acknowledged`(
    form: Form
  ) async throws {
    await beginCommit()
    let seen = Mutex<[Bool]?>(nil)
    let done = Task {
      let result = try await look(form)
      seen.withLock { $0 = result }
    }
    await waitUntilHeld(2)
    #expect(seen.withLock { $0 } == nil)
    #expect(try database.look { try $0.contains(key: 1, in: "c") } == false)
    gate.open()
    try await done.value
    #expect(seen.withLock { $0 } == [true, true])
  }

  @Test(arguments: Form.allCases)
  func `a transaction that changes nothing throws if a commit that it has read may be lost`(form: Form) async throws {
    await beginCommit()
    backend.fails.store(true, ordering: .releasing)
    let done = Task { try await look(form) }
    await waitUntilHeld(2)
    gate.open()
    do {
      _ = try await done.value
      Issue.record("the transaction returned")
    } catch {
      #expect((error as? DatabaseError)?.code == .outcomeUnknown)
    }
  }

  @Test func `a transaction that changes nothing does not wait for commits after its snapshot`() async throws {
    let (hasBegun, isHeld) = (Gate(), Gate())
    hasBegun.shut()
    isHeld.shut()
    let seen = Mutex<Bool?>(nil)
    async let ended = onThread { database in
      let inside = try database.writeConcurrently { tx in
        let inside = try tx.contains(key: 1, in: "c")
        hasBegun.open()
        isHeld.pass()
        return inside
      }
      seen.withLock { $0 = inside }
      return inside
    }
    await hasBegun.passSuspended()
    await beginCommit()
    isHeld.open()
    // It returns while the gate is shut, or would wait there, too.
    while seen.withLock({ $0 }) == nil, gate.waitingCount < 2 { await Task.yield() }
    #expect(seen.withLock { $0 } == false)
    gate.open()
    _ = try await ended
  }
}

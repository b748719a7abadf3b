import EngineTestSupport
import Synchronization
import Testing
import Varve
import VarveEngine
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of schedules that are removed while the scheduler still works on them.
struct UnscheduleTests {
  /// A storage that counts its snapshots, and whose commits wait at a gate before they are made.
  private final class GatedBackend: ForwardingBackend, @unchecked Sendable {
    // Sendable: a gate is safe from any thread.
    let gate = Gate()
    private let snapshots = Atomic(0)
    var snapshotCount: Int { snapshots.load(ordering: .acquiring) }

    override func snapshot() throws -> any StorageSnapshot {
      snapshots.add(1, ordering: .acquiringAndReleasing)
      return try super.snapshot()
    }

    override func commit(
      _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
    ) throws -> any StorageTicket {
      gate.pass()
      return try super.commit(batch, check: check, durability: durability)
    }
  }

  private static func register(_ fixture: TaskFixture) throws {
    try fixture.scheduler.schedule("ten", "*/10 * * * *") { _ in Note("slot") }
  }

  private static func lastSlot(_ fixture: TaskFixture) -> Int64? {
    fixture.scheduler.state.withLock { $0.schedules["ten"]?.lastSlot }
  }

  @Test func `a schedule that is removed while it is being stored is not stored after that`() async throws {
    let backend = GatedBackend(try EngineBackend(try Engine.open(at: "/gated", environment: .inMemory())))
    let database = try await Database.open(
      backend, path: "/gated", definition: DatabaseDefinition { TaskStorage.handle })
    let fixture = try TaskFixture(database)
    try fixture.handle()
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    backend.gate.shut()
    try Self.register(fixture)
    await fixture.poll { backend.gate.waitingCount == 1 }
    let before = backend.snapshotCount
    async let isRemoved = fixture.scheduler.unschedule("ten")
    await fixture.poll { Self.lastSlot(fixture) == nil }
    // A call that does not wait has the time to read that no schedule is stored.
    for _ in 0..<20_000 where backend.snapshotCount == before { await Task.yield() }
    #expect(backend.snapshotCount == before)
    backend.gate.open()
    let wasRegistered = try await isRemoved
    #expect(wasRegistered)
    // The commit of this task is made after all earlier ones.
    try fixture.enqueue("after")
    await fixture.scheduler.waitUntilIdle()
    #expect(try fixture.read { tx in try tx.taskSchedules() }.isEmpty)
    // The schedule can be registered again.
    try Self.register(fixture)
    // The timer is set after the last slot. No other timer is left.
    await fixture.poll { Self.lastSlot(fixture) ?? 0 > 0 && fixture.scheduler.dispatcher.nextDeadline != nil }
    await fixture.scheduler.advance(fixture.clock, by: .seconds(600))
    #expect(fixture.lines.take() == ["after", "slot"])
    await fixture.scheduler.stop()
    try await database.close()
  }

  @Test func `the end of the slots of a removed schedule does not count for one of the same name`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle()
    try Self.register(fixture)
    try await fixture.scheduler.start()
    let slots = fixture.scheduler.dueSlots(["ten"], WallTime.milliseconds(fixture.clock.wallNow) + 3_600_000).due
    #expect(slots.map(\.slots.count) == [1])
    try await fixture.scheduler.unschedule("ten")
    try Self.register(fixture)
    await fixture.poll { Self.lastSlot(fixture) ?? 0 > 0 }
    let last = Self.lastSlot(fixture)
    fixture.scheduler.endSlots(slots, slots.map { StoredSlot(last: $0.lastSlot) }, left: [])
    #expect(Self.lastSlot(fixture) == last)
    await fixture.scheduler.stop()
  }
}

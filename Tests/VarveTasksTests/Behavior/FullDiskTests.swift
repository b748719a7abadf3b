import Synchronization
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// A storage that says that it is full, and counts those questions, and the commits with rows of tasks.
final class FullBackend: ForwardingBackend, @unchecked Sendable {
  let isFull = Atomic<Bool>(false)
  let lookCount = Atomic<Int>(0)
  let commitCount = Atomic<Int>(0)

  override var acceptsOnlyDeletes: Bool {
    lookCount.add(1, ordering: .sequentiallyConsistent)
    return isFull.load(ordering: .sequentiallyConsistent)
  }

  override func commit(
    _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
  ) throws -> any StorageTicket {
    // The scheduler's own marks have short keys.
    var hasRows = false
    batch.forEach { _, _, key, _ in hasRows = hasRows || key.byteCount > 8 }
    if hasRows { commitCount.add(1, ordering: .sequentiallyConsistent) }
    return try super.commit(batch, check: check, durability: durability)
  }

  func fill(_ isFull: Bool) { self.isFull.store(isFull, ordering: .sequentiallyConsistent) }
}

/// Tests of the scheduler while the disk is full: handlers could write nothing, so no task begins.
struct FullDiskTests {
  @Test func `on a full disk nothing begins or becomes ready, what runs ends, and everything continues with new space`()
    async throws
  {
    let backend = FullBackend(try EngineBackend.inMemory())
    let fixture = try TaskFixture(over: backend, workers: 2)
    let (begun, ends) = (AsyncFlag(), AsyncFlag())
    try fixture.handle { note, _ in
      if note.text == "runs" {
        begun.set()
        await ends.wait()
      }
      return .done
    }
    try fixture.scheduler.schedule("each minute", "* * * * *", payload: { _ in Note("slot") })
    try await fixture.scheduler.start()
    let running = try fixture.enqueue("runs")
    await begun.wait()
    let timed = try fixture.enqueue("timed") { $0.start = .after(.seconds(5)) }
    backend.fill(true)
    let waiting = try fixture.enqueue("waits")
    await fixture.poll { fixture.scheduler.dispatcher.isDiskFull }
    // The end of the attempt is written, and frees its row.
    ends.set()
    await fixture.poll { try fixture.state(running) == nil }
    let count = backend.commitCount.load(ordering: .sequentiallyConsistent)
    for _ in 0..<120 {
      let looks = backend.lookCount.load(ordering: .sequentiallyConsistent)
      await fixture.poll {
        fixture.clock.advance(by: .seconds(1))
        return backend.lookCount.load(ordering: .sequentiallyConsistent) > looks
      }
    }
    #expect(backend.commitCount.load(ordering: .sequentiallyConsistent) == count)
    #expect(try fixture.state(timed) == .scheduled)
    #expect(try fixture.state(waiting) == .ready)
    #expect(fixture.lines.take() == ["runs"])
    backend.fill(false)
    // The first look finds the space, and a slot of the schedule comes within a minute.
    for _ in 0..<60 {
      fixture.clock.advance(by: .seconds(1))
      await fixture.scheduler.waitUntilIdle()
    }
    #expect(Set(fixture.lines.take()) == ["timed", "waits", "slot"])
    await fixture.scheduler.stop()
  }

  @Test func `that an attempt has begun is noted when there is space again`() async throws {
    let backend = FullBackend(try EngineBackend.inMemory())
    let site = try await ClaimAheadTests.Site(over: backend)
    backend.fill(true)
    // Begins without a commit.
    #expect(await site.next() == "hour 1")
    await site.fixture.poll { try site.fixture.state(site.ids[0]) == nil }
    for _ in 0..<5 {
      let looks = backend.lookCount.load(ordering: .sequentiallyConsistent)
      await site.fixture.poll {
        site.fixture.clock.advance(by: .seconds(1))
        return backend.lookCount.load(ordering: .sequentiallyConsistent) > looks
      }
    }
    #expect(try site.fixture.configCount(ConfigKeys.begun) == 0)
    backend.fill(false)
    await site.fixture.poll {
      site.fixture.clock.advance(by: .seconds(1))
      return try site.fixture.configCount(ConfigKeys.begun) == 1
    }
    try await site.close()
  }
}

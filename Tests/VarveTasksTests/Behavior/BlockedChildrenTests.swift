import Testing
import Varve
import VarveEngine
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of what is read when a task fails on which very many others depend, by different rules.
struct BlockedChildrenTests {
  private struct Setup {
    let backend: CountingBackend
    let fixture: TaskFixture
    let parent: TaskID
    /// The last child.
    let last: TaskID
  }

  /// Starts a scheduler for a task that children with the given rules depend on, in this order. The task is parked, and
  /// its handler fails.
  private static func setUp(_ rules: [ParentFailure]) async throws -> Setup {
    let backend = CountingBackend(try EngineBackend(Engine.open(at: "/children", environment: .inMemory())))
    let database = try await Database.open(
      backend, path: "/children", definition: DatabaseDefinition { TaskStorage.handle })
    let fixture = try TaskFixture(database)
    try fixture.handle { _, _ in .discard("no") }
    let (parent, last) = try fixture.write { tx in
      var options = TaskOptions()
      options.start = .parked()
      let parent = try tx.enqueue(Note("parent"), options).id
      var last = parent
      options = TaskOptions(queue: "children")
      options.dependsOn = [parent]
      for rule in rules {
        options.onParentFailure = rule
        last = try tx.enqueue(Note("child"), options).id
      }
      return (parent, last)
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    return Setup(backend: backend, fixture: fixture, parent: parent, last: last)
  }

  private static func blockedCount(_ fixture: TaskFixture) throws -> Int {
    try fixture.read { tx in try tx.taskCount(in: "children", .blocked) }
  }

  /// Returns the number of entries that are read until a task that dies has cancelled children that are after others
  /// which stay blocked.
  private static func deadReads(staying: Int, cancelled: Int) async throws -> Int {
    let setup = try await setUp((0..<staying + cancelled).map { $0 < staying ? .stayBlocked : .cancel })
    let fixture = setup.fixture
    let before = setup.backend.count
    try fixture.write { tx in try tx.retryNow(.id(setup.parent)) }
    await fixture.scheduler.waitUntilIdle()
    let read = setup.backend.count - before
    #expect(try fixture.state(setup.parent) == .dead)
    #expect(try blockedCount(fixture) == staying)
    await fixture.scheduler.stop()
    try await fixture.database.close()
    return read
  }

  @Test
  func `transition 7: children that stay blocked are passed once, in however many commits the others are cancelled`()
    async throws
  {
    let count = 8 * TurnWork.batchMaximum
    let without = try await Self.deadReads(staying: 0, cancelled: count)
    let with = try await Self.deadReads(staying: count, cancelled: count)
    print("entries read by \(count) cancellations: \(without), and \(with) after as many that stay blocked")
    #expect(with - without <= 3 * count)
  }

  /// Returns the number of entries that are read until a task that is cancelled has cancelled children, of which the
  /// last one stays blocked.
  private static func cancelReads(_ count: Int) async throws -> Int {
    let setup = try await setUp((0...count).map { $0 < count ? .cancel : .stayBlocked })
    let fixture = setup.fixture
    let before = setup.backend.count
    let cancelled = try await fixture.scheduler.cancel(.id(setup.parent))
    #expect(cancelled == 1)
    await fixture.scheduler.waitUntilIdle()
    let read = setup.backend.count - before
    // The task is kept until it keeps none blocked.
    #expect(try blockedCount(fixture) == 1)
    #expect(try fixture.state(setup.parent) == .cancelled)
    _ = try await fixture.scheduler.cancel(.id(setup.last))
    await fixture.scheduler.waitUntilIdle()
    #expect(try blockedCount(fixture) == 0)
    #expect(try fixture.state(setup.parent) == nil)
    await fixture.scheduler.stop()
    try await fixture.database.close()
    return read
  }

  @Test
  func
    `transition 7: the cost of each cancelled child does not grow with their number while another one stays blocked`()
    async throws
  {
    let few = try await Self.cancelReads(512)
    let many = try await Self.cancelReads(4_096)
    print("entries read by 512 cancellations: \(few), and \(many) by 4,096")
    #expect(many <= 2 * 8 * few)
  }

  @Test func `a child that is remembered as blocked is not believed when it has left`() async throws {
    let setup = try await Self.setUp([.stayBlocked, .cancel, .stayBlocked])
    let blocked = BlockedChildren()
    let children = try setup.fixture.read { tx in try tx.tasks(.state(.blocked)).map(\.id).sorted() }
    func exists() throws -> Bool {
      try setup.fixture.read { tx in try blocked.exist(of: setup.parent, in: tx.tasks.parts.live) }
    }
    #expect(children.count == 3)
    #expect(try exists())
    try setup.fixture.write { tx in try tx.cancel(.id(children[0])) }
    #expect(try exists())
    try setup.fixture.write { tx in try tx.cancel(.id(children[2])) }
    #expect(try !exists())
    await setup.fixture.scheduler.stop()
    try await setup.fixture.database.close()
  }
}

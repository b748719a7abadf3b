import EngineTestSupport
import Synchronization
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// Tests of the state that an extension's transactions share: it is that of the last acknowledged commit, and
/// contains every delta once.
struct SharedStateTests {
  /// An extension that keeps a sum of all rows, in memory and in a part, and a record of the calls.
  private struct Sum: DatabaseExtension {
    static let kind = "test.sum"
    typealias Delta = Int
    var build = ExtensionConfiguration.Build.background
    var version = "1"
    var isBroken = false
    /// Whether the build throws for every row, and whether each move without deltas throws.
    var failsToBuild = false
    var failsToSkip: @Sendable () -> Bool = { false }
    /// A function that is called while the sum moves.
    var moving: @Sendable (CommitVersion) -> Void = { _ in }

    final class Shared: Sendable {
      let state = Mutex((sum: 0, versions: [CommitVersion](), skipped: 0))
      var sum: Int { state.withLock { $0.sum } }
      var versions: [CommitVersion] { state.withLock { $0.versions } }
    }

    var configuration: ExtensionConfiguration {
      var configuration = ExtensionConfiguration(version: version)
      configuration.needs = .oldRows
      configuration.keepsState = true
      configuration.build = build
      configuration.parts = [PartDefinition("sum", .counters(.sum))]
      return configuration
    }
    func makeShared(_ view: borrowing SharedView) throws -> Shared {
      if isBroken { throw Broken() }
      let shared = Shared()
      let sum = Int(try view.part("sum").counter([1]))
      shared.state.withLock { $0.sum = sum }
      return shared
    }
    func didAcknowledge(_ version: CommitVersion, _ delta: Int?, _ shared: Shared) {
      moving(version)
      shared.state.withLock { state in
        state.sum += delta ?? 0
        state.versions.append(version)
      }
    }
    func didSkip(to view: borrowing SharedView, _ shared: Shared) throws {
      if failsToSkip() { throw Unmoved() }
      let sum = Int(try view.part("sum").counter([1]))
      shared.state.withLock { state in
        state.sum = sum
        state.skipped += 1
      }
    }
    func makeTransaction(_ context: ExtensionContext<Self>) throws -> SumTransaction {
      try SumTransaction(self, context)
    }
  }

  private final class SumTransaction: ExtensionTransaction {
    typealias Definition = Sum
    let context: ExtensionContext<Sum>
    let part: Part
    private var steps: [Int] = []
    private let definition: Sum
    init(_ definition: Sum, _ context: ExtensionContext<Sum>) throws {
      self.definition = definition
      self.context = context
      part = try context.part("sum")
    }
    func didChange(_ change: borrowing RowChange) throws {
      if definition.failsToBuild { throw Stop() }
      let step = try (change.row?.object(as: Int.self) ?? 0) - (change.old?.object(as: Int.self) ?? 0)
      try part.add(Int64(step), to: [1])
      steps.append(step)
    }
    func mark() -> Int { steps.count }
    func rollBack(to mark: Int) { steps.removeSubrange(mark...) }
    func takeDelta(_ version: CommitVersion) -> Int? { steps.reduce(0, +) }
  }

  private struct Broken: Error {}
  private struct Unmoved: Error {}
  private struct Stop: Error {}

  /// Returns the sums in memory and in the part, read in one transaction.
  private static func sums(_ database: Database, _ handle: ExtensionHandle<Sum>) throws -> (shared: Int, part: Int) {
    try database.look { tx in
      let sum = try tx[handle]
      return (sum.context.shared.sum, Int(try sum.part.counter([1])))
    }
  }

  @Test
  func `the shared state starts with the contents of the parts, and receives each commit once, in order`() throws {
    let database = try Database.inMemory()
    try database.change { tx in for key in 1...2_500 { try tx.set(key, key: key, in: "c") } }
    let handle = try database.registerReady(Sum(), as: "sum")
    let before = 2_500 * 2_501 / 2
    #expect(try Self.sums(database, handle) == (before, before), "the deltas of the build came one by one")
    try database.change { tx in
      try tx.set(10, key: 1, in: "c")
      try? tx.savepoint {
        try tx.set(1_000_000, key: 2, in: "c")
        throw Stop()
      }
      try tx.remove(key: 3, in: "c")
    }
    #expect(try Self.sums(database, handle) == (before + 9 - 3, before + 9 - 3))
    #expect(throws: Stop.self) {
      try database.change { tx in
        try tx.set(5, key: 9_999, in: "c")
        throw Stop()
      }
    }
    // A transaction that does not use the extension counts as well: the version advances.
    try database.change { tx in try tx.setCustomObject(1) }
    let (shared, version, now) = try database.look { tx in
      let context = try tx[handle].context
      return (context.shared, context.sharedVersion, tx.version)
    }
    #expect(shared.sum == before + 6 && version == now)
    #expect(shared.versions == shared.versions.sorted() && Set(shared.versions).count == shared.versions.count)
  }

  @Test func `a reader sees a commit only after the shared state has received it`() throws {
    let seen = Lines()
    let core = Mutex<DatabaseCore?>(nil)
    var sum = Sum(build: .none)
    sum.moving = { version in
      let published = try? core.withLock { $0 }?.publication.snapshot().version
      seen.add("\(published.map { $0 < version } ?? false)")
    }
    let database = try Database.inMemory()
    try database.registerReady(sum, as: "sum")
    core.withLock { $0 = database.core }
    for key in 0..<3 { try database.change { tx in try tx.set(1, key: key, in: "c") } }
    #expect(seen.take() == ["true", "true", "true"])
    core.withLock { $0 = nil }
  }

  @Test(arguments: [false, true])
  func `a commit that can't be made durable, or may have been lost, is not received`(isLost: Bool) throws {
    let backend = ToyBackend()
    let database = try Database.open(backend, path: "toy")
    let handle = try database.registerReady(Sum(), as: "sum")
    try database.change { tx in try tx.set(1, key: 1, in: "c") }
    backend.inject(isLost ? .unknown(isApplied: true) : .failing(isDurable: true))
    let code = errorCode { try database.change { tx in try tx.set(5, key: 2, in: "c") } }
    #expect(code == .outcomeUnknown)
    #expect(try Self.sums(database, handle) == (1, 1))
  }

  @Test func `many writers leave the same state as a rebuild`() throws {
    let database = try Database.inMemory()
    let handle = try database.registerReady(Sum(), as: "sum")
    let rounds = TestScale.atMost(60)
    Threads.run(4) { thread in
      for round in 0..<rounds {
        let durability: StorageDurability = round % 5 == 0 ? .power : .process
        try database.core.write(WriteTerms(durability: durability)) { tx in
          try tx.set(round, key: thread * 10 + round % 10, in: "c")
          if round % 7 == 0 { try tx.remove(key: thread * 10 + (round + 3) % 10, in: "c") }
        }
      }
    }
    let expected = try database.look { tx in
      try tx.keys(Int.self, in: "c").reduce(0) { $0 + (try tx.object(Int.self, key: $1, in: "c") ?? 0) }
    }
    #expect(expected > 0)
    #expect(try Self.sums(database, handle) == (expected, expected))
  }

  /// A skip already includes what the acknowledged commit adds: the two must not overlap.
  @Test func `a skip to a later commit waits for one that is being received`() throws {
    let (isInside, isOpen) = (Flag(), Flag())
    var sum = Sum(build: .none)
    sum.moving = { _ in
      isInside.set()
      while !isOpen.isSet { sched_yield() }
    }
    let database = try Database.inMemory()
    let handle = try database.registerReady(sum, as: "sum")
    let core = database.core
    let registered = try #require(core.extensions.list["sum"])
    let isSkipped = Flag()
    let writer = Threads.start(1) { _ in
      try core.write(WriteTerms()) { tx in try tx.set(7, key: 1, in: "c") }
    }
    while !isInside.isSet { sched_yield() }
    let skipper = Threads.start(1) { _ in
      try registered.share(core)
      isSkipped.set()
    }
    // The loop takes enough time for a skip that does not wait.
    for _ in 0..<200_000 where !isSkipped.isSet { sched_yield() }
    #expect(!isSkipped.isSet)
    isOpen.set()
    writer.join()
    skipper.join()
    #expect(try Self.sums(database, handle) == (7, 7))
  }

  private final class Flag: Sendable {
    private let value = Mutex(false)
    var isSet: Bool { value.withLock { $0 } }
    func set(_ isSet: Bool = true) { value.withLock { $0 = isSet } }
  }

  @Test func `a registration whose shared state can't be created fails, and a later one succeeds`() throws {
    let database = try Database.inMemory()
    try database.change { tx in try tx.set(4, key: 1, in: "c") }
    #expect(throws: Broken.self) { try database.registerReady(Sum(isBroken: true), as: "sum") }
    #expect(database.registeredExtensions == [])
    try database.change { tx in try tx.set(3, key: 2, in: "c") }
    let handle = try database.registerReady(Sum(), as: "sum")
    #expect(try Self.sums(database, handle) == (7, 7))
  }

  @Test func `an error of didSkip after a failed build is part of the error of ready`() throws {
    let database = try Database.inMemory()
    try database.change { tx in try tx.set(4, key: 1, in: "c") }
    let fails = Flag()
    fails.set()
    let broken = Sum(failsToBuild: true, failsToSkip: { fails.isSet })
    let error = try #require(throws: DatabaseError.self) { try database.registerReady(broken, as: "sum") }
    #expect(error.code == .extensionFailed && error.cause is Stop)
    #expect(error.message.contains("Stop()") && error.message.contains("Unmoved()"))
    // Without another error, the error of the build is thrown unchanged.
    let other = Sum(failsToBuild: true)
    #expect(throws: Stop.self) { try database.registerReady(other, as: "other") }
  }

  @Test func `an error of didSkip during a retried build ends that build`() throws {
    let database = try Database.inMemory()
    try database.change { tx in try tx.set(4, key: 1, in: "c") }
    let fails = Flag()
    let handle = Sum().named("sum")
    #expect(throws: Stop.self) {
      try database.registerReady(
        Sum(failsToBuild: true, failsToSkip: { fails.isSet }), as: "sum")
    }
    fails.set()
    try database.retry(handle)
    let error = try #require(throws: DatabaseError.self) { try database.waitReady(handle) }
    #expect(error.code == .extensionFailed && error.cause is Unmoved)
    fails.set(false)
    try database.retry(handle)
    #expect(throws: Stop.self) { try database.waitReady(handle) }
  }

  @Test func `after another version was built the shared state is that of the new parts`() throws {
    let site = try StorageSite(.memory)
    for version in ["1", "2", "2"] {
      let database = try Database.open(try site.open(), path: "sum")
      let handle = try database.registerReady(Sum(version: version), as: "sum")
      try database.change { tx in try tx.set(2, key: version == "1" ? 1 : 2, in: "c") }
      let expected = version == "1" ? 2 : 4
      #expect(try Self.sums(database, handle) == (expected, expected))
      try database.endNow()
    }
  }

  @Test(arguments: StorageKind.allCases)
  func `where another program writes, the state skips to the commit that is read`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    let writer = try Database.open(try site.open(), path: "writer")
    let handle = try writer.registerReady(Sum(), as: "sum")
    try writer.change { tx in try tx.set(1, key: 1, in: "c") }
    var options = DatabaseOptions()
    options.follows = true
    let follower = try Database.open(try site.follow(), path: "follower", options: options)
    _ = try follower.registerReady(Sum(), as: "sum")
    #expect(try Self.sums(follower, handle) == (1, 1))
    try writer.change { tx in try tx.set(5, key: 2, in: "c") }
    #expect(try Self.sums(follower, handle) == (6, 6))
    try follower.endNow()
    try writer.endNow()
    withExtendedLifetime(site) {}
  }

  @Test(arguments: [true, false])
  func `the shared state moves with the switch to another definition, and has every delta after it`(
    isSmall: Bool
  ) throws {
    let database = try Database.inMemory()
    database.core.extensions.rowsInTransaction.store(isSmall ? 10_000 : 10, ordering: .relaxed)
    try database.write { tx in for key in 0..<2_500 { try tx.set(key, key: key, in: "c") } }
    let handle = try database.registerReady(Sum(), as: "sum")
    var next = Sum()
    next.version = "2"
    let shared = try database.read { tx in try tx[handle].context.shared }
    try database.write { [next] tx in
      try tx.replaceDefinition(of: handle, by: next) { progress in
        // Changes an existing row: a row after the last one would be another row to build, endlessly.
        try? database.write { tx in try tx.set(-progress.rowsDone, key: progress.rowsDone % 2_500, in: "c") }
      }
      try tx.set(7, key: 3, in: "c")
    }
    try database.waitReady(handle)
    #expect(shared.state.withLock { $0.skipped } == 1)
    for key in 0..<5 {
      try database.write { tx in try tx.set(key * 1_000, key: key, in: "c") }
      let sums = try Self.sums(database, handle)
      #expect(sums.shared == sums.part)
    }
    #expect(try database.read { tx in try tx[handle].context.shared } === shared)
    let versions = shared.versions
    #expect(versions == versions.sorted() && Set(versions).count == versions.count)
    try database.close()
  }
}

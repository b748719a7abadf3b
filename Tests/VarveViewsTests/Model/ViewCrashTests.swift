import EngineTestSupport
import Synchronization
import Testing
import VarveEngine
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve
@testable import VarveViews

/// Tests of a power loss, or a killed process, at any disk operation of a run that builds views, changes their rows,
/// and replaces the definition of one.
///
/// After reopening, a view has what its definition says of the rows, or is built until it has, and a manual view has
/// the order of one commit.
///
///     VARVE_TEST_SCALE=5 ./tools/test --filter ViewCrashTests
struct ViewCrashTests {
  private static let rowCount = 240
  private static let pointLimit = TestScale.count(12)

  private static func view(_ version: String, isVolatile: Bool = false) -> AutoView<String> {
    AutoView(version: version, of: ["rows"], isVolatile: isVolatile) { row in
      let book = try row.object(as: Book.self)
      return version == "1"
        ? book.author.map { ViewPlace($0, Descending(book.year), book.title) }
        : ViewPlace("\(book.year % 5)", book.price)
    }
  }
  private static let lists = ManualView<Int>(of: ["rows"]).named("lists")

  private static func open(_ fileSystem: any FileSystem, _ seed: UInt64) throws -> Database {
    let executor = SteppedExecutor(seed: seed)
    let numbers = Mutex(SeededRandom(seed: seed))
    let environment = EngineEnvironment(
      fileSystem: fileSystem, clock: executor.clock, random: { numbers.withLock { $0.next() } },
      makeExecutor: { _ in executor })
    let engine = try Engine.open(at: "/db", options: StorageSite.options, environment: environment)
    var options = DatabaseOptions()
    options.clock = WallClock { 1_700_000_000 }
    let database = try Database.open(try EngineBackend(engine), path: "/db", options: options)
    database.core.extensions.rowsForIngestion.store(seed % 2 == 1 ? 100 : 1_000_000, ordering: .relaxed)
    database.core.extensions.spillSize.store(16 << 10, ordering: .relaxed)
    database.core.extensions.rowsInTransaction.store(10, ordering: .relaxed)
    return database
  }

  /// The manual view's groups after each commit that may have changed them.
  private final class States: Sendable {
    private let states = Mutex<[[Int: [Int]]]>([[:]])
    func add(_ state: [Int: [Int]]) { states.withLock { $0.append(state) } }
    func contains(_ state: [Int: [Int]]) -> Bool { states.withLock { $0.contains(state) } }
  }

  private static func groups(_ tx: ReadTransaction) throws -> [Int: [Int]] {
    let view = try tx[lists]
    return try view.groups().reduce(into: [:]) { groups, entry in
      groups[entry.group] = try view.rows(in: entry.group, at: 0..<entry.count).map { try $0.key(as: Int.self) }
    }
  }

  private static func run(_ disk: CrashFileSystem, _ states: States) throws {
    let database = try open(disk, 1)
    try database.change(durability: .power) { tx in
      for key in 0..<rowCount { try tx.set(Book("\(key % 7)", key, "\(key)"), key: key, in: "rows") }
    }
    let first = try database.registerReady(view("1"), as: "first")
    let list = try database.registerReady(lists.definition, as: "lists")
    let second = try database.core.register(view("1"), "second", nil)
    var random = SeededRandom(seed: 5)
    for step in 0..<30 {
      let durability: StorageDurability = step % 3 == 0 ? .power : .process
      let state = try database.change(durability: durability) { tx in
        for _ in 0..<4 {
          let key = random.below(rowCount)
          if random.oneIn(4) {
            try tx.remove(key: key, in: "rows")
          } else {
            try tx.set(Book(random.oneIn(5) ? nil : "\(key % 5)", step, "\(key)"), key: key, in: "rows")
          }
          let row = try RowKey(random.below(rowCount), in: "rows")
          let manual = try tx[list]
          if try !manual.append(row, to: random.below(2)) { try manual.move(row, to: 0, in: 1) }
          // Rows that are inserted at one place again and again are numbered again.
          try manual.insert(
            (0..<3).map { _ in try RowKey(random.below(rowCount), in: "rows") }, before: manual.last(in: 0), in: 0)
        }
        return try groups(tx)
      }
      states.add(state)
      if step == 10 { try database.waitReady(second) }
      if step == 12 { try database.change { tx in try tx.replaceDefinition(of: first, by: view("2")) } }
      if step == 20 { try database.waitReady(first) }
    }
    try database.close()
  }

  private static func check(_ database: Database, _ states: States) throws {
    let first = try database.core.register(view("2"), "first", replacing: view("1"), nil)
    try database.waitReady(first)
    let second = try database.registerReady(view("1"), as: "second")
    let volatile = try database.registerReady(view("2", isVolatile: true), as: "volatile")
    try database.registerReady(lists.definition, as: "lists")
    try database.look { tx in
      for handle in [first, second, volatile] {
        let differences = try tx[handle].verify(limit: 3)
        guard differences.isEmpty else { throw ViewMismatch("\(handle.name): \(differences)") }
      }
      guard try tx[first].versionTag == "2", try tx[second].versionTag == "1" else {
        throw ViewMismatch("versions \(try tx[first].versionTag) and \(try tx[second].versionTag) are in force")
      }
      let differences = try tx[lists].verify(limit: 3)
      guard differences.isEmpty else { throw ViewMismatch("lists: \(differences)") }
      let groups = try groups(tx)
      guard states.contains(groups) else { throw ViewMismatch("the lists are those of no commit: \(groups)") }
    }
  }

  @Test(arguments: CrashPolicy.allCases)
  func `views that a crash has interrupted have what the rows and their definitions say`(policy: CrashPolicy) throws {
    let counting = CrashFileSystem(seed: 3)
    let operations = Mutex(0)
    counting.observe { _, _ in operations.withLock { $0 += 1 } }
    try Self.run(counting, States())
    counting.observe(nil)
    let stride = max(1, operations.withLock { $0 } / Self.pointLimit)

    let disk = CrashFileSystem(seed: 3)
    let points = Mutex<[CrashPoint]>([])
    let states = States()
    disk.observe { operation, capture in
      if operation.number % stride == 0 { points.withLock { $0.append(capture()) } }
    }
    try Self.run(disk, states)
    disk.observe(nil)
    var found: [String: Int] = [:]
    for (index, point) in points.withLock({ $0 }).enumerated() {
      let seed = UInt64(index + 2)
      do {
        let image = point.image(seed: seed, policy: policy)
        let database = try Self.open(image, seed)
        let record = database.core.extensionCatalog.record("first")
        let state =
          switch record?.state {
          case .building?: "building"
          case .ingesting?: "ingesting"
          case .stale?: "stale"
          case .ready?: record?.shadow == nil ? "ready" : "beside a shadow"
          default: "none"
          }
        found[state, default: 0] += 1
        try Self.check(database, states)
        try database.change { tx in
          try tx.set(Book("new", 1, "new"), key: 9_999, in: "rows")
          for handle in ["first", "second"] { _ = try tx[Self.view("1").named(handle)].count() }
          guard try tx[Self.view("1").named("second")].count(in: "new") == 1 else { throw ViewMismatch("not entered") }
        }
        try database.close()
      } catch {
        Issue.record(error, "image \(index), \(point.operation.map { "\($0)" } ?? ""), \(policy), seed \(seed)")
        return
      }
    }
    print("view crashes, \(policy.rawValue): \(points.withLock { $0.count }) images, found \(found)")
    #expect(found["ready", default: 0] > 0 || !TestScale.isWhole, "\(found)")
  }
}

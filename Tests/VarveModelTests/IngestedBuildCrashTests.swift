import EngineTestSupport
import Synchronization
import Testing
import VarveEngine
import VarveTestSupport

@testable import Varve

/// An extension that stores the number of each row of "in" by its key, the key by the number, and the count of rows.
private struct Numbers: DatabaseExtension {
  static let kind = "model.numbers"
  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.scope = .only(["in"])
    configuration.catchesUp = true
    configuration.parts = [
      PartDefinition("numbers"), PartDefinition("keys", .writeOnce), PartDefinition("counts", .counters(.sum)),
    ]
    var ranked = PartDefinition("ranked")
    ranked.isCounted = true
    configuration.parts.append(ranked)
    return configuration
  }
  func makeTransaction(_ context: ExtensionContext<Self>) throws -> NumbersTransaction {
    try NumbersTransaction(context)
  }
}

private final class NumbersTransaction: ExtensionTransaction {
  typealias Definition = Numbers
  private let numbers: Part
  private let keys: Part
  private let counts: Part
  private let ranked: Part

  init(_ context: ExtensionContext<Numbers>) throws {
    numbers = try context.part("numbers")
    keys = try context.part("keys")
    counts = try context.part("counts")
    ranked = try context.part("ranked")
  }

  func didChange(_ change: borrowing RowChange) throws {
    let key = change.key.bytes
    if change.event != .inserted { try forget(key) }
    if let row = try change.row { try keep(key, try row.object(as: Int.self)) }
  }

  func didMiss(_ key: RowKey, _ row: Row?) throws {
    try forget(key.bytes)
    if let row { try keep(key.bytes, try row.object(as: Int.self)) }
  }

  private func keep(_ key: [UInt8], _ number: Int) throws {
    let value = try number.encoded()
    try numbers.put(key, value)
    try keys.put(value + key, [])
    try ranked.insert(value + key, [])
    try counts.add(1, to: [0])
  }

  private func forget(_ key: [UInt8]) throws {
    guard let value = try numbers.get(key) else { return }
    try numbers.delete(key)
    try keys.delete(value + key)
    try ranked.remove(value + key)
    try counts.add(-1, to: [0])
  }

  /// Throws unless the counted part has the same keys as the other one, and counts them.
  func requireRanks(_ keys: Set<[UInt8]>) throws {
    var cursor = try ranked.cursor(keysOnly: true)
    var found: [[UInt8]] = []
    try cursor.forEach { key, _ in found.append(key) }
    guard Set(found) == keys, try ranked.count() == keys.count else { throw ContractBroken("the ranks differ") }
    for (offset, key) in found.enumerated() where offset % 16 == 0 {
      guard try ranked.offset(of: key) == offset else { throw ContractBroken("rank \(offset) is counted elsewhere") }
    }
  }

  func content() throws -> (numbers: [[UInt8]: [UInt8]], keys: Set<[UInt8]>, count: Int64) {
    var content: (numbers: [[UInt8]: [UInt8]], keys: Set<[UInt8]>) = ([:], [])
    var cursor = try numbers.cursor()
    try cursor.forEach { content.numbers[$0] = $1 }
    cursor = try keys.cursor()
    try cursor.forEach { key, _ in content.keys.insert(key) }
    return (content.numbers, content.keys, try counts.counter([0]))
  }
}

/// Tests of a power loss at any disk operation while an extension is built by tables, during writes.
///
/// After reopening, the build continues, and the content is that of all rows.
///
///     VARVE_TEST_SCALE=5 ./tools/test --filter IngestedBuildCrashTests
struct IngestedBuildCrashTests {
  private static let rowCount = 600
  private static let pointLimit = TestScale.count(40)

  private static func open(_ fileSystem: any FileSystem, _ seed: UInt64) throws -> Database {
    let database = try ObjectCrashScript.open(fileSystem, SteppedExecutor(seed: seed), seed: seed).0
    database.core.extensions.rowsForIngestion.store(100, ordering: .relaxed)
    database.core.extensions.spillSize.store(16 << 10, ordering: .relaxed)
    return database
  }

  private static func register(_ database: Database) throws -> ExtensionHandle<Numbers> {
    let handle = try database.core.register(Numbers(), "numbers", nil)
    try database.waitUntilReady(handle)
    return handle
  }

  /// Fills the rows of `in` before the extension is registered, and adds some after each chunk.
  private static func run(_ disk: CrashFileSystem) throws {
    let database = try open(disk, 1)
    try database.core.write(WriteTerms(durability: .power)) { tx in
      for key in 0..<rowCount { try tx.set(key, key: key, in: "in") }
    }
    let steps = Mutex(0)
    let handle = try database.core.register(Numbers(), "numbers") { _ in
      let step = steps.withLock { steps in
        steps += 1
        return steps
      }
      if step > 12 { return }
      do {
        try database.core.write(WriteTerms(durability: step % 3 == 0 ? .power : .process)) { tx in
          let key = step * 47
          try tx.set(-key, key: key, in: "in")
          _ = try tx.remove(key: rowCount - 1 - key, in: "in")
          try tx.set(step, key: rowCount + step, in: "in")
        }
      } catch { Issue.record(error) }
    }
    try database.waitUntilReady(handle)
    try database.close()
  }

  /// Checks that the content follows from the rows, and returns the number of rows.
  private static func check(_ database: Database, _ handle: ExtensionHandle<Numbers>) throws -> Int {
    try database.core.read { tx in
      var expected: [[UInt8]: [UInt8]] = [:]
      var rows = try tx.rows(in: "in")
      while let row = try rows.next() { expected[row.key.bytes] = try row.object(as: Int.self).encoded() }
      let content = try tx[handle].content()
      guard content.numbers == expected else { throw ContractBroken("the numbers differ") }
      guard content.keys == Set(expected.map { $1 + $0 }) else { throw ContractBroken("the keys differ") }
      try tx[handle].requireRanks(content.keys)
      guard content.count == Int64(expected.count) else { throw ContractBroken("the count is \(content.count)") }
      let runs = try database.core.backend.families().map(\.name).filter { $0.hasPrefix("spill.") }
      guard runs.isEmpty else { throw ContractBroken("runs are left: \(runs)") }
      return expected.count
    }
  }

  /// Returns the state of the build on disk.
  private static func state(_ database: Database) throws -> String {
    guard let record = database.core.extensionCatalog.record("numbers") else { return "none" }
    let snapshot = try database.core.backend.snapshot()
    let hasTables = try database.core.backend.families().contains { family in
      guard family.name.hasPrefix("x.") else { return false }
      return try snapshot.page(
        StorageRange(), in: family, isReverse: false, keysOnly: true, byteLimit: 1, rowLimit: 1
      ).count > 0
    }
    switch record.state {
    case .building, .ingesting:
      let name = record.state.isIngesting ? "ingesting" : "building"
      return hasTables ? "\(name), with tables" : name
    case .stale: return "stale"
    case .ready: return "ready"
    case .failed: return "failed"
    }
  }

  @Test(arguments: CrashPolicy.allCases)
  func `a build by tables interrupted by a crash continues, and ends complete`(policy: CrashPolicy) throws {
    let counting = CrashFileSystem(seed: 3)
    let operations = Mutex(0)
    counting.observe { _, _ in operations.withLock { $0 += 1 } }
    try Self.run(counting)
    counting.observe(nil)
    let stride = max(1, operations.withLock { $0 } / Self.pointLimit)

    let disk = CrashFileSystem(seed: 3)
    let points = Mutex<[CrashPoint]>([])
    disk.observe { operation, capture in
      if operation.number % stride == 0 { points.withLock { $0.append(capture()) } }
    }
    try Self.run(disk)
    disk.observe(nil)
    var states: [String: Int] = [:]
    for (index, point) in points.withLock({ $0 }).enumerated() {
      // The run has seed 1: random numbers that it has used would make its log look like that of this opening.
      let seed = UInt64(index + 2)
      do {
        let image = point.image(seed: seed, policy: policy)
        let database = try Self.open(image, seed)
        states[try Self.state(database), default: 0] += 1
        let handle = try Self.register(database)
        _ = try Self.check(database, handle)
        try database.core.write(WriteTerms()) { tx in
          try tx.set(7, key: 77_777, in: "in")
          try tx.set(8, key: 47, in: "in")
        }
        let count = try Self.check(database, handle)
        try database.close()
        // After a second opening, no work is left.
        let again = try Self.open(image, seed &+ 1_000)
        guard try Self.check(again, try Self.register(again)) == count else { throw ContractBroken("rows are gone") }
        try again.close()
      } catch {
        Issue.record(error, "image \(index), \(point.operation.map { "\($0)" } ?? ""), \(policy), seed \(seed)")
        return
      }
    }
    print("ingested build crashes, \(policy.rawValue): \(points.withLock { $0.count }) images, found \(states)")
    for state in ["ingesting", "ingesting, with tables", "ready"] {
      #expect(states[state, default: 0] > 0 || !TestScale.isWhole, "\(state): \(states)")
    }
  }
}

import EngineTestSupport
import Testing

@testable import VarveEngine

/// Tests of the memory budget of an engine at work.
struct MemoryUseTests {
  private static func open(
    _ change: (inout EngineOptions) -> Void = { _ in }, _ environment: EngineEnvironment = .inMemory()
  ) throws -> Engine {
    var options = EngineOptions()
    options.memoryBudget = 4 << 20
    options.openTableCount = 16
    change(&options)
    return try Engine.open(at: "/db", options: options, environment: environment)
  }

  private static func key(_ number: Int) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - $0 * 8)) }
  }

  private static func value(_ random: inout SeededRandom) -> [UInt8] {
    var bytes = ByteWriter(capacity: 200)
    for _ in 0..<25 { bytes.append(integer: random.next()) }
    return bytes.bytes
  }

  private func expectNothing(_ budget: MemoryBudget, _ categories: [MemoryBudget.Category]) {
    for category in categories { #expect(budget.used(category) == 0, "\(category.name)") }
    #expect(budget.cache.usedBytes == 0)
  }

  @Test(arguments: [1, 2, 3])
  func `the memory in use stays within the budget, and all of it is released`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let budget: MemoryBudget
    do {
      let directory = try TemporaryDirectory()
      var options = EngineOptions()
      options.memoryBudget = 8 << 20
      options.openTableCount = 16
      let engine = try Engine.open(at: directory.path + "/db", options: options)
      budget = engine.core.tree.budget
      let families = try (0..<5).map { try engine.createFamily("family \($0)") }
      var highest = 0
      for number in 0..<60_000 {
        let family = families[random.below(families.count)]
        try engine.put(Self.key(random.below(20_000)), Self.value(&random), in: family)
        if random.oneIn(4) { _ = try engine.get(Self.key(random.below(20_000)), in: family) }
        if number % 64 == 0 { highest = max(highest, budget.used) }
      }
      #expect(highest > 2 << 20, "seed \(seed)")
      // Writers wait once too much is frozen: by then, one more memtable is frozen, and the next one fills.
      let bound = budget.limit + 2 * engine.core.background.plan.memtableSize
      #expect(highest <= bound, "seed \(seed): \(highest) bytes of \(budget.limit)")
      let memory = engine.statistics.memory
      #expect(memory.limit == 8 << 20 && memory.memTables > 0 && memory.other > 0 && memory.openTables > 0)
      #expect(engine.explain().contains("memory budget"))
      try engine.close()
      expectNothing(budget, [.memTables, .openTables, .compaction])
    }
    expectNothing(budget, MemoryBudget.Category.allCases)
  }

  @Test func `the largest memtable is flushed first, and a cold family keeps its entries in memory`() throws {
    let engine = try Self.open()
    let cold = try engine.createFamily("cold")
    let warm = try engine.createFamily("warm")
    try engine.put([1], [1], in: cold)
    var random = SeededRandom(seed: 5)
    // The families are filled one after the other, so that two memtables are large at the same time.
    for number in 0..<3_600 {
      try engine.put(Self.key(number), Self.value(&random), in: number < 1_200 ? warm : engine.defaultFamily)
    }
    try engine.waitForCompaction()
    #expect(engine.statistics.families.filter { $0.levels.contains { $0.fileCount > 0 } }.count == 1)
    #expect(cold.state.active(.beforeOpen).entryCount == 1)
    let plan = engine.core.background.plan
    #expect(engine.core.tree.budget.used(.memTables) <= plan.activeBytesMaximum + plan.idlePoolBytes)
    try engine.close()
  }

  @Test func `a batch over many families that is larger than the memory budget is committed`() throws {
    let environment = EngineEnvironment.inMemory()
    var engine = try Self.open({ $0.memoryBudget = 1 << 20 }, environment)
    let families = try (0..<40).map { try engine.createFamily("family \($0)") }
    for round in 0..<6 {
      var batch = WriteBatch()
      for (number, family) in families.enumerated() {
        try batch.put([UInt8(number)], [UInt8](repeating: UInt8(round), count: 10_000), in: family)
      }
      try engine.write(batch, durability: round == 3 ? Durability.none : .process)
    }
    for (number, family) in families.enumerated() {
      #expect(try engine.get([UInt8(number)], in: family)?.first == 5)
    }
    try engine.close()
    engine = try Self.open({ $0.memoryBudget = 1 << 20 }, environment)
    for (number, family) in engine.families.dropFirst().enumerated() {
      #expect(try engine.get([UInt8(number)], in: family)?.first == 5)
    }
    try engine.close()
  }

  @Test func `a thousand families with a record each take a page each`() throws {
    let engine = try Self.open { $0.memoryBudget = 64 << 20 }
    for number in 0..<1_000 { _ = try engine.createFamily("family \(number)") }
    let idle = engine.core.tree.budget.used(.other)
    #expect(idle >= 1_000 * 1_024 && idle <= 1_000 * 2_048)
    #expect(engine.core.tree.budget.used(.memTables) == 0)
    for family in engine.families { try engine.put([1], [2], in: family) }
    #expect(engine.core.tree.budget.used(.memTables) == 1_001 * 4_096)
    for family in engine.families { #expect(try engine.get([1], in: family) == [2]) }
    try engine.flush()
    #expect(engine.families.allSatisfy { $0.state.active(.beforeOpen) === engine.core.pipeline.memory.empty })
    for family in engine.families { #expect(try engine.get([1], in: family) == [2]) }
    let budget = engine.core.tree.budget
    try engine.close()
    expectNothing(budget, [.memTables, .openTables, .compaction])
  }

  @Test(arguments: [true, false])
  func `a thousand families that were loaded and opened again count at most eight KiB each, also after a read`(
    isFlushed: Bool
  ) throws {
    let environment = EngineEnvironment.inMemory()
    let count = 1_000
    func change(_ options: inout EngineOptions) {
      options.memoryBudget = 64 << 20
      options.openTableCount = 2 * count
    }
    var engine = try Self.open(change, environment)
    let (empty, bare) = (engine.core.tree.budget.used, engine.core.tree.budget.used(.other))
    _ = try engine.createFamilies((0..<count).map { "family \($0)" })
    let named = engine.core.tree.budget.used(.other)
    for row in 0..<8 {
      for family in engine.families { try engine.put(Self.key(row), [UInt8](repeating: 1, count: 100), in: family) }
    }
    if isFlushed { try engine.flush() }
    try engine.close()
    engine = try Self.open(change, environment)
    let budget = engine.core.tree.budget
    // A Version with a table is at least 512 bytes, and its table's metadata 400.
    #expect(!isFlushed || budget.used(.other) - named >= count * 912, "\(budget.used(.other)), \(named)")
    #expect((budget.used - empty) / count <= 6 << 10, "\(budget.overview)")
    for family in engine.families { #expect(try engine.get(Self.key(7), in: family)?.count == 100) }
    #expect((budget.used - empty) / count <= 8 << 10, "\(budget.overview)")
    #expect(budget.used(.openTables) == (isFlushed ? (count + 1) * TableReader.memorySize : 0))
    for family in engine.families where family.id != .default { try engine.dropFamily(family) }
    engine.core.background.epochs.poll()
    #expect(budget.used(.other) <= bare + 2_048, "\(budget.overview)")
    try engine.close()
    expectNothing(budget, [.memTables, .openTables, .compaction])
  }

  @Test func `the budget changes while the engine is open`() throws {
    let engine = try Self.open { $0.memoryBudget = 64 << 20 }
    var random = SeededRandom(seed: 9)
    for number in 0..<20_000 { try engine.put(Self.key(number), Self.value(&random)) }
    try engine.flush()
    for number in 0..<20_000 { _ = try engine.get(Self.key(number)) }
    #expect(engine.core.tree.cache.usedBytes > 4 << 20)
    try engine.setMemoryBudget(16 << 20)
    #expect(engine.memoryBudget == 16 << 20)
    #expect(engine.core.tree.budget.used <= 16 << 20)
    for number in 0..<20_000 { try engine.put(Self.key(number), Self.value(&random)) }
    #expect(engine.core.tree.budget.used <= 16 << 20)
    #expect(engine.core.pipeline.memory.frozenSize <= engine.core.background.plan.frozenBytesMaximum)
    let error = #expect(throws: EngineError.self) { try engine.setMemoryBudget(1_000) }
    #expect(error?.code == .invalidArgument && engine.memoryBudget == 16 << 20)
    for number in 0..<20_000 { #expect(try engine.get(Self.key(number))?.count == 200) }
    try engine.close()
  }
}

import EngineTestSupport
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// What a transaction has pending, against dictionaries: what it says of a key, what a walk shows, what going back
/// to a savepoint leaves, and what the batch of the commit does to a storage.
///
///     VARVE_TEST_SCALE=50 ./tools/test --filter PendingWritesTests
struct PendingWritesTests {
  private static let values = StorageFamily(name: "values", number: 1)
  private static let counters = StorageFamily(name: "counters", number: 2)
  private static let seeds = 1...UInt64(TestScale.count(60))
  private static let stepCount = 150

  @Test func `pending writes say, walk, undo and commit what dictionaries do`() throws {
    let clock = ContinuousClock()
    let start = clock.now
    var kinds: [String: Int] = [:]
    for seed in Self.seeds {
      var run = PendingRun(seed: seed)
      do {
        for step in 0..<Self.stepCount { try run.step(step) }
        try run.finish()
      } catch {
        Issue.record(error, "seed \(seed), the last steps: \(run.trace.suffix(12))")
        return
      }
      kinds.merge(run.kinds, uniquingKeysWith: +)
    }
    let total = kinds.values.reduce(0, +)
    let seconds = start.duration(to: clock.now) / .seconds(1)
    print("pending writes: seeds \(Self.seeds), \(total) steps, \(Int(Double(total) / seconds)) a second")
    guard TestScale.isWhole else { return }
    for (kind, count) in kinds { #expect(count * 100 >= total, "\(kind): \(count) of \(total)") }
    #expect(kinds.count == 10)
  }

  // MARK: - By hand

  @Test func `a key that was put, undone and put again is walked once`() {
    var pending = PendingWrites()
    let savepoint = pending.setSavepoint()
    pending.put([1], [1], in: Self.values)
    pending.rollBack(to: savepoint)
    pending.put([1], [2], in: Self.values)
    #expect(pending.view(of: StorageRange(), in: Self.values).entries.map(\.key) == [[1]])
  }

  @Test func `what is undone leaves no trace, also of its size`() {
    var pending = PendingWrites()
    #expect(pending.isEmpty && pending.byteCount == 0)
    let outer = pending.setSavepoint()
    pending.put([1], [1, 2, 3], in: Self.values)
    let size = pending.byteCount
    let inner = pending.setSavepoint()
    pending.put([1], Array(repeating: 0, count: 99), in: Self.values)
    pending.deleteRange(StorageRange(), in: Self.values)
    pending.add(1, to: [2], in: Self.counters)
    pending.rollBack(to: inner)
    #expect(pending.byteCount == size)
    #expect(pending.view(of: StorageRange(), in: Self.values).cleared.isEmpty)
    pending.rollBack(to: outer)
    #expect(pending.isEmpty && pending.byteCount == 0)
    #expect(pending.batch().isEmpty)
  }

  @Test func `ranges that overlap or touch become one`() {
    var ranges = KeyRanges()
    for (lower, upper) in [(10, 20), (30, 40), (50, 60), (20, 30), (70, 80), (55, 75), (5, 5)] {
      ranges.insert(StorageRange(lower: [UInt8(lower)], upper: [UInt8(upper)]))
    }
    #expect(ranges.ranges == [StorageRange(lower: [10], upper: [40]), StorageRange(lower: [50], upper: [80])])
    #expect(ranges.contains([10]) && ranges.contains([39, 255]) && !ranges.contains([40]) && !ranges.contains([9]))
    ranges.insert(StorageRange(lower: [60], upper: nil))
    #expect(ranges.ranges == [StorageRange(lower: [10], upper: [40]), StorageRange(lower: [50], upper: nil)])
    ranges.insert(StorageRange())
    #expect(ranges.ranges == [StorageRange()])
    ranges.insert(StorageRange(lower: [1], upper: [2]))
    #expect(ranges.ranges == [StorageRange()])
  }
}

/// One run of the model of pending writes.
private struct PendingRun {
  /// What a family holds, as the transaction sees it: the model, and also what the storage is expected to become.
  typealias Content = [[UInt8]: [UInt8]]

  private struct Savepoint {
    let place: Int
    let values: Content
    let counters: Content
    let byteCount: Int
  }

  private static let values = StorageFamily(name: "values", number: 1)
  private static let counters = StorageFamily(name: "counters", number: 2)

  private var random: SeededRandom
  private let backend = ToyBackend()
  private let snapshot: (any StorageSnapshot)?
  private var pending = PendingWrites()
  private var model: Content = [:]
  private var counters: Content = [:]
  private var savepoints: [Savepoint] = []
  /// Walks that go on while it is written.
  private var walks: [(cursor: FamilyCursor, rest: [Pair])] = []
  private(set) var trace: [String] = []
  private(set) var kinds: [String: Int] = [:]

  init(seed: UInt64) {
    random = SeededRandom(seed: seed)
    _ = try? backend.createFamily("values", options: StorageFamilyOptions())
    _ = try? backend.createFamily("counters", options: StorageFamilyOptions(isCounter: true))
    var batch = StorageBatch()
    for _ in 0..<random.below(40) {
      let (key, value) = (Self.drawKey(&random), Self.drawValue(&random))
      batch.put(key, value, in: Self.values)
      model[key] = value
    }
    for _ in 0..<random.below(10) {
      let (key, number) = (Self.drawKey(&random), StorageBatch.counterBytes(Int64(random.below(1_000))))
      batch.put(key, number, in: Self.counters)
      counters[key] = number
    }
    _ = try? backend.commit(batch, check: nil, durability: .process)
    snapshot = try? backend.snapshot()
  }

  private static func drawKey(_ random: inout SeededRandom) -> [UInt8] {
    (0..<(1 + random.below(2))).map { _ in [0, 1, 5, 0x80, 0xFF][random.below(5)] }
  }

  private static func drawValue(_ random: inout SeededRandom) -> [UInt8] {
    [UInt8](repeating: UInt8(random.below(256)), count: random.below(random.oneIn(8) ? 900 : 20))
  }

  private mutating func drawRange() -> StorageRange {
    StorageRange(
      lower: random.oneIn(6) ? [] : Self.drawKey(&random), upper: random.oneIn(6) ? nil : Self.drawKey(&random))
  }

  private static func contains(_ range: StorageRange, _ key: [UInt8]) -> Bool {
    !key.lexicographicallyPrecedes(range.lower) && range.upper.map { key.lexicographicallyPrecedes($0) } ?? true
  }

  private static func rows(_ content: Content, _ range: StorageRange, isReverse: Bool) -> [Pair] {
    let rows = content.filter { contains(range, $0.key) }.map { Pair($0.key, $0.value) }
      .sorted { $0.key.lexicographicallyPrecedes($1.key) }
    return isReverse ? rows.reversed() : rows
  }

  // MARK: - Steps

  mutating func step(_ number: Int) throws {
    let kind = draw()
    kinds[kind, default: 0] += 1
    trace.append(kind)
    switch kind {
    case "put":
      let (key, value) = (Self.drawKey(&random), Self.drawValue(&random))
      pending.put(key, value, in: Self.values)
      model[key] = value
    case "delete":
      let key = Self.drawKey(&random)
      let isCounter = random.oneIn(4)
      pending.delete(key, in: isCounter ? Self.counters : Self.values)
      if isCounter { counters[key] = nil } else { model[key] = nil }
    case "clear": clear()
    case "add":
      let (key, number) = (Self.drawKey(&random), Int64(random.below(200)) - 100)
      pending.add(number, to: key, in: Self.counters)
      counters[key] = StorageBatch.counterBytes((counters[key].flatMap(StorageBatch.counterNumber) ?? 0) + number)
    case "find": try find()
    case "walk": try walk()
    case "hold": hold()
    case "move": try move()
    case "savepoint":
      savepoints.append(
        Savepoint(place: pending.setSavepoint(), values: model, counters: counters, byteCount: pending.byteCount))
    default: try endSavepoint(isUndone: random.oneIn(2))
    }
  }

  private mutating func draw() -> String {
    switch random.below(100) {
    case 0..<30: return "put"
    case 30..<42: return "delete"
    case 42..<48: return "clear"
    case 48..<58: return "add"
    case 58..<68: return "find"
    case 68..<74: return "walk"
    case 74..<78: return walks.count < 4 ? "hold" : "move"
    case 78..<86: return walks.isEmpty ? "hold" : "move"
    case 86..<94: return savepoints.count < 4 ? "savepoint" : "end"
    default: return savepoints.isEmpty ? "savepoint" : "end"
    }
  }

  private mutating func clear() {
    let range = drawRange()
    let isCounter = random.oneIn(4)
    pending.deleteRange(range, in: isCounter ? Self.counters : Self.values)
    if range.isEmpty { return }
    if isCounter {
      counters = counters.filter { !Self.contains(range, $0.key) }
    } else {
      model = model.filter { !Self.contains(range, $0.key) }
    }
  }

  /// As a transaction reads: what is pending, and else the snapshot.
  private func read(_ key: [UInt8], _ family: StorageFamily) throws -> [UInt8]? {
    switch pending.find(key, in: family) {
    case .put(let value): return value
    case .delete: return nil
    case .add(let number):
      let base = try snapshot?.value(of: key, in: family).flatMap(StorageBatch.counterNumber) ?? 0
      return StorageBatch.counterBytes(base + number)
    case nil: return try snapshot?.value(of: key, in: family)
    }
  }

  private mutating func find() throws {
    let key = Self.drawKey(&random)
    let (value, counter) = (try read(key, Self.values), try read(key, Self.counters))
    guard value == model[key], counter == counters[key] else {
      throw ContractBroken("\(key): \(value ?? []) and \(counter ?? [])")
    }
  }

  private mutating func cursor(_ isReverse: Bool, _ isCounter: Bool) -> (FamilyCursor, [Pair])? {
    guard let snapshot else { return nil }
    let range = drawRange()
    let family = isCounter ? Self.counters : Self.values
    let cursor = FamilyCursor(
      range, in: family, of: snapshot, isReverse: isReverse, pending: pending.view(of: range, in: family))
    return (cursor, range.isEmpty ? [] : Self.rows(isCounter ? counters : model, range, isReverse: isReverse))
  }

  private mutating func walk() throws {
    guard let (made, expected) = cursor(random.oneIn(2), random.oneIn(3)) else { return }
    var cursor = made
    var found: [Pair] = []
    while let (key, value) = try cursor.next() { found.append(Pair(key, value)) }
    guard found == expected else { throw ContractBroken("walked \(found), not \(expected)") }
  }

  private mutating func hold() {
    if let (cursor, rest) = cursor(random.oneIn(2), random.oneIn(3)) { walks.append((cursor, rest)) }
  }

  private mutating func move() throws {
    let index = random.below(walks.count)
    for _ in 0..<(1 + random.below(4)) {
      let found = try walks[index].cursor.next().map { Pair($0.key, $0.value) }
      let expected = walks[index].rest.isEmpty ? nil : walks[index].rest.removeFirst()
      guard found == expected else { throw ContractBroken("a held walk shows \(found as Any), not \(expected as Any)") }
      if found == nil {
        walks.remove(at: index)
        return
      }
    }
  }

  private mutating func endSavepoint(isUndone: Bool) throws {
    let savepoint = savepoints.removeLast()
    guard isUndone else { return pending.releaseSavepoint() }
    pending.rollBack(to: savepoint.place)
    model = savepoint.values
    counters = savepoint.counters
    guard pending.byteCount == savepoint.byteCount else {
      throw ContractBroken("\(pending.byteCount) bytes after going back, \(savepoint.byteCount) before")
    }
  }

  // MARK: - The commit

  mutating func finish() throws {
    while !savepoints.isEmpty { try endSavepoint(isUndone: random.oneIn(3)) }
    let batch = pending.batch()
    guard batch.byteCount <= pending.byteCount + 64 * batch.count else {
      throw ContractBroken("a batch of \(batch.byteCount) bytes, said to have \(pending.byteCount)")
    }
    _ = try backend.commit(batch, check: nil, durability: .process)
    let after = try backend.snapshot()
    for (family, content) in [(Self.values, model), (Self.counters, counters)] {
      let found = try Contract.rows(after, family)
      let expected = Self.rows(content, StorageRange(), isReverse: false)
      guard found == expected else { throw ContractBroken("committed \(found), not \(expected)") }
    }
    while !walks.isEmpty { try move() }
  }
}

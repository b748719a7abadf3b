import EngineTestSupport
import Testing
import VarveEngine
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of the writes of a transaction against dictionaries: reads of keys, cursors that stay open during writes,
/// savepoints that are undone, and the effect of the commit. They run in the engine, and in a storage without its own
/// writing.
///
///     VARVE_TEST_SCALE=50 ./tools/test --filter StorageWritingTests
struct StorageWritingTests {
  enum Kind: String, CaseIterable, CustomTestStringConvertible {
    case engine, arrays
    var testDescription: String { rawValue }

    func make() throws -> (any StorageBackend, values: StorageFamily, counters: StorageFamily) {
      let backend: any StorageBackend =
        self == .engine
        ? try EngineBackend(try Engine.open(at: "/db", environment: .inMemory()), isInMemory: true) : ToyBackend()
      return (
        backend, try backend.createFamily("values", options: StorageFamilyOptions()),
        try backend.createFamily("counters", options: StorageFamilyOptions(counter: .sum))
      )
    }
  }

  private static let seeds = 1...UInt64(TestScale.count(60))
  private static let stepCount = 150

  @Test(arguments: Kind.allCases)
  func `reads, iteration, undo and commit of writes equal those of dictionaries`(kind: Kind) throws {
    let clock = ContinuousClock()
    let start = clock.now
    var kinds: [String: Int] = [:]
    for seed in Self.seeds {
      var run = try WritingRun(seed: seed, kind)
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
    print("writing to \(kind): seeds \(Self.seeds), \(total) steps, \(Int(Double(total) / seconds)) a second")
    guard TestScale.isWhole else { return }
    for (kind, count) in kinds { #expect(count * 100 >= total, "\(kind): \(count) of \(total)") }
    #expect(kinds.count == 10)
  }

  // MARK: - Single cases

  @Test(arguments: Kind.allCases) func `a key that was put, undone and put again exists once`(kind: Kind) throws {
    let (backend, values, _) = try kind.make()
    let writing = try backend.begin(at: try backend.snapshot())
    try writing.setSavepoint()
    try writing.put([1], [1], in: values)
    writing.rollBack()
    try writing.put([1], [2], in: values)
    var cursor = FamilyCursor(StorageRange(), in: values, of: writing.view(of: values), isReverse: false)
    #expect(try cursor.next()?.value == [2])
    #expect(try cursor.next() == nil)
  }

  @Test(arguments: Kind.allCases) func `undone writes leave no trace, including their size`(kind: Kind) throws {
    let (backend, values, counters) = try kind.make()
    let writing = try backend.begin(at: try backend.snapshot())
    #expect(writing.isEmpty && writing.byteCount == 0)
    try writing.setSavepoint()
    try writing.put([1], [1, 2, 3], in: values)
    let size = writing.byteCount
    try writing.setSavepoint()
    try writing.put([1], Array(repeating: 0, count: 99), in: values)
    try writing.deleteRange(StorageRange(), in: values)
    try writing.add(1, by: .sum, to: [2], in: counters)
    writing.rollBack()
    #expect(writing.byteCount == size)
    #expect(try writing.withValue(of: [1], in: values) { $0.array } == [1, 2, 3])
    writing.rollBack()
    #expect(writing.isEmpty && writing.byteCount == 0)
    let before = try backend.snapshot().version
    _ = try backend.commit(writing, then: StorageBatch(), check: nil, durability: .process)
    #expect(try Contract.rows(try backend.snapshot(), values).isEmpty && before <= backend.snapshot().version)
  }

  @Test(arguments: Kind.allCases) func `stamped keys are read in their final order, and get the commit's version`(
    kind: Kind
  ) throws {
    let (backend, values, _) = try kind.make()
    let writing = try backend.begin(at: try backend.snapshot())
    let location = [UInt8](repeating: 0xFF, count: 8)
    for last in [UInt8(2), 1] { try writing.putStamped(location + [last], [last], at: .key(0), in: values) }
    try writing.put([5], [], in: values)
    var cursor = FamilyCursor(StorageRange(), in: values, of: writing.view(of: values), isReverse: false)
    var keys: [[UInt8]] = []
    while let key = try cursor.nextKey() { keys.append(key) }
    #expect(keys == [[5], location + [1], location + [2]])
    try writing.delete(location + [1], in: values)
    let version = try backend.commit(writing, then: StorageBatch(), check: nil, durability: .process).version
    #expect(
      try Contract.rows(try backend.snapshot(), values).map(\.key)
        == [BigEndian.bytes(version.number) + [2], [5]])
  }

  @Test(arguments: Kind.allCases) func `stamped puts that were not read before the commit are committed like others`(
    kind: Kind
  ) throws {
    let (backend, values, counters) = try kind.make()
    let writing = try backend.begin(at: try backend.snapshot())
    let pending = [UInt8](repeating: 0xFF, count: 8)
    // Earlier writes of the family are overwritten and removed in the order of the calls.
    try writing.put([9] + pending, [1], in: values)
    try writing.put([8], [1], in: values)
    try writing.deleteRange(StorageRange(lower: [8], upper: [9]), in: values)
    try writing.putStamped([8] + pending, [2], at: .key(1), in: values)
    try writing.putStamped([7], [3] + pending + [4], at: .value(1), in: values)
    try writing.putStamped([1], pending, at: .value(0), in: counters)
    #expect(!writing.isEmpty && writing.byteCount > 40)
    let version = try backend.commit(writing, then: StorageBatch(), check: nil, durability: .process).version
    let stamp = BigEndian.bytes(version.number)
    let snapshot = try backend.snapshot()
    #expect(
      try Contract.rows(snapshot, values)
        == [Pair([7], [3] + stamp + [4]), Pair([8] + stamp, [2]), Pair([9] + pending, [1])])
    #expect(try Contract.rows(snapshot, counters) == [Pair([1], stamp)])
  }

  @Test(arguments: Kind.allCases) func `every call sees the stamped puts before it`(kind: Kind) throws {
    let key = [1] + [UInt8](repeating: 0xFF, count: 8)
    let all = StorageRange()
    var first: [UInt8]?
    var rows: [[UInt8]] = []
    let calls: [(any StorageWriting, StorageFamily) throws -> Bool] = [
      { writing, family in try writing.withValue(of: key, in: family) { $0.array } == [7] },
      { writing, family in
        try writing.visitFirst(of: all, in: family) { key, _ in first = key.array }
        return first == key
      },
      { writing, family in
        try writing.visitRows(of: all, in: family) { key, _ in
          rows.append(key.array)
          return true
        }
        return rows == [key]
      },
      { writing, family in writing.decides(key, in: family) },
      { writing, family in
        var cursor = FamilyCursor(all, in: family, of: writing.view(of: family), isReverse: false)
        return try cursor.nextKey() == key
      },
    ]
    for (number, call) in calls.enumerated() {
      let (backend, values, _) = try kind.make()
      let writing = try backend.begin(at: try backend.snapshot())
      try writing.putStamped(key, [7], at: .key(1), in: values)
      #expect(try call(writing, values), "call \(number)")
    }
    let changes: [(any StorageWriting, StorageFamily) throws -> Void] = [
      { writing, family in try writing.delete(key, in: family) },
      { writing, family in try writing.singleDelete(key, in: family) },
      { writing, family in try writing.deleteRange(all, in: family) },
    ]
    for (number, change) in changes.enumerated() {
      let (backend, values, _) = try kind.make()
      let writing = try backend.begin(at: try backend.snapshot())
      try writing.putStamped(key, [7], at: .key(1), in: values)
      try change(writing, values)
      _ = try backend.commit(writing, then: StorageBatch(), check: nil, durability: .process)
      #expect(try Contract.rows(try backend.snapshot(), values).isEmpty, "change \(number)")
    }
  }

  @Test(arguments: Kind.allCases) func `the last appended change of a key is found, and undone`(kind: Kind) throws {
    let (backend, values, counters) = try kind.make()
    let writing = try backend.begin(at: try backend.snapshot())
    func append(_ operation: StorageBatch.Operation, _ key: [UInt8], _ value: [UInt8]) throws {
      try unsafe writing.append(operation, key.span.bytes, value.span.bytes, in: values)
    }
    #expect(try writing.appendedChange(of: [1], in: values) == nil)
    try append(.put, [1], [1])
    #expect(try writing.appendedChange(of: [1], in: values) == .put([1]))
    #expect(try writing.appendedChange(of: [1], in: counters) == nil)
    try append(.put, [1], [2])
    try append(.put, [2], [3])
    try writing.setSavepoint()
    try append(.delete, [1], [])
    try append(.put, [3], [4])
    #expect(try writing.appendedChange(of: [1], in: values) == .delete)
    #expect(try writing.appendedChange(of: [3], in: values) == .put([4]))
    writing.rollBack()
    #expect(try writing.appendedChange(of: [1], in: values) == .put([2]))
    #expect(try writing.appendedChange(of: [2], in: values) == .put([3]))
    #expect(try writing.appendedChange(of: [3], in: values) == nil)
    try append(.put, [3], [5])
    #expect(try writing.appendedChange(of: [3], in: values) == .put([5]))
    _ = try backend.commit(writing, then: StorageBatch(), check: nil, durability: .process)
    let rows = [Pair([1], [2]), Pair([2], [3]), Pair([3], [5])]
    #expect(try Contract.rows(try backend.snapshot(), values) == rows)
  }

  @Test(arguments: Kind.allCases) func `stamped puts are read, undone and counted like others`(kind: Kind) throws {
    let (backend, values, _) = try kind.make()
    let writing = try backend.begin(at: try backend.snapshot())
    let pending = [UInt8](repeating: 0xFF, count: 8)
    try writing.putStamped([1] + pending, [1], at: .key(1), in: values)
    try writing.putStamped([2], [5] + pending, at: .value(1), in: values)
    let size = writing.byteCount
    try writing.setSavepoint()
    try writing.putStamped([3] + pending, [3], at: .key(1), in: values)
    #expect(try writing.withValue(of: [3] + pending, in: values) { $0.array } == [3])
    #expect(writing.decides([1] + pending, in: values) && !writing.decides([4], in: values))
    try writing.putStamped([4] + pending, [4], at: .key(1), in: values)
    writing.rollBack()
    #expect(writing.byteCount == size)
    #expect(try writing.withValue(of: [2], in: values) { $0.array } == [5] + pending)
    #expect(try writing.withValue(of: [4] + pending, in: values) { $0.array } == nil)
    let version = try backend.commit(writing, then: StorageBatch(), check: nil, durability: .process).version
    let stamp = BigEndian.bytes(version.number)
    #expect(
      try Contract.rows(try backend.snapshot(), values) == [Pair([1] + stamp, [1]), Pair([2], [5] + stamp)])
  }

  @Test(arguments: Kind.allCases) func `the first entry of a range may be a pending or a stored one`(kind: Kind) throws
  {
    let (backend, values, _) = try kind.make()
    var batch = StorageBatch()
    for key in [UInt8(10), 20, 30] { batch.put([key], [key], in: values) }
    _ = try backend.commit(batch, check: nil, durability: .process)
    let writing = try backend.begin(at: try backend.snapshot())
    func first(_ lower: UInt8, _ upper: UInt8?) throws -> [UInt8]? {
      var found: [UInt8]?
      try writing.visitFirst(of: StorageRange(lower: [lower], upper: upper.map { [$0] }), in: values) { key, value in
        #expect(key.array == value.array)
        found = key.array
      }
      return found
    }
    try writing.put([15], [15], in: values)
    try writing.delete([20], in: values)
    #expect(try first(0, 5) == nil && first(0, nil) == [10] && first(11, 20) == [15] && first(16, 30) == nil)
    try writing.setSavepoint()
    try writing.deleteRange(StorageRange(), in: values)
    #expect(try first(0, nil) == nil)
    try writing.put([7], [7], in: values)
    #expect(try first(0, nil) == [7] && first(7, 7) == nil)
    writing.rollBack()
    #expect(try first(0, nil) == [10] && first(16, nil) == [30])
  }

  @Test(arguments: Kind.allCases)
  func `writes begun in one storage are not committed in another`(kind: Kind) throws {
    let (backend, _, _) = try kind.make()
    let (other, values, _) = try (kind == .engine ? Kind.arrays : .engine).make()
    let writing = try other.begin(at: try other.snapshot())
    try writing.put([1], [1], in: values)
    #expect(
      errorCode { _ = try backend.commit(writing, then: StorageBatch(), check: nil, durability: .process) }
        == .invalidArgument)
  }
}

/// One run of the model of pending writes.
private struct WritingRun {
  /// The content of a family as the transaction sees it: the model, and also the expected content of the storage.
  typealias Content = [[UInt8]: [UInt8]]

  private struct Savepoint {
    let values: Content
    let counters: Content
    let byteCount: Int
  }

  private let values: StorageFamily
  private let counterFamily: StorageFamily
  private var random: SeededRandom
  private let backend: any StorageBackend
  private let snapshot: any StorageSnapshot
  private let writing: any StorageWriting
  private var model: Content = [:]
  private var counters: Content = [:]
  private var savepoints: [Savepoint] = []
  /// The cursors that stay open during writes.
  private var scans: [(cursor: FamilyCursor, rest: [Pair], depth: Int)] = []
  private(set) var trace: [String] = []
  private(set) var kinds: [String: Int] = [:]

  init(seed: UInt64, _ kind: StorageWritingTests.Kind) throws {
    random = SeededRandom(seed: seed)
    (backend, values, counterFamily) = try kind.make()
    var batch = StorageBatch()
    for _ in 0..<random.below(40) {
      let (key, value) = (Self.drawKey(&random), Self.drawValue(&random))
      batch.put(key, value, in: values)
      model[key] = value
    }
    for _ in 0..<random.below(10) {
      let (key, number) = (Self.drawKey(&random), StorageBatch.counterBytes(Int64(random.below(1_000))))
      batch.put(key, number, in: counterFamily)
      counters[key] = number
    }
    _ = try backend.commit(batch, check: nil, durability: .process)
    snapshot = try backend.snapshot()
    writing = try backend.begin(at: snapshot)
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
      try writing.put(key, value, in: values)
      model[key] = value
    case "delete":
      let key = Self.drawKey(&random)
      let isCounter = random.oneIn(4)
      try writing.delete(key, in: isCounter ? counterFamily : values)
      if isCounter { counters[key] = nil } else { model[key] = nil }
    case "clear": try clear()
    case "add":
      let (key, number) = (Self.drawKey(&random), Int64(random.below(200)) - 100)
      try writing.add(number, by: .sum, to: key, in: counterFamily)
      counters[key] = StorageBatch.counterBytes((counters[key].flatMap(StorageBatch.counterNumber) ?? 0) + number)
    case "find": try find()
    case "scan": try scan()
    case "hold": hold()
    case "move": try move()
    case "savepoint":
      savepoints.append(
        Savepoint(values: model, counters: counters, byteCount: writing.byteCount))
      try writing.setSavepoint()
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
    case 68..<74: return "scan"
    case 74..<78: return scans.count < 4 ? "hold" : "move"
    case 78..<86: return scans.isEmpty ? "hold" : "move"
    case 86..<94: return savepoints.count < 4 ? "savepoint" : "end"
    default: return savepoints.isEmpty ? "savepoint" : "end"
    }
  }

  private mutating func clear() throws {
    let range = drawRange()
    let isCounter = random.oneIn(4)
    try writing.deleteRange(range, in: isCounter ? counterFamily : values)
    if range.isEmpty { return }
    if isCounter {
      counters = counters.filter { !Self.contains(range, $0.key) }
    } else {
      model = model.filter { !Self.contains(range, $0.key) }
    }
  }

  private func read(_ key: [UInt8], _ family: StorageFamily) throws -> [UInt8]? {
    try writing.withValue(of: key, in: family) { $0.array }
  }

  private mutating func find() throws {
    let key = Self.drawKey(&random)
    let (value, counter) = (try read(key, values), try read(key, counterFamily))
    guard value == model[key], counter == counters[key] else {
      throw ContractBroken("\(key): \(value ?? []) and \(counter ?? [])")
    }
    // A decided value does not come from the snapshot; one that is neither decided nor a counter equals the snapshot's.
    if !writing.decides(key, in: values), value != (try snapshot.value(of: key, in: values)) {
      throw ContractBroken("\(key) is not decided, and not as in the snapshot")
    }
    let range = drawRange()
    var first: Pair?
    try writing.visitFirst(of: range, in: values) { first = Pair($0.array, $1.array) }
    let expected = range.isEmpty ? nil : Self.rows(model, range, isReverse: false).first
    guard first == expected else {
      throw ContractBroken("\(range) begins with \(first as Any), not \(expected as Any)")
    }
  }

  private mutating func cursor(_ isReverse: Bool, _ isCounter: Bool) -> (FamilyCursor, [Pair]) {
    let range = drawRange()
    let family = isCounter ? counterFamily : values
    let cursor = FamilyCursor(range, in: family, of: writing.view(of: family), isReverse: isReverse)
    return (cursor, range.isEmpty ? [] : Self.rows(isCounter ? counters : model, range, isReverse: isReverse))
  }

  private mutating func scan() throws {
    var (cursor, expected) = cursor(random.oneIn(2), random.oneIn(3))
    var found: [Pair] = []
    while let (key, value) = try cursor.next() { found.append(Pair(key, value)) }
    guard found == expected else { throw ContractBroken("iterated \(found), not \(expected)") }
  }

  private mutating func hold() {
    let (cursor, rest) = cursor(random.oneIn(2), random.oneIn(3))
    scans.append((cursor, rest, savepoints.count))
  }

  private mutating func move() throws {
    let index = random.below(scans.count)
    for _ in 0..<(1 + random.below(4)) {
      let found = try scans[index].cursor.next().map { Pair($0.key, $0.value) }
      let expected = scans[index].rest.isEmpty ? nil : scans[index].rest.removeFirst()
      guard found == expected else {
        throw ContractBroken("a held cursor shows \(found as Any), not \(expected as Any)")
      }
      if found == nil {
        scans.remove(at: index)
        return
      }
    }
  }

  private mutating func endSavepoint(isUndone: Bool) throws {
    let savepoint = savepoints.removeLast()
    // Cursors that were created inside the savepoint now belong to the enclosing one, or are gone.
    for index in scans.indices where scans[index].depth > savepoints.count && !isUndone {
      scans[index].depth = savepoints.count
    }
    guard isUndone else { return writing.releaseSavepoint() }
    writing.rollBack()
    scans.removeAll { $0.depth > savepoints.count }
    model = savepoint.values
    counters = savepoint.counters
    guard writing.byteCount == savepoint.byteCount else {
      throw ContractBroken("\(writing.byteCount) bytes after going back, \(savepoint.byteCount) before")
    }
  }

  // MARK: - The commit

  mutating func finish() throws {
    while !savepoints.isEmpty { try endSavepoint(isUndone: random.oneIn(3)) }
    _ = try backend.commit(writing, then: StorageBatch(), check: nil, durability: .process)
    let after = try backend.snapshot()
    for (family, content) in [(values, model), (counterFamily, counters)] {
      let found = try Contract.rows(after, family)
      let expected = Self.rows(content, StorageRange(), isReverse: false)
      guard found == expected else { throw ContractBroken("committed \(found), not \(expected)") }
    }
    while !scans.isEmpty { try move() }
  }
}

extension RawSpan {
  fileprivate var array: [UInt8] { (0..<byteCount).map { unsafe unsafeLoad(fromByteOffset: $0, as: UInt8.self) } }
}

import EngineTestSupport
import Testing

@testable import VarveEngine

/// Tests of the sizes that an indexed batch reports, and of the room that it reserves.
struct IndexedWriteBatchSizeTests {
  /// A merge operator that adds operands of eight bytes. Its results have 4 KiB, which is more than all of their
  /// operands together.
  private struct WideCounter: MergeOperator {
    let name = "test.wide"
    /// Whether two operands are combined to one, which has 4 KiB too.
    let combines: Bool

    func merge(_ input: borrowing MergeInput, into value: inout MergeValue) -> Bool {
      var sum = input.hasExisting ? Self.number(input.existing) : 0
      for index in 0..<input.operandCount { sum += Self.number(input.operand(index)) }
      value.append(Self.wide(sum))
      return true
    }

    func combine(_ key: RawSpan, older: RawSpan, newer: RawSpan, into operand: inout MergeValue) -> Bool {
      guard combines else { return false }
      operand.append(Self.wide(Self.number(older) + Self.number(newer)))
      return true
    }

    private static func number(_ bytes: RawSpan) -> Int64 { bytes.withByteView { $0.load(0, as: Int64.self) } }
    static func wide(_ number: Int64) -> [UInt8] {
      CounterOperator.bytes(number) + [UInt8](repeating: 0, count: 4_088)
    }
  }

  private static func makeEngine(_ mergeOperator: any MergeOperator = AppendOperator()) throws -> Engine {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.cacheSize = 1 << 20
    if mergeOperator is WideCounter { options.mergeOperators = [mergeOperator] }
    options.defaultFamilyOptions.mergeOperator = mergeOperator.name
    return try Engine.open(at: "/db", options: options, environment: .inMemory())
  }

  private static func key(_ index: Int) -> [UInt8] { [UInt8(index >> 8), UInt8(index & 0xff)] }

  @Test(arguments: [false, true])
  func `a rebuilt tree has room for merge results that are larger than their operands`(
    combines: Bool
  ) throws {
    let engine = try Self.makeEngine(WideCounter(combines: combines))
    var batch = IndexedWriteBatch(engine)
    for index in 0..<250 {
      if !combines { try batch.delete(Self.key(index)) }
      try batch.merge(Self.key(index), CounterOperator.bytes(2))
      try batch.merge(Self.key(index), CounterOperator.bytes(3))
    }
    // The tree is rebuilt for more room, and again because of the entries that were rolled back.
    for index in 0..<600 { try batch.put([9] + Self.key(index), [UInt8](repeating: 1, count: 100)) }
    for index in 0..<2_000 {
      batch.setSavepoint()
      try batch.put([8] + Self.key(index), [UInt8](repeating: 1, count: 100))
      try batch.rollbackToSavepoint()
    }
    for index in 0..<250 { #expect(try batch.get(Self.key(index)) == WideCounter.wide(5)) }
    // The commit folds the operands.
    let written = try batch.makeBatch()
    #expect(written.count == 850 && written.byteCount > 250 * 4_096)
    try engine.write(batch)
    for index in 0..<250 { #expect(try engine.get(Self.key(index)) == WideCounter.wide(5)) }
  }

  @Test func `a tree that is rebuilt for more room has room for the entry that needed it`() throws {
    let engine = try Self.makeEngine()
    for size in [7_000, 9_000, 30_000, 100_000, 1_000_000] {
      var batch = IndexedWriteBatch(engine)
      for index in 0..<100 { try batch.put(Self.key(index), [UInt8](repeating: 1, count: 60)) }
      for index in 0..<5 { try batch.put([9, UInt8(index)], [UInt8](repeating: 2, count: size)) }
      #expect(batch.count == 105)
      for index in 0..<5 { #expect(try batch.get([9, UInt8(index)])?.count == size) }
    }
  }

  @Test func `operands that were folded for more room count as one`() throws {
    let engine = try Self.makeEngine(CounterOperator())
    var batch = IndexedWriteBatch(engine)
    for _ in 0..<100 { try batch.merge([0], CounterOperator.bytes(1)) }
    #expect(batch.count == 100)
    let table = batch.own(engine.defaultFamily.state).table
    var count = 0
    while batch.own(engine.defaultFamily.state).table === table {
      try batch.put([1] + Self.key(count), [UInt8](repeating: 1, count: 100))
      count += 1
    }
    #expect(batch.count == count + 1)
    try batch.delete([0])
    #expect(batch.count == count + 1)
    let written = try batch.makeBatch()
    #expect(written.count == batch.count && written.byteCount == batch.byteCount)
  }

  @Test func `operands that a rollback restores count as the tree has them, folded`() throws {
    let engine = try Self.makeEngine(CounterOperator())
    let family = engine.defaultFamily.state
    var batch = IndexedWriteBatch(engine)
    for _ in 0..<50 { try batch.merge([0], CounterOperator.bytes(1)) }
    for _ in 0..<10 { try batch.merge([1, 1], CounterOperator.bytes(1)) }
    try batch.put([1], [1])
    batch.setSavepoint()
    for _ in 0..<30 { try batch.merge([0], CounterOperator.bytes(1)) }
    batch.setSavepoint()
    try batch.deleteRange(from: [0], to: [1])
    try batch.delete([1, 1])
    batch.setSavepoint()
    for _ in 0..<20 { try batch.merge([0], CounterOperator.bytes(1)) }
    let table = batch.own(family).table
    var count = 0
    while batch.own(family).table === table {
      try batch.put([2] + Self.key(count), [UInt8](repeating: 1, count: 100))
      count += 1
    }
    // The entries are the range delete, one operand over it, the delete, and the puts.
    #expect(batch.count == count + 4)
    #expect(try batch.get([0]) == CounterOperator.bytes(20))
    try batch.rollbackToSavepoint()
    #expect(batch.count == 3)
    #expect(try batch.get([0]) == nil)
    try batch.rollbackToSavepoint()
    // There is an operand of each section.
    #expect(batch.count == 4)
    #expect(try batch.get([0]) == CounterOperator.bytes(80))
    try batch.rollbackToSavepoint()
    #expect(batch.count == 3)
    #expect(try batch.get([0]) == CounterOperator.bytes(50))
    let written = try batch.makeBatch()
    #expect(written.count == batch.count && written.byteCount == batch.byteCount)
  }

  @Test func `operands keep a base value that is older than their savepoint and newer than a range delete`()
    throws
  {
    let engine = try Self.makeEngine()
    let family = engine.defaultFamily.state
    var batch = IndexedWriteBatch(engine)
    try batch.deleteRange(from: [0], to: [9])
    // The value is too large to be folded at once.
    let value = [UInt8](repeating: 5, count: 100)
    try batch.put([1], value)
    batch.setSavepoint()
    try batch.merge([1], [6])
    try batch.merge([1], [7])
    let table = batch.own(family).table
    var index = 0
    while batch.own(family).table === table {
      try batch.put([2] + Self.key(index), value)
      index += 1
    }
    #expect(try batch.get([1]) == value + [6, 7])
    try engine.write(batch)
    #expect(try engine.get([1]) == value + [6, 7])
  }

  @Test func `undoing a range delete takes logarithmic work, however many are pending in a rebuilt tree`()
    throws
  {
    let engine = try Self.makeEngine()
    let family = engine.defaultFamily.state
    /// Returns the number of boundaries that were made, copied or visited for each of `count` range deletes that were
    /// rolled back.
    func work(_ count: Int) throws -> Int {
      var batch = IndexedWriteBatch(engine)
      for index in 0..<count { try batch.deleteRange(from: Self.key(2 * index), to: Self.key(2 * index + 1)) }
      // The entries that are rolled back last are from before the tree was rebuilt, too.
      batch.setSavepoint()
      try batch.deleteRange(from: [0], to: [0xff])
      let table = batch.own(family).table
      var index = 0
      while batch.own(family).table === table {
        try batch.put([0xff] + Self.key(index), [UInt8](repeating: 1, count: 1_000))
        index += 1
      }
      try batch.rollbackToSavepoint()
      var work = 0
      var before = (table: batch.own(family).table, work: batch.own(family).table.rangeTombstones.work)
      for index in 0..<count {
        batch.setSavepoint()
        try batch.deleteRange(from: Self.key(2 * index + 1), to: Self.key(2 * index + 2))
        try batch.rollbackToSavepoint()
        let table = batch.own(family).table
        let now = table.rangeTombstones.work
        work += table === before.table ? now - before.work : now
        before = (table, now)
      }
      #expect(batch.count == count)
      return work / count
    }
    let few = try work(100)
    let many = try work(10_000)
    // The ratio of the logarithms is one to two.
    #expect(few > 5 && many < 5 * few, "\(few) of a hundred, \(many) of ten thousand")
  }

  @Test func `an undone range delete of a rebuilt tree hides no entry that is newer than an older range delete`() throws
  {
    let engine = try Self.makeEngine()
    let family = engine.defaultFamily.state
    for index in UInt8(10)..<20 { try engine.put([index], [0]) }
    var batch = IndexedWriteBatch(engine)
    try batch.deleteRange(from: [0], to: [30])
    try batch.put([15], [1])
    batch.setSavepoint()
    try batch.deleteRange(from: [0], to: [30])
    let table = batch.own(family).table
    var index = 0
    while batch.own(family).table === table {
      try batch.put([40] + Self.key(index), [UInt8](repeating: 1, count: 1_000))
      index += 1
    }
    #expect(try batch.first(from: [0], to: [40]) == nil)
    try batch.rollbackToSavepoint()
    #expect(try batch.first(from: [0], to: [40])?.key == [15])
    // A new range delete next to these copies the boundaries.
    try batch.deleteRange(from: [3], to: [4])
    #expect(try batch.first(from: [0], to: [40])?.key == [15])
    try batch.deleteRange(from: [5], to: [35])
    #expect(try batch.first(from: [0], to: [40]) == nil)
  }

  @Test func `entries of a family that is left out do not count in the commit's entries and bytes`() throws {
    let engine = try Self.makeEngine()
    let notes = try engine.createFamily("notes")
    var batch = IndexedWriteBatch(engine)
    try batch.markAsScratch(notes)
    for index in 0..<1_000 { try batch.put(Self.key(index), [UInt8](repeating: 1, count: 100), in: notes) }
    #expect(batch.count == 0 && batch.byteCount == 0 && batch.isEmpty)
    try batch.put([1], [1])
    batch.setSavepoint()
    try batch.deleteRange(from: [0], to: [2], in: notes)
    try batch.put([2], [2])
    let written = try batch.makeBatch()
    #expect(written.count == batch.count && written.byteCount == batch.byteCount && batch.count == 2)
    try batch.rollbackToSavepoint()
    #expect(batch.count == 1)
  }

  @Test func `a family can be left out until it has an entry that was not undone`() throws {
    let engine = try Self.makeEngine()
    let families = try engine.createFamilies(["undone", "kept", "ranges"])
    var batch = IndexedWriteBatch(engine)
    batch.setSavepoint()
    try batch.put([1], [1], in: families[0])
    try batch.deleteRange(from: [1], to: [2], in: families[2])
    try batch.rollbackToSavepoint()
    try batch.put([1], [1], in: families[1])
    try batch.markAsScratch(families[0])
    try batch.markAsScratch(families[2])
    // The second call must change nothing: the family is left out already.
    try batch.put([2], [2], in: families[0])
    try batch.markAsScratch(families[0])
    var code: EngineError.Code?
    do throws(EngineError) { try batch.markAsScratch(families[1]) } catch { code = error.code }
    #expect(code == .invalidArgument)
    try engine.write(batch)
    #expect(try engine.get([2], in: families[0]) == nil && engine.get([1], in: families[1]) == [1])
  }

  @Test func `every read of a batch throws after a close or a drop of the family, also with a kept cursor`() throws {
    func codes(_ batch: inout IndexedWriteBatch, _ family: ColumnFamily) -> [EngineError.Code?] {
      var codes: [EngineError.Code?] = [nil, nil, nil]
      do { _ = try batch.get([1], in: family) } catch { codes[0] = error.code }
      do { _ = try batch.first(from: [], to: nil, in: family) } catch { codes[1] = (error as? EngineError)?.code }
      do { _ = try batch.cursor(in: family) } catch { codes[2] = error.code }
      return codes
    }
    let engine = try Self.makeEngine()
    let family = try engine.createFamily("dropped")
    try engine.put([2], [2], in: family)
    let snapshot = engine.snapshot()
    var batch = IndexedWriteBatch(engine, snapshot: snapshot)
    try batch.put([1], [1], in: family)
    try batch.put([1], [1])
    #expect(try batch.first(from: [], to: nil, in: family)?.key == [1])
    #expect(try batch.first(from: [], to: nil)?.key == [1])
    #expect(batch.kept.count == 2)
    try engine.dropFamily(family)
    #expect(codes(&batch, family) == [.familyDropped, .familyDropped, .familyDropped])
    try engine.close()
    #expect(codes(&batch, engine.defaultFamily) == [.closed, .closed, .closed])
  }
}

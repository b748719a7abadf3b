import EngineTestSupport
import Testing

@testable import VarveEngine

struct IndexedWriteBatchTests {
  static func makeEngine() throws -> Engine {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.cacheSize = 1 << 20
    options.defaultFamilyOptions.mergeOperator = AppendOperator().name
    return try Engine.open(at: "/db", options: options, environment: .inMemory())
  }

  @Test func `a batch finds all of its entries, also many and large ones`() throws {
    let engine = try Self.makeEngine()
    var batch = IndexedWriteBatch(engine)
    for index in 0..<5_000 {
      try batch.put([UInt8(index >> 8), UInt8(index & 0xff)], [UInt8](repeating: 1, count: 100))
    }
    try batch.put([0xff], [UInt8](repeating: 2, count: 300_000))
    for index in 0..<5_000 {
      #expect(try batch.get([UInt8(index >> 8), UInt8(index & 0xff)])?.count == 100)
    }
    #expect(try batch.get([0xff])?.count == 300_000)
  }

  @Test func `undoing rebuilds no tree until more entries are undone than not`() throws {
    let engine = try Self.makeEngine()
    let family = engine.defaultFamily.state
    var batch = IndexedWriteBatch(engine)
    for index in 0..<2_000 { try batch.put([UInt8(index >> 8), UInt8(index & 0xff)], [1]) }
    var table = batch.own(family).table
    let size = table.usedBytes
    var remadeCount = 0
    for round in 0..<900 {
      batch.setSavepoint()
      try batch.put([8, UInt8(round & 0xff)], [2])
      try batch.put([8, 232], [3])
      #expect(try batch.get([8, UInt8(round & 0xff)]) == (round & 0xff == 232 ? [3] : [2]))
      if batch.own(family).table !== table { remadeCount += 1 }
      table = batch.own(family).table
      try batch.rollbackToSavepoint()
      #expect(try batch.get([8, 232]) == nil)
      #expect(try batch.get([8, 1]) == nil)
    }
    // The tree is rebuilt at most once, for more room.
    #expect(remadeCount <= 1)
    #expect(batch.undone.count == 1)
    #expect(batch.count == 2_000)
    for _ in 0..<20_000 {
      batch.setSavepoint()
      try batch.put([0, 1], [2])
      try batch.rollbackToSavepoint()
    }
    #expect(batch.own(family).table.usedBytes < 3 * size && batch.undone.count <= 1)
    #expect(try batch.get([0, 1]) == [1])
  }

  @Test func `a cursor finds the entry of a key below many undone entries of that key`() throws {
    let engine = try Self.makeEngine()
    try engine.put([1], [0])
    var batch = IndexedWriteBatch(engine)
    try batch.put([1], [1])
    for round in UInt8(2)..<60 {
      batch.setSavepoint()
      try batch.put([1], [round])
      try batch.rollbackToSavepoint()
    }
    var cursor = try batch.cursor()
    try cursor.seekToFirst()
    #expect(cursor.isValid && cursor.valueBytes == [1])
    try cursor.seekToLast()
    #expect(cursor.isValid && cursor.valueBytes == [1])
    #expect(try batch.get([1]) == [1])
  }

  @Test func `undoing a range delete seldom rebuilds a tree, and earlier cursors stay right`() throws {
    let engine = try Self.makeEngine()
    let family = engine.defaultFamily.state
    var batch = IndexedWriteBatch(engine)
    for index in 0..<200 { try batch.put([UInt8(index)], [1]) }
    var table = batch.own(family).table
    var remadeCount = 0
    try batch.deleteRange(from: [10], to: [20])
    try batch.put([15], [2])
    for _ in 0..<500 {
      var cursor = try batch.cursor()
      batch.setSavepoint()
      try batch.deleteRange(from: [0], to: [0xff])
      #expect(try batch.get([15]) == nil && batch.get([30]) == nil)
      // The remaining entries are the range deletes.
      #expect(batch.count == 2)
      try batch.rollbackToSavepoint()
      #expect(try batch.get([15]) == [2] && batch.get([30]) == [1] && batch.get([11]) == nil)
      if batch.own(family).table !== table { remadeCount += 1 }
      table = batch.own(family).table
      try cursor.seek([9])
      try cursor.next()
      #expect(cursor.keyBytes == [15])
    }
    #expect(remadeCount < 10)
    #expect(batch.count == 192)
  }

  @Test func `additions to a counter become one entry, in the log and in memory`() throws {
    let engine = try Self.makeEngine()
    let counters = try engine.createFamily("counters", options: FamilyOptions(mergeOperator: CounterOperator().name))
    try engine.merge([1], CounterOperator.bytes(5), in: counters)
    var batch = IndexedWriteBatch(engine)
    for _ in 0..<100_000 { try batch.merge([1], CounterOperator.bytes(1), in: counters) }
    #expect(try batch.makeBatch().count == 1)
    #expect(batch.own(counters.state).table.usedBytes < 1 << 20)
    #expect(try batch.get([1], in: counters) == CounterOperator.bytes(100_005))
    try batch.put([2], CounterOperator.bytes(7), in: counters)
    for _ in 0..<1_000 { try batch.merge([2], CounterOperator.bytes(1), in: counters) }
    #expect(try batch.makeBatch().count == 2)
    #expect(try batch.get([2], in: counters) == CounterOperator.bytes(1_007))
    try engine.write(batch)
    #expect(try engine.get([1], in: counters) == CounterOperator.bytes(100_005))
    #expect(try engine.get([2], in: counters) == CounterOperator.bytes(1_007))
  }

  @Test func `a key that is written again and again takes the log and the limit of one entry`() throws {
    let engine = try Self.makeEngine()
    var batch = IndexedWriteBatch(engine)
    let value = [UInt8](repeating: 7, count: 10_000)
    for _ in 0..<1_000 { try batch.put([1], value) }
    #expect(batch.count == 1 && batch.byteCount < 10_100)
    #expect(batch.own(engine.defaultFamily.state).table.usedBytes < 1 << 20)
    let committed = try batch.makeBatch()
    #expect(committed.count == 1 && committed.byteCount == batch.byteCount)
    try batch.deleteRange(from: [0], to: [9])
    #expect(batch.count == 1 && batch.byteCount < 20)
  }

  @Test func `a put that a single delete of the same batch removes is not written`() throws {
    let engine = try Self.makeEngine()
    try engine.put([3], [0])
    var batch = IndexedWriteBatch(engine)
    try batch.put([1], [1])
    try batch.singleDelete([1])
    #expect(batch.count == 0)
    #expect(try batch.get([1]) == nil)
    // A single delete of a committed key is kept, also below a new put.
    try batch.singleDelete([3])
    try batch.put([3], [1])
    #expect(batch.count == 2)
    let written = try batch.makeBatch()
    #expect(written.count == 2 && written.byteCount == batch.byteCount)
    try batch.singleDelete([3])
    #expect(batch.count == 1)
    try engine.write(batch)
    #expect(try engine.get([3]) == nil)
    try engine.compact()
    #expect(try engine.get([3]) == nil && engine.get([1]) == nil)
  }

  @Test func `entries of a family that is left out are read and undone, and never committed`() throws {
    let engine = try Self.makeEngine()
    let notes = try engine.createFamily("notes")
    var batch = IndexedWriteBatch(engine)
    try batch.markAsScratch(notes)
    try batch.put([1], [1], in: notes)
    batch.setSavepoint()
    try batch.put([2], [2], in: notes)
    try batch.deleteRange(from: [0], to: [2], in: notes)
    #expect(try batch.first(from: [], to: nil, in: notes)?.key == [2])
    try batch.rollbackToSavepoint()
    #expect(try batch.first(from: [], to: nil, in: notes)?.key == [1])
    #expect(batch.count == 0 && batch.byteCount == 0)
    try batch.put([5], [5])
    try engine.write(batch)
    #expect(try engine.get([1], in: notes) == nil)
    #expect(try engine.get([5]) == [5])
    var code: EngineError.Code?
    do throws(EngineError) { try batch.markAsScratch(engine.defaultFamily) } catch { code = error.code }
    #expect(code == .invalidArgument)
  }

  @Test func `a batch over many families keeps them apart`() throws {
    let engine = try Self.makeEngine()
    let families = try engine.createFamilies((0..<30).map { "family \($0)" })
    var batch = IndexedWriteBatch(engine)
    for round in UInt8(0)..<3 {
      for (index, family) in families.enumerated() { try batch.put([round], [UInt8(index)], in: family) }
    }
    for (index, family) in families.enumerated() {
      #expect(try batch.get([2], in: family) == [UInt8(index)] && batch.get([3], in: family) == nil)
    }
    try engine.write(batch)
    for (index, family) in families.enumerated() { #expect(try engine.get([1], in: family) == [UInt8(index)]) }
  }

  @Test func `a stamp reads as eight bytes 0xFF until the commit, and a stamped key is found by them`() throws {
    let engine = try Self.makeEngine()
    var batch = IndexedWriteBatch(engine)
    let zeros = [UInt8](repeating: 0, count: 8)
    try batch.putStamped([1] + zeros + [2], [9], at: .key(1))
    try batch.putStamped([1] + zeros + [1], [8], at: .key(1))
    try batch.putStamped([4], [5] + zeros, at: .value(1))
    #expect(try batch.get([1] + StampLocation.pending + [2]) == [9])
    #expect(try batch.get([4]) == [5] + StampLocation.pending)
    #expect(try batch.first(from: [1], to: [2])?.key == [1] + StampLocation.pending + [1])
    batch.setSavepoint()
    try batch.delete([1] + StampLocation.pending + [1])
    try batch.putStamped([6] + zeros, [], at: .key(1))
    try batch.rollbackToSavepoint()
    try batch.put([4], [5] + StampLocation.pending)
    try batch.put([7], StampLocation.pending)
    let sequence = try engine.write(batch)
    let stamp = (0..<8).map { UInt8(truncatingIfNeeded: sequence.value >> (56 - 8 * UInt64($0))) }
    #expect(try engine.get([1] + stamp + [2]) == [9])
    #expect(try engine.get([1] + stamp + [1]) == [8])
    #expect(try engine.get([4]) == [5] + StampLocation.pending && engine.get([7]) == StampLocation.pending)
    #expect(try engine.get([6] + stamp) == nil)
  }

  @Test func `the first key of a range is found, and lookups at a snapshot share one cursor`()
    throws
  {
    let engine = try Self.makeEngine()
    for index in UInt8(0)..<100 { try engine.put([2, index], [index]) }
    let snapshot = engine.snapshot()
    var batch = IndexedWriteBatch(engine, snapshot: snapshot)
    #expect(try batch.first(from: [1], to: [2]) == nil)
    #expect(try batch.first(from: [1], to: [3])?.key == [2, 0])
    try batch.deleteRange(from: [2, 0], to: [2, 50])
    #expect(try batch.first(from: [1], to: [3])?.key == [2, 50])
    try batch.put([1, 1], [1])
    try batch.put([2, 7], [1])
    #expect(try batch.first(from: [1], to: [2])?.key == [1, 1])
    #expect(try batch.first(from: [2], to: nil)?.key == [2, 7])
    try engine.put([2, 60], [0])
    try engine.flush()
    try engine.compact()
    #expect(try batch.first(from: [2, 60], to: [2, 61])?.value == [60])
    #expect(batch.kept.count == 1)
    #expect(try batch.first(from: [2, 99], to: nil)?.key == [2, 99])
  }

  @Test func `a number counts as undone exactly if an undone interval contains it`() {
    for seed in UInt64(1)...50 {
      var random = SeededRandom(seed: seed)
      var undone = UndoneNumbers()
      var model: Set<UInt64> = []
      var marks: [UInt64] = []
      var next: UInt64 = 0
      for _ in 0..<100 {
        switch random.below(3) {
        case 0: marks.append(next)
        case 1 where !marks.isEmpty:
          let mark = marks.removeLast()
          undone.append(mark..<next)
          model.formUnion(mark..<next)
        default: next += UInt64(random.below(4))
        }
        for number in 0..<(next + 2) {
          let sequence = SequenceNumber(SequenceNumber.uncommitted.value + number)
          #expect(undone.contains(sequence) == model.contains(number), "seed \(seed), number \(number)")
        }
        #expect(!undone.contains(SequenceNumber(5)))
      }
    }
  }

  @Test func `the trees of small batches come from kept arenas`() throws {
    let engine = try Self.makeEngine()
    for round in 0..<20 {
      var batch = IndexedWriteBatch(engine)
      for key in UInt8(1)...9 { try batch.put([key], [UInt8(round)]) }
      #expect(try batch.get([1]) == [UInt8(round)])
      #expect(engine.core.batchArenas.retainedBytes == 0 || round == 0)
      try engine.write(batch)
    }
    #expect(engine.core.batchArenas.retainedBytes > 0 && engine.core.batchArenas.retainedBytes <= 64 << 10)
    try engine.close()
    #expect(engine.core.batchArenas.retainedBytes == 0)
  }

  @Test func `each submit of a stamped batch writes its own sequence, and a kept batch is not changed`()
    throws
  {
    let engine = try Self.makeEngine()
    func made() throws -> WriteBatch {
      var batch = WriteBatch()
      try batch.putStamped([1], [0, 0, 0, 0, 0, 0, 0, 0, 7], at: .value(0))
      try batch.put([2], [2])
      return batch
    }
    // The stamp has the highest byte first.
    func stamp(_ sequence: SequenceNumber) -> [UInt8] {
      (0..<8).map { UInt8(truncatingIfNeeded: sequence.value >> (56 - 8 * UInt64($0))) } + [7]
    }
    let kept = try made()
    let before = kept.payload.bytes
    for _ in 0..<2 {
      let ticket = try engine.submit(kept)
      try ticket.wait()
      #expect(try engine.get([1]) == stamp(ticket.sequence))
    }
    #expect(kept.payload.bytes == before)
    let ticket = try engine.submit(once: made())
    try ticket.wait()
    #expect(try engine.get([1]) == stamp(ticket.sequence))
    #expect(try engine.get([2]) == [2])
  }

  @Test func `a rollback without a savepoint is an error`() throws {
    let engine = try Self.makeEngine()
    var batch = IndexedWriteBatch(engine)
    var code: EngineError.Code?
    do throws(EngineError) { try batch.rollbackToSavepoint() } catch { code = error.code }
    #expect(code == .invalidArgument)
  }
}

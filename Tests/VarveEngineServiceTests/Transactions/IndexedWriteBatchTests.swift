import EngineTestSupport
import Testing

@testable import VarveEngine

struct IndexedWriteBatchTests {
  private static func makeEngine() throws -> Engine {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.cacheSize = 1 << 20
    options.defaultFamilyOptions.mergeOperator = AppendOperator().name
    return try Engine.open(at: "/db", options: options, environment: .inMemory())
  }

  private static func key(_ random: inout SeededRandom) -> [UInt8] {
    random.oneIn(3) ? [UInt8(random.below(12))] : [UInt8(random.below(12)), UInt8(random.below(4))]
  }

  private static func change(_ random: inout SeededRandom) -> ModelDatabase.Change {
    let key = key(&random)
    let value = (0..<random.below(40)).map { _ in UInt8(random.below(256)) }
    switch random.below(9) {
    case 0, 1: return .delete("default", key)
    case 2: return .deleteRange("default", key, key + [UInt8(random.below(4))])
    case 3, 4: return .merge("default", key, Array(value.prefix(3)), .append)
    default: return .put("default", key, value)
    }
  }

  private static func add(_ change: ModelDatabase.Change, to batch: inout IndexedWriteBatch) throws {
    switch change {
    case .put(_, let key, let value): try batch.put(key, value)
    case .delete(_, let key), .singleDelete(_, let key): try batch.delete(key)
    case .deleteRange(_, let lower, let upper): try batch.deleteRange(from: lower, to: upper)
    case .merge(_, let key, let operand, _): try batch.merge(key, operand)
    }
  }

  @Test func `a batch over what is committed reads like the model, both ways, with savepoints`() throws {
    for seed in UInt64(1)...(30 * UInt64(TestScale.value)) {
      var random = SeededRandom(seed: seed)
      let engine = try Self.makeEngine()
      var committed = ModelDatabase()
      for _ in 0..<random.below(120) {
        let change = Self.change(&random)
        var single = IndexedWriteBatch(engine)
        try Self.add(change, to: &single)
        try engine.write(single)
        committed.write([change])
        if random.oneIn(40) { try engine.flush() }
        if random.oneIn(80) { try engine.compact() }
      }
      var batch = IndexedWriteBatch(engine)
      var model = committed
      var savepoints: [ModelDatabase] = []
      for step in 0..<(20 + random.below(200)) {
        switch random.below(14) {
        case 0:
          batch.setSavepoint()
          savepoints.append(model)
        case 1 where !savepoints.isEmpty:
          try batch.rollbackToSavepoint()
          model = savepoints.removeLast()
        case 2 where !savepoints.isEmpty:
          try batch.releaseSavepoint()
          savepoints.removeLast()
        case 3, 4:
          let key = Self.key(&random)
          #expect(try batch.get(key) == model.state.get("default", key), "seed \(seed), step \(step), key \(key)")
        case 5: try Self.walk(batch, model.state, &random, "seed \(seed), step \(step)")
        default:
          let change = Self.change(&random)
          try Self.add(change, to: &batch)
          model.write([change])
        }
      }
      try Self.walk(batch, model.state, &random, "seed \(seed), the last walk")
      try engine.write(batch)
      try Self.walk(IndexedWriteBatch(engine), model.state, &random, "seed \(seed), committed")
    }
  }

  /// From a key on in one direction, with turns.
  private static func walk(
    _ batch: borrowing IndexedWriteBatch, _ state: ModelDatabase.State, _ random: inout SeededRandom, _ place: String
  ) throws {
    let bounds = random.oneIn(3) ? CursorBounds(lower: key(&random), upper: key(&random)) : .all
    let rows = state.scan("default", bounds)
    var cursor = try batch.cursor(bounds: bounds)
    let target = key(&random)
    var index: Int?
    if random.oneIn(2) {
      try cursor.seek(target)
      index = rows.firstIndex { !$0.key.lexicographicallyPrecedes(target) }
    } else {
      try cursor.seekForPrevious(target)
      index = rows.lastIndex { !target.lexicographicallyPrecedes($0.key) }
    }
    var isForward = random.oneIn(2)
    for _ in 0..<40 {
      let row = index.map { rows[$0] }
      let found = cursor.isValid ? ModelDatabase.Row(cursor.keyBytes, cursor.valueBytes) : nil
      #expect(found == row, "\(place)")
      guard let position = index, found == row else { return }
      if random.oneIn(6) { isForward.toggle() }
      if isForward { try cursor.next() } else { try cursor.previous() }
      let next = isForward ? position + 1 : position - 1
      index = rows.indices.contains(next) ? next : nil
    }
  }

  @Test func `a cursor shows the batch as it was when it was made`() throws {
    let engine = try Self.makeEngine()
    try engine.put([5], [5])
    var batch = IndexedWriteBatch(engine)
    try batch.put([1], [1])
    batch.setSavepoint()
    try batch.put([2], [2])
    var cursor = try batch.cursor()
    try batch.put([3], [3])
    try batch.deleteRange(from: [0], to: [9])
    try batch.rollbackToSavepoint()
    try cursor.seekToFirst()
    var keys: [[UInt8]] = []
    while cursor.isValid {
      keys.append(cursor.keyBytes)
      try cursor.next()
    }
    #expect(keys == [[1], [2], [5]])
  }

  @Test func `a batch of many entries, and of large ones, finds all of them`() throws {
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

  @Test func `undoing makes no tree again, until more is undone than not`() throws {
    let engine = try Self.makeEngine()
    let family = engine.defaultFamily.state
    var batch = IndexedWriteBatch(engine)
    for index in 0..<1_000 { try batch.put([UInt8(index >> 8), UInt8(index & 0xff)], [1]) }
    let own = batch.own(family)
    let table = try #require(own).table
    for round in 0..<400 {
      batch.setSavepoint()
      try batch.put([3, UInt8(round & 0xff)], [2])
      try batch.put([3, 232], [3])
      #expect(try batch.get([3, UInt8(round & 0xff)]) == (round & 0xff == 232 ? [3] : [2]))
      try batch.rollbackToSavepoint()
      #expect(try batch.get([3, 232]) == nil)
      #expect(try batch.get([3, 1]) == [1])
    }
    #expect(batch.own(family)?.table === table && batch.own(family)?.undone.count == 1)
    #expect(batch.count == 1_000)
    for _ in 0..<250 {
      batch.setSavepoint()
      try batch.put([0, 1], [2])
      try batch.rollbackToSavepoint()
    }
    #expect(batch.own(family)?.table !== table)
    #expect(try batch.get([0, 1]) == [1])
    batch.setSavepoint()
    try batch.deleteRange(from: [0], to: [9])
    #expect(try batch.get([0, 1]) == nil)
    try batch.rollbackToSavepoint()
    #expect(try batch.get([0, 1]) == [1])
    #expect(batch.own(family)?.table.hasTombstones == false)
  }

  @Test func `a number is undone just where an interval has it`() {
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
      try batch.put([1], [UInt8(round)])
      #expect(try batch.get([1]) == [UInt8(round)])
      #expect(engine.batchArenas.retainedBytes == 0 || round == 0)
      try engine.write(batch)
    }
    #expect(engine.batchArenas.retainedBytes > 0 && engine.batchArenas.retainedBytes <= 64 << 10)
    try engine.close()
    #expect(engine.batchArenas.retainedBytes == 0)
  }

  @Test func `a savepoint that is not there is an error`() throws {
    let engine = try Self.makeEngine()
    var batch = IndexedWriteBatch(engine)
    var code: EngineError.Code?
    do throws(EngineError) { try batch.rollbackToSavepoint() } catch { code = error.code }
    #expect(code == .invalidArgument)
  }
}

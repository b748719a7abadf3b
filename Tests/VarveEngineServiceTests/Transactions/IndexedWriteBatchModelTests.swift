import EngineTestSupport
import Testing

@testable import VarveEngine

/// Tests of savepoints, rollbacks, puts, deletes, single deletes, ranges, counters and cursors against arrays.
struct IndexedWriteBatchModelTests {
  private static let families = ["default", "counters", "once", "scratch"]

  /// A cursor and the rows that it must return. A rollback to a savepoint from before the cursor ends it.
  private final class OpenCursor {
    var cursor: EngineCursor
    let family: String
    var rows: [ModelDatabase.Row]
    var depth: Int
    var isEnded = false

    init(_ cursor: consuming EngineCursor, _ family: String, _ rows: [ModelDatabase.Row], _ depth: Int) {
      self.cursor = cursor
      self.family = family
      self.rows = rows
      self.depth = depth
    }
  }

  private struct Mix {
    var undone = 0
    var ended = 0
    var refreshed = 0
    var remade = 0
    var cursorSteps = 0
    var cancelled = 0
    /// The number of checks of the batch's counts: with operands that the commit folds, with entries that it leaves
    /// out, and after a tree was rebuilt within a savepoint that was then rolled back.
    var counted = 0
    var countedOperands = 0
    var countedLeftOut = 0
    var countedBack = 0
  }

  private struct Run: ~Copyable {
    var random: SeededRandom
    let engine: Engine
    let columns: [String: ColumnFamily]
    var batch: IndexedWriteBatch
    var model: ModelDatabase
    var savepoints: [ModelDatabase] = []
    /// For each savepoint, whether a tree was rebuilt since it was set.
    var isRemade: [Bool] = []
    var cursors: [OpenCursor] = []
    var mix = Mix()
    let location: String

    init(seed: UInt64) throws {
      var options = EngineOptions()
      options.memtableSize = 64 << 10
      options.cacheSize = 1 << 20
      options.defaultFamilyOptions.mergeOperator = AppendOperator().name
      let engine = try Engine.open(at: "/db", options: options, environment: .inMemory())
      var columns = ["default": engine.defaultFamily]
      columns["counters"] = try engine.createFamily(
        "counters", options: FamilyOptions(mergeOperator: CounterOperator().name))
      for name in ["once", "scratch"] { columns[name] = try engine.createFamily(name) }
      var model = ModelDatabase()
      for name in IndexedWriteBatchModelTests.families.dropFirst() { model.createFamily(name) }
      random = SeededRandom(seed: seed)
      self.engine = engine
      self.columns = columns
      self.model = model
      location = "seed \(seed)"
      batch = IndexedWriteBatch(engine)
    }

    func column(_ name: String) throws -> ColumnFamily { try #require(columns[name]) }

    mutating func key() -> [UInt8] {
      random.oneIn(3) ? [UInt8(random.below(12))] : [UInt8(random.below(12)), UInt8(random.below(4))]
    }

    /// Returns a change that the contract of its family allows in a state.
    mutating func change(_ state: ModelDatabase.State, large: Bool) -> ModelDatabase.Change {
      let key = key()
      let value = [UInt8](repeating: UInt8(random.below(256)), count: large ? 2_000 : random.below(40))
      switch random.below(8) {
      case 0, 1:
        let operand = CounterOperator.bytes(Int64(random.below(1_000)))
        if random.oneIn(4) { return .put("counters", key, operand) }
        return random.oneIn(6) ? .delete("counters", key) : .merge("counters", key, operand, .max)
      case 2, 3:
        return state.get("once", key) == nil ? .put("once", key, value) : .singleDelete("once", key)
      case 4:
        if random.oneIn(4) { return .deleteRange("scratch", key, key + [UInt8(random.below(4))]) }
        return .put("scratch", key, value)
      default:
        switch random.below(9) {
        case 0, 1: return .delete("default", key)
        case 2: return .deleteRange("default", key, [min(11, key[0] + UInt8(random.below(3))), 4])
        case 3, 4: return .merge("default", key, Array(value.prefix(3)), .append)
        default: return .put("default", key, value)
        }
      }
    }

    /// Applies a change to the model, which has no rule for counters.
    mutating func note(_ change: ModelDatabase.Change) {
      guard case .merge("counters", let key, let operand, _) = change else { return model.write([change]) }
      let old = model.state.get("counters", key).flatMap(CounterOperator.number) ?? 0
      model.write([.put("counters", key, CounterOperator.bytes(old + (CounterOperator.number(operand) ?? 0)))])
    }

    static func add(
      _ change: ModelDatabase.Change, to batch: inout IndexedWriteBatch, in family: ColumnFamily
    ) throws {
      switch change {
      case .put(_, let key, let value): try batch.put(key, value, in: family)
      case .delete(_, let key): try batch.delete(key, in: family)
      case .singleDelete(_, let key): try batch.singleDelete(key, in: family)
      case .deleteRange(_, let lower, let upper): try batch.deleteRange(from: lower, to: upper, in: family)
      case .merge(_, let key, let operand, _): try batch.merge(key, operand, in: family)
      }
    }

    /// Writes the content from before the batch. The scratch family stays empty.
    mutating func commitSome() throws {
      for _ in 0..<random.below(120) {
        let change = change(model.state, large: false)
        if change.family == "scratch" { continue }
        var single = IndexedWriteBatch(engine)
        try Self.add(change, to: &single, in: column(change.family))
        try engine.write(single)
        note(change)
        if random.oneIn(40) { try engine.flush() }
        if random.oneIn(80) { try engine.compact() }
      }
    }

    mutating func step(large: Bool) throws {
      switch random.below(18) {
      case 0:
        batch.setSavepoint()
        savepoints.append(model)
        isRemade.append(false)
      case 1 where !savepoints.isEmpty:
        try batch.rollbackToSavepoint()
        model = savepoints.removeLast()
        try count()
        if isRemade.removeLast() { mix.countedBack += 1 }
        mix.undone += 1
        for open in cursors where open.depth > savepoints.count { open.isEnded = true }
      case 2 where !savepoints.isEmpty:
        try batch.releaseSavepoint()
        savepoints.removeLast()
        isRemade.removeLast()
        for open in cursors where !open.isEnded { open.depth = min(open.depth, savepoints.count) }
      case 3, 4:
        let name = IndexedWriteBatchModelTests.families[random.below(4)]
        let key = key()
        #expect(
          try batch.get(key, in: column(name)) == model.state.get(name, key), "\(location), key \(key) of \(name)")
      case 5:
        let name = IndexedWriteBatchModelTests.families[random.below(4)]
        let lower = key()
        let upper = random.oneIn(3) ? nil : key()
        let family = try column(name)
        let found = try batch.first(from: lower, to: upper, in: family)
        let expected = model.state.slice(name, CursorBounds(lower: lower, upper: upper)).first
        #expect(found?.key == expected?.key && found?.value == expected?.value, "\(location), the first of \(name)")
      case 6 where cursors.count < 4:
        let name = IndexedWriteBatchModelTests.families[random.below(4)]
        cursors.append(
          OpenCursor(try batch.cursor(in: column(name)), name, model.state.scan(name), savepoints.count))
      case 7 where !cursors.isEmpty: cursors.remove(at: random.below(cursors.count))
      case 8 where !cursors.isEmpty:
        let open = cursors[random.below(cursors.count)]
        batch.refresh(&open.cursor)
        open.rows = model.state.scan(open.family)
        open.depth = savepoints.count
        open.isEnded = false
        mix.refreshed += 1
      case 9, 10, 11:
        for open in cursors { try move(open) }
      default:
        let table = batch.own(engine.defaultFamily.state).table
        let change = change(model.state, large: large)
        if case .singleDelete = change { mix.cancelled += 1 }
        let family = try column(change.family)
        try Self.add(change, to: &batch, in: family)
        note(change)
        if batch.own(engine.defaultFamily.state).table !== table {
          mix.remade += 1
          for index in isRemade.indices { isRemade[index] = true }
        }
        if random.oneIn(4) { try count() }
      }
    }

    /// Usually makes a put or a delete, and then checks what the batch returns for a key, and its size.
    mutating func shortStep() throws {
      if random.oneIn(24) { return try step(large: false) }
      let name = IndexedWriteBatchModelTests.families[3 * random.below(2)]
      let key = key()
      let isDelete = random.oneIn(3)
      let change: ModelDatabase.Change =
        isDelete ? .delete(name, key) : .put(name, key, [UInt8](repeating: key[0], count: random.below(60)))
      try Self.add(change, to: &batch, in: column(name))
      note(change)
      let other = self.key()
      #expect(try batch.get(other, in: column(name)) == model.state.get(name, other), "\(location), key \(other)")
      let written = try batch.makeBatch(folding: .none)
      #expect(written.count == batch.count && written.byteCount == batch.byteCount, "\(location)")
    }

    /// Checks that the batch's counts are those that the commit would write if it folded no operands.
    mutating func count() throws {
      let unfolded = try batch.makeBatch(folding: .none)
      let written = try batch.makeBatch()
      #expect(unfolded.count == batch.count && unfolded.byteCount == batch.byteCount, "\(location)")
      #expect(batch.isEmpty == (written.count == 0) && written.count <= batch.count, "\(location)")
      mix.counted += 1
      if written.count < unfolded.count { mix.countedOperands += 1 }
      var cursor = try batch.cursor(in: column("scratch"))
      try cursor.seekToFirst()
      if cursor.isValid { mix.countedLeftOut += 1 }
    }

    /// Moves a cursor a few times in both directions, beginning with a seek.
    mutating func move(_ open: OpenCursor) throws {
      let target = key()
      if open.isEnded {
        var code: EngineError.Code?
        do throws(EngineError) { try open.cursor.seek(target) } catch { code = error.code }
        #expect(code == .cursorEnded, "\(location)")
        mix.ended += 1
        return
      }
      var index: Int?
      if random.oneIn(2) {
        try open.cursor.seek(target)
        index = open.rows.firstIndex { !$0.key.lexicographicallyPrecedes(target) }
      } else {
        try open.cursor.seekForPrevious(target)
        index = open.rows.lastIndex { !target.lexicographicallyPrecedes($0.key) }
      }
      for _ in 0..<random.below(8) {
        let row = index.map { open.rows[$0] }
        let found = open.cursor.isValid ? ModelDatabase.Row(open.cursor.keyBytes, open.cursor.valueBytes) : nil
        #expect(found == row, "\(location), \(open.family)")
        guard let position = index, found == row else { return }
        let isForward = random.oneIn(2)
        if isForward { try open.cursor.next() } else { try open.cursor.previous() }
        let next = isForward ? position + 1 : position - 1
        index = open.rows.indices.contains(next) ? next : nil
        mix.cursorSteps += 1
      }
    }

    /// Checks everything that the batch returns, and then the result of its commit.
    mutating func finish(_ committed: ModelDatabase) throws {
      for name in IndexedWriteBatchModelTests.families {
        var cursor = try batch.cursor(in: column(name))
        #expect(try rows(&cursor) == model.state.scan(name), "\(location), the last scan of \(name)")
      }
      try count()
      try engine.write(batch)
      for name in IndexedWriteBatchModelTests.families {
        var cursor = try engine.cursor(in: column(name))
        let expected = name == "scratch" ? [] : model.state.scan(name)
        #expect(try rows(&cursor) == expected, "\(location), \(name) after the commit")
      }
      try engine.compact()
      var cursor = try engine.cursor(in: column("once"))
      #expect(try rows(&cursor) == model.state.scan("once"), "\(location), compacted")
    }

    func rows(_ cursor: inout EngineCursor) throws -> [ModelDatabase.Row] {
      var rows: [ModelDatabase.Row] = []
      try cursor.seekToFirst()
      while cursor.isValid {
        rows.append(ModelDatabase.Row(cursor.keyBytes, cursor.valueBytes))
        try cursor.next()
      }
      return rows
    }
  }

  @Test func `short batches read and commit like the model, with trees and without`() throws {
    var committedWithout = 0
    var committedWith = 0
    var overwritten = 0
    for seed in UInt64(1)...(600 * UInt64(TestScale.value)) {
      var run = try Run(seed: seed)
      try run.commitSome()
      for _ in 0..<run.random.below(16) {
        let before = run.batch.first.count
        try run.shortStep()
        if run.batch.first.isOpen, before == run.batch.first.count, before > 0 { overwritten += 1 }
      }
      if run.batch.first.isOpen { committedWithout += 1 } else { committedWith += 1 }
      try run.engine.write(run.batch)
      for name in IndexedWriteBatchModelTests.families {
        var cursor = try run.engine.cursor(in: run.column(name))
        #expect(try run.rows(&cursor) == run.model.state.scan(name), "\(run.location), \(name) after the commit")
      }
    }
    #expect(committedWithout > 200 && committedWith > 100, "\(committedWithout), \(committedWith)")
    #expect(overwritten > 100, "\(overwritten)")
  }

  @Test func `a batch over what is committed reads and commits like the model`() throws {
    var mix = Mix()
    for seed in UInt64(1)...(40 * UInt64(TestScale.value)) {
      var run = try Run(seed: seed)
      try run.commitSome()
      let committed = run.model
      try run.batch.markAsScratch(run.column("scratch"))
      let isLarge = seed % 4 == 0
      for _ in 0..<(40 + run.random.below(isLarge ? 600 : 300)) { try run.step(large: isLarge) }
      try run.finish(committed)
      mix.undone += run.mix.undone
      mix.ended += run.mix.ended
      mix.refreshed += run.mix.refreshed
      mix.remade += run.mix.remade
      mix.cursorSteps += run.mix.cursorSteps
      mix.cancelled += run.mix.cancelled
      mix.counted += run.mix.counted
      mix.countedOperands += run.mix.countedOperands
      mix.countedLeftOut += run.mix.countedLeftOut
      mix.countedBack += run.mix.countedBack
    }
    #expect(mix.undone > 100 && mix.ended > 20 && mix.refreshed > 50, "\(mix)")
    #expect(mix.counted > 500 && mix.countedOperands > 50 && mix.countedLeftOut > 50 && mix.countedBack > 10, "\(mix)")
    #expect(mix.remade > 20 && mix.cursorSteps > 1_000 && mix.cancelled > 50, "\(mix)")
  }
}

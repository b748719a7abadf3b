import EngineTestSupport
import VarveEngine

extension ModelRun {
  func put() throws {
    let family = drawFamily()
    let key = drawKey()
    let value = source.value(&random)
    note(.put, family, key, value.count)
    let sequence = try engine.put(key, value, in: family.engine, durability: drawDurability())
    apply([.put(family.model, key, value)])
    try check(sequence, entryCount: 1)
  }

  func delete() throws {
    let family = drawFamily()
    let key = drawKey()
    note(.delete, family, key)
    let sequence = try engine.delete(key, in: family.engine, durability: drawDurability())
    apply([.delete(family.model, key)])
    try check(sequence, entryCount: 1)
  }

  /// Deletes a key that was put once by a single delete; puts one first if there is none.
  func singleDelete() throws {
    let family = drawFamily()
    guard let key = drawKeyPutOnce(family) else { return try put() }
    note(.singleDelete, family, key)
    let sequence = try engine.singleDelete(key, in: family.engine, durability: drawDurability())
    apply([.singleDelete(family.model, key)])
    try check(sequence, entryCount: 1)
  }

  func deleteRange() throws {
    let family = drawFamily()
    let (lower, upper) = drawRange()
    note(.deleteRange, family, lower)
    let sequence = try engine.deleteRange(from: lower, to: upper, in: family.engine, durability: drawDurability())
    apply([.deleteRange(family.model, lower, upper)])
    try check(sequence, entryCount: lower == upper ? 0 : 1)
  }

  func merge() throws {
    let family = drawFamily()
    let key = drawKey()
    let operand = drawOperand()
    note(.merge, family, key, operand.count)
    guard let rule = family.rule else {
      return try expect(.invalidArgument) { () throws(EngineError) in
        try engine.merge(key, operand, in: family.engine)
      }
    }
    let sequence = try engine.merge(key, operand, in: family.engine, durability: drawDurability())
    apply([.merge(family.model, key, operand, rule)])
    try check(sequence, entryCount: 1)
  }

  func putStamped() throws {
    let family = drawFamily()
    let others = random.below(3)
    note(.putStamped, family, nil, others)
    var batch = WriteBatch()
    var changes: [ModelDatabase.Change] = []
    let stamp = Self.bigEndian(lastSequence.value + UInt64(1 + others))
    let head = source.prefix(&random)
    if random.oneIn(2) {
      try batch.putStamped(head + [UInt8](repeating: 7, count: 8), [1], at: .key(head.count), in: family.engine)
      changes.append(.put(family.model, head + stamp, [1]))
    } else {
      let key = drawKey()
      try batch.putStamped(key, head + [UInt8](repeating: 7, count: 9), at: .value(head.count), in: family.engine)
      changes.append(.put(family.model, key, head + stamp + [7]))
    }
    for _ in 0..<others { changes.append(try addDrawn(to: &batch)) }
    let sequence = try engine.write(batch, durability: drawDurability())
    apply(changes)
    try check(sequence, entryCount: changes.count)
  }

  func writeBatch() throws {
    // Some batches take more than a quarter of a memtable, and some are empty.
    let count = random.oneIn(200) ? 300 + random.below(600) : random.below(12)
    var batch = WriteBatch()
    var changes: [ModelDatabase.Change] = []
    for _ in 0..<count { changes.append(try addDrawn(to: &batch)) }
    note(.batch, nil, nil, count)
    let sequence = try engine.write(batch, durability: drawDurability())
    apply(changes)
    try check(sequence, entryCount: count)
  }

  /// Adds one random change to a batch.
  private func addDrawn(to batch: inout WriteBatch) throws -> ModelDatabase.Change {
    let family = drawFamily()
    let key = drawKey()
    switch random.below(16) {
    case 0..<3:
      try batch.delete(key, in: family.engine)
      return .delete(family.model, key)
    case 3:
      let (lower, upper) = drawRange()
      guard lower != upper else { break }
      try batch.deleteRange(from: lower, to: upper, in: family.engine)
      return .deleteRange(family.model, lower, upper)
    case 4..<7:
      guard let rule = family.rule else { break }
      let operand = drawOperand()
      try batch.merge(key, operand, in: family.engine)
      return .merge(family.model, key, operand, rule)
    default: break
    }
    let value = source.value(&random)
    try batch.put(key, value, in: family.engine)
    return .put(family.model, key, value)
  }

  // MARK: - What was written

  /// Applies a commit to the model, and updates the counts of puts that decide which keys single deletes may remove.
  func apply(_ changes: [ModelDatabase.Change]) {
    model.write(changes)
    for change in changes {
      switch change {
      case .put(let family, let key, _): putCounts[family, default: [:]][key, default: 0] += 1
      // A merged value never counts as one put.
      case .merge(let family, let key, _, _): putCounts[family, default: [:]][key, default: 0] += 2
      // A key that `delete` removed may not be removed by a single delete, until a range delete has removed all of
      // its versions.
      case .delete(let family, let key): putCounts[family, default: [:]][key, default: 0] += 2
      case .singleDelete(let family, let key): putCounts[family]?[key] = nil
      case .deleteRange(let family, let lower, let upper):
        putCounts[family] = putCounts[family]?.filter { entry in
          entry.key.lexicographicallyPrecedes(lower) || !entry.key.lexicographicallyPrecedes(upper)
        }
      }
    }
  }

  private func drawKeyPutOnce(_ family: Family) -> [UInt8]? {
    let keys = (putCounts[family.model] ?? [:]).filter { $0.value == 1 }.keys
    guard !keys.isEmpty else { return nil }
    // Sorted, because the order of a dictionary differs from run to run.
    return keys.sorted { $0.lexicographicallyPrecedes($1) }[random.below(keys.count)]
  }

  /// Draws a range: usually a narrow one, and occasionally nearly all keys.
  private func drawRange() -> ([UInt8], [UInt8]) {
    let first = drawKey()
    let isWide = random.oneIn(3) || first.count == KeySource.keySizeMaximum
    let second = isWide ? drawKey() : first + [UInt8(random.below(3))]
    return first.lexicographicallyPrecedes(second) ? (first, second) : (second, first)
  }

  private func drawOperand() -> [UInt8] { (0..<random.below(6)).map { _ in UInt8(random.below(256)) } }

  private static func bigEndian(_ number: UInt64) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * UInt64($0))) }
  }

  private func drawDurability() -> Durability? {
    if hasUnlogged && random.oneIn(4) { return Durability.none }
    switch random.below(40) {
    case 0: return .power
    case 1: return .powerEvery(nanoseconds: 5_000_000)
    default: return nil
    }
  }

  /// Checks the sequence of a commit: it grows by one for each entry, and by one for an empty batch.
  private func check(_ sequence: SequenceNumber, entryCount: Int) throws {
    let wanted = SequenceNumber(lastSequence.value + UInt64(max(entryCount, 1)))
    lastSequence = sequence
    try require(sequence == wanted, "the commit got sequence \(sequence.value) instead of \(wanted.value)")
    try require(engine.visibleSequence == wanted, "the commit is not visible")
  }

  func sync() throws {
    note(.sync)
    try engine.sync()
  }

  // MARK: - What must be refused

  /// Writes something over a limit or to a dropped family, which must throw the right code and change nothing.
  func refusal() throws {
    let family = drawFamily()
    let choice = random.below(dropped.isEmpty ? 5 : 8)
    note(.refusal, family, nil, choice)
    let key = drawKey()
    let tooLong = [UInt8](repeating: 0x62, count: KeySource.keySizeMaximum + 1)
    switch choice {
    case 0: try expect(.limitExceeded) { () throws(EngineError) in try engine.put(tooLong, [1], in: family.engine) }
    case 1: try expect(.limitExceeded) { () throws(EngineError) in try engine.delete(tooLong, in: family.engine) }
    case 2:
      try expect(.limitExceeded) { () throws(EngineError) in
        try oversized.withSpan { (value) throws(EngineError) in
          try key.withUnsafeSpan { (key) throws(EngineError) in
            _ = try engine.put(key, value, in: family.engine)
          }
        }
      }
    case 3, 4: try refuseInBatch(family, key, tooLong, isKey: choice == 3)
    default: try refuseDropped(dropped[random.below(dropped.count)], family, key, choice)
    }
    try require(engine.visibleSequence == lastSequence, "a refused write took a sequence")
    let found = try engine.get(key, in: family.engine)
    try require(found == model.state.get(family.model, key), "a refused write changed \(brief(key))")
  }

  /// Checks that a batch that refused an entry still has its earlier entries, and can be written.
  private func refuseInBatch(_ family: Family, _ key: [UInt8], _ tooLong: [UInt8], isKey: Bool) throws {
    var batch = WriteBatch()
    let value = source.value(&random)
    try batch.put(key, value, in: family.engine)
    let size = batch.byteCount
    var code: EngineError.Code?
    do throws(EngineError) {
      if isKey {
        try batch.put(tooLong, [1], in: family.engine)
      } else {
        try oversized.withSpan { (value) throws(EngineError) in
          try key.withUnsafeSpan { (key) throws(EngineError) in try batch.put(key, value, in: family.engine) }
        }
      }
    } catch {
      code = error.code
    }
    try require(code == .limitExceeded, "an entry over the limit was taken into a batch")
    try require(batch.count == 1 && batch.byteCount == size, "a refused entry changed its batch")
    let sequence = try engine.write(batch)
    apply([.put(family.model, key, value)])
    try check(sequence, entryCount: 1)
  }

  private func refuseDropped(_ gone: ColumnFamily, _ family: Family, _ key: [UInt8], _ choice: Int) throws {
    switch choice {
    case 5: try expect(.familyDropped) { () throws(EngineError) in try engine.put(key, [1], in: gone) }
    case 6:
      try expect(.familyDropped) { () throws(EngineError) in _ = try engine.get(key, in: gone) }
      try expect(.familyDropped) { () throws(EngineError) in _ = try engine.cursor(in: gone) }
    default:
      // A batch is atomic: the entry for the family that exists is not written either.
      try expect(.familyDropped) { () throws(EngineError) in
        var batch = WriteBatch()
        try batch.put(key, [1, 2, 3], in: family.engine)
        try batch.put(key, [1], in: gone)
        try engine.write(batch)
      }
    }
  }

  private func expect<R>(_ code: EngineError.Code, _ body: () throws(EngineError) -> R) throws {
    do throws(EngineError) {
      _ = try body()
    } catch {
      try require(error.code == code, "refused with \(error) instead of \(code)")
      return
    }
    throw ModelMismatch(description: "not refused; it should have been with \(code)")
  }
}

extension [UInt8] {
  /// Calls `body` with the bytes as a span.
  func withUnsafeSpan<R, E: Error>(_ body: (RawSpan) throws(E) -> R) throws(E) -> R {
    unsafe try body(span.bytes)
  }
}

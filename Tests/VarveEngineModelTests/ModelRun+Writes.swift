import EngineTestSupport
import VarveEngine

extension ModelRun {
  func put() throws {
    let family = drawFamily()
    let key = drawKey()
    let value = source.value(&random)
    note(.put, family, key, value.count)
    let sequence = try engine.put(key, value, in: family.engine, durability: drawDurability())
    model.write([.put(family.model, key, value)])
    try check(sequence, entryCount: 1)
  }

  func delete() throws {
    let family = drawFamily()
    let key = drawKey()
    note(.delete, family, key)
    let sequence = try engine.delete(key, in: family.engine, durability: drawDurability())
    model.write([.delete(family.model, key)])
    try check(sequence, entryCount: 1)
  }

  func writeBatch() throws {
    // Some hold more than a quarter of a memtable, some nothing.
    let count = random.oneIn(200) ? 300 + random.below(600) : random.below(12)
    var batch = WriteBatch()
    var changes: [ModelDatabase.Change] = []
    for _ in 0..<count {
      let family = drawFamily()
      let key = drawKey()
      if random.oneIn(4) {
        try batch.delete(key, in: family.engine)
        changes.append(.delete(family.model, key))
      } else {
        let value = source.value(&random)
        try batch.put(key, value, in: family.engine)
        changes.append(.put(family.model, key, value))
      }
    }
    note(.batch, nil, nil, count)
    let sequence = try engine.write(batch, durability: drawDurability())
    model.write(changes)
    try check(sequence, entryCount: count)
  }

  private func drawDurability() -> Durability? {
    if hasUnlogged && random.oneIn(4) { return Durability.none }
    switch random.below(40) {
    case 0: return .power
    case 1: return .powerEvery(nanoseconds: 5_000_000)
    default: return nil
    }
  }

  /// Sequences go up by one an entry; an empty batch takes one, too.
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

  /// Something over a limit, or for a family that is gone: an error of the right code, and no change.
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

  /// A batch that refused an entry holds what it held before, and can be written.
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
    model.write([.put(family.model, key, value)])
    try check(sequence, entryCount: 1)
  }

  private func refuseDropped(_ gone: ColumnFamily, _ family: Family, _ key: [UInt8], _ choice: Int) throws {
    switch choice {
    case 5: try expect(.familyDropped) { () throws(EngineError) in try engine.put(key, [1], in: gone) }
    case 6:
      try expect(.familyDropped) { () throws(EngineError) in _ = try engine.get(key, in: gone) }
      try expect(.familyDropped) { () throws(EngineError) in _ = try engine.cursor(in: gone) }
    default:
      // Whole or not at all: the entry for the family that exists isn't written either.
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

import EngineTestSupport

@testable import VarveEngine

extension CrashDriver {
  /// The changes of a batch in addition to those drawn, or the way in which it is committed.
  enum Shape: Sendable {
    case drawn, large, rangeDelete, merge, singleDelete
    /// The batch is written through a transaction, which reads, and rolls some of its writes back.
    case transaction
    /// A transaction that began before the batch, and must not miss it, is tried after it, and must leave no changes.
    case conflict
  }

  /// Commits one batch, and updates the guarantee.
  func write(_ durability: Durability, _ shape: Shape = .drawn) throws {
    let guarantee = shared.guarantee
    let generation = CrashGuarantee.generation(after: guarantee.familyChanges)
    let batch = CrashBatch(
      number: model.batches.count + 1, durability: durability,
      changes: drawChanges(shape, isLogged: durability != .none),
      extra: random.oneIn(extraOneIn) ? generation : nil)
    let spoiled = shape == .conflict ? try beginSpoiled(batch) : nil
    model.batches.append(batch)
    shared.update { $0.submitted = batch.number }
    if shape == .transaction {
      let (isolation, rollsBack) = (drawIsolation(), random.oneIn(2))
      try commit { try self.writeTransaction(batch, isolation, rollsBack: rollsBack) }
    } else {
      try commit { try self.writeBatch(batch) }
    }
    // A store to the log cannot report an error: after the power is lost, the commit is not acknowledged.
    if disk.hasCrashed { throw CrashFailure("the power went during the commit") }
    present.insert(batch.number)
    if case .powerEvery(let nanoseconds) = durability { timed.append((batch.number, clock.now() + nanoseconds)) }
    shared.update { guarantee in
      if batch.isLogged { guarantee.process = batch.number }
      if durability == .power { guarantee.power = batch.number }
    }
    if let spoiled { try commitSpoiled(spoiled, durability) }
  }

  /// Runs a commit, and runs it again if a failed sync prevented it.
  private func commit(_ body: () throws -> Void) throws {
    let failures = disk.failedSyncCount
    do { try body() } catch {
      if try isUndone(error, after: failures) { try body() }
    }
  }

  private func writeBatch(_ batch: CrashBatch) throws {
    var writes = WriteBatch()
    try write(batch, to: &writes)
    try engine.write(writes, durability: batch.durability)
  }

  private func write<W: CrashWriter & ~Copyable>(_ batch: CrashBatch, to writer: inout W) throws {
    for role in CrashBatch.Role.allCases where role != .extra || batch.extra != nil {
      try batch.write(to: &writer, role, try family(role))
    }
  }

  // MARK: Transactions

  private static let poison = [UInt8(ascii: "x")]

  private func drawIsolation() -> TransactionIsolation { random.oneIn(2) ? .serializable : .snapshot }

  private func writeTransaction(_ batch: CrashBatch, _ isolation: TransactionIsolation, rollsBack: Bool) throws {
    var transaction = engine.beginTransaction(isolation: isolation)
    let marker = CrashBatch.markerKey(batch.number)
    guard try transaction.get(marker) == nil else { throw CrashFailure("batch \(batch.number) was there before") }
    try write(batch, to: &transaction)
    guard try transaction.get(marker) == CrashBatch.markerValue(batch.number, .main) else {
      throw CrashFailure("the transaction of batch \(batch.number) does not see what it wrote")
    }
    if rollsBack {
      transaction.setSavepoint()
      try transaction.put(Self.poison, Self.poison)
      try transaction.deleteRange(from: marker, to: marker + [0])
      try transaction.rollbackToSavepoint()
    }
    try transaction.commit(durability: batch.durability)
  }

  /// A box for a transaction, because an optional of a noncopyable type cannot be passed on.
  final class Spoiled {
    var transaction: OptimisticTransaction?
    init(_ transaction: consuming OptimisticTransaction) { self.transaction = consume transaction }
  }

  /// Begins a transaction that misses the next batch: it reads, iterates over or writes its marker.
  private func beginSpoiled(_ batch: CrashBatch) throws -> Spoiled {
    let way = random.below(4)
    var transaction = engine.beginTransaction(isolation: way < 2 ? .serializable : .snapshot)
    let marker = CrashBatch.markerKey(batch.number)
    try transaction.put(Self.poison, Self.poison)
    switch way {
    case 0: _ = try transaction.get(marker)
    case 1:
      var cursor = try transaction.cursor(bounds: .prefix([CrashBatch.markerPrefix]))
      try cursor.seekToLast()
      while cursor.isValid { try cursor.next() }
    case 2: try transaction.delete(marker)
    default: try transaction.deleteRange(from: [CrashBatch.markerPrefix], to: marker + [0])
    }
    return Spoiled(transaction)
  }

  private func commitSpoiled(_ spoiled: Spoiled, _ durability: Durability) throws {
    guard let transaction = spoiled.transaction.take() else { fatalError("a transaction ends once") }
    let failures = disk.failedSyncCount
    do throws(EngineError) {
      try transaction.commit(durability: durability)
    } catch {
      if error.code == .conflict { return }
      // The log needed a segment, and a sync failed.
      guard try isUndone(error, after: failures) else { throw CrashFailure("a spoiled transaction came to \(error)") }
      return
    }
    if disk.hasCrashed { throw CrashFailure("the power went during the commit") }
    throw CrashFailure("a transaction that missed batch \(model.batches.count) was committed")
  }

  // MARK: Drawing

  private func drawChanges(_ shape: Shape, isLogged: Bool) -> [CrashChange] {
    switch shape {
    case .large: return drawLarge()
    case .rangeDelete:
      return [random.oneIn(3) ? .deleteCounters(drawCounters()) : .deleteSlots(drawSlots())] + drawFew(isLogged)
    case .merge: return (0...random.below(3)).map { _ in drawMerge() } + drawFew(isLogged)
    case .singleDelete: return drawOnce(isLogged, minimum: 1) + drawFew(false)
    default: return drawFew(isLogged)
    }
  }

  private func drawFew(_ isLogged: Bool) -> [CrashChange] {
    var changes = (0..<(1 + random.below(4))).map { _ in
      let slot = random.below(CrashChange.slotCount)
      return random.oneIn(3) ? CrashChange.delete(slot: slot) : .put(slot: slot, size: random.below(700))
    }
    if random.oneIn(8) { changes.append(drawMerge()) }
    if random.oneIn(16) { changes.insert(.deleteSlots(drawSlots()), at: random.below(changes.count + 1)) }
    if random.oneIn(4) { changes += drawOnce(isLogged, minimum: 0) }
    return changes
  }

  private func drawLarge() -> [CrashChange] {
    // Larger than a quarter of a memtable, and in one of four cases larger than a segment.
    let slots = CrashChange.slotCount
    if random.oneIn(4) { return [.put(slot: random.below(slots), size: 70_000 + random.below(20_000))] }
    return (0..<60).map { _ in .put(slot: random.below(slots), size: 300 + random.below(400)) }
  }

  private func drawMerge() -> CrashChange { .merge(counter: random.below(CrashChange.counterCount)) }

  /// Draws a range of slots, which is usually narrow.
  private func drawSlots() -> Range<Int> {
    let first = random.below(CrashChange.slotCount)
    return first..<min(CrashChange.slotCount, first + 1 + random.below(random.oneIn(4) ? 60 : 6))
  }

  private func drawCounters() -> Range<Int> {
    let first = random.below(CrashChange.counterCount)
    return first..<min(CrashChange.counterCount, first + 1 + random.below(4))
  }

  /// Draws puts and single deletes of once-keys, in turn.
  ///
  /// They are only in logged batches: such a put or single delete is not lost without all later batches.
  private func drawOnce(_ isLogged: Bool, minimum: Int) -> [CrashChange] {
    guard isLogged else { return [] }
    var isThere = model.expected(.main, present).once.map { $0 != nil }
    var changes: [CrashChange] = []
    for _ in 0..<(minimum + random.below(2)) {
      var index = random.below(isThere.count)
      if minimum > 0, changes.isEmpty {
        // The first change removes a key that exists; if none does, one is put first.
        if !isThere.contains(true) {
          changes.append(.putOnce(index))
          isThere[index] = true
        }
        while !isThere[index] { index = (index + 1) % isThere.count }
      }
      changes.append(isThere[index] ? .singleDelete(index) : .putOnce(index))
      isThere[index].toggle()
    }
    return changes
  }
}

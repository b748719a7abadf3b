import EngineTestSupport
import VarveTestSupport

@testable import Varve

/// Write transactions: rows, parts of every form, savepoints over both, and independent commits in between.
extension ExtensionRun {
  /// Runs one write transaction, which ends as `ending` specifies.
  func transaction(_ ending: ExtensionStep) throws {
    note(ending)
    state = committed
    use = IndependentUse()
    hasWritten = false
    hasAppended = false
    hasReplaced = false
    let durability: StorageDurability = random.oneIn(8) ? .power : .process
    do {
      try database.write(durability: durability) { tx in
        try steps(in: tx, depth: 0)
        if ending == .rollBack { try tx.rollBack() }
        if ending == .throwOut { throw Stop() }
      }
      guard ending == .commit else { throw ContractBroken("a closure threw, and its write did not") }
      if use.conflicts, hasWritten { throw ContractBroken("a commit was not refused: \(use)") }
      if !use.conflicts { acceptCommit() }
    } catch is Stop {
    } catch let error as DatabaseError where error.code == .rolledBack && ending == .rollBack {
    } catch let error as DatabaseError where error.code == .conflict && ending == .commit && mayConflict {
      note(.conflict)
      hasReplaced = false
    }
    if hasReplaced, ending == .commit { try database.waitUntilReady(Self.dependent) }
    try noteCommitted()
  }

  /// Whether the commit may conflict: because of the keys, or because the storage refuses commits at random.
  private var mayConflict: Bool { use.conflicts || site.faults.conflictOneIn > 0 }

  /// Accepts the transaction's state. For the independent parts, it applies the transaction's writes to their current
  /// content.
  private func acceptCommit() {
    var after = state
    for form in [ModelParts.Form.asideValues, .asideSums] {
      for key in 0..<ModelParts.keyCount { after[form, key] = committed[form, key] }
    }
    use.apply(to: &after)
    after.empty(.scratch)
    committed = after
  }

  private func steps(in tx: WriteTransaction, depth: Int) throws {
    for _ in 0..<(1 + random.below(depth == 0 ? 16 : 8)) {
      let step = ExtensionStep.inWrites(&random)
      switch step {
      case .savepointKept, .savepointUndone:
        // Savepoints are at most three deep: further ones become reads.
        if depth < 3 { try savepoint(step, tx, depth) } else { try read(.readRow, tx) }
      case .independentInside: try independent(step)
      case .replaceInside: try replaceInside(tx)
      case .checkInside:
        note(step)
        try check(tx, state, isInside: true)
      case .set, .setOther, .remove, .removeRange, .removeCollection: try write(step, tx)
      case .readRow, .readWritten: try read(step, tx)
      default: try usePart(step, tx)
      }
    }
  }

  private func savepoint(_ step: ExtensionStep, _ tx: WriteTransaction, _ depth: Int) throws {
    note(step, depth)
    let saved = (state, hasWritten, hasAppended, hasReplaced, use.writes.count)
    do {
      let body: () throws -> Void = { [self] in
        try steps(in: tx, depth: depth + 1)
        if step == .savepointUndone { throw Stop() }
      }
      if random.oneIn(2) { try tx.savepoint(body) } else { try database.write { _ in try body() } }
      if step == .savepointUndone { throw ContractBroken("a closure threw, and its savepoint did not") }
    } catch is Stop {
      (state, hasWritten, hasAppended, hasReplaced) = (saved.0, saved.1, saved.2, saved.3)
      use.writes.removeSubrange(saved.4...)
    }
  }

  // MARK: - Rows

  private func write(_ step: ExtensionStep, _ tx: WriteTransaction) throws {
    let key = random.below(ExtensionState.keyCount)
    note(step, key)
    switch step {
    case .set:
      let number = random.below(10_000)
      try tx.set(number, key: key, in: "rows")
      hasWritten = true
      state.rows[key] = number
      receive(key..<(key + 1))
    case .setOther:
      let number = random.below(10_000)
      try tx.set(number, key: key, in: "others")
      hasWritten = true
      state.others[key] = number
    case .remove:
      let wasThere = state.rows[key] != nil
      try expect(try tx.remove(key: key, in: "rows"), wasThere, "whether row \(key) was there")
      state.rows[key] = nil
      if wasThere { receive(key..<(key + 1)) }
    case .removeRange:
      let keys = key..<min(key + 1 + random.below(6), ExtensionState.keyCount)
      let there = keys.count { state.rows[$0] != nil }
      try expect(try tx.remove(in: "rows", keys), there, "the rows of \(keys)")
      for key in keys where state.rows[key] != nil {
        state.rows[key] = nil
        receive(key..<(key + 1))
      }
    default:
      // An extension that catches up could not learn from this change which rows there were.
      guard registered == .all else { return }
      if random.oneIn(3) {
        _ = try tx.removeAll()
        state.others = Array(repeating: nil, count: ExtensionState.keyCount)
      } else {
        let count = state.rows.count { $0 != nil }
        try expect(try tx.removeAll(in: "rows"), count, "the rows of all keys")
      }
      state.rows = Array(repeating: nil, count: ExtensionState.keyCount)
      receive(0..<ExtensionState.keyCount)
    }
  }

  /// Updates the rows that the registered extensions write. (The removal of no row may not commit at all.)
  private func receive(_ keys: Range<Int>) {
    hasWritten = true
    guard registered.contains(.deriving) else { return }
    for key in keys {
      if registered.contains(.chain) {
        state.derive(key)
      } else {
        state.derived[key] = state.rows[key].map { 2 * $0 }
      }
    }
  }

  private func read(_ step: ExtensionStep, _ tx: WriteTransaction) throws {
    let key = random.below(ExtensionState.keyCount)
    note(step, key)
    if step == .readRow {
      try expect(try tx.object(Int.self, key: key, in: "rows"), state.rows[key], "row \(key)")
    } else {
      try expect(try tx.object(Int.self, key: key, in: "derived"), state.derived[key], "what is derived of \(key)")
      try expect(
        try tx.object(Int.self, key: key, in: "chained"), state.chained[key], "what comes of \(key) in the end")
    }
  }

  // MARK: - Parts

  private func usePart(_ step: ExtensionStep, _ tx: WriteTransaction) throws {
    let forms = ModelParts.Form.allCases
    var form = forms[random.below(forms.count)]
    let key = random.below(ModelParts.keyCount)
    // Counters accept additions, and other forms do not.
    if step == .addPart, !form.isCounter { form = random.oneIn(2) ? .sums : .asideSums }
    if step == .putPart, form.isCounter { form = random.oneIn(2) ? .values : .writeOnce }
    note(step, form.rawValue, key)
    let part = try tx[Self.parts][form]
    let bytes = ModelParts.key(key)
    switch step {
    case .putPart:
      // A key of a write-once part is put only if it has no value.
      if form == .writeOnce, state[form, key] != nil { return }
      let number = Int64(random.below(1_000_000))
      try part.put(bytes, BigEndian.bytes(number))
      wrote(.put(form, key, number), form, key..<(key + 1))
      state[form, key] = number
    case .addPart:
      let number = Int64(random.below(200)) - 100
      try part.add(number, to: bytes)
      wrote(.add(form, key, number), form, 0..<0)
      state.add(number, to: key, of: form)
    case .deletePart:
      if form == .writeOnce, state[form, key] == nil { return }
      try part.delete(bytes)
      wrote(.delete(form, key), form, key..<(key + 1))
      state[form, key] = nil
    case .deletePartRange:
      let keys = key..<min(key + 1 + random.below(6), ModelParts.keyCount)
      try part.deleteRange(Self.range(keys))
      for key in keys {
        wrote(.delete(form, key), form, key..<(key + 1))
        state[form, key] = nil
      }
    default:
      if form == .appendOnly, hasAppended {
        let code = Contract.code { _ = try part.get(bytes) }
        return try expect(code, .invalidArgument, "a read of what the transaction has appended to")
      }
      try readPart(step, part, form, key)
    }
  }

  static func range(_ keys: Range<Int>) -> StorageRange {
    StorageRange(lower: ModelParts.key(keys.lowerBound), upper: ModelParts.key(keys.upperBound))
  }

  private func wrote(_ write: IndependentUse.Write, _ form: ModelParts.Form, _ keys: Range<Int>) {
    if form == .appendOnly { hasAppended = true }
    if form == .values || form == .sums { hasWritten = true }
    guard form.isIndependent else { return }
    hasWritten = true
    use.writes.append(write)
    use.use(form, keys)
  }

  private func readPart(_ step: ExtensionStep, _ part: Part, _ form: ModelParts.Form, _ key: Int) throws {
    let keys = key..<min(key + 1 + random.below(10), ModelParts.keyCount)
    if form.isIndependent { use.use(form, step == .getPart ? key..<(key + 1) : keys) }
    let there = keys.filter { state[form, $0] != nil }
    switch step {
    case .getPart:
      if form.isCounter {
        let found = try part.counter(ModelParts.key(key))
        try expect(found, state[form, key] ?? 0, "counter \(key) of \(form)")
      } else {
        let found: Int64? = try part.get(ModelParts.key(key)).flatMap { BigEndian.number($0) }
        try expect(found, state[form, key], "key \(key) of \(form)")
      }
    case .firstOfPart:
      let isReverse = random.oneIn(2)
      let found = try part.first(in: Self.range(keys), isReverse: isReverse)
      let expected = isReverse ? there.last : there.first
      try expect(found?.key, expected.map { ModelParts.key($0) }, "the first key in \(keys) of \(form)")
    case .countPart:
      try expect(try part.count(Self.range(keys)), there.count, "how many of \(keys) \(form) has")
    default:
      let isReverse = random.oneIn(2)
      var cursor = try part.cursor(Self.range(keys), isReverse: isReverse)
      for key in isReverse ? there.reversed() : there {
        let entry = try cursor.next()
        try expect(entry?.key, ModelParts.key(key), "the next key of \(form)")
        try expect(
          try entry.map { try Self.number($0.value, form) }, state[form, key], "the value at \(key) of \(form)")
      }
      try expect(try cursor.next()?.key, nil, "the end of a scan of \(form)")
    }
  }

  /// Returns the number in an entry.
  static func number(_ bytes: [UInt8], _ form: ModelParts.Form) throws -> Int64 {
    guard form.isCounter else {
      guard let number: Int64 = BigEndian.number(bytes) else { throw ContractBroken("\(form) has \(bytes)") }
      return number
    }
    let rule: CounterRule = form == .maxima ? .maximum : .sum
    guard let number = rule.number(bytes) else { throw ContractBroken("\(form) has \(bytes)") }
    return number
  }
}

import VarveEngine

extension SequenceRun {
  /// Notes the committed changes in all open transactions.
  func noteCommitted(_ changes: [(FamilyID, HeldTransaction.Change)]) {
    for held in transactions {
      for (family, change) in changes { held?.noteCommitted(family, change) }
    }
  }

  func useTransaction(_ operation: SequenceOperation, _ answer: inout SequenceAnswer) throws(EngineError) {
    switch operation {
    case .beginTransaction(let location, let isSerializable):
      transactions[location] = HeldTransaction(engine, isSerializable: isSerializable)
      answer.add(transactions[location]?.transaction?.sequence.value ?? 0)
    case .readTransaction(let location, let slot, let key):
      guard let held = transaction(location, &answer), let family = family(slot, &answer) else { return }
      held.noteRead(HeldTransaction.footprint(of: key.bytes, family.id))
      answer.add(try held.transaction?.get(key.bytes, in: family))
    case .scanTransaction(let location, let slot, let bounds, let isForward, let steps):
      guard let held = transaction(location, &answer), let family = family(slot, &answer) else { return }
      try scan(held, family, bounds.cursorBounds, isForward, steps, &answer)
    case .writeTransaction(let location, let changes):
      guard let held = transaction(location, &answer) else { return }
      for change in changes {
        guard let family = family(change.family, &answer) else { continue }
        try write(change, held, family)
      }
      answer.add(UInt64(held.transaction?.writeCount ?? 0))
    case .savepoint(let location, let isSet):
      guard let held = transaction(location, &answer) else { return }
      if isSet { held.transaction?.setSavepoint() } else { try held.transaction?.rollbackToSavepoint() }
      if isSet { held.noteSavepoint() } else { held.noteRollback() }
      answer.add(UInt64(held.transaction?.writeCount ?? 0))
    case .commitTransaction(let location): try commit(location, &answer)
    case .rollBackTransaction(let location): transactions[location] = nil
    default: fatalError("\(operation.kind) is not an operation on a transaction")
    }
  }

  /// Returns the transaction of a slot. If there is none, returns `nil` and adds that to the answer.
  private func transaction(_ location: Int, _ answer: inout SequenceAnswer) -> HeldTransaction? {
    if transactions[location] == nil { answer.add(word: "no-transaction") }
    return transactions[location]
  }

  private func write(
    _ change: SequenceOperation.Change, _ held: HeldTransaction, _ family: ColumnFamily
  ) throws(EngineError) {
    let key = change.key.bytes
    if let value = change.value {
      if change.isOperand == true {
        try held.transaction?.merge(key, value.bytes, in: family)
      } else {
        try held.transaction?.put(key, value.bytes, in: family)
      }
      held.noteWrite(family.id, .put(key))
    } else if let end = change.end {
      try held.transaction?.deleteRange(from: key, to: end.bytes, in: family)
      // An empty range adds no entry.
      if key.lexicographicallyPrecedes(end.bytes) { held.noteWrite(family.id, .range(key, end.bytes)) }
    } else {
      try held.transaction?.delete(key, in: family)
      held.noteWrite(family.id, .removal(key))
    }
  }

  /// Moves a cursor `steps` times from one end. The keys up to its last position, or all if it came to the end, count
  /// as read.
  private func scan(
    _ held: HeldTransaction, _ family: ColumnFamily, _ bounds: CursorBounds, _ isForward: Bool, _ steps: Int,
    _ answer: inout SequenceAnswer
  ) throws(EngineError) {
    guard var cursor = try held.transaction?.cursor(in: family, bounds: bounds) else { return }
    if isForward { try cursor.seekToFirst() } else { try cursor.seekToLast() }
    var rest = steps
    while cursor.isValid, rest > 0 {
      answer.add(cursor.keyBytes)
      answer.add(cursor.valueBytes)
      if isForward { try cursor.next() } else { try cursor.previous() }
      rest -= 1
    }
    let last = cursor.isValid ? cursor.keyBytes : nil
    answer.add(last)
    var read = HeldTransaction.Footprint(family: family.id, lower: bounds.lower, upper: bounds.upper)
    if let last, isForward {
      read = .init(family: family.id, lower: bounds.lower, upper: last, includesUpper: true)
    } else if let last {
      read = .init(family: family.id, lower: last, upper: bounds.upper)
    }
    held.noteRead(read)
  }

  private func commit(_ location: Int, _ answer: inout SequenceAnswer) throws(EngineError) {
    guard let held = transaction(location, &answer) else { return }
    transactions[location] = nil
    // A dropped family is always reported.
    let isFamilyGone = !held.families.isSubset(of: engine.families.map(\.id))
    let engine = engine
    let expected =
      isFamilyGone
      ? nil
      : try held.expectedOutcome { (id, key) throws(EngineError) in
        let family = engine.families.first { $0.id == id }
        return try engine.get(key, in: family, snapshot: held.snapshot) != nil
      }
    if expected == .unclear {
      note(.unclear)
      return answer.add(word: "unclear")
    }
    guard let transaction = held.transaction.take() else { return }
    if transaction.sequence != held.snapshot.sequence { note(fault: "a transaction began at another sequence") }
    do throws(EngineError) {
      answer.add(try transaction.commit().value)
    } catch {
      answer.add(name: error.code.description)
      note(.conflict)
      if expected == .committed { note(fault: "a transaction that missed nothing was refused: \(error)") }
      return
    }
    note(.committed)
    if expected == .conflict { note(fault: "a transaction that missed a change was committed") }
    for case (let family, .range(let from, let to)) in held.own { noteRange(from, to, family) }
    noteCommitted(held.own.map { ($0.family, $0.change) })
  }
}

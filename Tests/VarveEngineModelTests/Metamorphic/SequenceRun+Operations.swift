import VarveEngine

@testable import EngineModel

/// A box for a cursor in a slot, because cursors are not copyable.
final class HeldSequenceCursor {
  var cursor: EngineCursor
  init(_ cursor: consuming EngineCursor) { self.cursor = cursor }
}

extension SequenceRun {
  // MARK: - Writes

  func write(_ operation: SequenceOperation, _ answer: inout SequenceAnswer) throws(EngineError) {
    switch operation {
    case .put(let slot, let key, let value):
      guard let family = family(slot, &answer) else { return }
      answer.add(try engine.put(key.bytes, value.bytes, in: family).value)
      noteCommitted([(family.id, .put(key.bytes))])
    case .delete(let slot, let key):
      guard let family = family(slot, &answer) else { return }
      answer.add(try engine.delete(key.bytes, in: family).value)
      noteCommitted([(family.id, .removal(key.bytes))])
    case .deleteRange(let slot, let from, let to):
      guard let family = family(slot, &answer) else { return }
      answer.add(try engine.deleteRange(from: from.bytes, to: to.bytes, in: family).value)
      noteRange(from.bytes, to.bytes, family.id)
      noteCommitted([(family.id, .range(from.bytes, to.bytes))])
    case .merge(let slot, let key, let operand):
      guard let family = family(slot, &answer) else { return }
      answer.add(try engine.merge(key.bytes, operand.bytes, in: family).value)
      noteCommitted([(family.id, .put(key.bytes))])
    case .putStamped, .putOnce, .removeOnce: try writeSpecial(operation, &answer)
    case .batch(let changes): try writeBatch(changes, &answer)
    case .fill(let slot, let first, let count, let value):
      guard let family = family(slot, &answer) else { return }
      var batch = WriteBatch()
      let numbers = first..<first + count
      for number in numbers {
        let bytes = SequenceOperation.Value(size: value.size, seed: value.seed &+ UInt64(number)).bytes
        try batch.put(SequenceSource.fillKey(number).bytes, bytes, in: family)
      }
      answer.add(try engine.write(batch).value)
      noteCommitted(numbers.map { (family.id, .put(SequenceSource.fillKey($0).bytes)) })
    default:
      guard case .refusal(let slot) = operation, let family = family(slot, &answer) else { return }
      let tooLong = [UInt8](repeating: 0x62, count: KeySource.keySizeMaximum + 1)
      try engine.put(tooLong, [1], in: family)
    }
  }

  private func writeSpecial(_ operation: SequenceOperation, _ answer: inout SequenceAnswer) throws(EngineError) {
    switch operation {
    case .putStamped(let slot, let value, let isInKey):
      guard let family = family(slot, &answer) else { return }
      let room = [UInt8](repeating: 0, count: 8)
      var batch = WriteBatch()
      if isInKey {
        try batch.putStamped(Array("stamp/".utf8) + room, value.bytes, at: .key(6), in: family)
      } else {
        try batch.putStamped(Array("stamped".utf8), value.bytes + room, at: .value(value.size), in: family)
      }
      let sequence = try engine.write(batch).value
      answer.add(sequence)
      let stamp = (0..<8).map { UInt8(truncatingIfNeeded: sequence >> (56 - 8 * UInt64($0))) }
      noteCommitted([(family.id, .put(isInKey ? Array("stamp/".utf8) + stamp : Array("stamped".utf8)))])
    case .putOnce(let slot, let number):
      guard let family = family(slot, &answer) else { return }
      let key = SequenceSource.onceKey(number).bytes
      if once[family.id]?.contains(key) == true { return answer.add(word: "there") }
      answer.add(try engine.put(key, [UInt8(number)], in: family).value)
      once[family.id, default: []].insert(key)
      noteCommitted([(family.id, .put(key))])
    default:
      guard case .removeOnce(let slot, let number) = operation, let family = family(slot, &answer) else { return }
      let key = SequenceSource.onceKey(number).bytes
      guard once[family.id]?.contains(key) == true else { return answer.add(word: "not-there") }
      answer.add(try engine.singleDelete(key, in: family).value)
      once[family.id]?.remove(key)
      noteCommitted([(family.id, .removal(key))])
    }
  }

  /// Removes the keys of `putOnce` that a range delete removes.
  func noteRange(_ from: [UInt8], _ to: [UInt8], _ family: FamilyID) {
    guard let keys = once[family] else { return }
    once[family] = keys.filter { $0.lexicographicallyPrecedes(from) || !$0.lexicographicallyPrecedes(to) }
  }

  private func writeBatch(
    _ changes: [SequenceOperation.Change], _ answer: inout SequenceAnswer
  ) throws(EngineError) {
    var batch = WriteBatch()
    var written: [(FamilyID, HeldTransaction.Change)] = []
    for change in changes {
      guard let family = family(change.family, &answer) else { continue }
      if let value = change.value {
        try batch.put(change.key.bytes, value.bytes, in: family)
        written.append((family.id, .put(change.key.bytes)))
      } else if let end = change.end {
        try batch.deleteRange(from: change.key.bytes, to: end.bytes, in: family)
        written.append((family.id, .range(change.key.bytes, end.bytes)))
      } else {
        try batch.delete(change.key.bytes, in: family)
        written.append((family.id, .removal(change.key.bytes)))
      }
    }
    answer.add(try engine.write(batch).value)
    for case (let family, .range(let from, let to)) in written { noteRange(from, to, family) }
    noteCommitted(written)
  }

  // MARK: - Reads

  /// Returns the snapshot of a slot. An empty slot, or none, stands for the newest state.
  private func snapshot(_ slot: Int?) -> EngineSnapshot? { slot.flatMap { snapshots[$0] } }

  func read(_ operation: SequenceOperation, _ answer: inout SequenceAnswer) throws(EngineError) {
    switch operation {
    case .get(let slot, let key, let snapshot):
      guard let family = family(slot, &answer) else { return }
      answer.add(try engine.get(key.bytes, in: family, snapshot: self.snapshot(snapshot)))
    case .contains(let slot, let key, let snapshot):
      guard let family = family(slot, &answer) else { return }
      answer.add(try engine.contains(key.bytes, in: family, snapshot: self.snapshot(snapshot)) ? 1 : 0)
    case .multiGet(let slot, let keys, let snapshot):
      guard let family = family(slot, &answer) else { return }
      let values = try engine.multiGet(keys.map(\.bytes), in: family, snapshot: self.snapshot(snapshot))
      for value in values { answer.add(value) }
    default:
      guard case .scan(let slot, let bounds, let isForward, let steps, let snapshot) = operation,
        let family = family(slot, &answer)
      else { return }
      var cursor = try engine.cursor(in: family, bounds: bounds.cursorBounds, snapshot: self.snapshot(snapshot))
      if isForward { try cursor.seekToFirst() } else { try cursor.seekToLast() }
      var rest = steps
      while cursor.isValid, rest > 0 {
        answer.add(cursor.keyBytes)
        answer.add(cursor.valueBytes)
        if isForward { try cursor.next() } else { try cursor.previous() }
        rest -= 1
      }
      add(cursor, &answer)
    }
  }

  // MARK: - Cursors

  func useCursor(_ operation: SequenceOperation, _ answer: inout SequenceAnswer) throws(EngineError) {
    switch operation {
    case .openCursor(let location, let slot, let bounds, let snapshot):
      cursors[location] = nil
      guard let family = family(slot, &answer) else { return }
      cursors[location] = HeldSequenceCursor(
        try engine.cursor(in: family, bounds: bounds.cursorBounds, snapshot: self.snapshot(snapshot)))
    case .closeCursor(let location): cursors[location] = nil
    default:
      guard case .moveCursor(let location, let move) = operation else { return }
      guard let held = cursors[location] else { return answer.add(word: "no-cursor") }
      switch move {
      case .first: try held.cursor.seekToFirst()
      case .last: try held.cursor.seekToLast()
      case .seek(let key): try held.cursor.seek(key.bytes)
      case .seekForPrevious(let key): try held.cursor.seekForPrevious(key.bytes)
      case .next(let count): try step(held, count, isForward: true, &answer)
      case .previous(let count): try step(held, count, isForward: false, &answer)
      }
      add(held.cursor, &answer)
    }
  }

  private func step(
    _ held: HeldSequenceCursor, _ count: Int, isForward: Bool, _ answer: inout SequenceAnswer
  ) throws(EngineError) {
    var rest = count
    while held.cursor.isValid, rest > 0 {
      add(held.cursor, &answer)
      if isForward { try held.cursor.next() } else { try held.cursor.previous() }
      rest -= 1
    }
  }

  /// Adds the position of a cursor to the answer.
  private func add(_ cursor: borrowing EngineCursor, _ answer: inout SequenceAnswer) {
    guard cursor.isValid else { return answer.add(word: "no-row") }
    answer.add(cursor.keyBytes)
    answer.add(cursor.valueBytes)
  }
}

extension SequenceOperation.Bounds {
  var cursorBounds: CursorBounds {
    if let prefix { return .prefix(prefix.bytes) }
    return CursorBounds(lower: lower?.bytes, upper: upper?.bytes)
  }
}

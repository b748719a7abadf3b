import EngineTestSupport
import Foundation
import VarveTestSupport

@testable import Varve

/// Writes of a transaction, in the database and in the model.
extension ObjectRun {
  func drawPool() -> KeyPool { pools.all[random.below(pools.all.count)] }

  func drawObject() -> ModelObject {
    let size = random.oneIn(12) ? random.below(3_000) : random.below(40)
    return ModelObject(
      number: Int(truncatingIfNeeded: random.next()), text: String(repeating: random.oneIn(2) ? "t" : "é", count: size),
      parts: random.oneIn(3) ? (0..<random.below(4)).map { "p\($0)" } : nil)
  }

  func drawNote() -> ModelNote {
    ModelNote(rank: Double(random.below(1_000)) / 8, tags: (0..<random.below(3)).map { "tag\($0)" })
  }

  func write(_ kind: ModelStep, _ tx: WriteTransaction) throws {
    let pool = drawPool()
    let index = random.below(pool.count)
    note(kind, "\(pool.name) \(index)")
    switch kind {
    case .set: try set(pool, index, drawObject(), nil, tx, isPlain: true)
    case .setWithMetadata: try set(pool, index, drawObject(), random.oneIn(6) ? nil : drawNote(), tx, isPlain: false)
    case .replaceObject:
      let object = drawObject()
      let isThere = state[pool.name][index] != nil
      try expect(try pool.replace(index, object, tx), isThere)
      guard isThere else { return }
      state[pool.name][index]?.object = object
      changes.note(.object, index, pool.name, existed: true)
    case .replaceMetadata:
      let note = random.oneIn(3) ? nil : drawNote()
      let isThere = state[pool.name][index] != nil
      try expect(try pool.replace(index, note: note, tx), isThere)
      guard isThere else { return }
      state[pool.name][index]?.note = note
      changes.note(.metadata, index, pool.name, existed: true)
    case .touchObject: try touch(pool, index, .touchedObject, tx)
    case .touchMetadata: try touch(pool, index, .touchedMetadata, tx)
    case .touchRow: try touch(pool, index, .touchedRow, tx)
    case .remove:
      try expect(try pool.remove(index, tx), state[pool.name][index] != nil)
      remove([index], pool)
    case .removeKeys:
      // The list may contain an index several times.
      let indexes = (0..<random.below(8)).map { _ in random.below(pool.count) }
      try expect(try pool.remove(indexes, tx), Set(indexes).count { state[pool.name][$0] != nil })
      remove(indexes, pool)
    case .removeRange:
      guard pool.hasRanges else { return try write(.removeRange, pools.strings[0], tx) }
      try write(.removeRange, pool, tx)
    case .removeCollection:
      let gone = state[pool.name].count
      try expect(try tx.removeAll(in: pool.name), gone)
      // Clearing an empty collection is not a change.
      if gone > 0 { changes.noteCleared(pool.name) }
      state[pool.name] = [:]
    default:
      let gone = state.count
      try expect(try tx.removeAll(), gone)
      if gone > 0 { changes.noteEverythingCleared(Set(state.collections.keys)) }
      state = ModelState()
    }
  }

  private func write(_ kind: ModelStep, _ pool: KeyPool, _ tx: WriteTransaction) throws {
    let range = pool.drawRange(&random)
    let gone = state[pool.name].keys.filter { range.contains($0) }
    try expect(try pool.remove(range, tx), gone.count)
    remove(gone, pool)
  }

  func set(
    _ pool: KeyPool, _ index: Int, _ object: ModelObject, _ note: ModelNote?, _ tx: WriteTransaction, isPlain: Bool
  ) throws {
    if isPlain { try pool.set(index, object, tx) } else { try pool.set(index, object, note, tx) }
    let old = state[pool.name][index]
    guard let id = try pool.row(index, tx)?.id.number else { throw ContractBroken("a row that was set is not there") }
    if let old, old.id != id { throw ContractBroken("row \(old.id) became \(id) by an update") }
    if old == nil, !ids.insert(id).inserted { throw ContractBroken("row id \(id) was given twice") }
    state[pool.name][index] = ModelRow(object: object, note: note, id: id)
    changes.note(.set, index, pool.name, existed: old != nil)
  }

  private func touch(
    _ pool: KeyPool, _ index: Int, _ event: ModelChanges.Event, _ tx: WriteTransaction
  ) throws {
    let isThere = state[pool.name][index] != nil
    try expect(try pool.touch(index, event, tx), isThere)
    if isThere { changes.note(event, index, pool.name, existed: true) }
  }

  private func remove(_ indexes: [Int], _ pool: KeyPool) {
    for index in indexes where state[pool.name][index] != nil {
      state[pool.name][index] = nil
      changes.note(.removed, index, pool.name, existed: true)
    }
  }

  func expect<Value: Equatable>(_ found: Value, _ expected: Value, _ what: String = "") throws {
    guard found == expected else { throw ContractBroken("\(what): \(found), not \(expected)") }
  }

  // MARK: - Refused operations

  /// Tries an invalid operation, which must change nothing, and after which the transaction continues.
  func refuse(_ tx: WriteTransaction) throws {
    struct Unencodable: Encodable {
      func encode(to encoder: any Encoder) throws { throw Stop() }
    }
    let way = random.below(6)
    note(.refusal, "\(way)")
    let pool = drawPool()
    let code: DatabaseError.Code?
    let expected: DatabaseError.Code
    switch way {
    case 0:
      // A collection keeps its key type, even when it has no rows any more.
      guard try isMade("uuids") else { return }
      code = Contract.code { try tx.set(ModelObject(number: 1, text: ""), key: 0.5, in: "uuids") }
      expected = .keyTypeDiffers
    case 1:
      let key = String(repeating: "k", count: try database.core.limits.keySize)
      code = Contract.code { try tx.set(ModelObject(number: 1, text: ""), key: key, in: "strings") }
      expected = .keyTooLong
    case 2:
      code = Contract.code { try tx.set(ModelObject(number: 1, text: ""), key: Double.nan, in: "doubles") }
      expected = .invalidKey
    case 3:
      guard !KeyPools.own.contains(pool.name) else { return }
      let index = random.below(pool.count)
      code = Contract.code { try pool.set(index, Unencodable(), tx) }
      expected = .encodingFailed
    case 4:
      guard kind == .toy else { return }
      let object = ModelObject(number: 1, text: String(repeating: "v", count: ToyBackend.smallLimits.valueSize))
      code = Contract.code { try pool.set(random.below(pool.count), object, nil, tx) }
      expected = .valueTooLong
    default:
      code = Contract.code { try database.close() }
      expected = .writerBusy
    }
    if isFaulty, code == .outcomeUnknown || code == .snapshotTooOld { return }
    try expect(code, expected, "refusal \(way)")
  }
}

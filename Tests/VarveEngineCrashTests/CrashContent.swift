import EngineTestSupport

@testable import VarveEngine

/// The expected content of a family; the values of slots are computed when they are compared.
struct CrashContent {
  let role: CrashBatch.Role
  private var counters = [[UInt8]?](repeating: nil, count: CrashChange.counterCount)
  private var markers: [Int] = []
  /// The batches that put the once-keys, or `nil` for keys that do not exist.
  private(set) var once = [Int?](repeating: nil, count: CrashChange.onceCount)
  private var slots = [(number: Int, size: Int)?](repeating: nil, count: CrashChange.slotCount)

  init(role: CrashBatch.Role) { self.role = role }

  /// Applies a batch. Requires: batches are applied in the order of their numbers.
  mutating func apply(_ batch: CrashBatch) {
    markers.append(batch.number)
    for change in batch.changes where change.isFor(role) {
      switch change {
      case .put(let slot, let size): slots[slot] = (batch.number, size)
      case .delete(let slot): slots[slot] = nil
      case .deleteSlots(let range): for slot in range { slots[slot] = nil }
      case .merge(let counter):
        counters[counter] = role.rule.apply(counters[counter], CrashBatch.bigEndian(batch.number))
      case .deleteCounters(let range): for counter in range { counters[counter] = nil }
      case .putOnce(let index): once[index] = batch.number
      case .singleDelete(let index): once[index] = nil
      }
    }
  }

  /// Throws if the content of a family differs.
  func compare(_ engine: Engine, _ family: ColumnFamily, snapshot: EngineSnapshot? = nil) throws {
    var cursor = try engine.cursor(in: family, snapshot: snapshot)
    try cursor.seekToFirst()
    func next(_ key: [UInt8], _ value: [UInt8], _ what: @autoclosure () -> String) throws {
      guard cursor.isValid else { throw CrashFailure("\(what()) is missing in \(family.name), and all after it") }
      let foundKey = cursor.keyBytes
      guard foundKey == key else {
        throw CrashFailure("key \(foundKey) in \(family.name) where \(what()) should be")
      }
      let foundValue = cursor.valueBytes
      guard foundValue == value else {
        throw CrashFailure("\(what()) has another value in \(family.name): \(foundValue.count) of \(value.count) bytes")
      }
      try cursor.next()
    }
    for (counter, value) in counters.enumerated() {
      if let value { try next(CrashChange.counterKey(counter), value, "counter \(counter)") }
    }
    for number in markers {
      try next(CrashBatch.markerKey(number), CrashBatch.markerValue(number, role), "marker \(number)")
    }
    for (index, number) in once.enumerated() {
      guard let number else { continue }
      try next(CrashChange.onceKey(index), CrashBatch.markerValue(number, role), "once-key \(index) of batch \(number)")
    }
    for (slot, content) in slots.enumerated() {
      guard let content else { continue }
      let value = CrashBatch.value(content.number, slot: slot, size: content.size, role)
      try next(CrashChange.slotKey(slot), value, "slot \(slot) of batch \(content.number)")
    }
    if cursor.isValid {
      let extra = cursor.keyBytes
      throw CrashFailure("key \(extra) in \(family.name), which is not there any more")
    }
  }
}

import EngineTestSupport
import VarveEngine

/// A change that a batch of a crash script makes to one key or a range of keys, in every family of the batch.
///
/// There are three kinds of keys. *Slots* are put, deleted and deleted by ranges. *Counters* receive merge operands,
/// and are deleted by ranges. *Once-keys* are put if they do not exist, and single-deleted if they do, as single
/// deletes require.
enum CrashChange: Sendable {
  case put(slot: Int, size: Int)
  case delete(slot: Int)
  case deleteSlots(Range<Int>)
  case merge(counter: Int)
  case deleteCounters(Range<Int>)
  case putOnce(Int)
  case singleDelete(Int)

  static let slotCount = 96
  static let counterCount = 12
  static let onceCount = 8

  /// Returns whether the change is made in a family. Single deletes require that no write between a put and them is
  /// lost, and the third family does not receive all batches.
  func isFor(_ role: CrashBatch.Role) -> Bool {
    switch self {
    case .putOnce, .singleDelete: role != .extra
    default: true
    }
  }

  // MARK: Keys

  static func slotKey(_ slot: Int) -> [UInt8] { [UInt8(ascii: "s")] + CrashBatch.bigEndian(slot) }
  static func counterKey(_ counter: Int) -> [UInt8] { [UInt8(ascii: "c")] + CrashBatch.bigEndian(counter) }
  static func onceKey(_ index: Int) -> [UInt8] { [UInt8(ascii: "o")] + CrashBatch.bigEndian(index) }

  // MARK: To the engine

  /// Writes the change of batch `number` to a family.
  func write<W: CrashWriter & ~Copyable>(
    to writer: inout W, number: Int, _ role: CrashBatch.Role, _ family: ColumnFamily
  ) throws {
    switch self {
    case .put(let slot, let size):
      try writer.put(Self.slotKey(slot), CrashBatch.value(number, slot: slot, size: size, role), in: family)
    case .delete(let slot): try writer.delete(Self.slotKey(slot), in: family)
    case .deleteSlots(let slots):
      try writer.deleteRange(from: Self.slotKey(slots.lowerBound), to: Self.slotKey(slots.upperBound), in: family)
    case .merge(let counter):
      try writer.merge(Self.counterKey(counter), CrashBatch.bigEndian(number), in: family)
    case .deleteCounters(let counters):
      try writer.deleteRange(
        from: Self.counterKey(counters.lowerBound), to: Self.counterKey(counters.upperBound), in: family)
    case .putOnce(let index):
      try writer.put(Self.onceKey(index), CrashBatch.markerValue(number, role), in: family)
    case .singleDelete(let index): try writer.singleDelete(Self.onceKey(index), in: family)
    }
  }
}

/// The target of a script's writes: a batch, or a transaction.
protocol CrashWriter: ~Copyable {
  mutating func put(_ key: [UInt8], _ value: [UInt8], in family: ColumnFamily?) throws(EngineError)
  mutating func delete(_ key: [UInt8], in family: ColumnFamily?) throws(EngineError)
  mutating func singleDelete(_ key: [UInt8], in family: ColumnFamily?) throws(EngineError)
  mutating func deleteRange(from lower: [UInt8], to upper: [UInt8], in family: ColumnFamily?) throws(EngineError)
  mutating func merge(_ key: [UInt8], _ operand: [UInt8], in family: ColumnFamily?) throws(EngineError)
}

extension WriteBatch: CrashWriter {}
extension OptimisticTransaction: CrashWriter {}

import EngineTestSupport
import VarveEngine

/// A numbered batch of a crash script, and its effect on each family.
///
/// Every batch puts a marker with its number into the families `default` and `pair`. So a recovery finds a set of
/// numbers, and a batch is complete if the families agree. In addition, other keys are overwritten, merged and
/// deleted in every way (`CrashChange`): their values follow from the batches that are there, and a deleted value
/// that reappears is detected.
struct CrashBatch: Sendable {
  /// The number of the batch, from 1, in the order of the commits.
  let number: Int
  let durability: Durability
  let changes: [CrashChange]
  /// The generation of the third family, if the batch writes to that, too.
  let extra: Int?

  var isLogged: Bool { durability != .none }

  /// The families of a script. The third is created and dropped repeatedly.
  enum Role: Int, CaseIterable, Sendable {
    case main, pair, extra

    var name: String { ["default", "pair", "extra"][rawValue] }

    /// The rule that folds operands: one that depends on each operand and their order, and one that combines them
    /// early.
    var rule: MergeRule { self == .main ? .chain : .append }

    var options: FamilyOptions { FamilyOptions(mergeOperator: rule.rawValue) }

    /// Returns the size of a value. Families grow at different rates, so that their memtables fill at different
    /// times.
    func size(_ size: Int) -> Int { 8 + size / [1, 3, 2][rawValue] }
  }

  // MARK: Keys and values

  static let markerPrefix = UInt8(ascii: "m")

  /// Returns the key of a batch's marker. Markers sort by number.
  static func markerKey(_ number: Int) -> [UInt8] { [markerPrefix] + bigEndian(number) }

  static func number(ofMarker key: [UInt8]) -> Int? {
    guard key.count == 5, key[0] == markerPrefix else { return nil }
    return key[1...].reduce(0) { $0 << 8 | Int($1) }
  }

  static func markerValue(_ number: Int, _ role: Role) -> [UInt8] { bigEndian(number) + [UInt8(role.rawValue)] }

  /// Returns a value that identifies its batch, slot and family in every eighth byte.
  static func value(_ number: Int, slot: Int, size: Int, _ role: Role) -> [UInt8] {
    var random = SeededRandom(seed: UInt64(number) << 16 | UInt64(slot) << 2 | UInt64(role.rawValue))
    let count = role.size(size)
    var bytes: [UInt8] = []
    bytes.reserveCapacity(count + 8)
    while bytes.count < count {
      let word = random.next()
      for shift in stride(from: UInt64(0), to: 64, by: 8) { bytes.append(UInt8(truncatingIfNeeded: word >> shift)) }
    }
    bytes.removeLast(bytes.count - count)
    return bytes
  }

  static func bigEndian(_ number: Int) -> [UInt8] {
    [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
  }

  // MARK: To the engine

  /// Writes the changes of the batch to one family.
  func write<W: CrashWriter & ~Copyable>(to writer: inout W, _ role: Role, _ family: ColumnFamily) throws {
    try writer.put(Self.markerKey(number), Self.markerValue(number, role), in: family)
    for change in changes where change.isFor(role) {
      try change.write(to: &writer, number: number, role, family)
    }
  }
}

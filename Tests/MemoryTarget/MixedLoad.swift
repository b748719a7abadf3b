import EngineTestSupport
import VarveEngine

/// A mixed load, drawn from a seed: puts of all sizes up to 1 MiB, deletes, batches over several families, gets,
/// scans, snapshots, long-lived cursors, and compactions.
///
/// A value begins with the number of its key, so that a wrong result is detected.
final class MixedLoad {
  private let engine: Engine
  private let families: [ColumnFamily]
  private var random = SeededRandom(seed: 7)
  private var snapshots: [EngineSnapshot] = []
  private var cursors: [LongCursor] = []
  private(set) var operationCount: UInt64 = 0
  private(set) var wrongCount: UInt64 = 0
  private(set) var usedMaximum = 0
  private var counts = [Int](repeating: 0, count: 8)
  private var batch = WriteBatch()
  private let noise: [UInt8]

  private static let keyCount = 200_000

  /// A box for a cursor, so that an array can store it.
  private final class LongCursor {
    var cursor: EngineCursor
    init(_ cursor: consuming EngineCursor) { self.cursor = cursor }
  }

  init(_ path: String, budget: Int) throws {
    var options = EngineOptions()
    options.memoryBudget = budget
    engine = try Engine.open(at: path, options: options)
    families = [engine.defaultFamily] + (try engine.createFamilies(["one", "two", "three"]))
    var bytes = [UInt8](repeating: 0, count: 2 << 20)
    for index in bytes.indices where index % 3 != 0 { bytes[index] = UInt8(truncatingIfNeeded: random.next()) }
    noise = bytes
  }

  var summary: String { engine.explain() + "operations: \(operationCount), by kind \(counts)\n" }

  func run(operations count: Int) throws {
    for number in 0..<count {
      try step()
      if number % 256 == 0 { usedMaximum = max(usedMaximum, engine.statistics.memory.used) }
    }
  }

  private func step() throws {
    operationCount += 1
    let kind = random.below(1_000)
    switch kind {
    case ..<350: try put()
    case ..<400: try engine.delete(key(drawNumber()), in: drawFamily())
    case ..<450: try writeBatch()
    case ..<850: try get(nil)
    case ..<900: try scan()
    case ..<930: try moveLongCursor()
    case ..<960: try useSnapshot()
    default: if random.oneIn(2_000) { try engine.compact(family: drawFamily()) }
    }
  }

  private func drawNumber() -> Int { random.below(Self.keyCount) }
  private func drawFamily() -> ColumnFamily { families[random.below(families.count)] }

  private func key(_ number: Int) -> [UInt8] {
    var bytes = [UInt8](repeating: 9, count: 16)
    for index in 0..<8 { bytes[index] = UInt8(truncatingIfNeeded: number >> (56 - index * 8)) }
    return bytes
  }

  /// Returns a value that is usually small, occasionally 64 KiB, and rarely 1 MiB.
  private func value(_ number: Int) -> [UInt8] {
    let size: Int
    switch random.below(4_000) {
    case 0: size = 1 << 20
    case ..<20: size = 1 + random.below(64 << 10)
    default: size = 1 + random.below(900)
    }
    let start = random.below(noise.count - size)
    return Array(key(number)[..<8]) + noise[start..<start + size]
  }

  private func check(_ value: [UInt8], _ key: [UInt8]) { if !value.starts(with: key[..<8]) { wrongCount += 1 } }

  private func put() throws {
    counts[0] += 1
    let number = drawNumber()
    try engine.put(key(number), value(number), in: drawFamily())
  }

  private func writeBatch() throws {
    counts[1] += 1
    batch.removeAll()
    for _ in 0..<1 + random.below(30) {
      let number = drawNumber()
      try batch.put(key(number), value(number), in: drawFamily())
    }
    try engine.write(batch)
  }

  private func get(_ snapshot: EngineSnapshot?) throws {
    counts[2] += 1
    let key = key(drawNumber())
    if let value = try engine.get(key, in: drawFamily(), snapshot: snapshot) { check(value, key) }
  }

  private func scan() throws {
    counts[3] += 1
    var cursor = try engine.cursor(in: drawFamily())
    try cursor.seek(key(drawNumber()))
    for _ in 0..<100 where cursor.isValid {
      check(cursor.valueBytes, cursor.keyBytes)
      try cursor.next()
    }
  }

  /// Keeps sixteen cursors, half of which are not moved for a long time.
  private func moveLongCursor() throws {
    counts[4] += 1
    if cursors.count < 16 || random.oneIn(500) {
      if cursors.count == 16 { cursors.remove(at: random.below(16)) }
      let held = LongCursor(try engine.cursor(in: drawFamily()))
      try held.cursor.seek(key(drawNumber()))
      cursors.append(held)
      return
    }
    // Only the first half is moved.
    let held = cursors[random.below(8)]
    for _ in 0..<20 where held.cursor.isValid {
      check(held.cursor.valueBytes, held.cursor.keyBytes)
      try held.cursor.next()
    }
    if !held.cursor.isValid { try held.cursor.seekToFirst() }
  }

  private func useSnapshot() throws {
    counts[5] += 1
    if snapshots.count < 8 || random.oneIn(200) {
      if snapshots.count == 8 { snapshots.remove(at: random.below(8)) }
      snapshots.append(engine.snapshot())
    }
    try get(snapshots[random.below(snapshots.count)])
  }
}

import EngineTestSupport
import Testing

@testable import VarveEngine

/// Tests of giving up damaged data on a disk that loses power at each operation of that.
struct GiveUpCrashTests {
  private static let keyCount = 400

  private static func key(_ index: Int) -> [UInt8] { Array("key\(100_000 + index)".utf8) }

  /// Returns the value of a key after the second round, which deleted the odd keys.
  private static func value(_ index: Int) -> [UInt8]? {
    index % 2 == 0 ? [UInt8](repeating: UInt8(index & 0xff), count: 120) : nil
  }

  /// Writes all keys in two rounds, the second one into a table of level 0.
  private static func fill(_ engine: Engine) throws -> TableMetadata {
    for index in 0..<keyCount { try engine.put(key(index), [UInt8](repeating: 1, count: 120)) }
    try engine.compact()
    for index in 0..<keyCount {
      if let value = value(index) { try engine.put(key(index), value) } else { try engine.delete(key(index)) }
    }
    try engine.flush()
    return try #require(engine.core.state(of: nil).version.levelZero.tables.first)
  }

  /// Flips a bit of the table's data, durably.
  private static func damage(_ table: TableMetadata, _ disk: CrashFileSystem) throws -> DamagedBlock {
    let path = "/db/" + FileName.table(table.number).name
    let file = try disk.openFile(path, writable: true)
    defer { file.close() }
    var byte: [UInt8] = [0]
    _ = try file.read(into: &byte, at: table.fileSize / 3)
    byte[0] ^= 4
    try file.write(byte, at: table.fileSize / 3)
    try file.sync()
    return DamagedBlock(
      family: "default", table: table.number.value, level: 0, file: path, offset: nil, message: "")
  }

  /// Returns the names of the tables in the directory.
  private static func tableFiles(_ disk: CrashFileSystem) throws -> [String] {
    try disk.list("/db").filter { $0.hasSuffix(".sst") }
  }

  @Test func `a crash at any operation of giving up damage leaves the damage unchanged or given up completely`() throws
  {
    let disk = CrashFileSystem(seed: 31)
    let engine = try CheckpointCrashTests.open(disk, at: "/db", seed: 1)
    let damaged = try Self.fill(engine)
    let block = try Self.damage(damaged, disk)
    var given: GivenUpDamage?
    var expected: [String: [ModelDatabase.Row]] = [:]
    var (still, gone) = (0, 0)
    let count = try FamilyChangeCrashTests.images(disk) {
      given = try engine.giveUp(block)
    } check: { image, location, isAcknowledged in
      let given = try #require(given)
      let parts = given.parts.filter(\.holdsEntries)
      let part = try #require(parts.first)
      if expected.isEmpty { expected = try engine.content() }
      let copy = try CheckpointCrashTests.open(image, at: "/db", seed: 3)
      let version = copy.core.state(of: nil).version
      if version.levelZero.tables.contains(where: { $0.number == damaged.number }) {
        still += 1
        #expect(!isAcknowledged, "\(location): acknowledged, and the damage is back")
        #expect(try !copy.verify().faults.isEmpty, "\(location)")
        // The entries outside the damage are unchanged.
        for index in 0..<Self.keyCount {
          let key = Self.key(index)
          if KeyBytes.compare(key, part.firstKey) >= 0, KeyBytes.compare(key, part.lastKey) <= 0 { continue }
          #expect(try copy.get(key) == Self.value(index), "\(location): key \(index)")
        }
        let again = try copy.giveUp(block)
        #expect(again.parts == given.parts && again.entryCount == given.entryCount, "\(location)")
      } else {
        gone += 1
      }
      #expect(try copy.content() == expected, "\(location)")
      let faults = try copy.verify().faults
      #expect(faults.isEmpty, "\(location): \(faults)")
      try copy.close()
      var live: [String] = []
      let last = try CheckpointCrashTests.open(image, at: "/db", seed: 4)
      last.core.state(of: nil).version.forEachTable { table, _ in live.append(FileName.table(table.number).name) }
      #expect(try Self.tableFiles(image) == live.sorted(), "\(location)")
      #expect(try last.content() == expected, "\(location)")
      try last.close()
    }
    print("crashes while damage is given up: \(count) operations; \(still) images with it, \(gone) without")
    #expect(count >= 6 && still > 20 && gone > 10)
    try engine.close()
  }
}

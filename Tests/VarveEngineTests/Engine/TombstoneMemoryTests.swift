import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests that tables stay open, however many range tombstones they have together.
struct TombstoneMemoryTests {
  private static func key(_ device: Int, _ time: Int) -> [UInt8] {
    [device, time].flatMap { number in (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - $0 * 8)) } }
  }

  @Test func `reads among more range tombstones than open tables may keep close no table`() throws {
    var options = EngineOptions()
    options.memoryBudget = 8 << 20
    options.deadRunMinimum = 0
    options.compactsInBackground = false
    let engine = try Engine.open(at: "/db", options: options, environment: .inMemory())
    let devices = 20_000
    for round in 1...4 {
      var batch = WriteBatch()
      for device in 0..<devices {
        try batch.deleteRange(from: Self.key(device, 0), to: Self.key(device, round))
        if device % 16 == 0 { try batch.put(Self.key(device, round), [UInt8(round)]) }
      }
      try engine.write(batch)
      try engine.flush()
    }
    let tables = engine.core.tree.openTables
    func read() throws {
      for sample in 0..<200 {
        let device = sample * 97 % devices / 16 * 16
        #expect(try engine.get(Self.key(device, 4)) == [4])
        #expect(try engine.get(Self.key(device, 2)) == nil)
        var cursor = try engine.cursor(bounds: CursorBounds(lower: Self.key(device, 0), upper: Self.key(device + 1, 0)))
        try cursor.seekToFirst()
        #expect(cursor.keyBytes == Self.key(device, 4))
      }
    }
    try read()
    let opened = tables.openedCount
    try read()
    #expect(tables.openedCount == opened, "no table was opened a second time")
    try engine.close()
  }
}

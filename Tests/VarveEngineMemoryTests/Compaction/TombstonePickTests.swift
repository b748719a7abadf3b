import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests when tables are picked for what their tombstones hide.
struct TombstonePickTests {
  private static let picker = LeveledCompactionPickerTests.picker

  private static func input(
    _ levels: [Int: [TableMetadata]], isSettling: Bool = true, oldest: UInt64 = 1_000
  ) throws -> LeveledCompactionPicker.Input {
    LeveledCompactionPicker.Input(
      family: 1, version: try Make.version(levels), oldestSnapshot: SequenceNumber(oldest), isSettling: isSettling)
  }

  private static func pick(_ input: LeveledCompactionPicker.Input) -> [UInt64]? {
    var seeds = LevelSeeds()
    return picker.pick(input, &seeds)?.inputTables.map(\.number.value).sorted()
  }

  /// A flushed table of deletes, small beside the tables of the last level.
  private static func deletes(
    _ number: UInt64, _ first: String, _ last: String, hiding shadowed: UInt64?, size: UInt64 = 2
  ) -> TableMetadata {
    Make.table(
      number, first, last, sequences: (number * 10)...(number * 10 + 9), size: size, entries: 100, tombstones: 100,
      shadowed: shadowed)
  }

  private static func bottom(_ number: UInt64, _ first: String, _ last: String) -> TableMetadata {
    Make.table(number, first, last, sequences: 1...9, size: 100)
  }

  @Test(
    arguments: [
      (11, true, true), (10, true, false), (100, true, true), (100, false, false), (nil, true, false),
    ] as [(UInt64?, Bool, Bool)])
  func `level 0 is compacted in a pause if its tombstones hide a tenth of what is rewritten`(
    _ shadowed: UInt64?, _ isSettling: Bool, _ isPicked: Bool
  ) throws {
    let input = try Self.input(
      [
        0: [Self.deletes(5, "b", "c", hiding: shadowed, size: 1)],
        6: [Self.bottom(1, "a", "d"), Self.bottom(2, "e", "h")],
      ], isSettling: isSettling)
    // The table and what it overlaps have 101 bytes.
    #expect(Self.pick(input) == (isPicked ? [1, 5] : nil))
  }

  @Test func `tables of level 0 are compacted together if each hides too little`() throws {
    let bottom = [Self.bottom(1, "a", "d"), Self.bottom(2, "e", "h")]
    let tables = (5..<8).map { Self.deletes(UInt64($0), "b", "c", hiding: 6) }
    #expect(Self.pick(try Self.input([0: [tables[0]], 6: bottom])) == nil)
    #expect(Self.pick(try Self.input([0: tables, 6: bottom])) == [1, 5, 6, 7])
  }

  @Test func `tombstones that are close together are compacted before scattered ones`() throws {
    let bottom = (0..<8).map { Self.bottom(UInt64($0 + 1), "\($0)0", "\($0)9") }
    let scattered = Self.deletes(20, "00", "79", hiding: 50)
    let close = Self.deletes(21, "31", "32", hiding: 40)
    #expect(Self.pick(try Self.input([0: [close], 6: bottom])) == [4, 21])
    #expect(Self.pick(try Self.input([0: [scattered], 6: bottom])) == nil)
  }

  @Test func `what a reader needs is left until it ends`() throws {
    let levels = [0: [Self.deletes(5, "b", "c", hiding: 90)], 6: [Self.bottom(1, "a", "d")]]
    let held = try Self.input(levels, oldest: 58)
    #expect(Self.pick(held) == nil)
    #expect(Self.picker.sequenceAwaited(held) == SequenceNumber(59))
    let released = try Self.input(levels, oldest: 59)
    #expect(Self.pick(released) == [1, 5])
    #expect(Self.picker.sequenceAwaited(released) == nil)
  }

  @Test(
    arguments: [
      (120, false, true), (90, false, false), (90, true, true), (19, true, false),
    ] as [(UInt64, Bool, Bool)])
  func `a table of another level is compacted for half of what is rewritten, or a tenth in a pause`(
    _ shadowed: UInt64, _ isSettling: Bool, _ isPicked: Bool
  ) throws {
    // The level is far below its target. The table and what it overlaps have 200 bytes.
    let table = Make.table(
      5, "b", "c", sequences: 20...29, size: 100, entries: 100, tombstones: 10, shadowed: shadowed)
    let fill = (10..<40).map { Self.bottom(UInt64($0), "k\($0)", "k\($0)z") }
    for oldest: UInt64 in [28, 29] {
      let input = try Self.input(
        [5: [table], 6: [Self.bottom(1, "a", "d")] + fill], isSettling: isSettling, oldest: oldest)
      let targets = Self.picker.targets(input)
      try #require(Self.picker.scores(input, targets).allSatisfy { $0.fill < 1 })
      #expect(Self.pick(input) == (isPicked && oldest == 29 ? [1, 5] : nil), "oldest \(oldest)")
    }
  }

  @Test func `a level with tombstones that hide much is urgent, but level 0 goes first`() throws {
    let fill = (10..<40).map { Self.bottom(UInt64($0), "k\($0)", "k\($0)z") }
    let table = Make.table(
      5, "b", "c", sequences: 20...29, size: 100, entries: 100, tombstones: 10, shadowed: 100_000)
    let input = try Self.input([5: [table], 6: [Self.bottom(1, "a", "d")] + fill], isSettling: false)
    let scores = Self.picker.scores(input, Self.picker.targets(input))
    let score = try #require(scores.first { $0.level == 5 })
    let target = Double(Self.picker.targets(input).sizes[5])
    #expect(score.fill == 100_100 / target)
    #expect(abs(score.urgency - 300 / target) < 1e-9)
    // A reader that needs the rows keeps the tombstones from counting.
    let held = try Self.input(
      [5: [table], 6: [Self.bottom(1, "a", "d")] + fill], isSettling: false, oldest: 28)
    let fillThen = Self.picker.scores(held, Self.picker.targets(held)).first { $0.level == 5 }?.fill
    #expect(fillThen == 100 / target)
  }

  @Test func `the outputs of a compaction need less space by what its tombstones hide among its inputs`() throws {
    func need(_ shadowed: UInt64?, deeper: Bool, oldest: UInt64 = 1_000) throws -> UInt64 {
      var levels = [0: [Self.deletes(5, "b", "c", hiding: shadowed, size: 60)], 5: [Self.bottom(1, "a", "d")]]
      if deeper { levels[6] = [Self.bottom(2, "a", "d")] }
      let input = try Self.input(levels, oldest: oldest)
      let compaction = try #require(
        Self.picker.pickBase(containing: [0], input, Self.picker.targets(input), reason: .levelZero))
      return compaction.spaceNeed
    }
    // A sixteenth of the outputs is added, and what a table takes besides its entries.
    func added(_ outputs: UInt64) -> UInt64 {
      outputs + outputs / 16 + Compaction.tableNeed(Self.picker.options.targetFileSize)
    }
    #expect(try need(80, deeper: false) == added(160 - 140))
    #expect(try need(1_000, deeper: false) == added(0))
    // On a deeper level there may be all that they hide.
    #expect(try need(1_000, deeper: true) == added(160 - 120))
    #expect(try need(0, deeper: true) == added(160))
    // Without an estimate, each hides an entry of average size.
    #expect(try need(nil, deeper: false) == added(160 - 120))
    #expect(try need(1_000, deeper: false, oldest: 58) == added(160))
  }
}

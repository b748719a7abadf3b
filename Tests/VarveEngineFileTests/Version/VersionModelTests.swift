import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of random edits of a state against a naive one, applied one by one and all at once.
struct VersionModelTests {
  private static let stepCount = TestScale.count(2_500)

  /// A long random history: flushes, moves, merges and deletions, with some hundreds of tables on a level.
  private struct Life {
    var random: SeededRandom
    var naive = NaiveVersion()
    var state: ManifestState
    var edits: [VersionEdit] = []
    var lastNumber: UInt64 = 0
    var sequence: UInt64 = 0
    let prefix: [UInt8]

    init(seed: UInt64) throws {
      random = SeededRandom(seed: seed)
      prefix = [UInt8](repeating: 0x61, count: [0, 3, 12][Int(seed % 3)])
      var first = VersionEdit()
      first.databaseID = 1
      first.createFamily(3, name: "family")
      state = try ManifestState(snapshot: first)
    }

    var version: Version { state.families[3]?.version ?? .empty }

    func key(_ index: Int) -> [UInt8] {
      prefix + [UInt8(index >> 16 & 255), UInt8(index >> 8 & 255), UInt8(index & 255)]
        + (index % 5 == 0 ? [0, 0, 0, 0, 0, 0, 9] : [])
    }

    mutating func table(width: Int, sequences: ClosedRange<UInt64>) -> TableMetadata {
      lastNumber += 1
      let first = random.below(60_000)
      let bounds = [key(first), key(first + 1 + random.below(width))].sorted { KeyBytes.compare($0, $1) < 0 }
      return bounds[0].withByteView { smallest in
        bounds[1].withByteView { largest in
          TableMetadata(
            number: FileNumber(lastNumber), fileSize: UInt64(1 + random.below(1_000)), tableID: lastNumber,
            smallestKey: smallest, smallestTrailer: Trailer(SequenceNumber(sequences.upperBound), .put),
            largestKey: largest,
            largestTrailer: random.oneIn(4)
              ? TableMetadata.excludedTrailer : Trailer(SequenceNumber(sequences.lowerBound), .put),
            smallestSequence: SequenceNumber(sequences.lowerBound),
            largestSequence: SequenceNumber(sequences.upperBound), entryCount: 10,
            tombstoneCount: UInt64(random.below(10)), rangeTombstoneCount: random.oneIn(30) ? 1 : 0, rawSize: 100)
        }
      }
    }

    /// Returns the next edit, which is valid.
    mutating func nextEdit() -> VersionEdit {
      var edit = VersionEdit()
      if random.oneIn(3) {
        // A flush of some tables, which may overlap earlier ones; sometimes over a wide range.
        let first = sequence + 1
        for _ in 0...random.below(3) {
          sequence += UInt64(1 + random.below(5))
          let table = table(width: random.oneIn(10) ? 30_000 : 200, sequences: first...sequence)
          if naive.hasRoom(for: table, level: 0) { add(table, 0, &edit) }
        }
      }
      // The changes of a compaction: some tables are removed, some are moved, and some are added.
      for _ in 0..<random.below(8) {
        let level = random.below(Limits.levelCount)
        let members = naive.levels[level]
        if !members.isEmpty, random.oneIn(members.count > 400 || level == 0 ? 1 : 3) {
          let first = random.below(members.count)
          for table in members[first..<min(first + 1 + random.below(level == 0 ? 6 : 3), members.count)]
          where !edit.addedTables.contains(where: { $0.table === table }) {
            naive.delete(table, level: level)
            edit.deleteTable(table.number, family: 3, level: level)
            let next = min(level + 1, Limits.levelCount - 1)
            if random.oneIn(2), naive.hasRoom(for: table, level: next) { add(table, next, &edit) }
          }
        } else if level > 0 {
          let table = table(width: 40, sequences: 1...5)
          if naive.hasRoom(for: table, level: level) { add(table, level, &edit) }
        }
      }
      return edit
    }

    private mutating func add(_ table: TableMetadata, _ level: Int, _ edit: inout VersionEdit) {
      naive.add(table, level: level)
      edit.addTable(table, family: 3, level: level)
    }
  }

  @Test(arguments: UInt64(0)..<4) func `random edits give the same version as a naive implementation`(seed: UInt64)
    throws
  {
    var life = try Life(seed: seed)
    var folded = try ManifestState(folding: life.state.snapshotEdit())
    for step in 0..<Self.stepCount {
      let edit = life.nextEdit()
      // In some steps, a reader keeps a copy of the state.
      let copy = step % 7 == 0 ? life.state : nil
      let countBefore = copy?.tableCount
      try life.state.apply(edit)
      try folded.fold(edit)
      #expect(copy?.tableCount == countBefore)
      let key = life.key(life.random.below(61_000))
      let bounds = [key, life.key(life.random.below(61_000))].sorted { KeyBytes.compare($0, $1) < 0 }
      let range = UserKeyRange(
        lower: bounds[0], upper: life.random.oneIn(6) ? nil : bounds[1], upperIsExcluded: life.random.oneIn(2))
      if let text = life.naive.difference(from: life.version, at: key, range) {
        Issue.record("seed \(seed), step \(step): \(text)")
        return
      }
      guard step % 25 == 0 || step < 100 else { continue }
      if let text = life.naive.difference(from: life.version) {
        Issue.record("seed \(seed), step \(step): \(text)")
        return
      }
      #expect(life.state.tableCount == life.naive.all.count)
      for (_, table) in life.naive.all.prefix(50) { #expect(life.state.table(table.number) === table) }
    }
    try folded.buildVersions()
    #expect(folded.families[3].flatMap { life.naive.difference(from: $0.version) } == nil, "seed \(seed), folded")
    #expect(folded.tableCount == life.naive.all.count)
    let widest = (1..<Limits.levelCount).map { life.version.run($0).chunks.count }.max() ?? 0
    #expect(!TestScale.isWhole || widest > 1, "a level has several chunks, or the edits across them were not met")
  }

  /// Returns a state with a level of many tables, of which number `index` covers the keys `2 * index` and `2 * index
  /// + 1`.
  static func wideVersion(count: Int) throws -> ManifestState {
    var edit = VersionEdit()
    edit.databaseID = 1
    edit.createFamily(0, name: "default")
    for index in 0..<count {
      edit.addTable(table(UInt64(index + 1), at: index), family: 0, level: 6)
    }
    return try ManifestState(snapshot: edit)
  }

  static func table(_ number: UInt64, at index: Int) -> TableMetadata {
    func key(_ value: Int) -> [UInt8] { (0..<4).reversed().map { UInt8(value >> ($0 * 8) & 255) } }
    return Make.table(number, key(2 * index), key(2 * index + 1), sequences: 1...1, size: 100)
  }

  @Test func `an edit rebuilds at most three chunks and shares all others`() throws {
    let count = 20_000
    var state = try Self.wideVersion(count: count)
    var random = SeededRandom(seed: 7)
    for step in 0..<200 {
      let before = try #require(state.families[0]).version.run(6)
      #expect(before.count == count)
      var edit = VersionEdit()
      let index = random.below(count - 4)
      for offset in 0..<4 {
        let old = before.tables[index + offset]
        edit.deleteTable(old.number, family: 0, level: 6)
        edit.addTable(
          Make.table(
            UInt64(count + 1 + step * 4 + offset), old.smallestKey, old.largestKey, sequences: 1...1, size: 100),
          family: 0, level: 6)
      }
      try state.apply(edit)
      let after = try #require(state.families[0]).version.run(6)
      let known = Set(before.chunks.map(\.id))
      #expect(after.chunks.filter { !known.contains($0.id) }.count <= 3)
      #expect(after.chunks.count * TableChunk.countMinimum / 2 <= count)
    }
  }

  @Test func `an added table that reaches into the next one is refused at the edges of chunks, too`() throws {
    let count = 3 * TableChunk.countMaximum
    let base = try #require(try Self.wideVersion(count: count).families[0]).version
    let tables = base.run(6).tables
    #expect(base.run(6).chunks.count > 2)
    for index in 0..<(count - 1) {
      func code(deletesNext: Bool) -> EngineError.Code? {
        errorCode { () throws(EngineError) in
          var builder = VersionBuilder(base)
          try builder.delete(tables[index].number, level: 6, known: tables[index])
          if deletesNext { try builder.delete(tables[index + 1].number, level: 6, known: tables[index + 1]) }
          let wide = Make.table(
            UInt64(count + 1), tables[index].smallestKey, tables[index + 1].smallestKey, sequences: 1...1, size: 1)
          try builder.add(wide, level: 6)
          let version = try builder.build()
          #expect(version.run(6).count == count - 1)
        }
      }
      #expect(code(deletesNext: false) == .corruption, "table \(index)")
      #expect(code(deletesNext: true) == nil, "table \(index)")
    }
  }

  @Test func `edits that are folded are refused where one of them is wrong`() throws {
    func folded(_ edits: [(inout VersionEdit) -> Void]) -> EngineError.Code? {
      errorCode { () throws(EngineError) in
        var first = VersionEdit()
        first.databaseID = 1
        first.createFamily(0, name: "default")
        first.addTable(Make.table(1, "a", "c"), family: 0, level: 5)
        var state = try ManifestState(folding: first)
        for make in edits {
          var edit = VersionEdit()
          make(&edit)
          try state.fold(edit)
        }
        try state.buildVersions()
      }
    }
    #expect(folded([{ $0.deleteTable(FileNumber(1), family: 0, level: 5) }]) == nil)
    #expect(folded([{ $0.deleteTable(FileNumber(1), family: 0, level: 4) }]) == .corruption)
    #expect(folded([{ $0.deleteTable(FileNumber(2), family: 0, level: 5) }]) == .corruption)
    #expect(
      folded([
        { $0.deleteTable(FileNumber(1), family: 0, level: 5) }, { $0.deleteTable(FileNumber(1), family: 0, level: 5) },
      ]) == .corruption)
    #expect(folded([{ $0.addTable(Make.table(1, "x", "y"), family: 0, level: 5) }]) == .corruption)
    #expect(folded([{ $0.addTable(Make.table(2, "b", "y"), family: 0, level: 5) }]) == .corruption)
    // The overlapping table is removed by an earlier edit: only the sum of the edits is checked.
    #expect(
      folded([
        { $0.deleteTable(FileNumber(1), family: 0, level: 5) },
        { $0.addTable(Make.table(2, "b", "y"), family: 0, level: 5) },
      ]) == nil)
    #expect(
      folded([
        { $0.addTable(Make.table(2, "a", "m", sequences: 10...20), family: 0, level: 0) },
        { $0.addTable(Make.table(3, "m", "z", sequences: 15...30), family: 0, level: 0) },
      ]) == .corruption)
  }
}

import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests that covered tables are found incrementally; a naive search compares all tables with all others.
struct CoveredTablesModelTests {
  private static let stepCount = TestScale.count(400)

  fileprivate struct Life {
    var random: SeededRandom
    var naive = NaiveVersion()
    var version = Version.empty
    var lists: [FileNumber: RangeTombstoneList] = [:]
    var lastNumber: UInt64 = 0
    var sequence: UInt64 = 10
    var oldest: UInt64 = 1

    init(seed: UInt64) { random = SeededRandom(seed: seed) }

    static func key(_ index: Int) -> [UInt8] { [UInt8(index >> 16), UInt8(index >> 8 & 255), UInt8(index & 255)] }

    /// Returns a table with some range tombstones within its bounds, of the newest sequences.
    mutating func table(width: Int, hasTombstones: Bool, newest: Bool) -> TableMetadata {
      lastNumber += 1
      let first = random.below(1_000)
      let last = first + 1 + random.below(width)
      if newest { sequence += UInt64(2 + random.below(4)) }
      let top = newest ? sequence : UInt64(1 + random.below(Int(sequence)))
      let bottom = newest ? sequence - 1 : top
      var builder = RangeTombstoneListBuilder()
      var fragmentCount = 0
      if hasTombstones {
        var start = first
        while start < last {
          let end = min(start + 1 + random.below(max((last - first) / 2, 1)), last)
          let sequences = random.oneIn(3) && top > bottom ? [top, bottom] : [random.oneIn(2) ? top : bottom]
          Self.key(start).withByteView { start in
            Self.key(end).withByteView { end in builder.append(start, end, sequences) }
          }
          fragmentCount += 1
          start = random.oneIn(4) ? end + 1 : end
        }
      }
      lists[FileNumber(lastNumber)] = RangeTombstoneList(builder)
      return Self.key(first).withByteView { smallest in
        Self.key(last).withByteView { largest in
          TableMetadata(
            number: FileNumber(lastNumber), fileSize: 100, tableID: lastNumber, smallestKey: smallest,
            smallestTrailer: Trailer(SequenceNumber(top), .put), largestKey: largest,
            largestTrailer: hasTombstones ? TableMetadata.excludedTrailer : Trailer(SequenceNumber(bottom), .put),
            smallestSequence: SequenceNumber(bottom), largestSequence: SequenceNumber(top), entryCount: 10,
            rangeTombstoneCount: UInt64(fragmentCount), rawSize: 100)
        }
      }
    }

    mutating func change() throws {
      var builder = VersionBuilder(version)
      var added: Set<FileNumber> = []
      for _ in 0..<(1 + random.below(4)) {
        let level = random.below(Limits.levelCount)
        let kept = naive.levels[level].filter { !added.contains($0.number) }
        if naive.all.count > 40, let table = kept.randomElement(using: &random) {
          try builder.delete(table.number, level: level)
          naive.delete(table, level: level)
        } else {
          let isCover = random.oneIn(3)
          let table = table(width: isCover ? 400 : 20, hasTombstones: isCover, newest: level == 0)
          guard naive.hasRoom(for: table, level: level) else { continue }
          try builder.add(table, level: level)
          naive.add(table, level: level)
          added.insert(table.number)
        }
      }
      version = try builder.build()
      if random.oneIn(3) { oldest = max(oldest, UInt64(random.below(Int(sequence) + 2))) }
    }

    /// The numbers of all tables that another one covers.
    var covered: Set<UInt64> {
      let oldest = SequenceNumber(oldest)
      let covers = naive.all.map(\.table).filter { $0.rangeTombstoneCount > 0 }
      return Set(
        naive.all.map(\.table).filter { table in
          table.largestSequence < oldest
            && covers.contains { cover in
              guard cover !== table, let list = lists[cover.number] else { return false }
              return CoveredTables.covers(list, table, oldestSnapshot: oldest)
            }
        }.map(\.number.value))
    }
  }

  @Test(arguments: UInt64(0)..<6)
  func `incremental updates find the same covered tables as a search of all pairs`(seed: UInt64) throws {
    var life = Life(seed: seed)
    var known = CoveredTables()
    var coveredCount = 0
    for step in 0..<Self.stepCount {
      try life.change()
      // Some updates fail to read a table, and the next update compensates for that.
      let fails = life.random.oneIn(5)
      let lists = life.lists
      known.update(to: life.version, oldestSnapshot: SequenceNumber(life.oldest)) { fails ? nil : lists[$0.number] }
      if fails { known.update(to: life.version, oldestSnapshot: SequenceNumber(life.oldest)) { lists[$0.number] } }
      let found = known.idle(in: life.version, CompactionsInProgress())
      #expect(Set(found.flatMap { $0.tables.map(\.number.value) }) == life.covered, "seed \(seed), step \(step)")
      for input in found {
        #expect(input.tables.allSatisfy { table in life.naive.levels[input.level].contains { $0 === table } })
      }
      coveredCount += life.covered.count
    }
    #expect(!TestScale.isWhole || coveredCount > Self.stepCount / 10)
  }

  @Test func `added tables whose tombstones cover no other table are neither examined nor read`() throws {
    var version = Version.empty
    var known = CoveredTables()
    var readCount = 0
    let list = Life.list(count: 100)
    for index in 0..<3_000 {
      var builder = VersionBuilder(version)
      let table = Life.ownTombstones(index)
      try builder.add(table, level: 6)
      version = try builder.build()
      known.update(to: version, oldestSnapshot: SequenceNumber(100_000)) { _ in
        readCount += 1
        return list
      }
      #expect(known.idle(in: version, CompactionsInProgress()).isEmpty)
    }
    #expect(readCount == 0)
    #expect(known.examinedCount == 0)
  }
}

extension CoveredTablesModelTests.Life {
  fileprivate static func list(count: Int) -> RangeTombstoneList {
    var builder = RangeTombstoneListBuilder()
    for index in 0..<count {
      key(index * 2).withByteView { start in
        key(index * 2 + 1).withByteView { end in builder.append(start, end, [5]) }
      }
    }
    return RangeTombstoneList(builder)
  }

  /// Returns table number `index` of an ascending sequence of tables that do not overlap.
  fileprivate static func ownTombstones(_ index: Int) -> TableMetadata {
    let first = key(index * 20)
    let last = key(index * 20 + 19)
    return first.withByteView { smallest in
      last.withByteView { largest in
        TableMetadata(
          number: FileNumber(UInt64(index + 1)), fileSize: 100, tableID: 1, smallestKey: smallest,
          smallestTrailer: Trailer(SequenceNumber(UInt64(index + 2)), .put), largestKey: largest,
          largestTrailer: Trailer(SequenceNumber(UInt64(index + 1)), .put),
          smallestSequence: SequenceNumber(UInt64(index + 1)), largestSequence: SequenceNumber(UInt64(index + 2)),
          entryCount: 10, rangeTombstoneCount: 3, rawSize: 100)
      }
    }
  }
}

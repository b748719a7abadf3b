import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of the range tombstones of a run of many tables.
struct TombstoneRunTests {
  /// Tables of ten keys each, of which some have a range tombstone over the keys in the middle.
  private final class WideRun: TableReaders, @unchecked Sendable {
    // Sendable: one test uses it.
    private var readers: [FileNumber: TableReader] = [:]
    private(set) var run = SortedRun.empty
    /// The numbers of the tables whose readers were requested.
    var asked: [Int] = []

    static func key(_ number: Int) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - 8 * $0)) } }

    init(count: Int, tombstones: Set<Int>) throws {
      run = SortedRun(
        try (0..<count).map { index in
          if tombstones.contains(index) { try open(index) }
          return Self.table(index, rangeTombstoneCount: tombstones.contains(index) ? 1 : 0)
        })
    }

    private static func table(_ index: Int, rangeTombstoneCount: UInt64) -> TableMetadata {
      key(10 * index).withByteView { smallest in
        key(10 * index + 9).withByteView { largest in
          TableMetadata(
            number: FileNumber(UInt64(index)), fileSize: 1, tableID: 1, smallestKey: smallest,
            smallestTrailer: Trailer(SequenceNumber(9), .put), largestKey: largest,
            largestTrailer: Trailer(SequenceNumber(9), .put), smallestSequence: SequenceNumber(1),
            largestSequence: SequenceNumber(9), entryCount: 10, rangeTombstoneCount: rangeTombstoneCount, rawSize: 1)
        }
      }
    }

    private func open(_ index: Int) throws {
      let file = ArrayFile()
      let number = FileNumber(UInt64(index))
      let builder = TableBuilder(file: file, number: number, tableID: 7, options: .small)
      Self.key(10 * index + 3).withByteView { start in
        Self.key(10 * index + 7).withByteView { builder.addRangeTombstone(start, $0, CollectionOfOne(9)) }
      }
      let summary = try builder.finish()
      readers[number] = try TableReader.open(
        file: file, number: number, fileSize: summary.fileSize, cache: BlockCache(capacity: 1 << 20), tableID: 7)
    }

    func reader(_ table: TableMetadata) throws(EngineError) -> TableReader {
      asked.append(Int(table.number.value))
      guard let reader = readers[table.number] else { throw EngineError(.notFound, "no table \(table.number)") }
      return reader
    }

    /// Returns the sequence of the newest tombstone over a key.
    func covering(_ number: Int, _ tombstones: Set<Int>) -> UInt64 {
      tombstones.contains(number / 10) && (3..<7).contains(number % 10) ? 9 : 0
    }
  }

  @Test(arguments: [[], [0], [2_999], [0, 1, 255, 256, 257, 1_400, 1_402, 2_999], Array(500..<1_100)])
  func `only tables with range tombstones are read, each once, and every range is right`(
    _ list: [Int]
  ) throws {
    let tombstones = Set(list)
    let wide = try WideRun(count: 3_000, tombstones: tombstones)
    #expect(wide.run.chunks.count > 8)
    #expect(wide.run.tombstoneChunks.flatMap(\.tombstoneTables).map { Int($0.number.value) } == list.sorted())
    let opener = TableOpener(readers: wide, purpose: .user)
    let run = TombstoneRun(wide.run, opener)
    #expect(wide.asked.isEmpty)
    var random = SeededRandom(seed: 4)
    // The tables are around the edges of chunks: the table after the last of one chunk is in another chunk.
    let edges = wide.run.tombstoneChunks.flatMap { chunk in
      [chunk.tombstoneTables.first, chunk.tombstoneTables.last].compactMap { $0.map { Int($0.number.value) } }
    }
    let near = (list.prefix(40) + edges).flatMap { index in (-12..<22).map { 10 * index + $0 } }
    for number in near + (0..<200).map({ _ in random.below(30_000) }) where (0..<30_000).contains(number) {
      let segment = try WideRun.key(number).withByteView { (key) throws(EngineError) in
        try run.segment(around: key, at: .maximum)
      }
      #expect(segment.sequence.value == wide.covering(number, tombstones), "key \(number)")
      // All keys of the range have the same tombstone as the key.
      for other in max(number - 60, 0)..<min(number + 60, 30_000)
      where WideRun.key(other).withByteView({ segment.contains($0) }) {
        #expect(segment.sequence.value == wide.covering(other, tombstones), "key \(other), in the range of \(number)")
      }
      // The nearest tables with range tombstones, however far away, are not in the range.
      for table in [list.last { 10 * $0 + 6 < number }, list.first { 10 * $0 + 3 > number }] {
        guard let table else { continue }
        #expect(
          !WideRun.key(10 * table + 5).withByteView { segment.contains($0) },
          "table \(table), in the range of \(number)")
      }
      #expect(WideRun.key(number).withByteView { segment.contains($0) }, "key \(number)")
    }
    #expect(Set(wide.asked).isSubset(of: tombstones) && Set(wide.asked).count == wide.asked.count)
  }
}

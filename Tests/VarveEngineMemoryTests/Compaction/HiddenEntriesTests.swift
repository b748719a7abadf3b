import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests the counts of entries that only readers of old states need, and their encoding.
struct HiddenEntriesTests {
  private static func entries(_ groups: [(sequence: UInt64, size: UInt64)]) -> HiddenEntries {
    var entries = HiddenEntries()
    for group in groups { entries.add(group.size, freeAt: SequenceNumber(group.sequence)) }
    return entries
  }

  private static func bytes(_ entries: HiddenEntries) -> [UInt8] {
    var writer = ByteWriter()
    entries.encode(appendingTo: &writer)
    return writer.bytes
  }

  private static func decode(_ bytes: [UInt8]) throws -> HiddenEntries {
    try bytes.withByteView { view throws(EngineError) in
      var reader = ByteReader(view)
      return try HiddenEntries(&reader)
    }
  }

  @Test func `entries are free at the sequence at which every reader sees what hides them`() {
    let entries = Self.entries([(20, 5), (10, 7), (20, 5), (30, 1)])
    #expect(entries.groups.map(\.sequence.value) == [10, 20, 30])
    #expect(entries.count == 4)
    #expect(entries.size == 18)
    #expect([9, 10, 19, 20, 29, 30].map { entries.freeSize(at: SequenceNumber($0)) } == [0, 7, 7, 17, 17, 18])
    #expect(entries.sequence(freeing: 7) == SequenceNumber(10))
    #expect(entries.sequence(freeing: 8) == SequenceNumber(20))
    #expect(entries.sequence(freeing: 19) == nil)
    #expect(HiddenEntries.none.sequence(freeing: 1) == nil)
  }

  @Test func `with too many groups, small ones are counted at a later sequence, and nothing is lost`() throws {
    var random = SeededRandom(seed: TestScale.seed ?? 11)
    for _ in 0..<200 {
      var entries = HiddenEntries()
      var all: [(sequence: UInt64, size: UInt64)] = []
      for _ in 0..<random.below(60) {
        let one = (sequence: UInt64(1 + random.below(30)), size: UInt64(1 + random.below(1_000)))
        all.append(one)
        entries.add(one.size, freeAt: SequenceNumber(one.sequence))
      }
      #expect(entries.groups.count <= HiddenEntries.groupMaximum)
      #expect(entries.count == UInt64(all.count))
      #expect(entries.size == all.reduce(0) { $0 + $1.size })
      for oldest in 0...31 as ClosedRange<UInt64> {
        let free = all.filter { $0.sequence <= oldest }.reduce(0) { $0 + $1.size }
        #expect(entries.freeSize(at: SequenceNumber(oldest)) <= free, "seed \(TestScale.seed ?? 11)")
      }
      #expect(try Self.decode(Self.bytes(entries)) == entries)
    }
  }

  @Test func `damaged counts are corruption`() throws {
    let good = Self.bytes(Self.entries([(10, 7), (20, 5)]))
    #expect(good == [2, 10, 1, 7, 20, 1, 5])
    for size in 0..<good.count {
      #expect(errorCode { _ = try Self.decode(Array(good.prefix(size))) } == .corruption)
    }
    #expect(errorCode { _ = try Self.decode([2, 20, 1, 7, 20, 1, 5]) } == .corruption)
    #expect(errorCode { _ = try Self.decode([9] + [UInt8](repeating: 1, count: 27)) } == .corruption)
    let tooLarge: [UInt8] = [1, 10, 1] + [UInt8](repeating: 0xff, count: 8) + [1]
    #expect(errorCode { _ = try Self.decode(tooLarge) } == .corruption)
  }

  @Test func `a table's hidden entries survive an edit of the MANIFEST and are skipped by a reader without the field`()
    throws
  {
    var edit = VersionEdit()
    let plain = Make.table(5, "a", "m")
    let hiding = TableMetadata(Make.table(6, "n", "z"), hidden: Self.entries([(10, 7), (20, 5)]))
    edit.addTable(plain, family: .default, level: 6)
    edit.addTable(hiding, family: .default, level: 6)
    let bytes = Make.bytes(edit)
    let decoded = try bytes.withByteView { view throws(EngineError) in try VersionEdit(decoding: view) }
    #expect(decoded == edit)
    #expect(decoded.addedTables[1].table.hidden == hiding.hidden)

    // Tag 18, skippable, of nine bytes: family, number, groups.
    let field: [UInt8] = [18 << 1 | 1, 9, 0, 6, 2, 10, 1, 7, 20, 1, 5]
    #expect(Array(bytes.suffix(field.count)) == field)
    var older = edit
    older.addedTables[1].table = TableMetadata(hiding, hidden: .none)
    #expect(Make.bytes(older) == Array(bytes.dropLast(field.count)))

    // A field of a table that the edit does not add, and one that is given twice.
    var other = field
    other[3] = 7
    for wrong in [bytes + other, bytes + field] {
      let code = errorCode {
        _ = try wrong.withByteView { view throws(EngineError) in try VersionEdit(decoding: view) }
      }
      #expect(code == .corruption)
    }
  }
}

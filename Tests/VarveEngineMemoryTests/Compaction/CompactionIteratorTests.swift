import EngineTestSupport
import Testing

@testable import VarveEngine

struct CompactionIteratorTests {
  private static func run(_ text: String) -> String {
    TextCase.run(text) { command in
      var compaction = ArrayCompaction(
        sources: command.sources,
        snapshots: command.arguments["at", default: "100"].split(separator: ",").compactMap { UInt64($0) })
      compaction.deeper = command.arguments["deeper", default: ""].split(separator: "/").map { run in
        run.split(separator: ",").map { bounds in
          let ends = bounds.split(separator: "-").map(String.init)
          return ends[0]...ends[1]
        }
      }
      compaction.zeroes = command.arguments["zero"] != nil
      compaction.lower = command.arguments["from"].map { Array($0.utf8) }
      compaction.upper = command.arguments["to"].map { Array($0.utf8) }
      let result = compaction.run
      return result.entries.map(\.description) + describe(result.tombstones) + (result.error.map { ["\($0)"] } ?? [])
    }
  }

  private static func describe(_ list: RangeTombstoneList) -> [String] {
    (0..<list.count).map { index in
      let sequences = list.sequences(index).map { "#\($0)" }.joined()
      let start = String(decoding: list.start(index).bytes, as: UTF8.self)
      return "\(start)\(sequences),rdel=\(String(decoding: list.end(index).bytes, as: UTF8.self))"
    }
  }

  @Test(arguments: [
    // One reader, nothing below: only newest puts stay.
    """
    compact
    a#9,put=new b#8,del c#7,put=c
    a#3,put=old b#2,put=b d#1,del
    ----
    a#9,put=new
    c#7,put=c
    """,
    // The same, and sequences vanish where the only reader is above them.
    """
    compact zero at=8
    a#9,put=new b#8,del c#7,put=c
    a#3,put=old b#2,put=b
    ----
    a#9,put=new
    a#0,put=old
    c#0,put=c
    """,
    // A delete stays where an older entry may lie below, and only there.
    """
    compact deeper=b-d,m-n/f-g
    a#1,del b#2,del c#3,del d#4,del e#5,del f#6,del h#7,del m#8,del z#9,del
    ----
    b#2,del
    c#3,del
    d#4,del
    f#6,del
    m#8,del
    """,
    // Each snapshot keeps what it sees.
    """
    compact at=3,5,100
    a#9,put=9 a#6,put=6 a#5,put=5 a#4,put=4 a#3,put=3 a#2,put=2
    ----
    a#9,put=9
    a#5,put=5
    a#3,put=3
    """,
    // What is newer than the visible sequence stays whole: a snapshot may come between.
    """
    compact at=3
    a#9,put=9 a#8,del a#6,put=6 a#3,put=3 a#2,put=2
    ----
    a#9,put=9
    a#8,del
    a#6,put=6
    a#3,put=3
    """,
    // A delete that only an older snapshot's value justifies.
    """
    compact at=3,100
    a#9,del a#7,put=7 a#3,put=3
    b#9,del b#7,put=7
    c#9,del c#3,del c#2,put=2
    ----
    a#9,del
    a#3,put=3
    """,
    // Of deletes above each other the oldest is enough.
    """
    compact at=3,5,7,100
    a#9,del a#6,del a#4,del a#3,put=3
    ----
    a#4,del
    a#3,put=3
    """,
  ])
  func `entries that no reader can need go`(text: String) {
    #expect(Self.run(text) == TextCase.normalized(text))
  }

  @Test(arguments: [
    // With its put, in one interval.
    """
    compact deeper=a-z
    a#5,sdel a#4,put=4
    b#5,put=5 b#4,sdel b#3,put=3
    c#9,sdel c#8,put=8 c#7,sdel c#6,put=6
    ----
    b#5,put=5
    """,
    // One put, and not an older one, which a range tombstone hides, and a snapshot sees.
    """
    compact at=2,100
    a#9,sdel a#8,put=8 a#2,put=2 a#5,rdel=b
    ----
    a#2,put=2
    a#5,rdel=b
    """,
    // Its put lies below: it continues to look for it, also below a newer put.
    """
    compact deeper=a-z
    a#5,sdel
    b#6,put=6 b#5,sdel
    ----
    a#5,sdel
    b#6,put=6
    b#5,sdel
    """,
    // Nothing can lie below.
    """
    compact
    a#5,sdel b#6,put=6 b#5,sdel
    ----
    b#6,put=6
    """,
    // A snapshot sees the put.
    """
    compact at=4,100
    a#5,sdel a#4,put=4
    b#9,put=9 b#5,sdel b#4,put=4
    ----
    a#5,sdel
    a#4,put=4
    b#9,put=9
    b#5,sdel
    b#4,put=4
    """,
    // Both are newer than the visible sequence.
    """
    compact at=3
    a#5,sdel a#4,put=4
    ----
    a#5,sdel
    a#4,put=4
    """,
    // Over another tombstone.
    """
    compact deeper=a-z
    a#5,sdel a#4,del a#3,put=3
    b#5,sdel b#4,sdel b#3,put=3
    c#5,del c#4,sdel c#3,put=3
    ----
    a#4,del
    c#5,del
    """,
  ])
  func `a single delete goes with exactly one put`(text: String) {
    #expect(Self.run(text) == TextCase.normalized(text))
  }

  @Test func `a part of the keys is compacted by itself`() {
    let text = """
      compact from=b to=d
      a#1,put=1 b#2,put=2 c#3,put=3 d#4,put=4
      b#5,del
      ----
      c#3,put=3
      """
    #expect(Self.run(text) == TextCase.normalized(text))
  }

  @Test(arguments: [
    // All that it covers goes, and so does it where nothing lies below.
    """
    compact
    a#1,put=1 b#2,put=2 c#3,del d#4,put=4
    b#9,rdel=d c#10,put=10
    ----
    a#1,put=1
    c#10,put=10
    d#4,put=4
    """,
    // It stays where a table below could hold what it covers, and only there.
    """
    compact deeper=b-c
    a#1,put=1 b#2,put=2 a#8,rdel=f x#9,rdel=y
    ----
    a#8,rdel=f
    """,
    // A snapshot between keeps what it sees, and the tombstone for the others.
    """
    compact at=5,100
    a#3,put=3 b#6,put=6 a#8,rdel=c
    ----
    a#3,put=3
    a#8,rdel=c
    """,
    // Of an interval the newest is enough; of each one.
    """
    compact at=5,100 deeper=a-z
    a#3,rdel=m c#4,rdel=e b#8,rdel=d b#9,rdel=c
    ----
    a#3,rdel=b
    b#9#3,rdel=c
    c#8#4,rdel=d
    d#4,rdel=e
    e#3,rdel=m
    """,
    // Nothing is hidden by what a snapshot may yet come before.
    """
    compact at=5
    a#3,put=3 a#7,put=7 a#8,rdel=c
    ----
    a#7,put=7
    a#3,put=3
    a#8,rdel=c
    """,
    // A delete that is held back does not outlive what a range tombstone took from below it.
    """
    compact at=3,6,100
    a#2,put=2 a#8,del a#5,put=5 a#6,rdel=b
    ----
    a#8,del
    a#2,put=2
    a#6,rdel=b
    """,
  ])
  func `a range tombstone takes what its interval holds`(text: String) {
    #expect(Self.run(text) == TextCase.normalized(text))
  }

  @Test(arguments: [
    // Over a put they become a put.
    """
    compact deeper=a-z
    a#9,merge=c a#8,merge=b a#5,put=a a#3,put=old
    ----
    a#9,put=abc
    """,
    // Over a tombstone of either kind, or over nothing, too.
    """
    compact
    a#9,merge=c a#8,merge=b a#5,del
    b#9,merge=c b#8,merge=b
    c#9,merge=c c#2,put=x c#8,rdel=d
    ----
    a#9,put=bc
    b#9,put=bc
    c#9,put=c
    """,
    // Where what lies below is not known they become one operand.
    """
    compact deeper=a-z
    a#9,merge=c a#8,merge=b
    ----
    a#9,merge=bc
    """,
    // What snapshots distinguish stays separate.
    """
    compact at=5,100 deeper=a-z
    a#9,merge=d a#8,merge=c a#5,merge=b a#4,put=a
    ----
    a#9,merge=cd
    a#5,put=ab
    """,
    // Nothing is folded where a snapshot may yet come between.
    """
    compact at=3
    a#9,merge=d a#8,merge=c a#5,put=b a#3,put=a
    ----
    a#9,merge=d
    a#8,merge=c
    a#5,put=b
    a#3,put=a
    """,
    // A newer put or delete hides them.
    """
    compact deeper=b-b
    a#9,put=x a#8,merge=c a#5,put=b
    b#9,del b#8,merge=c
    ----
    a#9,put=x
    b#9,del
    """,
    // The oldest interval's put has no sequence left.
    """
    compact zero at=9
    a#9,merge=b a#8,put=a
    ----
    a#0,put=ab
    """,
  ])
  func `operands are folded as far as all readers see them together`(text: String) {
    #expect(Self.run(text) == TextCase.normalized(text))
  }

  @Test func `a block that nothing else reaches into is copied whole`() {
    func puts(_ keys: [String], _ sequence: UInt64) -> [TextEntry] {
      keys.map { TextEntry(key: Array($0.utf8), sequence: sequence, kind: .put, value: [1]) }
    }
    // Blocks of four: (a b c d) and (e f g h) are free, i falls into (i j k l), m ... has a delete.
    var compaction = ArrayCompaction(
      sources: [
        puts(["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o"], 3)
          + [TextEntry(key: Array("p".utf8), sequence: 3, kind: .delete)],
        puts(["i", "x"], 9),
      ], snapshots: [100])
    let byRow = compaction.run
    var most = 0
    for seed in 0..<20 as Range<UInt64> {
      compaction.copiesBlocks = SeededRandom(seed: seed)
      let byBlock = compaction.run
      #expect(byBlock.entries == byRow.entries, "seed \(seed)")
      most = max(most, byBlock.copiedBlockCount)
    }
    #expect(most == 2)
    compaction.upper = Array("h".utf8)
    for seed in 0..<20 as Range<UInt64> {
      compaction.copiesBlocks = SeededRandom(seed: seed)
      let byBlock = compaction.run
      #expect(byBlock.copiedBlockCount <= 1, "seed \(seed)")
      #expect(byBlock.entries == byRow.entries.filter { $0.key[0] < 0x68 }, "seed \(seed)")
    }
  }
}

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
    // One reader and no deeper entries: only the newest puts are kept.
    """
    compact
    a#9,put=new b#8,del c#7,put=c
    a#3,put=old b#2,put=b d#1,del
    ----
    a#9,put=new
    c#7,put=c
    """,
    // The same case, in which sequences are zeroed because the only reader is above them.
    """
    compact zero at=8
    a#9,put=new b#8,del c#7,put=c
    a#3,put=old b#2,put=b
    ----
    a#9,put=new
    a#0,put=old
    c#0,put=c
    """,
    // A delete is kept only where an older entry may be deeper.
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
    // Each snapshot keeps the entries that it sees.
    """
    compact at=3,5,100
    a#9,put=9 a#6,put=6 a#5,put=5 a#4,put=4 a#3,put=3 a#2,put=2
    ----
    a#9,put=9
    a#5,put=5
    a#3,put=3
    """,
    // Entries newer than the visible sequence are all kept, because a snapshot may be taken between them.
    """
    compact at=3
    a#9,put=9 a#8,del a#6,put=6 a#3,put=3 a#2,put=2
    ----
    a#9,put=9
    a#8,del
    a#6,put=6
    a#3,put=3
    """,
    // A delete that is needed only because of an older snapshot's value.
    """
    compact at=3,100
    a#9,del a#7,put=7 a#3,put=3
    b#9,del b#7,put=7
    c#9,del c#3,del c#2,put=2
    ----
    a#9,del
    a#3,put=3
    """,
    // Of several deletes of a key, the oldest is sufficient.
    """
    compact at=3,5,7,100
    a#9,del a#6,del a#4,del a#3,put=3
    ----
    a#4,del
    a#3,put=3
    """,
  ])
  func `entries that no reader can need are dropped`(text: String) {
    #expect(Self.run(text) == TextCase.normalized(text))
  }

  @Test(arguments: [
    // A single delete and its put, in one interval.
    """
    compact deeper=a-z
    a#5,sdel a#4,put=4
    b#5,put=5 b#4,sdel b#3,put=3
    c#9,sdel c#8,put=8 c#7,sdel c#6,put=6
    ----
    b#5,put=5
    """,
    // It removes one put, and not an older one that a range tombstone hides and a snapshot sees.
    """
    compact at=2,100
    a#9,sdel a#8,put=8 a#2,put=2 a#5,rdel=b
    ----
    a#2,put=2
    a#5,rdel=b
    """,
    // Its put is deeper: it is kept to remove it, also below a newer put.
    """
    compact deeper=a-z
    a#5,sdel
    b#6,put=6 b#5,sdel
    ----
    a#5,sdel
    b#6,put=6
    b#5,sdel
    """,
    // No entry can be deeper.
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
    // Both entries are newer than the visible sequence.
    """
    compact at=3
    a#5,sdel a#4,put=4
    ----
    a#5,sdel
    a#4,put=4
    """,
    // A single delete over another tombstone.
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
  func `a single delete is dropped with exactly one put`(text: String) {
    #expect(Self.run(text) == TextCase.normalized(text))
  }

  @Test func `a compaction of a key range contains the entries of that range alone`() {
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
    // All covered entries are dropped, and the tombstone too, as no entry is deeper.
    """
    compact
    a#1,put=1 b#2,put=2 c#3,del d#4,put=4
    b#9,rdel=d c#10,put=10
    ----
    a#1,put=1
    c#10,put=10
    d#4,put=4
    """,
    // The tombstone is kept only where a deeper table could contain covered entries.
    """
    compact deeper=b-c
    a#1,put=1 b#2,put=2 a#8,rdel=f x#9,rdel=y
    ----
    a#8,rdel=f
    """,
    // A snapshot in between keeps the entries that it sees, and the tombstone for the other readers.
    """
    compact at=5,100
    a#3,put=3 b#6,put=6 a#8,rdel=c
    ----
    a#3,put=3
    a#8,rdel=c
    """,
    // Within an interval, the newest tombstone is sufficient; each interval keeps one.
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
    // No entry is dropped because of a tombstone if a snapshot may still be taken between the two.
    """
    compact at=5
    a#3,put=3 a#7,put=7 a#8,rdel=c
    ----
    a#7,put=7
    a#3,put=3
    a#8,rdel=c
    """,
    // A deferred delete must not outlive the older entries that a range tombstone removed.
    """
    compact at=3,6,100
    a#2,put=2 a#8,del a#5,put=5 a#6,rdel=b
    ----
    a#8,del
    a#2,put=2
    a#6,rdel=b
    """,
  ])
  func `a range tombstone drops the entries that it covers in its snapshot interval`(text: String) {
    #expect(Self.run(text) == TextCase.normalized(text))
  }

  @Test(arguments: [
    // Operands over a put become a put.
    """
    compact deeper=a-z
    a#9,merge=c a#8,merge=b a#5,put=a a#3,put=old
    ----
    a#9,put=abc
    """,
    // Operands over a tombstone of either kind, or over no entry, become a put too.
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
    // If the deeper entries are not known, the operands become one operand.
    """
    compact deeper=a-z
    a#9,merge=c a#8,merge=b
    ----
    a#9,merge=bc
    """,
    // Operands that snapshots distinguish are kept apart.
    """
    compact at=5,100 deeper=a-z
    a#9,merge=d a#8,merge=c a#5,merge=b a#4,put=a
    ----
    a#9,merge=cd
    a#5,put=ab
    """,
    // Operands are not folded if a snapshot may still be taken between them.
    """
    compact at=3
    a#9,merge=d a#8,merge=c a#5,put=b a#3,put=a
    ----
    a#9,merge=d
    a#8,merge=c
    a#5,put=b
    a#3,put=a
    """,
    // A newer put or delete hides the operands.
    """
    compact deeper=b-b
    a#9,put=x a#8,merge=c a#5,put=b
    b#9,del b#8,merge=c
    ----
    a#9,put=x
    b#9,del
    """,
    // The put of the oldest interval has its sequence zeroed.
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

  @Test func `a block that no other input overlaps is copied whole`() {
    func puts(_ keys: [String], _ sequence: UInt64) -> [TextEntry] {
      keys.map { TextEntry(key: Array($0.utf8), sequence: sequence, kind: .put, value: [1]) }
    }
    // The blocks have four entries: (a b c d) and (e f g h) can be copied; i overlaps (i j k l), and the block of m
    // has a delete.
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

import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// A row that a cursor returns.
private struct Shown: Equatable {
  let key: [UInt8]
  let value: [UInt8]
}

private func shown(_ cursor: borrowing VisibleIterator<ArrayIterator>) -> Shown? {
  cursor.isValid ? Shown(key: cursor.userKey.bytes, value: cursor.value.bytes) : nil
}

struct VisibleIteratorTests {
  /// Returns what a reader at `sequence` sees, found by a search of every version of every key.
  static func visible(_ entries: [TextEntry], at sequence: UInt64, _ bounds: CursorBounds) -> [TextEntry] {
    var newest: [[UInt8]: TextEntry] = [:]
    for entry in entries where entry.sequence <= sequence {
      if let lower = bounds.lower, entry.key.lexicographicallyPrecedes(lower) { continue }
      if let upper = bounds.upper, !entry.key.lexicographicallyPrecedes(upper) { continue }
      if let known = newest[entry.key], known.sequence > entry.sequence { continue }
      newest[entry.key] = entry
    }
    return newest.values.filter { $0.kind == .put }.sorted(by: TextEntry.isInOrder)
  }

  private static func bounds(_ entries: inout RandomEntries) -> CursorBounds {
    switch entries.random.below(6) {
    case 0: return .all
    case 1: return CursorBounds(lower: entries.key())
    case 2: return CursorBounds(upper: entries.key())
    case 3: return .prefix(Array(entries.key().dropLast(1)))
    case 4: return .prefix(entries.key())
    default: return CursorBounds(lower: entries.key(), upper: entries.key())
    }
  }

  @Test(arguments: RandomEntries.Shape.allCases, [1, 3, 4])
  func `a cursor scans like the visible keys under random moves`(
    shape: RandomEntries.Shape, sourceCount: Int
  ) throws {
    for round in 0..<18 {
      let seed = UInt64(round * 100 + sourceCount)
      // Some rounds have few keys, so that keys have more versions than a scan steps over.
      var entries = RandomEntries(seed: seed, shape: shape, keyCount: [6, 40, 200][round % 3])
      let sources = entries.sources(sourceCount, entries: 300, deletes: [1, 5, 9][round / 3 % 3])
      let sequence = UInt64(entries.random.below(310))
      let bounds = Self.bounds(&entries)
      let model = Self.visible(sources.flatMap { $0 }, at: sequence, bounds)
      var cursor = VisibleIterator(MergingIterator(sources), at: SequenceNumber(sequence), bounds)
      var index: Int? = nil
      for step in 0..<300 {
        let target = entries.key()
        switch entries.random.below(index == nil ? 4 : 30) {
        case 0:
          try cursor.seekToFirst()
          index = 0
        case 1:
          try cursor.seekToLast()
          index = model.count - 1
        case 2:
          try target.withByteView { (view) throws(EngineError) in try cursor.seek(view) }
          index = model.indices.first { !model[$0].key.lexicographicallyPrecedes(target) }
        case 3:
          try target.withByteView { (view) throws(EngineError) in try cursor.seekForPrevious(view) }
          index = model.indices.last { !target.lexicographicallyPrecedes(model[$0].key) }
        default:
          let isForward = (step / 40) % 2 == 0 ? !entries.random.oneIn(5) : entries.random.oneIn(5)
          if isForward { try cursor.next() } else { try cursor.previous() }
          index = index.map { $0 + (isForward ? 1 : -1) }
        }
        index = index.flatMap { model.indices.contains($0) ? $0 : nil }
        let expected = index.map { Shown(key: model[$0].key, value: model[$0].value) }
        try #require(shown(cursor) == expected, "seed \(seed), step \(step)")
      }
    }
  }

  @Test func `a target may be the cursor's own key`() throws {
    let sources = [["a#1,put=1", "b#2,put=2", "c#3,put=3"].compactMap { TextEntry($0) }]
    var cursor = VisibleIterator(MergingIterator(sources), at: .maximum)
    try cursor.seekToLast()
    try cursor.previous()
    try cursor.seek(cursor.userKey)
    #expect(shown(cursor)?.key == Array("b".utf8))
    try cursor.seekForPrevious(cursor.userKey)
    #expect(shown(cursor)?.key == Array("b".utf8))
    try cursor.seek(cursor.userKey)
    #expect(shown(cursor)?.value == Array("2".utf8))
  }

  @Test func `many versions of one key are skipped by a seek`() throws {
    let versions = (1...5000).map { TextEntry(key: [0x61], sequence: UInt64($0), kind: .put, value: [1]) }
    let array = EntryArray(versions + [TextEntry(key: [0x62], sequence: 9000, kind: .put, value: [2])])
    var merge = MergingIterator<ArrayIterator>(capacity: 1)
    merge.append(ArrayIterator(array))
    array.movesUntilError = 100
    var cursor = VisibleIterator(merge, at: .maximum)
    try cursor.seekToFirst()
    try cursor.next()
    #expect(shown(cursor)?.value == [2])
    try cursor.previous()
    #expect(shown(cursor)?.key == [0x61])
    try cursor.previous()
    #expect(shown(cursor) == nil)
    // A reader at an old sequence meets thousands of versions that are too new.
    var past = MergingIterator<ArrayIterator>(capacity: 1)
    past.append(ArrayIterator(array))
    var old = VisibleIterator(past, at: SequenceNumber(3))
    try old.seekToFirst()
    #expect(shown(old)?.key == [0x61])
    try old.next()
    #expect(shown(old) == nil)
    #expect(array.movesUntilError > 30)
  }

  @Test func `large values are read while moving backward`() throws {
    let large = [UInt8](repeating: 7, count: 100_000)
    let sources = [
      [
        TextEntry(key: [1], sequence: 1, kind: .put, value: large), TextEntry(key: [1], sequence: 5, kind: .delete),
        TextEntry(key: [2], sequence: 2, kind: .put, value: [9]),
        TextEntry(key: [2], sequence: 3, kind: .put, value: large),
        TextEntry(key: [3], sequence: 4, kind: .put, value: []),
      ]
    ]
    var cursor = VisibleIterator(MergingIterator(sources), at: SequenceNumber(4))
    try cursor.seekToLast()
    #expect(shown(cursor)?.value == [])
    try cursor.previous()
    #expect(shown(cursor)?.key == [2] && shown(cursor)?.value == large)
    try cursor.previous()
    #expect(shown(cursor)?.key == [1] && shown(cursor)?.value == large)
    try cursor.next()
    #expect(shown(cursor)?.key == [2] && shown(cursor)?.value == large)
    try cursor.previous()
    try cursor.previous()
    #expect(shown(cursor) == nil)
  }

  @Test(arguments: ["a#3,merge=1", "a#3,rdel=b"])
  func `an entry of an unsupported kind throws, and older readers do not meet it`(text: String) throws {
    let sources = [[TextEntry(text), TextEntry("b#1,put=1")].compactMap { $0 }]
    var cursor = VisibleIterator(MergingIterator(sources), at: .maximum)
    #expect(throws: EngineError.self) { try cursor.seekToFirst() }
    #expect(shown(cursor) == nil)
    // A reader at an older sequence is not affected.
    var older = VisibleIterator(MergingIterator(sources), at: SequenceNumber(2))
    try older.seekToFirst()
    #expect(shown(older)?.key == Array("b".utf8))
  }

  @Test func `prefixes end where their last byte overflows`() {
    #expect(CursorBounds.prefix([]) == .all)
    #expect(CursorBounds.prefix([0xff, 0xff]) == CursorBounds(lower: [0xff, 0xff]))
    #expect(CursorBounds.prefix([1, 0xff]) == CursorBounds(lower: [1, 0xff], upper: [2]))
    #expect(CursorBounds.prefix([1, 2]) == CursorBounds(lower: [1, 2], upper: [1, 3]))
  }
}

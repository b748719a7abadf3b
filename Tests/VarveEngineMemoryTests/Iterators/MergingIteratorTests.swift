import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

struct MergingIteratorTests {
  @Test func `a merge without entries is empty`() throws {
    var none = MergingIterator<ArrayIterator>(capacity: 0)
    try none.seekToFirst()
    #expect(entry(none) == nil)
    var empty = MergingIterator([[], [], []])
    try empty.seekToFirst()
    #expect(entry(empty) == nil)
    try empty.seekToLast()
    #expect(entry(empty) == nil)
  }

  @Test func `versions of one key come newest first whichever source holds them`() throws {
    let text = """
      define
      a#1,put=x c#9,del
      a#7,put=y b#2,put=z
      a#3,del
      ----
      a#7,put=y
      a#3,del
      a#1,put=x
      b#2,put=z
      c#9,del
      """
    #expect(
      TextCase.run(text) { command in
        var merge = MergingIterator(command.sources)
        var lines: [String] = []
        do {
          try merge.seekToFirst()
          while let entry = entry(merge) {
            lines.append(entry.description)
            try merge.next()
          }
        } catch { lines.append("\(error)") }
        return lines
      } == TextCase.normalized(text))
  }

  @Test(arguments: RandomEntries.Shape.allCases, [1, 2, 3, 4, 5, 9])
  func `a merge scans like a sorted array under random moves`(shape: RandomEntries.Shape, sourceCount: Int) throws {
    let seed = UInt64(sourceCount) * 77
    var entries = RandomEntries(seed: seed, shape: shape, keyCount: 150)
    let sources = entries.sources(sourceCount, entries: 400)
    let sorted = sources.flatMap { $0 }.sorted(by: TextEntry.isInOrder)
    let model = EntryArray(sorted)
    var merge = MergingIterator(sources)
    var index: Int? = nil
    for step in 0..<3000 {
      let target = OwnedBytes(entries.key())
      let location = InternalKey(target.view, Trailer(seek: SequenceNumber(UInt64(entries.random.below(402)))))
      switch entries.random.below(index == nil ? 4 : 60) {
      case 0:
        try merge.seekToFirst()
        index = 0
      case 1:
        try merge.seekToLast()
        index = sorted.count - 1
      case 2:
        try merge.seek(location)
        index = sorted.indices.first { model.internalKey($0).compare(location) >= 0 }
      case 3:
        try merge.seekBefore(location)
        index = sorted.indices.last { model.internalKey($0).compare(location) < 0 }
      case 4:
        guard let here = index, model.internalKey(here).compare(location) <= 0 else { continue }
        try merge.skip(to: location)
        index = sorted.indices.first { model.internalKey($0).compare(location) >= 0 }
      default:
        // Long scans in one direction exercise runs and the regions of heads.
        let isForward = (step / 150) % 2 == 0 ? !entries.random.oneIn(40) : entries.random.oneIn(40)
        if isForward { try merge.next() } else { try merge.previous() }
        index = index.map { $0 + (isForward ? 1 : -1) }
      }
      index = index.flatMap { sorted.indices.contains($0) ? $0 : nil }
      let expected = index.map { sorted[$0] }
      try #require(entry(merge) == expected, "seed \(seed), step \(step)")
    }
  }

  @Test(arguments: RandomEntries.Shape.allCases)
  func `full scans in both directions give every entry once`(shape: RandomEntries.Shape) throws {
    var entries = RandomEntries(seed: 5, shape: shape, keyCount: 3000)
    let sources = entries.sources(4, entries: 4000)
    let sorted = sources.flatMap { $0 }.sorted(by: TextEntry.isInOrder)
    var merge = MergingIterator(sources)
    let seen = try scans(&merge)
    #expect(seen.forward == sorted)
    #expect(seen.backward == sorted.reversed())
  }

  @Test func `a child's error invalidates the merge until the next seek`() throws {
    let arrays = [
      EntryArray([TextEntry("a#1,put=1"), TextEntry("c#2,put=2")].compactMap { $0 }),
      EntryArray([TextEntry("b#3,put=3"), TextEntry("d#4,put=4")].compactMap { $0 }),
    ]
    var failures = 0
    for allowed in 0..<6 {
      for array in arrays { array.movesUntilError = .max }
      var merge = MergingIterator<ArrayIterator>(capacity: 2)
      for array in arrays { merge.append(ArrayIterator(array)) }
      arrays[1].movesUntilError = allowed
      do {
        try merge.seekToFirst()
        while merge.isValid { try merge.next() }
      } catch {
        failures += 1
        #expect(error.code == .inputOutput)
        #expect(entry(merge) == nil)
        arrays[1].movesUntilError = .max
        try merge.seekToFirst()
        var keys: [String] = []
        while let entry = entry(merge) {
          keys.append(entry.description)
          try merge.next()
        }
        #expect(keys == ["a#1,put=1", "b#3,put=3", "c#2,put=2", "d#4,put=4"])
      }
    }
    #expect(failures == 3)
  }

  @Test func `a skip does not seek children that are already past its target`() throws {
    let near = EntryArray([TextEntry("a#1,put=1"), TextEntry("b#2,put=2"), TextEntry("d#3,put=3")].compactMap { $0 })
    let far = EntryArray([TextEntry("x#4,put=4")].compactMap { $0 })
    var merge = MergingIterator<ArrayIterator>(capacity: 2)
    merge.append(ArrayIterator(near))
    merge.append(ArrayIterator(far))
    try merge.seekToFirst()
    let target = OwnedBytes(Array("c".utf8))
    try merge.skip(to: InternalKey(target.view, Trailer(word: .max)))
    #expect(entry(merge)?.description == "d#3,put=3")
    #expect(near.seekCount == 1)
    #expect(far.seekCount == 0)
  }
}

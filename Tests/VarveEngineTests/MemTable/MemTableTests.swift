import EngineTestSupport
import Synchronization
import Testing

@testable import VarveEngine

/// A count that threads share.
private final class Counter: Sendable {
  private let word = Atomic<Int>(0)
  var value: Int { word.load(ordering: .acquiring) }
  func add() { word.add(1, ordering: .acquiringAndReleasing) }
}

/// The memtable against a sorted array, and under readers that race its writer.
struct MemTableTests {
  private struct Entry: Hashable {
    let key: [UInt8]
    let trailer: UInt64
    let value: [UInt8]
  }

  private static func isBefore(_ left: Entry, _ right: Entry) -> Bool {
    if left.key == right.key { return left.trailer > right.trailer }
    return left.key.lexicographicallyPrecedes(right.key)
  }

  private static func insert(_ entry: Entry, into table: MemTable) {
    entry.key.withByteView { key in
      entry.value.withByteView { value in table.insert(key, Trailer(word: entry.trailer), value) }
    }
  }

  private static func read(_ iterator: MemTableIterator) -> Entry? {
    guard iterator.isValid else { return nil }
    return Entry(key: iterator.userKey.bytes, trailer: iterator.trailer.word, value: iterator.value.bytes)
  }

  /// Kinds of keys that are hard on a tree of heads and prefixes.
  enum KeyShape: String, CaseIterable {
    case decimal, random, sharedPrefix, zeroTails, fewHot, lengths, ascending, descending
  }

  private static func makeKey(_ shape: KeyShape, _ index: Int, _ random: inout SeededRandom) -> [UInt8] {
    switch shape {
    case .decimal:
      let digits = String(random.below(100_000))
      return Array((String(repeating: "0", count: 16 - digits.utf8.count) + digits).utf8)
    case .random: return (0..<(1 + random.below(20))).map { _ in UInt8(random.below(256)) }
    case .sharedPrefix:
      return Array("a prefix of more than forty bytes, which no node keeps whole/".utf8)
        + (0..<random.below(5)).map { _ in UInt8(random.below(4)) }
    case .zeroTails: return [97] + [UInt8](repeating: 0, count: random.below(30))
    case .fewHot: return [UInt8(random.below(3))]
    case .lengths:
      let sizes = [0, 1, 7, 8, 9, 16, 41, 1_000, 65_535]
      return [UInt8](repeating: UInt8(random.below(3)), count: sizes[random.below(sizes.count)])
    case .ascending: return withBigEndian(index)
    case .descending: return withBigEndian(1_000_000 - index)
    }
  }

  private static func withBigEndian(_ value: Int) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: value >> (56 - $0 * 8)) }
  }

  private static func makeEntries(_ shape: KeyShape, count: Int, seed: UInt64) -> [Entry] {
    var random = SeededRandom(seed: seed)
    return (0..<count).map { index in
      Entry(
        key: makeKey(shape, index, &random), trailer: UInt64(index + 1) << 8 | UInt64(random.below(2)),
        value: [UInt8](repeating: UInt8(truncatingIfNeeded: index), count: random.below(40)))
    }
  }

  @Test(arguments: KeyShape.allCases, [UInt64(1), 2, 3])
  func `entries come in order, both ways`(shape: KeyShape, seed: UInt64) {
    let count = shape == .lengths ? 300 : 5_000
    let entries = Self.makeEntries(shape, count: count, seed: seed)
    let table = MemTable(capacity: 32 << 20)
    for entry in entries { Self.insert(entry, into: table) }
    let expected = entries.sorted(by: Self.isBefore)
    var iterator = table.makeIterator()
    var found: [Entry] = []
    iterator.seekToFirst()
    while let entry = Self.read(iterator) {
      found.append(entry)
      iterator.next()
    }
    #expect(found == expected, "seed \(seed)")
    found = []
    iterator.seekToLast()
    while let entry = Self.read(iterator) {
      found.append(entry)
      iterator.previous()
    }
    #expect(found == expected.reversed(), "seed \(seed)")
    #expect(table.entryCount == count)
    #expect(table.largestSequence == SequenceNumber(UInt64(count)))
  }

  @Test(arguments: KeyShape.allCases, [UInt64(4), 5])
  func `seeks and lookups find what a sorted array does`(shape: KeyShape, seed: UInt64) {
    let count = shape == .lengths ? 200 : 2_000
    let entries = Self.makeEntries(shape, count: count, seed: seed)
    let table = MemTable(capacity: 32 << 20)
    var random = SeededRandom(seed: seed &+ 100)
    var sorted: [Entry] = []
    for (index, entry) in entries.enumerated() {
      Self.insert(entry, into: table)
      guard index % 20 == 0 || index == count - 1 else { continue }
      sorted = entries[...index].sorted(by: Self.isBefore)
      for _ in 0..<20 {
        let isOwn = random.oneIn(2)
        let target = isOwn ? sorted[random.below(sorted.count)] : Self.makeEntries(shape, count: 1, seed: random.next())[0]
        let sequence = UInt64(random.below(count + 2))
        target.key.withByteView { key in
          let word = sequence << 8 | 0xff
          let probe = Entry(key: target.key, trailer: word, value: [])
          let low = sorted.firstIndex { !Self.isBefore($0, probe) }
          var iterator = table.makeIterator()
          iterator.seek(InternalKey(key, Trailer(word: word)))
          #expect(Self.read(iterator) == low.map { sorted[$0] }, "seed \(seed)")
          iterator.seekBefore(InternalKey(key, Trailer(word: word)))
          let before = (low ?? sorted.count) - 1
          #expect(Self.read(iterator) == (before >= 0 ? sorted[before] : nil), "seed \(seed)")
          let hit = table.get(key, at: SequenceNumber(sequence))
          let expected = low.flatMap { sorted[$0].key == target.key ? sorted[$0] : nil }
          #expect(hit?.trailer.word == expected?.trailer, "seed \(seed)")
          #expect(hit?.value.bytes == expected?.value, "seed \(seed)")
        }
      }
    }
  }

  @Test func `an iterator goes on while entries are added around it`() {
    let table = MemTable(capacity: 16 << 20)
    let even = (0..<2_000).map { Entry(key: Self.withBigEndian($0 * 2), trailer: UInt64($0 + 1) << 8, value: []) }
    for entry in even { Self.insert(entry, into: table) }
    var random = SeededRandom(seed: 8)
    var odd = (0..<2_000).map { Entry(key: Self.withBigEndian($0 * 2 + 1), trailer: UInt64($0 + 3_000) << 8, value: []) }
    odd.shuffle(using: &random)
    var forward = table.makeIterator()
    var backward = table.makeIterator()
    forward.seekToFirst()
    backward.seekToLast()
    var seenForward: [[UInt8]] = []
    var seenBackward: [[UInt8]] = []
    while forward.isValid || backward.isValid {
      if forward.isValid {
        seenForward.append(forward.userKey.bytes)
        forward.next()
      }
      if backward.isValid {
        seenBackward.append(backward.userKey.bytes)
        backward.previous()
      }
      if let entry = odd.popLast() { Self.insert(entry, into: table) }
    }
    #expect(seenForward == seenForward.sorted { $0.lexicographicallyPrecedes($1) })
    #expect(seenBackward == seenBackward.sorted { $1.lexicographicallyPrecedes($0) })
    #expect(Set(seenForward).count == seenForward.count)
    #expect(Set(even.map(\.key)).isSubset(of: Set(seenForward)))
    #expect(Set(even.map(\.key)).isSubset(of: Set(seenBackward)))
  }

  @Test func `one writer and eight readers`() {
    let table = MemTable(capacity: 64 << 20)
    let count = 40_000
    let entries = Self.makeEntries(.decimal, count: count, seed: 77)
    let published = Counter()
    let failures = Counter()
    // Threads of their own: readers that never pause would keep a pool's writer from running.
    var threads = (0..<8).map { reader in
      EngineThread(name: "reader-\(reader)") {
        var random = SeededRandom(seed: UInt64(reader))
        var reads = 0
        while published.value < count || reads < 2_000 {
          reads += 1
          let visible = published.value
          guard visible > 0 else { continue }
          let entry = entries[random.below(visible)]
          let hit = entry.key.withByteView { table.get($0, at: SequenceNumber(entry.trailer >> 8)) }
          if hit?.trailer.word != entry.trailer { failures.add() }
          if reads % 500 == 0, !Self.isWhole(table, atLeast: visible) { failures.add() }
        }
      }
    }
    threads.append(
      EngineThread(name: "writer") {
        for entry in entries {
          Self.insert(entry, into: table)
          published.add()
        }
      })
    for thread in threads { thread.join() }
    #expect(failures.value == 0)
  }

  /// Whether a walk is in order and meets at least so many entries.
  private static func isWhole(_ table: MemTable, atLeast count: Int) -> Bool {
    var iterator = table.makeIterator()
    iterator.seekToFirst()
    var seen = 0
    var last: (key: ByteView, trailer: Trailer)?
    while iterator.isValid {
      if let last, InternalKey(last.key, last.trailer).compare(InternalKey(iterator.userKey, iterator.trailer)) >= 0 {
        return false
      }
      last = (iterator.userKey, iterator.trailer)
      seen += 1
      iterator.next()
    }
    return seen >= count
  }
}

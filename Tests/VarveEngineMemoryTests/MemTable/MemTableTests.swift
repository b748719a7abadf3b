import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

struct MemTableTests {
  private typealias Entry = MemTableModel.Entry

  private func filled(_ family: KeyFamily, seed: UInt64, large: Bool = false) -> (MemTable, MemTableModel) {
    var random = SeededRandom(seed: seed)
    let memTable = MemTable(capacity: 32 << 20)
    var model = MemTableModel()
    for index in 0..<(large ? 2 : 1) * family.entryCount {
      let key = family.key(index, &random)
      let sequence = random.oneIn(10) ? UInt64(random.below(index + 1)) : UInt64(index + 1)
      let kind: EntryKind = random.oneIn(5) ? .delete : .put
      let size = kind == .delete ? 0 : random.oneIn(200) ? 5_000 : random.below(24)
      let value = (0..<size).map { UInt8(truncatingIfNeeded: index &+ $0) }
      let entry = Entry(key: key, trailer: Trailer(SequenceNumber(sequence), kind).word, value: value)
      if memTable.insert(entry) != model.insert(entry) {
        Issue.record("seed \(seed), \(family), entry \(index): inserted in one of two")
      }
    }
    return (memTable, model)
  }

  @Test(arguments: KeyFamily.allCases, [1, 2] as [UInt64])
  func `every entry is found at every sequence`(family: KeyFamily, seed: UInt64) {
    let (memTable, model) = filled(family, seed: seed, large: true)
    memTable.checkInvariants()
    #expect(memTable.entryCount == model.entries.count)
    #expect(memTable.smallestSequence.value == model.entries.map { $0.trailer >> 8 }.min())
    #expect(memTable.largestSequence.value == model.entries.map { $0.trailer >> 8 }.max())
    var random = SeededRandom(seed: seed &+ 100)
    for round in 0..<3_000 {
      let key =
        random.oneIn(3) ? family.key(round, &random) : model.entries[random.below(model.entries.count)].key
      let sequence = random.oneIn(2) ? SequenceNumber.maximum.value : UInt64(random.below(family.entryCount + 2))
      let hit = memTable.get(key, at: sequence)
      let expected = model.get(key, at: sequence)
      if hit?.trailer != expected?.trailer || hit?.value != expected?.value {
        Issue.record("seed \(seed), \(family), round \(round): \(String(describing: hit)) found")
      }
    }
  }

  @Test(arguments: KeyFamily.allCases)
  func `an iterator scans all entries both ways`(family: KeyFamily) {
    let (memTable, model) = filled(family, seed: 3)
    var iterator = memTable.makeIterator()
    var forward: [Entry] = []
    iterator.seekToFirst()
    while let entry = iterator.entry {
      forward.append(entry)
      iterator.next()
    }
    #expect(forward == model.entries, "\(family)")
    var backward: [Entry] = []
    iterator.seekToLast()
    while let entry = iterator.entry {
      backward.append(entry)
      iterator.previous()
    }
    #expect(backward == model.entries.reversed(), "\(family)")
  }

  @Test(arguments: KeyFamily.allCases)
  func `a seek to an entry or between entries ends at the adjacent entry`(family: KeyFamily) {
    let (memTable, model) = filled(family, seed: 4)
    let entries = model.entries
    var iterator = memTable.makeIterator()
    for (index, entry) in entries.enumerated() {
      let before = index > 0 ? entries[index - 1] : nil
      let after = index + 1 < entries.count ? entries[index + 1] : nil
      iterator.seek(entry.key, entry.trailer)
      expect(iterator, entry)
      iterator.next()
      expect(iterator, after)
      iterator.seekBefore(entry.key, entry.trailer)
      expect(iterator, before)
      // The seek is to a position between this entry and the next: the trailer just below this entry's.
      if after?.key != entry.key || after?.trailer != entry.trailer - 1 {
        iterator.seek(entry.key, entry.trailer - 1)
        expect(iterator, after)
        iterator.seekBefore(entry.key, entry.trailer - 1)
        expect(iterator, entry)
        iterator.previous()
        expect(iterator, before)
      }
    }
  }

  /// Compares with little cost if the result is right: `#expect` would take most of the time of these loops.
  private func expect(
    _ iterator: MemTableIterator, _ entry: Entry?, sourceLocation: SourceLocation = #_sourceLocation
  ) {
    if iterator.entry != entry {
      Issue.record(
        "on \(String(describing: iterator.entry)), not on \(String(describing: entry))", sourceLocation: sourceLocation)
    }
  }

  @Test(arguments: KeyFamily.allCases)
  func `a random iteration agrees with the model`(family: KeyFamily) {
    let seed: UInt64 = 5
    let (memTable, model) = filled(family, seed: seed)
    var random = SeededRandom(seed: seed)
    var iterator = memTable.makeIterator()
    var index: Int?
    for step in 0..<5_000 {
      let target = Entry(
        key: family.key(step, &random), trailer: UInt64(random.below(family.entryCount)) << 8 | 1, value: [])
      switch random.below(16) {
      case 0:
        iterator.seek(target.key, target.trailer)
        let found = model.firstIndex(atOrAfter: target)
        index = found < model.entries.count ? found : nil
      case 1:
        iterator.seekBefore(target.key, target.trailer)
        let found = model.firstIndex(atOrAfter: target)
        index = found > 0 ? found - 1 : nil
      case 2..<9:
        guard let current = index else { continue }
        iterator.next()
        index = current + 1 < model.entries.count ? current + 1 : nil
      default:
        guard let current = index else { continue }
        iterator.previous()
        index = current > 0 ? current - 1 : nil
      }
      if iterator.entry != index.map({ model.entries[$0] }) {
        Issue.record("seed \(seed), \(family), step \(step): stands elsewhere")
        return
      }
    }
  }

  @Test func `an empty memtable has nothing`() {
    let memTable = MemTable(capacity: 4096)
    #expect(memTable.isEmpty)
    #expect(memTable.get([], at: 9) == nil)
    #expect(memTable.get([0x61], at: 9) == nil)
    #expect(memTable.memoryUsage == 0)
    #expect(memTable.smallestSequence == .zero && memTable.largestSequence == .zero)
    var iterator = memTable.makeIterator()
    iterator.seekToFirst()
    #expect(!iterator.isValid)
    iterator.seekToLast()
    #expect(!iterator.isValid)
    iterator.seek([], .max)
    #expect(!iterator.isValid)
    iterator.seekBefore([0xff], 0)
    #expect(!iterator.isValid)
  }

  @Test func `the newest visible entry wins, whatever its kind`() {
    let memTable = MemTable(capacity: 4096)
    memTable.insert(Entry(key: [1], trailer: Trailer(SequenceNumber(5), .put).word, value: [50]))
    memTable.insert(Entry(key: [1], trailer: Trailer(SequenceNumber(7), .delete).word, value: []))
    memTable.insert(Entry(key: [1], trailer: Trailer(SequenceNumber(9), .merge).word, value: [90]))
    #expect(memTable.get([1], at: 4) == nil)
    #expect(memTable.get([1], at: 5)?.value == [50])
    #expect(memTable.get([1], at: 6)?.value == [50])
    #expect(memTable.get([1], at: 8).map { Trailer(word: $0.trailer).kind } == .delete)
    #expect(memTable.get([1], at: 10)?.value == [90])
    #expect(memTable.get([], at: 10) == nil)
    #expect(memTable.get([1, 0], at: 10) == nil)
  }

  @Test func `a repeated insert of an entry changes nothing`() {
    let memTable = MemTable(capacity: 4096)
    #expect(memTable.insert(Entry(key: [1], trailer: 0x101, value: [1])))
    #expect(memTable.insert(Entry(key: [0], trailer: 0x201, value: [1])))
    let used = memTable.usedBytes
    #expect(!memTable.insert(Entry(key: [1], trailer: 0x101, value: [2])))
    #expect(!memTable.insert(Entry(key: [0], trailer: 0x201, value: [2])))
    #expect(memTable.entryCount == 2 && memTable.usedBytes == used)
    #expect(memTable.get([1], at: 1)?.value == [1])
  }

  @Test func `keys that differ in trailing zeros are different`() {
    let memTable = MemTable(capacity: 65_536)
    for size in (0...20).reversed() {
      memTable.insert(Entry(key: [0x61] + [UInt8](repeating: 0, count: size), trailer: 0x101, value: [UInt8(size)]))
    }
    for size in 0...20 {
      #expect(memTable.get([0x61] + [UInt8](repeating: 0, count: size), at: 1)?.value == [UInt8(size)])
    }
    #expect(memTable.get([0x61] + [UInt8](repeating: 0, count: 21), at: 1) == nil)
    var iterator = memTable.makeIterator()
    iterator.seekToFirst()
    for size in 0...20 {
      #expect(iterator.entry?.value == [UInt8(size)])
      iterator.next()
    }
    #expect(!iterator.isValid)
  }

  @Test func `a memtable has no room beyond its capacity, nor for entries above a quarter of it`() {
    let memTable = MemTable(capacity: 100_000)
    #expect(memTable.hasRoom(keySize: 0, valueSize: 20_000))
    #expect(!memTable.hasRoom(keySize: 0, valueSize: 25_001))
    var count: UInt64 = 0
    while memTable.hasRoom(keySize: 8, valueSize: 24_900) {
      count += 1
      let key = Array(KeyFamily.digits(Int(count)).suffix(8))
      memTable.insert(Entry(key: key, trailer: count << 8 | 1, value: [UInt8](repeating: 7, count: 24_900)))
    }
    #expect(count == 5)
    #expect(memTable.usedBytes >= 100_000 && memTable.usedBytes <= 100_000 + 25_000)
    #expect(!memTable.hasRoom(keySize: 0, valueSize: 0))
  }

  @Test func `a memtable filled with the smallest entries keeps its room guarantee`() {
    let memTable = MemTable(capacity: 200_000)
    var random = SeededRandom(seed: 8)
    var sequence: UInt64 = 0
    while memTable.hasRoom(keySize: 2, valueSize: 0) {
      sequence += 1
      let key = [UInt8(random.below(256)), UInt8(random.below(256))]
      memTable.insert(Entry(key: key, trailer: sequence << 8 | 1, value: []))
    }
    memTable.checkInvariants()
    #expect(memTable.usedBytes >= 200_000 && memTable.usedBytes < 250_000)
    // Whole batches of up to a quarter are guaranteed room as well.
    let second = MemTable(capacity: 200_000)
    #expect(second.hasRoom(for: MemTableRequirement(entryCount: 1_000, byteCount: 2_000)))
    #expect(!second.hasRoom(for: MemTableRequirement(entryCount: 4_000, byteCount: 8_000)))
  }

  /// Runs that begin at any position of a full leaf must not leave nearly empty leaves.
  @Test(arguments: [0, 1, 3, 30, 61, 62, 63], [true, false])
  func `a run of keys beside others leaves no sparse leaves`(older: Int, ascending: Bool) {
    let memTable = MemTable(capacity: 4 << 20)
    func insert(_ number: Int) {
      memTable.insert(Entry(key: KeyFamily.digits(number), trailer: 0x101, value: []))
    }
    for number in 0..<older { insert(number) }
    for number in 0..<(63 - older) { insert(1_000_000 + number) }
    let count = 5_000
    for number in 0..<count { insert(ascending ? 1_000 + number : 900_000 - number) }
    memTable.checkInvariants()
    let nodeBytes = memTable.usedBytes - memTable.entryCount * MemTableRecord.size(keySize: 16, valueSize: 0)
    #expect(nodeBytes < memTable.entryCount * 30, "\(nodeBytes / memTable.entryCount) bytes an entry")
  }
}

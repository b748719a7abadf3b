import EngineTestSupport

@testable import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// A model of a memtable, simple enough to be obviously correct: a sorted array of entries that is searched from its
/// start.
struct MemTableModel {
  struct Entry: Equatable, Comparable {
    var key: [UInt8]
    var trailer: UInt64
    var value: [UInt8]

    static func < (left: Entry, right: Entry) -> Bool {
      // The engine's own comparison is not used because it is under test; `memcmp` is also fast in unoptimized
      // builds.
      let order = unsafe memcmp(left.key, right.key, min(left.key.count, right.key.count))
      if order != 0 { return order < 0 }
      if left.key.count != right.key.count { return left.key.count < right.key.count }
      return left.trailer > right.trailer
    }
  }

  private(set) var entries: [Entry] = []

  /// Inserts an entry. Returns false if the same entry exists already.
  mutating func insert(_ entry: Entry) -> Bool {
    let index = firstIndex(atOrAfter: entry)
    if index < entries.count && !(entry < entries[index]) { return false }
    entries.insert(entry, at: index)
    return true
  }

  func firstIndex(atOrAfter target: Entry) -> Int {
    var low = 0
    var high = entries.count
    while low < high {
      let middle = (low + high) / 2
      if entries[middle] < target { low = middle + 1 } else { high = middle }
    }
    return low
  }

  func get(_ key: [UInt8], at sequence: UInt64) -> Entry? {
    let index = firstIndex(atOrAfter: Entry(key: key, trailer: sequence << 8 | 0xff, value: []))
    return index < entries.count && entries[index].key == key ? entries[index] : nil
  }
}

extension MemTable {
  @discardableResult
  func insert(_ entry: MemTableModel.Entry) -> Bool {
    entry.key.withByteView { key in
      entry.value.withByteView { value in self.insert(key, Trailer(word: entry.trailer), value) }
    }
  }

  func get(_ key: [UInt8], at sequence: UInt64) -> (trailer: UInt64, value: [UInt8])? {
    let hit = key.withByteView { self.get($0, at: SequenceNumber(sequence)) }
    return hit.map { ($0.trailer.word, $0.value.bytes) }
  }
}

extension MemTableIterator {
  var entry: MemTableModel.Entry? {
    isValid ? MemTableModel.Entry(key: userKey.bytes, trailer: trailer.word, value: value.bytes) : nil
  }

  mutating func seek(_ key: [UInt8], _ trailer: UInt64) {
    var copy = self
    key.withByteView { copy.seek(InternalKey($0, Trailer(word: trailer))) }
    self = copy
  }

  mutating func seekBefore(_ key: [UInt8], _ trailer: UInt64) {
    var copy = self
    key.withByteView { copy.seekBefore(InternalKey($0, Trailer(word: trailer))) }
    self = copy
  }
}

/// Sets of keys, each of which exercises a different part of the tree.
enum KeyFamily: String, CaseIterable, Sendable {
  case decimal, ascending, descending, binary, longPrefix, veryLongPrefix, zeroTails, fewKeys, oneKey, maximumBytes
  case mixedSizes, longest

  /// The number of entries that make the tree deep enough without a long test.
  var entryCount: Int { self == .longest ? 150 : 2_500 }

  func key(_ index: Int, _ random: inout SeededRandom) -> [UInt8] {
    switch self {
    case .decimal: return KeyFamily.digits(random.below(5_000))
    case .ascending: return KeyFamily.digits(index * 3)
    case .descending: return KeyFamily.digits(1_000_000 - index)
    case .binary: return (0..<16).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    case .longPrefix: return Array("collection/objects/by-name/".utf8) + KeyFamily.digits(random.below(100_000))
    case .veryLongPrefix:
      return [UInt8](repeating: 0x70, count: 100 + random.below(3) * 40) + KeyFamily.digits(random.below(100_000))
    case .zeroTails:
      return Array("a".utf8.prefix(random.below(2))) + [UInt8](repeating: 0, count: random.below(40))
        + (random.oneIn(4) ? [1] : [])
    case .fewKeys: return KeyFamily.digits(random.below(20))
    case .oneKey: return Array("the only key of them all".utf8)
    case .maximumBytes:
      return [UInt8](repeating: 0xff, count: random.below(30)) + (random.oneIn(3) ? [UInt8(random.below(256))] : [])
    case .mixedSizes:
      return (0..<random.below(50)).map { _ in random.oneIn(10) ? UInt8(random.below(4)) : 0x61 }
    case .longest:
      let size = [0, 1, 31, 32, 33, 40, 255, 65_535][random.below(8)]
      return [UInt8](repeating: 0x6c, count: max(0, size - 1)) + (size > 0 ? [UInt8(random.below(200))] : [])
    }
  }

  static func digits(_ number: Int) -> [UInt8] {
    let text = Array(String(number).utf8)
    return [UInt8](repeating: 0x30, count: 16 - text.count) + text
  }
}

import EngineTestSupport
import Synchronization
import Testing

@testable import VarveEngine

/// A file in memory whose bytes tests may change at will.
final class ArrayFile: File, @unchecked Sendable {
  // Sendable: all access is under the lock.
  let path: String
  private let content: Mutex<[UInt8]>

  init(_ content: [UInt8] = [], path: String = "000001.sst") {
    self.content = Mutex(content)
    self.path = path
  }

  var bytes: [UInt8] { content.withLock { $0 } }

  func flip(bit: Int) { content.withLock { $0[bit / 8] ^= 1 << UInt8(bit % 8) } }

  func size() throws(EngineError) -> UInt64 { UInt64(bytes.count) }

  func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(EngineError) -> Int {
    let address = UInt(bitPattern: buffer.baseAddress)
    let wanted = buffer.count
    return content.withLock { bytes in
      guard offset < UInt64(bytes.count) else { return 0 }
      let count = min(wanted, bytes.count - Int(offset))
      unsafe bytes.withUnsafeBytes { source in
        let target = unsafe UnsafeMutableRawBufferPointer(
          start: UnsafeMutableRawPointer(bitPattern: address), count: count)
        unsafe target.copyMemory(from: UnsafeRawBufferPointer(rebasing: source[Int(offset)..<Int(offset) + count]))
      }
      return count
    }
  }

  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(EngineError) {
    let copy = unsafe [UInt8](bytes)
    content.withLock { content in
      // A block that turned out not to be worth compressing is written again.
      precondition(offset <= UInt64(content.count), "a table is written without gaps")
      let end = min(Int(offset) + copy.count, content.count)
      content.replaceSubrange(Int(offset)..<end, with: copy)
    }
  }

  func truncate(to size: UInt64) throws(EngineError) {
    content.withLock { $0.removeLast($0.count - Int(size)) }
  }

  func sync() throws(EngineError) {}
  func startWriteback(offset: UInt64, size: UInt64) {}
  func dropCachedPages(offset: UInt64, size: UInt64) {}
  func map(size: Int) throws(EngineError) -> MappedFile { throw EngineError(.inputOutput, "no mapping") }
  func close() {}
}

/// An entry as the model keeps it.
struct Entry: Hashable, CustomStringConvertible {
  var key: [UInt8]
  var sequence: UInt64
  var kind: EntryKind = .put
  var value: [UInt8] = []

  var trailer: Trailer { Trailer(SequenceNumber(sequence), kind) }
  var description: String { "\(key)@\(sequence) \(kind) = \(value.count) bytes" }

  static func isBefore(_ left: Entry, _ right: Entry) -> Bool {
    if left.key != right.key { return left.key.lexicographicallyPrecedes(right.key) }
    return left.trailer.word > right.trailer.word
  }
}

extension InternalIterator where Self: ~Copyable {
  /// A copy of the current entry, or `nil` if the iterator is not valid.
  var entry: Entry? {
    guard isValid, let kind = trailer.kind else { return nil }
    return Entry(key: userKey.bytes, sequence: trailer.sequence.value, kind: kind, value: value.bytes)
  }
}

/// A table in memory, and the model of its entries.
struct TestTable {
  let file: ArrayFile
  let entries: [Entry]
  let summary: TableSummary
  let cache: BlockCache
  let reader: TableReader

  init(
    _ entries: [Entry], _ options: TableOptions = .small, tableID: UInt64 = 0x1234_5678_9abc_def0,
    cacheSize: Int = 1 << 20
  ) throws {
    self.entries = entries
    file = ArrayFile()
    let builder = TableBuilder(file: file, number: FileNumber(1), tableID: tableID, options: options)
    for entry in entries {
      try entry.key.withByteView { key throws(EngineError) in
        try entry.value.withByteView { value throws(EngineError) in try builder.add(key, entry.trailer, value) }
      }
    }
    summary = try builder.finish()
    cache = BlockCache(capacity: cacheSize)
    reader = try TableReader.open(
      file: file, number: FileNumber(1), fileSize: summary.fileSize, cache: cache, tableID: tableID)
  }

  func get(_ key: [UInt8], at sequence: UInt64 = SequenceNumber.maximum.value) throws -> Entry? {
    try reader.entry(key, at: sequence)
  }

  /// Returns the entry that a get must find.
  func expected(_ key: [UInt8], at sequence: UInt64 = SequenceNumber.maximum.value) -> Entry? {
    entries.first { $0.key == key && $0.sequence <= sequence }
  }
}

extension TableReader {
  func entry(_ key: [UInt8], at sequence: UInt64 = SequenceNumber.maximum.value) throws -> Entry? {
    try key.withByteView { view throws(EngineError) -> Entry? in
      guard let hit = try get(view, hash: KeyHash.hash(view), at: SequenceNumber(sequence)) else { return nil }
      guard let kind = hit.trailer.kind else { return nil }
      return Entry(key: key, sequence: hit.trailer.sequence.value, kind: kind, value: hit.value.bytes)
    }
  }
}

extension TableOptions {
  /// Options with blocks so small that a few entries fill many of them.
  static var small: TableOptions {
    var options = TableOptions()
    options.blockSize = 256
    options.indexPartitionSize = 512
    options.bufferSize = 1024
    return options
  }
}

/// The shapes of random keys.
enum KeyShape: CaseIterable, Sendable {
  case decimal, random, nested, fixedWithPrefix

  func key(_ random: inout SeededRandom) -> [UInt8] {
    switch self {
    case .decimal: return Array(String(random.below(5000)).utf8)
    case .random: return (0..<random.below(12)).map { _ in UInt8(random.below(4)) * 85 }
    case .nested: return [UInt8](repeating: 0x61, count: random.below(40)) + [UInt8(random.below(3))]
    case .fixedWithPrefix:
      let digits = String(random.below(100_000))
      return Array(("user/" + String(repeating: "0", count: 8 - digits.count) + digits).utf8)
    }
  }

  /// Returns sorted entries of which no two have the same internal key.
  func entries(_ count: Int, _ random: inout SeededRandom) -> [Entry] {
    let kinds: [EntryKind] = [.put, .put, .put, .delete, .singleDelete, .merge]
    var result: [Entry] = []
    var used: Set<Entry> = []
    var keys: [[UInt8]] = []
    let isConstant = random.oneIn(3)
    for number in 0..<count {
      if !keys.isEmpty, random.oneIn(4) {
        keys.append(keys[random.below(keys.count)])
      } else {
        keys.append(key(&random))
      }
      let sequence = random.oneIn(2) ? UInt64(number) : UInt64(random.below(1 << 40))
      let kind = isConstant ? EntryKind.put : kinds[random.below(kinds.count)]
      let key = keys[keys.count - 1]
      guard used.insert(Entry(key: key, sequence: sequence)).inserted else { continue }
      let size = isConstant ? 20 : (kind == .put || kind == .merge ? random.below(60) : 0)
      let value = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* number) }
      result.append(Entry(key: key, sequence: isConstant ? 7 + sequence : sequence, kind: kind, value: value))
    }
    return result.sorted(by: Entry.isBefore)
  }
}

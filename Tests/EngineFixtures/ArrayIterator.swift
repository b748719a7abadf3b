import EngineTestSupport

@testable import VarveEngine

/// A sorted array of entries in memory, which can make moves of its iterators fail.
final class EntryArray {
  let entries: [TextEntry]
  /// Copies of the keys, whose addresses are stable as long as the array lives.
  let keys: [OwnedBytes]
  let values: [OwnedBytes]
  /// The number of moves after which one throws.
  var movesUntilError = Int.max
  var seekCount = 0

  init(_ entries: [TextEntry]) {
    self.entries = entries.sorted(by: TextEntry.isInOrder)
    keys = self.entries.map { OwnedBytes($0.key) }
    values = self.entries.map { OwnedBytes($0.value) }
  }

  /// The index of the first entry at or after `target`, or the count.
  func firstIndex(notBefore target: InternalKey) -> Int {
    var low = 0
    var high = entries.count
    while low < high {
      let middle = (low + high) / 2
      if internalKey(middle).compare(target) < 0 { low = middle + 1 } else { high = middle }
    }
    return low
  }

  func internalKey(_ index: Int) -> InternalKey { InternalKey(keys[index].view, entries[index].trailer) }
}

/// Bytes in memory of their own, at a stable address.
final class OwnedBytes {
  private let writer: ByteWriter
  init(_ bytes: [UInt8]) {
    var writer = ByteWriter(capacity: bytes.count)
    writer.append(bytes)
    self.writer = writer
  }
  var view: ByteView { writer.view }
}

extension TextEntry {
  var trailer: Trailer {
    let kind: EntryKind =
      switch self.kind {
      case .put: .put
      case .delete: .delete
      case .singleDelete: .singleDelete
      case .rangeDelete: .rangeDelete
      case .merge: .merge
      }
    return Trailer(SequenceNumber(sequence), kind)
  }

  init(_ key: ByteView, _ trailer: Trailer, _ value: ByteView) {
    let kind: Kind =
      switch trailer.kind {
      case .put: .put
      case .delete: .delete
      case .singleDelete: .singleDelete
      case .rangeDelete: .rangeDelete
      case .merge, nil: .merge
      }
    self.init(key: key.bytes, sequence: trailer.sequence.value, kind: kind, value: value.bytes)
  }
}

/// An internal iterator that is simple enough to be obviously correct: an index into a sorted array.
///
/// Views point into a scratch copy that is overwritten at each move, so that a caller that keeps a view too long is
/// detected.
struct ArrayIterator: OpenableIterator {
  let array: EntryArray
  private var index: Int?
  private let scratch = Scratch()

  private final class Scratch {
    var key = ByteWriter()
    var value = ByteWriter()
  }

  init(_ array: EntryArray) { self.array = array }

  static func open(_ table: TableMetadata, _ opener: [FileNumber: EntryArray]) throws(EngineError) -> ArrayIterator {
    guard let array = opener[table.number] else { throw EngineError(.notFound, "no table \(table.number)") }
    return ArrayIterator(array)
  }

  var isValid: Bool { index != nil }
  var userKey: ByteView { scratch.key.view }
  var trailer: Trailer { array.entries[location].trailer }
  var value: ByteView { scratch.value.view }

  var location: Int {
    guard let index else { fatalError("the iterator is not valid: seek first") }
    return index
  }

  mutating func move(to index: Int) throws(EngineError) {
    self.index = nil
    array.movesUntilError -= 1
    if array.movesUntilError < 0 { throw EngineError(.inputOutput, "a move that was to fail") }
    scratch.key.removeAll()
    scratch.value.removeAll()
    scratch.key.append(repeating: 0xee, count: 8)
    scratch.key.removeAll()
    guard array.entries.indices.contains(index) else { return }
    scratch.key.append(array.keys[index].view)
    scratch.value.append(array.values[index].view)
    self.index = index
  }

  mutating func seekToFirst() throws(EngineError) { try move(to: 0) }
  mutating func seekToLast() throws(EngineError) { try move(to: array.entries.count - 1) }

  mutating func seek(_ target: InternalKey) throws(EngineError) {
    array.seekCount += 1
    try move(to: array.firstIndex(notBefore: target))
  }

  mutating func seekBefore(_ target: InternalKey) throws(EngineError) {
    array.seekCount += 1
    try move(to: array.firstIndex(notBefore: target) - 1)
  }

  mutating func next() throws(EngineError) { try move(to: location + 1) }
  mutating func previous() throws(EngineError) { try move(to: location - 1) }
}

extension MergingIterator where Child == ArrayIterator {
  /// Creates a merge of arrays, with one child for each.
  init(_ sources: [[TextEntry]]) {
    self.init(capacity: sources.count)
    for source in sources { append(ArrayIterator(EntryArray(source))) }
  }
}

/// Returns the entry that an iterator is at, or `nil` if it is not valid.
func entry(_ iterator: borrowing some InternalIterator & ~Copyable) -> TextEntry? {
  iterator.isValid ? TextEntry(iterator.userKey, iterator.trailer, iterator.value) : nil
}

/// Returns all entries of an iterator, iterated forward from the first and backward from the last.
func scans(
  _ iterator: inout some InternalIterator & ~Copyable
) throws(EngineError) -> (forward: [TextEntry], backward: [TextEntry]) {
  var found: (forward: [TextEntry], backward: [TextEntry]) = ([], [])
  try iterator.seekToFirst()
  while let entry = entry(iterator) {
    found.forward.append(entry)
    try iterator.next()
  }
  try iterator.seekToLast()
  while let entry = entry(iterator) {
    found.backward.append(entry)
    try iterator.previous()
  }
  return found
}

/// The index of a table's range tombstones, if they are in several blocks.
///
/// # Format
/// The content of a block, with the trailer of any block. Integers are varints.
///
///     0, which no block of range tombstones begins with
///     part count, at least 2
///     per part, ascending, none overlapping another:
///       size of the first fragment's start, the start
///       size of the last fragment's end (excluded), the end
///       handle of the block (16 bytes)
///
/// The blocks follow each other without a gap, and the index follows the last of them.
///
/// # Safety
/// Views of keys are valid while the index lives.
///
/// # Concurrency
/// Immutable; safe from any thread.
final class RangeTombstoneIndex: Sendable {
  private struct Part: Sendable {
    let keyOffset: Int
    let startSize: Int
    let endSize: Int
    let handle: BlockHandle
  }

  private let keys: ByteWriter
  private let parts: [Part]

  var count: Int { parts.count }
  func handle(_ part: Int) -> BlockHandle { parts[part].handle }
  func start(_ part: Int) -> ByteView {
    keys.view.slice(parts[part].keyOffset, parts[part].keyOffset + parts[part].startSize)
  }
  func end(_ part: Int) -> ByteView {
    let offset = parts[part].keyOffset + parts[part].startSize
    return keys.view.slice(offset, offset + parts[part].endSize)
  }

  /// Returns the first part that ends after `key`, or `count` if there is none.
  func firstPart(endingAfter key: ByteView) -> Int {
    var low = 0
    var high = parts.count
    while low < high {
      let middle = (low + high) / 2
      if end(middle) <= key { low = middle + 1 } else { high = middle }
    }
    return low
  }

  /// Reads a content, which may contain any bytes. Throws `.corruption` with its position.
  ///
  /// The parts must fill `section`, so that no handle names a block of another kind.
  init(_ content: ByteView, section: Range<UInt64>, path: String, offset: UInt64) throws(EngineError) {
    var reader = ByteReader(content, file: path, fileOffset: offset)
    guard try reader.varint() == 0 else { throw reader.corruption("not an index of range tombstones") }
    let count = try reader.count(limit: content.count)
    guard count >= 2 else { throw reader.corruption("an index of \(count) parts of range tombstones") }
    var keys = ByteWriter()
    var parts: [Part] = []
    var last: ByteView?
    var position = section.lowerBound
    for _ in 0..<count {
      let start = try reader.bytes(try reader.count(limit: Limits.keySizeMaximum))
      let end = try reader.bytes(try reader.count(limit: Limits.keySizeMaximum))
      guard start < end, last.map({ $0 <= start }) ?? true else {
        throw reader.corruption("parts of range tombstones are out of order or overlap")
      }
      last = end
      let handle = BlockHandle(try reader.bytes(16))
      guard handle.offset == position, let next = handle.end, next <= section.upperBound else {
        throw reader.corruption("a part of the range tombstones is at \(handle.offset); expected at \(position)")
      }
      position = next
      parts.append(Part(keyOffset: keys.count, startSize: start.count, endSize: end.count, handle: handle))
      keys.append(start)
      keys.append(end)
    }
    guard reader.isAtEnd, position == section.upperBound else {
      throw reader.corruption("the parts of the range tombstones end at \(position); expected at \(section.upperBound)")
    }
    self.keys = keys
    self.parts = parts
  }

  /// Writes the fragments of a list in parts by `write`, and returns the content of their index.
  ///
  /// Returns `nil` if one block is enough for all of them.
  static func write(
    _ list: RangeTombstoneList, _ write: (ByteView) throws(EngineError) -> BlockHandle
  ) throws(EngineError) -> ByteWriter? {
    func size(_ index: Int) -> Int {
      list.start(index).count + list.end(index).count + 6 + 3 * list.sequences(index).count
    }
    let total = (0..<list.count).reduce(0) { $0 + size($1) }
    guard list.count > 1, total > RangeTombstoneBlock.contentSizeMaximum else { return nil }
    var entries = ByteWriter()
    var count = 0
    var first = 0
    while first < list.count {
      var end = first + 1
      var sum = size(first)
      while end < list.count, sum + size(end) <= RangeTombstoneBlock.partSize {
        sum += size(end)
        end += 1
      }
      var content = ByteWriter(capacity: 2 * RangeTombstoneBlock.partSize)
      RangeTombstoneBlock.append(list, first..<end, to: &content)
      entries.append(lengthPrefixed: list.start(first))
      entries.append(lengthPrefixed: list.end(end - 1))
      try write(content.view).append(to: &entries)
      count += 1
      first = end
    }
    var index = ByteWriter(capacity: entries.count + 16)
    index.append(varint: 0)
    index.append(varint: UInt64(count))
    index.append(entries.view)
    return index
  }
}

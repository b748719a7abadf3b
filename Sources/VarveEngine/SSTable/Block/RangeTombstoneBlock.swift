/// The encoding of a table's range tombstones.
///
/// # Format
/// The content of a block, with the trailer of any block. Integers are varints.
///
///     fragment count
///     per fragment, ascending, none overlapping another:
///       size of the first key, the key
///       size of the end (excluded), the end
///       sequence count, at least 1
///       the newest sequence, then for each older one how far below it is (at least 1)
///
/// If the content would exceed `contentSizeMaximum`, the fragments are in several such blocks, one after the other,
/// which an index names (`RangeTombstoneIndex`): a read then needs one of them, through the cache, instead of all.
///
/// A table with such a block has a required feature, so that a version that doesn't support range tombstones refuses
/// the table: it would otherwise show deleted entries.
enum RangeTombstoneBlock {
  /// The size of a content from which the fragments are divided.
  static let contentSizeMaximum = 16 << 10
  /// The approximate size of a divided part's content: a read looks at half of its fragments, one by one.
  static let partSize = 2 << 10

  /// Appends all fragments of a list, or those at `indices`.
  static func append(_ list: RangeTombstoneList, _ indices: Range<Int>? = nil, to writer: inout ByteWriter) {
    let indices = indices ?? 0..<list.count
    writer.append(varint: UInt64(indices.count))
    for index in indices {
      writer.append(lengthPrefixed: list.start(index))
      writer.append(lengthPrefixed: list.end(index))
      let sequences = list.sequences(index)
      writer.append(varint: UInt64(sequences.count))
      var last: UInt64?
      for sequence in sequences {
        writer.append(varint: last.map { $0 - sequence } ?? sequence)
        last = sequence
      }
    }
  }

  /// Reads a content, which may contain any bytes. Throws `.corruption` with its position.
  static func read(_ content: ByteView, path: String, offset: UInt64) throws(EngineError) -> RangeTombstoneList {
    var reader = ByteReader(content, file: path, fileOffset: offset)
    var builder = RangeTombstoneListBuilder()
    let count = try reader.count(limit: content.count)
    var last: ByteView?
    for _ in 0..<count {
      let start = try reader.bytes(try reader.count(limit: Limits.keySizeMaximum))
      let end = try reader.bytes(try reader.count(limit: Limits.keySizeMaximum))
      guard start < end, last.map({ $0 <= start }) ?? true else {
        throw reader.corruption("range tombstones are out of order or overlap")
      }
      builder.append(start, end, try sequences(&reader))
      last = end
    }
    guard reader.isAtEnd else {
      throw reader.corruption("\(reader.remaining) bytes follow the last range tombstone; expected none")
    }
    return RangeTombstoneList(builder)
  }

  /// Returns the newest sequence of the fragment around `key` that is visible at `sequence`, or zero if there is none.
  ///
  /// The content may contain any bytes. Throws `.corruption` with its position. Complexity: linear in the fragments.
  static func sequence(
    covering key: ByteView, at sequence: SequenceNumber, in content: ByteView, path: String, offset: UInt64
  ) throws(EngineError) -> SequenceNumber {
    var reader = ByteReader(content, file: path, fileOffset: offset)
    for _ in 0..<(try reader.count(limit: content.count)) {
      let start = try reader.bytes(try reader.count(limit: Limits.keySizeMaximum))
      let end = try reader.bytes(try reader.count(limit: Limits.keySizeMaximum))
      if key < start { return .zero }
      if key < end {
        let newest = try sequences(&reader).first { $0 <= sequence.value }
        return newest.map { SequenceNumber($0) } ?? .zero
      }
      for _ in 0..<(try reader.count(limit: reader.remaining)) { _ = try reader.varint() }
    }
    return .zero
  }

  private static func sequences(_ reader: inout ByteReader) throws(EngineError) -> [UInt64] {
    let count = try reader.count(limit: reader.remaining)
    guard count > 0 else { throw reader.corruption("range tombstone has no sequence number; expected at least 1") }
    var sequences: [UInt64] = []
    sequences.reserveCapacity(count)
    for _ in 0..<count {
      let number = try reader.varint()
      if let last = sequences.last {
        guard number > 0, number < last else {
          throw reader.corruption("sequence numbers of a range tombstone are out of order")
        }
        sequences.append(last - number)
      } else {
        guard number > 0, number <= SequenceNumber.maximum.value else {
          throw reader.corruption(
            "range tombstone has sequence number \(number); expected 1 to \(SequenceNumber.maximum.value)")
        }
        sequences.append(number)
      }
    }
    return sequences
  }
}

/// Collects the entries of a table's index while its data blocks are written, and writes the index after them.
///
/// Entries fill a partition. A full partition is compressed and kept until the data is complete, because data blocks
/// are contiguous in the file. If there is only one partition, it is the root.
struct IndexBuilder: ~Copyable {
  private struct Partition {
    let range: Range<Int>
    let codec: Compression
    let contentSize: UInt32
    let entry: IndexEntry
    let separator: Range<Int>
    let trailer: Trailer
  }

  private let partitionSize: Int
  private let compression: Compression
  private var block: BlockBuilder
  private var entries = IndexColumnsBuilder()
  private var content = ByteWriter(capacity: 4096)
  private var packed = ByteWriter(capacity: 4096)
  private var separators = ByteWriter(capacity: 256)
  private var partitions: [Partition] = []
  private var lastTrailer = Trailer(word: 0)
  private var rowCount: UInt64 = 0
  private var tombstoneCount: UInt64 = 0
  private var smallest = SequenceNumber.maximum
  private var largest = SequenceNumber.zero

  init(partitionSize: Int, compression: Compression) {
    self.partitionSize = partitionSize
    self.compression = compression
    block = BlockBuilder(capacity: partitionSize)
  }

  /// The approximate number of bytes that `finish` will write.
  var estimatedSize: Int { packed.count + block.estimatedSize + entries.estimatedSize + partitions.count * 32 }
  var partitionCount: Int { partitions.count }

  mutating func add(separator: ByteView, _ trailer: Trailer, _ entry: IndexEntry) {
    if block.estimatedSize + entries.estimatedSize + separator.count > partitionSize, !block.isEmpty {
      closePartition()
    }
    entries.add(entry)
    block.add(separator, trailer, ByteView())
    lastTrailer = trailer
    rowCount += UInt64(entry.rowCount)
    tombstoneCount += UInt64(entry.tombstoneCount)
    smallest = min(smallest, entry.smallestSequence)
    largest = max(largest, entry.largestSequence)
  }

  private mutating func closePartition() {
    let separatorStart = separators.count
    separators.append(block.lastKey)
    finishContent()
    let start = packed.count
    let codec = packed.appendPacked(content.view, compression)
    let entry = IndexEntry(
      handle: BlockHandle(
        offset: 0, storedSize: UInt32(packed.count - start), contentSize: UInt32(content.count)),
      rowCount: UInt32(clamping: rowCount), tombstoneCount: UInt32(clamping: tombstoneCount),
      smallestSequence: smallest, largestSequence: largest, flags: 0)
    partitions.append(
      Partition(
        range: start..<packed.count, codec: codec, contentSize: UInt32(content.count), entry: entry,
        separator: separatorStart..<separators.count, trailer: lastTrailer))
    rowCount = 0
    tombstoneCount = 0
    smallest = .maximum
    largest = .zero
  }

  /// Writes the pending entries to `content` and removes them.
  private mutating func finishContent(firstOffset: UInt64? = nil) {
    content.removeAll()
    entries.append(firstOffset: firstOffset ?? entries.firstOffset, to: &content)
    content.append(block.finish())
    block.removeAll()
    entries.removeAll()
  }

  /// Writes partitions and root. Returns the root's handle and the number of levels.
  mutating func finish(to file: inout TableFileWriter) throws(EngineError) -> (root: BlockHandle, levelCount: UInt8) {
    guard !partitions.isEmpty else {
      // A single partition, or an empty one, is the root.
      finishContent()
      return (try file.append(content: content.view, compression), 1)
    }
    closePartition()
    let firstOffset = file.size
    for partition in partitions {
      let view = packed.view.slice(partition.range.lowerBound, partition.range.upperBound)
      _ = try file.append(packed: view, partition.codec, contentSize: partition.contentSize)
      entries.add(partition.entry)
      let separator = separators.view.slice(partition.separator.lowerBound, partition.separator.upperBound)
      block.add(separator, partition.trailer, ByteView())
    }
    finishContent(firstOffset: firstOffset)
    return (try file.append(content: content.view, compression), 2)
  }
}

/// A table: an immutable, sorted file of entries. Version 2 of the format.
///
/// # Format
///
///     data blocks      one after the other from byte 0, in key order
///     filter pages     lines of the Bloom filter, 64 a page (`TableFilter`)
///     index partitions entries of data blocks (only with two levels)
///     root index       entries of data blocks (one level) or of index partitions (two)
///     range tombstones a block of them (`RangeTombstoneBlock`), where there are any; where they are many, several such
///                      blocks and then their index (`RangeTombstoneIndex`)
///     properties       facts about the whole table (`TableProperties`)
///     footer           128 bytes
///
/// The sections follow each other without a gap, so every byte of the file is covered by a checksum. Data blocks have
/// the content that `Block` describes, index partitions and the root that of `IndexBlock`. Each block of any section
/// is its content compressed by a codec, followed by the trailer of five bytes that `BlockTrailer` describes.
///
/// ## Index entry
/// A row of an index block. Its key is a *separator*, at or after the last key of the block to which it points and
/// before the first key of the next block: usually the separator is a short string between two user keys, and its
/// trailer is 0 (which sorts after all entries of a key). If one user key continues in the next block, the separator
/// is that key with the trailer of the block's last entry. The information about the block is in columns before the
/// rows (`IndexBlock`, `IndexColumns`).
///
/// ## Footer
///
///     offset   bytes
///     0        8      table id: random, the seed of every checksum in the file
///     8        8      size of the file
///     16       16     handle of the root index
///     32       16     handle of the properties
///     48       16     handle of the range tombstones, or of their index, zero: none
///     64       8      offset of the first filter page
///     72       4      lines of the filter, 0: no filter
///     76       1      probes of a key
///     77       1      kind of filter (`BloomFilter.kind`)
///     78       2      zero
///     80       8      required features, a bit each; a reader refuses bits that it does not know.
///                     Bit 0: the table has range tombstones; bit 1: they are in several blocks, with an
///                     index, and bit 0 is set, too
///     88       4      transform of the blocks (encryption, say); 0: none, others are refused
///     92       1      levels of the index, 1 or 2
///     93       3      zero
///     96       8      bytes of data blocks
///     104      8      zero
///     112      4      version of the format, 2
///     116      4      checksum: CRC-32C(bytes 0..<116, 120..<128) xor CRC32C.seed(table id, file size)
///     120      8      magic
///
/// Magic, checksum and version have the same offsets in every version, so that a reader can distinguish a later
/// version from damage.
///
/// # Invariants
/// 1. Entries of a table are in internal-key order; no two are equal.
/// 2. A content is below 2^32 bytes: a block is closed before it can grow beyond one row of the largest size.
/// 3. A file is written sequentially and never changed.
enum TableFormat {
  // On disk: never change.
  static let magic: UInt64 = 0x0a31_5453_7672_6156
  static let footerSize = 128
  static let version: UInt32 = 2

  /// The required feature of a table that has range tombstones. On disk: never change.
  static let rangeTombstoneFeature: UInt64 = 1
  /// The required feature of a table whose range tombstones are in several blocks with an index. On disk: never change.
  static let tombstoneIndexFeature: UInt64 = 2
  /// The required features that this version supports.
  static let knownFeatures = rangeTombstoneFeature | tombstoneIndexFeature

  /// The largest size of a content. Larger ones are damage.
  static let contentSizeMaximum = Limits.valueSizeMaximum + (1 << 20) + 64 * 1024
}

/// The options with which a table is built. A reader needs none of them: everything is in the file.
struct TableOptions: Sendable {
  /// The approximate number of bytes of a data block before compression. Larger ones compress better and need less
  /// index; smaller ones make it cheaper to read a single key that is not in the cache (measured: `SSTable.md`).
  var blockSize = 4 * 1024
  /// The codec of data and index blocks. A block of which it does not save an eighth is stored uncompressed.
  var compression: Compression = .lz4
  /// The number of filter bits for each key. 0 means no filter; 10 gives one false positive in a hundred.
  var bloomBitsPerKey = 10
  /// The number of bytes of an index partition before compression.
  var indexPartitionSize = 4 * 1024
  /// The number of bytes that are written to the file at a time.
  var bufferSize = 512 * 1024
  /// Whether the system is asked to write each piece to the disk at once, so that the final sync is short.
  var startsWriteback = true
  /// The origin of the table, stored in its properties for information.
  var origin: TableOrigin = .flush
  /// The level for which the table is built, stored in its properties for information.
  var level = 0
  /// The time in seconds since 1970, or 0 if unknown, stored in the properties for information.
  var createdAt: UInt64 = 0
  /// The column family, its name and its options, stored in the properties for a repair without a MANIFEST.
  var family: FamilyID?
  var familyName: String?
  var familyOptions: [UInt8]?
}

/// The kind of job that built a table. On disk: never change a number.
enum TableOrigin: UInt8, Sendable {
  case flush = 0
  case compaction = 1
  case bulk = 2
}

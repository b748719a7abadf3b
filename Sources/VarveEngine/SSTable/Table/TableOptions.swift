/// How a table is built. The reader needs none of it: everything is in the file.
struct TableOptions: Sendable {
  /// The bytes of a data block before packing, about. Larger ones pack better and need less index;
  /// smaller ones cost less where a single key is read that is not in the cache (measured: `SSTable.md`).
  var blockSize = 4 * 1024
  /// The codec of data and index blocks; blocks that it does not make smaller by an eighth are stored
  /// as they are.
  var compression: Compression = .lz4
  /// 0: no filter; 10: one false answer in a hundred.
  var bloomBitsPerKey = 10
  /// The bytes of an index partition before packing.
  var indexPartitionSize = 4 * 1024
  /// The bytes that are written to the file at a time.
  var bufferSize = 512 * 1024
  /// Whether the system is asked to write each piece to the disk at once, so that the final sync is
  /// short.
  var startsWriteback = true
  /// Who makes the table: kept in its properties, for people.
  var origin: TableOrigin = .flush
  /// The level the table is made for: kept in its properties, for people.
  var level = 0
  /// Seconds since 1970, 0 if not known: kept in its properties, for people.
  var createdAt: UInt64 = 0
  /// The column family, its name and its options: kept in its properties, for a repair that has no MANIFEST.
  var family: FamilyID?
  var familyName: String?
  var familyOptions: [UInt8]?
}

/// What made a table. On disk: never change a number.
enum TableOrigin: UInt8, Sendable {
  case flush = 0
  case compaction = 1
  case bulk = 2
}

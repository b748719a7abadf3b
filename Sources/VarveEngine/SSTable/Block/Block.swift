internal import CVarve

/// A decoded block: rows of (user key, trailer, value) in internal-key order, stored by column.
///
/// Data blocks, index partitions and the root index share this format. A block is a view of memory that is owned
/// elsewhere (by a pin, or an iterator's buffer): 25 words that are copied freely.
///
/// # Format (the content, before it is packed; all integers little-endian)
///
///     values     the values, one after the other
///     sequences  for each row what it is above the base
///     kinds      for each row its kind
///     offsets    a slot for each row and one more: where values begin and end
///     keys       for each bundle of 16 rows its prefix of q bytes, then the rest of each of its keys
///     suffixes   for each bundle a slot for each of its m rows and one more
///     bundles    6 bytes for each bundle: where it begins in `keys` (4), size q of its prefix (2)
///     heads      8 bytes for each bundle: the first 8 bytes of its first key after the block
///                prefix, zeros where the key ends
///     prefix     p bytes that every key begins with
///     header     0    4   n, the count of rows
///                4    4   bytes of keys
///                8    4   bytes of values
///                12   4   smallest value size v
///                16   8   trailer base: smallest sequence << 8 | kind, or 0 for the kind if it varies
///                24   2   size p of the block prefix
///                26   2   smallest key size k
///                28   2   largest key size
///                30   1   width of a suffix slot, 0...4
///                31   1   width of a value slot, 0...4
///                32   1   width of a sequence, 0...7
///                33   1   width of a kind, 0 or 1
///                34   2   zero
///
/// The header is at the end, so that the parts that a search reads first (header, prefix, heads and bundles) are
/// together in two or three cache lines: a search in a block that is not cached waits for memory, not for
/// instructions.
///
/// A slot holds the difference between an offset and the smallest possible one: suffix j of a bundle begins at j *
/// max(0, k - p - q) + slot, counted from the end of the bundle's prefix, and value i at i * v + slot. If all keys,
/// or all values, are of one size, the slots and their width are zero, and the column takes no bytes. The same
/// applies to the sequences and kinds of a block in which they are all equal. A width is the smallest number of bytes
/// that holds the column's largest number.
///
/// # Invariants
/// 1. Every content is validated (`Block.validate`) before a `Block` is created from it, so access to rows needs no
///    further checks.
/// 2. Integers of any width are read as eight bytes and masked, and short suffixes are copied as sixteen bytes. The
///    bytes after them, at least the header, make that safe. Values are read exactly.
/// 3. Rows are in internal-key order (`TableReader.verify` checks it; the checksum protects it).
///
/// # Safety
/// A block is valid as long as the memory from which it was created.
@safe
struct Block {
  static let headerSize = 36
  /// The number of rows of a bundle. On disk: never change.
  static let bundleSize = 16
  static let bundleShift = 4
  static let bundleRecordSize = 6
  /// The size up to which a suffix is copied by one load and store.
  static let copySize = 16

  let rowCount: Int
  let bundleCount: Int
  let prefixSize: Int
  let keySizeMinimum: Int
  let keySizeMaximum: Int
  let valueSizeMinimum: Int
  let valuesSize: Int
  let trailerBase: UInt64
  let prefixBase: UnsafeRawPointer
  let heads: UnsafeRawPointer
  let bundles: UnsafeRawPointer
  let values: UnsafeRawPointer
  let keys: UnsafeRawPointer
  let sequences: BlockColumn
  let kinds: BlockColumn
  let suffixes: BlockColumn
  let offsets: BlockColumn

  /// Creates a block without rows.
  init() {
    self.init(validated: Block.empty)
  }

  /// The content of a block without rows.
  private static let empty: ByteView = {
    let memory = UnsafeMutableRawPointer.allocate(byteCount: headerSize, alignment: 16)
    unsafe memory.initializeMemory(as: UInt8.self, repeating: 0, count: headerSize)
    return unsafe ByteView(base: UnsafeRawPointer(memory), count: headerSize)
  }()

  /// Creates a block from a validated content.
  @inline(__always)
  init(validated content: ByteView) {
    let layout = BlockLayout(content)
    rowCount = layout.rowCount
    bundleCount = layout.bundleCount
    prefixSize = layout.prefixSize
    keySizeMinimum = layout.keySizeMinimum
    keySizeMaximum = layout.keySizeMaximum
    valueSizeMinimum = layout.valueSizeMinimum
    valuesSize = layout.valuesSize
    trailerBase = layout.trailerBase
    let base = unsafe content.base
    unsafe values = base
    unsafe prefixBase = base + layout.prefix
    unsafe heads = base + layout.heads
    unsafe bundles = base + layout.bundles
    unsafe keys = base + layout.keys
    unsafe sequences = BlockColumn(base: base + layout.sequences, width: layout.sequenceWidth)
    unsafe kinds = BlockColumn(base: base + layout.kinds, width: layout.kindWidth)
    unsafe suffixes = BlockColumn(base: base + layout.suffixes, width: layout.suffixWidth)
    unsafe offsets = BlockColumn(base: base + layout.offsets, width: layout.offsetWidth)
  }

  /// Prefetches what a search reads first: header, prefix, heads and bundles, and the keys before them. Without the
  /// prefetch, each of them would be a separate cache miss.
  @inline(__always)
  static func prefetch(_ content: ByteView) {
    var line = 0
    while line < prefetchSize {
      unsafe cvarve_prefetch(content.base + (content.count &- 1 &- line))
      line &+= 64
    }
  }

  /// Prefetches what a scan that begins at the first row reads: the parts that a search reads, and the first values.
  static func prefetchRows(_ content: ByteView) {
    prefetch(content)
    var line = 0
    while line < valuesPrefetchSize, line < content.count {
      unsafe cvarve_prefetch(content.base + line)
      line &+= 64
    }
  }

  private static let valuesPrefetchSize = 256

  /// The number of bytes that a search prefetches. Measured in pairs with 3 million keys, everything cached: gets and
  /// seeks with ten steps take 7 % less with it.
  private static let prefetchSize = 384

  // MARK: - Rows

  @inline(__always)
  var prefix: ByteView { unsafe ByteView(base: prefixBase, count: prefixSize) }

  @inline(__always)
  func trailer(_ row: Int) -> Trailer {
    assert(row >= 0 && row < rowCount, "a row outside the block")
    return Trailer(word: trailerBase &+ (sequences[row] << 8) &+ kinds[row])
  }

  @inline(__always)
  func value(_ row: Int) -> ByteView {
    assert(row >= 0 && row < rowCount, "a row outside the block")
    let start = row &* valueSizeMinimum &+ offsets.integer(row)
    let end = (row &+ 1) &* valueSizeMinimum &+ offsets.integer(row &+ 1)
    return unsafe ByteView(base: values + start, count: end &- start)
  }

  /// Returns the location of a bundle's keys and the prefix that its rows share.
  @inline(__always)
  func bundle(_ index: Int) -> BlockBundle {
    assert(index >= 0 && index < bundleCount, "a bundle outside the block")
    let record = unsafe bundles + index &* Block.bundleRecordSize
    let start = unsafe Int(UInt32(littleEndian: record.loadUnaligned(as: UInt32.self)))
    let size = unsafe Int(UInt16(littleEndian: record.loadUnaligned(fromByteOffset: 4, as: UInt16.self)))
    let rest = keySizeMinimum &- prefixSize &- size
    return unsafe BlockBundle(base: keys + start, prefixSize: size, suffixSizeMinimum: rest > 0 ? rest : 0)
  }

  /// Returns the part of a row's key after the block prefix and its bundle's prefix.
  @inline(__always)
  func suffix(_ row: Int, _ bundle: BlockBundle) -> ByteView {
    assert(row >= 0 && row < rowCount, "a row outside the block")
    let location = row & (Block.bundleSize &- 1)
    let slot = row &+ (row >> Block.bundleShift)
    let start = location &* bundle.suffixSizeMinimum &+ suffixes.integer(slot)
    let end = (location &+ 1) &* bundle.suffixSizeMinimum &+ suffixes.integer(slot &+ 1)
    return unsafe ByteView(base: bundle.base + bundle.prefixSize + start, count: end &- start)
  }

  /// Appends the whole key of a row to `writer`. For code that is not on a hot path.
  func appendKey(_ row: Int, to writer: inout ByteWriter) {
    let bundle = bundle(row >> Block.bundleShift)
    writer.append(prefix)
    writer.append(bundle.prefix)
    writer.append(suffix(row, bundle))
  }

  /// Returns the first eight bytes, after the block prefix, of the first key of a bundle.
  @inline(__always)
  func head(_ bundle: Int) -> UInt64 {
    assert(bundle >= 0 && bundle < bundleCount, "a bundle outside the block")
    return unsafe UInt64(bigEndian: heads.loadUnaligned(fromByteOffset: bundle &* 8, as: UInt64.self))
  }
}

/// A bundle of at most 16 rows: the location of its keys and the prefix that they share after the block prefix.
///
/// # Safety
/// A bundle is valid as long as its block.
@safe
struct BlockBundle {
  let base: UnsafeRawPointer
  let prefixSize: Int
  let suffixSizeMinimum: Int

  @inline(__always)
  var prefix: ByteView { unsafe ByteView(base: base, count: prefixSize) }
}

/// Little-endian integers of one width, 0 to 7 bytes. With a width of zero, all are 0.
///
/// Every width is read the same way, by eight bytes and a mask, without a branch. The block's header after the column
/// makes the read of the last integer safe.
///
/// # Safety
/// A column is valid as long as its block. The index is checked by the caller that validated the block.
@safe
struct BlockColumn {
  let base: UnsafeRawPointer
  let width: Int
  let mask: UInt64

  @inline(__always)
  init(base: UnsafeRawPointer, width: Int) {
    unsafe self.base = base
    self.width = width
    mask = (1 &<< UInt64(truncatingIfNeeded: width &* 8)) &- 1
  }

  @inline(__always)
  subscript(index: Int) -> UInt64 {
    unsafe UInt64(littleEndian: base.loadUnaligned(fromByteOffset: index &* width, as: UInt64.self)) & mask
  }

  @inline(__always)
  func integer(_ index: Int) -> Int { Int(truncatingIfNeeded: self[index]) }

  /// Returns the smallest number of bytes that holds `largest`.
  static func width(_ largest: UInt64) -> Int { (71 &- largest.leadingZeroBitCount) / 8 }
}

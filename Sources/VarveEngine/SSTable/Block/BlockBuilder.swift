/// Builds the content of one block, in the format that `Block` describes, from rows that are added in order.
///
/// Values are written directly to their position in the content. Keys are kept whole until the block is finished,
/// because only then is it known what they share. No byte is encoded twice.
///
/// A large value stays where it is: the content of its block, which has no other row, begins with the value, and the
/// builder makes only the rest.
///
/// # Safety
/// The builder is the only owner of its memory.
@safe
struct BlockBuilder: ~Copyable {
  /// The size of the record of a pending row: trailer (8), end of its key in `keys` (4), end of its value in the
  /// values (4).
  private static let recordSize = 16
  /// The capacity up to which a block of large values may leave its memory to the next one.
  private static let keptCapacityMaximum = 128 << 10

  private var content: ByteWriter
  private var keys: ByteWriter
  private var records: ByteWriter
  /// The bundle records of the block that is being finished.
  private var bundles = ByteWriter()
  private(set) var rowCount = 0
  private var keySizeMinimum = Int.max
  private var keySizeMaximum = 0
  private var valueSizeMinimum = Int.max
  private var valueSizeMaximum = 0
  private var lastKeyStart = 0
  /// The size of the value that is not in `content`.
  private var detachedSize = 0
  private(set) var smallestSequence = SequenceNumber.maximum
  private(set) var largestSequence = SequenceNumber.zero
  private var firstKind: UInt8 = 0
  private var hasOneKind = true

  private let contentCapacity: Int

  init(capacity: Int) {
    contentCapacity = capacity + capacity / 4 + 1024
    content = ByteWriter(capacity: contentCapacity, mapsLarge: true)
    keys = ByteWriter(capacity: capacity / 4 + 1024)
    records = ByteWriter(capacity: capacity / 4 + 1024)
  }

  /// The memory of all buffers, in bytes.
  var memorySize: Int { content.capacity + keys.capacity + records.capacity + bundles.capacity }

  var isEmpty: Bool { rowCount == 0 }
  /// The last key added, valid until the next change. Requires that there is one.
  @inline(__always)
  var lastKey: ByteView { keys.view.dropFirst(lastKeyStart) }
  /// The first key added.
  var firstKey: ByteView { keys.view.slice(0, keyEnd(0)) }
  /// The approximate size of the content if the block were finished now, without what prefixes save.
  @inline(__always)
  var estimatedSize: Int { content.count &+ keys.count &+ rowCount &* 6 }

  /// Returns whether the sizes of a row fit into 32 bits.
  static func canHold(keySize: Int, valueSize: Int) -> Bool {
    keySize <= Limits.keySizeMaximum && valueSize <= Limits.valueSizeMaximum
  }

  /// Reserves memory for a large row and the columns of a block that contains only that row. Throws `.noMemory`.
  mutating func reserve(_ keySize: Int, _ valueSize: Int) throws(EngineError) {
    try content.reserveOrThrow(valueSize + 2 * keySize + 256)
  }

  @inline(__always)
  mutating func add(_ key: ByteView, _ trailer: Trailer, _ value: ByteView) {
    content.append(value)
    count(key, trailer, valueSize: value.count, valueEnd: content.count)
  }

  /// Adds the only row of a block without its value, which precedes what `finish` returns.
  mutating func addAlone(_ key: ByteView, _ trailer: Trailer, valueSize: Int) {
    precondition(isEmpty, "a value that is not in the content is alone in its block")
    detachedSize = valueSize
    count(key, trailer, valueSize: valueSize, valueEnd: valueSize)
  }

  @inline(__always)
  private mutating func count(_ key: ByteView, _ trailer: Trailer, valueSize: Int, valueEnd: Int) {
    lastKeyStart = keys.count
    keys.append(key)
    records.reserve(BlockBuilder.recordSize)
    records.append(integer: trailer.word)
    records.append(
      integer: UInt64(truncatingIfNeeded: keys.count) | UInt64(truncatingIfNeeded: valueEnd) << 32)
    if key.count < keySizeMinimum { keySizeMinimum = key.count }
    if key.count > keySizeMaximum { keySizeMaximum = key.count }
    if valueSize < valueSizeMinimum { valueSizeMinimum = valueSize }
    if valueSize > valueSizeMaximum { valueSizeMaximum = valueSize }
    let sequence = trailer.sequence
    if sequence < smallestSequence { smallestSequence = sequence }
    if sequence > largestSequence { largestSequence = sequence }
    if rowCount == 0 { firstKind = trailer.rawKind }
    hasOneKind = hasOneKind && trailer.rawKind == firstKind
    rowCount &+= 1
  }

  /// Writes the columns and returns the content, after the value of `addAlone`. It is valid until `removeAll`.
  mutating func finish() -> ByteView {
    if rowCount == 0 {
      smallestSequence = .zero
      keySizeMinimum = 0
      valueSizeMinimum = 0
    }
    let valuesSize = content.count + detachedSize
    precondition(valuesSize + keys.count + rowCount * 20 < UInt32.max, "a block above 4 GiB: cut it before")
    let prefixSize = rowCount == 0 ? 0 : firstKey.sharedPrefixCount(lastKey)
    let (keysSize, suffixExcess) = measureBundles(prefixSize)
    let suffixWidth = BlockColumn.width(UInt64(suffixExcess))
    let offsetWidth = BlockColumn.width(UInt64(valuesSize - rowCount * valueSizeMinimum))
    let sequenceWidth = BlockColumn.width(largestSequence.value - min(smallestSequence.value, largestSequence.value))
    appendTrailers(sequenceWidth)
    appendOffsets(offsetWidth)
    appendKeys(prefixSize, keysSize)
    appendSuffixSlots(prefixSize, suffixWidth)
    content.append(bundles.view)
    appendHeads(prefixSize)
    content.append(keys.view.slice(0, prefixSize))
    content.append(integer: UInt32(rowCount))
    content.append(integer: UInt32(keysSize))
    content.append(integer: UInt32(valuesSize))
    content.append(integer: UInt32(valueSizeMinimum))
    content.append(integer: smallestSequence.value << 8 | UInt64(hasOneKind ? firstKind : 0))
    content.append(integer: UInt16(prefixSize))
    content.append(integer: UInt16(keySizeMinimum))
    content.append(integer: UInt16(keySizeMaximum))
    content.append(integer: UInt8(suffixWidth))
    content.append(integer: UInt8(offsetWidth))
    content.append(integer: UInt8(sequenceWidth))
    content.append(integer: UInt8(hasOneKind ? 0 : 1))
    content.append(integer: UInt16(0))
    return content.view
  }

  /// Removes the rows and keeps the memory.
  mutating func removeAll() {
    content.removeAll()
    // One huge value must not keep its memory for the rest of the table.
    if content.capacity > max(contentCapacity * 4, BlockBuilder.keptCapacityMaximum) {
      content = ByteWriter(capacity: contentCapacity, mapsLarge: true)
    }
    keys.removeAll()
    records.removeAll()
    rowCount = 0
    keySizeMinimum = Int.max
    keySizeMaximum = 0
    valueSizeMinimum = Int.max
    valueSizeMaximum = 0
    lastKeyStart = 0
    detachedSize = 0
    smallestSequence = .maximum
    largestSequence = .zero
    hasOneKind = true
  }

  // MARK: - The rows that wait

  @inline(__always)
  private func trailerWord(_ row: Int) -> UInt64 {
    records.view.load(row &* BlockBuilder.recordSize, as: UInt64.self)
  }

  @inline(__always)
  private func keyEnd(_ row: Int) -> Int {
    Int(records.view.load(row &* BlockBuilder.recordSize &+ 8, as: UInt32.self))
  }

  @inline(__always)
  private func keyStart(_ row: Int) -> Int { row == 0 ? 0 : keyEnd(row &- 1) }

  @inline(__always)
  private func valueEnd(_ row: Int) -> Int {
    Int(records.view.load(row &* BlockBuilder.recordSize &+ 12, as: UInt32.self))
  }

  @inline(__always)
  private func key(_ row: Int) -> ByteView { keys.view.slice(keyStart(row), keyEnd(row)) }

  @inline(__always)
  private var bundleCount: Int { (rowCount &+ Block.bundleSize &- 1) >> Block.bundleShift }

  @inline(__always)
  private func rows(_ bundle: Int) -> Range<Int> {
    let first = bundle << Block.bundleShift
    return first..<min(first &+ Block.bundleSize, rowCount)
  }

  /// Returns the smallest size that a suffix of a bundle can have.
  @inline(__always)
  private func suffixSizeMinimum(_ prefixSize: Int, _ bundlePrefixSize: Int) -> Int {
    max(0, keySizeMinimum &- prefixSize &- bundlePrefixSize)
  }

  // MARK: - Sections

  /// Computes the bundle records. Returns the bytes of keys and the largest slot of a suffix.
  private mutating func measureBundles(_ prefixSize: Int) -> (keysSize: Int, excess: Int) {
    bundles.removeAll()
    var start = 0
    var largest = 0
    for bundle in 0..<bundleCount {
      let rows = rows(bundle)
      let first = key(rows.lowerBound).dropFirst(prefixSize)
      let size = first.sharedPrefixCount(key(rows.upperBound - 1).dropFirst(prefixSize))
      bundles.append(integer: UInt32(start))
      bundles.append(integer: UInt16(size))
      let whole = keyEnd(rows.upperBound - 1) - keyStart(rows.lowerBound)
      let suffixes = whole - rows.count * (prefixSize + size)
      largest = max(largest, suffixes - rows.count * suffixSizeMinimum(prefixSize, size))
      start += size + suffixes
    }
    return (start, largest)
  }

  private func bundlePrefixSize(_ bundle: Int) -> Int {
    Int(bundles.view.load(bundle * Block.bundleRecordSize + 4, as: UInt16.self))
  }

  private mutating func appendHeads(_ prefixSize: Int) {
    for bundle in 0..<bundleCount {
      content.append(integer: key(rows(bundle).lowerBound).head(from: prefixSize).byteSwapped)
    }
  }

  /// Appends `count` integers of `width` bytes. Each is stored as eight bytes: the next one, or the next section,
  /// overwrites the excess.
  @inline(__always)
  private mutating func appendColumn(_ width: Int, _ count: Int, _ body: (Int) -> UInt64) {
    if width == 0 { return }
    content.reserve(width &* count &+ 8)
    unsafe content.appendUninitialized(width &* count) { buffer in
      guard var target = buffer.baseAddress else { return 0 }
      for index in 0..<count {
        unsafe target.storeBytes(of: body(index).littleEndian, as: UInt64.self)
        unsafe target += width
      }
      return width &* count
    }
  }

  private mutating func appendTrailers(_ sequenceWidth: Int) {
    let base = smallestSequence.value
    let records = records.view
    appendColumn(sequenceWidth, rowCount) { row in
      (records.load(row &* BlockBuilder.recordSize, as: UInt64.self) >> 8) &- base
    }
    appendColumn(hasOneKind ? 0 : 1, rowCount) { row in
      records.load(row &* BlockBuilder.recordSize, as: UInt64.self) & 0xff
    }
  }

  private mutating func appendOffsets(_ width: Int) {
    let minimum = valueSizeMinimum
    let records = records.view
    appendColumn(width, rowCount &+ 1) { row in
      if row == 0 { return 0 }
      let end = records.load((row &- 1) &* BlockBuilder.recordSize &+ 12, as: UInt32.self)
      return UInt64(end) &- UInt64(truncatingIfNeeded: row &* minimum)
    }
  }

  private mutating func appendSuffixSlots(_ prefixSize: Int, _ width: Int) {
    if width == 0 { return }
    for bundle in 0..<bundleCount {
      let rows = rows(bundle)
      let size = bundlePrefixSize(bundle)
      let shared = prefixSize + size + suffixSizeMinimum(prefixSize, size)
      let start = keyStart(rows.lowerBound)
      let records = records.view
      appendColumn(width, rows.count + 1) { location in
        if location == 0 { return 0 }
        let row = rows.lowerBound &+ location &- 1
        let end = Int(records.load(row &* BlockBuilder.recordSize &+ 8, as: UInt32.self))
        return UInt64(truncatingIfNeeded: end &- start &- location &* shared)
      }
    }
  }

  private mutating func appendKeys(_ prefixSize: Int, _ keysSize: Int) {
    // Suffixes are copied sixteen bytes at a time, and the next one overwrites the excess.
    content.reserve(keysSize + Block.copySize)
    keys.reserve(Block.copySize)
    for bundle in 0..<bundleCount {
      let rows = rows(bundle)
      let size = bundlePrefixSize(bundle)
      let drop = prefixSize + size
      content.append(key(rows.lowerBound).slice(prefixSize, drop))
      var start = keyStart(rows.lowerBound)
      for row in rows {
        let end = keyEnd(row)
        let count = end &- start &- drop
        let source = unsafe UnsafeRawPointer(keys.base) + start + drop
        if count <= Block.copySize {
          unsafe content.appendUninitialized(count) { buffer in
            guard let target = buffer.baseAddress else { return 0 }
            unsafe target.storeBytes(of: source.loadUnaligned(as: SIMD2<UInt64>.self), as: SIMD2<UInt64>.self)
            return count
          }
        } else {
          content.append(unsafe ByteView(base: source, count: count))
        }
        start = end
      }
    }
  }
}

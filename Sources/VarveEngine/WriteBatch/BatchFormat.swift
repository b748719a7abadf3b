/// The encoding of a batch, in memory and in the log.
///
/// # Format
/// Entries, one after the other:
///
/// ```
/// kind (1)  family id (varint)  key size (varint)  key  [ value size (varint)  value ]
/// ```
///
/// The kinds put, range delete (the end of the range) and merge have a value. Kinds are the numbers of `EntryKind`.
enum BatchFormat {
  @inline(__always)
  static func hasValue(_ kind: EntryKind) -> Bool {
    switch kind {
    case .put, .rangeDelete, .merge: true
    case .delete, .singleDelete: false
    }
  }

  /// Returns the size of an encoded entry, in bytes.
  @inline(__always)
  static func entrySize(_ kind: EntryKind, _ family: FamilyID, keySize: Int, valueSize: Int) -> Int {
    let head = 1 &+ Varint.size(UInt64(family.value)) &+ Varint.size(UInt64(keySize)) &+ keySize
    return hasValue(kind) ? head &+ Varint.size(UInt64(valueSize)) &+ valueSize : head
  }

  /// Throws `.limitExceeded` if the key, the value or the batch with them is too large.
  @inline(__always)
  static func checkLimits(key: ByteView, value: ByteView, batchSize: Int) throws(EngineError) {
    if key.count > Limits.keySizeMaximum || value.count > Limits.valueSizeMaximum
      || batchSize &+ key.count &+ value.count &+ 32 > Limits.batchSizeMaximum
    {
      throw limitError(key: key, value: value, batchSize: batchSize)
    }
  }

  /// Returns whether a range of keys is empty. Throws `.invalidArgument` if it ends before it begins, and
  /// `.limitExceeded`.
  static func isEmptyRange(_ lower: ByteView, _ upper: ByteView) throws(EngineError) -> Bool {
    let order = lower.compare(upper)
    guard order <= 0 else {
      throw EngineError(
        .invalidArgument, "a range that ends at \(upper.printable), before it begins at \(lower.printable)")
    }
    guard upper.count <= Limits.keySizeMaximum else {
      throw EngineError(
        .limitExceeded, "a range that ends at a key of \(upper.count) bytes; at most \(Limits.keySizeMaximum)"
      ).exceeding(.key)
    }
    return order == 0
  }

  @inline(never)
  private static func limitError(key: ByteView, value: ByteView, batchSize: Int) -> EngineError {
    if key.count > Limits.keySizeMaximum {
      return EngineError(.limitExceeded, "key has \(key.count) bytes; at most \(Limits.keySizeMaximum) are allowed")
        .exceeding(.key)
    }
    if value.count > Limits.valueSizeMaximum {
      return EngineError(
        .limitExceeded, "value has \(value.count) bytes; at most \(Limits.valueSizeMaximum) are allowed"
      ).exceeding(.value)
    }
    return EngineError(
      .limitExceeded,
      "batch has \(batchSize + key.count + value.count) bytes; at most \(Limits.batchSizeMaximum) are allowed"
    ).exceeding(.batch)
  }

  @inline(__always)
  static func append(
    _ kind: EntryKind, _ family: FamilyID, _ key: ByteView, _ value: ByteView, to writer: inout ByteWriter
  ) {
    let size = entrySize(kind, family, keySize: key.count, valueSize: value.count)
    unsafe writer.appendUninitialized(size) { target in
      guard let base = target.baseAddress else { return 0 }
      return unsafe store(kind, family, key, value, to: base)
    }
  }

  /// Appends an entry of a kind with a value, up to the value, which is not appended.
  static func appendHead(
    _ kind: EntryKind, _ family: FamilyID, _ key: ByteView, valueSize: Int, to writer: inout ByteWriter
  ) {
    writer.append(integer: kind.rawValue)
    writer.append(varint: UInt64(family.value))
    writer.append(lengthPrefixed: key)
    writer.append(varint: UInt64(valueSize))
  }

  /// Writes an entry at `target`, which must have room for `entrySize` bytes, and returns its size.
  @inline(__always)
  @unsafe
  static func store(
    _ kind: EntryKind, _ family: FamilyID, _ key: ByteView, _ value: ByteView, to target: UnsafeMutableRawPointer
  ) -> Int {
    unsafe target.storeBytes(of: kind.rawValue, as: UInt8.self)
    var offset = 1
    offset &+= unsafe Varint.store(UInt64(family.value), to: target + offset)
    offset &+= unsafe Varint.store(UInt64(key.count), to: target + offset)
    unsafe (target + offset).copyMemory(from: key.base, byteCount: key.count)
    offset &+= key.count
    if hasValue(kind) {
      offset &+= unsafe Varint.store(UInt64(value.count), to: target + offset)
      unsafe (target + offset).copyMemory(from: value.base, byteCount: value.count)
      offset &+= value.count
    }
    return offset
  }
}

/// Iterates over the entries of a batch. The bytes may come from disk, so every field is checked.
struct BatchReader {
  private var reader: ByteReader

  init(_ payload: ByteView, file: String? = nil, offset: UInt64 = 0) {
    reader = ByteReader(payload, file: file, fileOffset: offset)
  }

  struct Entry {
    let kind: EntryKind
    let family: FamilyID
    let key: ByteView
    let value: ByteView
  }

  /// How many bytes of the entries were read.
  var position: Int { reader.position }

  /// Returns the next entry, or nil at the end. Throws `.corruption`, or `.unsupportedFormat` for a kind that this
  /// version does not know.
  @inline(__always)
  mutating func next() throws(EngineError) -> Entry? {
    if reader.isAtEnd { return nil }
    return try Self.entry(&reader)
  }

  /// Reads the entry at the reader's position.
  @inline(__always)
  static func entry(_ reader: inout ByteReader) throws(EngineError) -> Entry {
    let rawKind = try reader.integer(UInt8.self)
    guard let kind = EntryKind(rawValue: rawKind) else {
      throw EngineError(.unsupportedFormat, "entry kind \(rawKind) is not known to this version")
    }
    let family = try reader.varint()
    guard family <= UInt64(UInt32.max) else {
      throw reader.corruption("family id is \(family); at most \(UInt32.max) is allowed")
    }
    let key = try reader.bytes(try reader.count(limit: Limits.keySizeMaximum))
    guard BatchFormat.hasValue(kind) else {
      return Entry(kind: kind, family: FamilyID(UInt32(family)), key: key, value: ByteView())
    }
    let value = try reader.bytes(try reader.count(limit: Limits.valueSizeMaximum))
    return Entry(kind: kind, family: FamilyID(UInt32(family)), key: key, value: value)
  }
}

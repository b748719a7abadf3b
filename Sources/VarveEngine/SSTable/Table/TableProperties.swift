/// Facts about a whole table, in a block of their own near its end.
///
/// # Format
/// Fields, each a varint tag, a varint size and that many bytes; integers are varints in their field. Tags ascend. A
/// reader skips tags that it does not know: features that it must support are in the footer's required features.
struct TableProperties: Hashable, Sendable {
  var entryCount: UInt64 = 0
  /// The number of deletes and single deletes.
  var tombstoneCount: UInt64 = 0
  var rangeTombstoneCount: UInt64 = 0
  /// The number of distinct user keys.
  var keyCount: UInt64 = 0
  var keysSize: UInt64 = 0
  var valuesSize: UInt64 = 0
  /// The number of bytes of the data blocks before compression.
  var contentSize: UInt64 = 0
  var dataBlockCount: UInt64 = 0
  /// The number of data blocks that were copied whole from other tables.
  var copiedBlockCount: UInt64 = 0
  var indexPartitionCount: UInt64 = 0
  var smallestKey: [UInt8] = []
  var smallestTrailer = Trailer(word: 0)
  var largestKey: [UInt8] = []
  var largestTrailer = Trailer(word: 0)
  var smallestSequence = SequenceNumber.zero
  var largestSequence = SequenceNumber.zero
  var compression: UInt8 = 0
  var blockSize: UInt64 = 0
  var bloomBitsPerKey: UInt64 = 0
  var origin: UInt8 = 0
  var level: UInt64 = 0
  var createdAt: UInt64 = 0
  /// The column family for which the table was written, or nil in tables of earlier builds. Only a repair without a
  /// MANIFEST reads it.
  var family: FamilyID?
  /// The family's name, or nil in tables of earlier builds.
  var familyName: [UInt8]?
  /// The encoded options of the family when the table was written, or nil in tables of earlier builds.
  var familyOptions: [UInt8]?
  /// The entries that only readers of old states need. Empty in tables of earlier builds, which did not count them.
  var hidden = HiddenEntries.none
  /// The estimated bytes of older tables that the tombstones hide, or nil if there are no tombstones, if no estimate
  /// was possible, and in tables of earlier builds.
  var shadowedSize: UInt64?

  /// The largest estimate, so that sums over all tables can't overflow.
  static let shadowedMaximum: UInt64 = (1 << 48) - 1

  /// The tags of the fields. On disk: never change a number.
  private enum Tag: UInt64, CaseIterable {
    case entryCount = 1
    case tombstoneCount = 2
    case rangeTombstoneCount = 3
    case keyCount = 4
    case keysSize = 5
    case valuesSize = 6
    case contentSize = 7
    case dataBlockCount = 8
    case copiedBlockCount = 9
    case indexPartitionCount = 10
    case smallestKey = 11
    case smallestTrailer = 12
    case largestKey = 13
    case largestTrailer = 14
    case smallestSequence = 15
    case largestSequence = 16
    case compression = 17
    case blockSize = 18
    case bloomBitsPerKey = 19
    case origin = 20
    case level = 21
    case createdAt = 22
    case family = 23
    case familyName = 24
    case familyOptions = 25
    case hiddenEntries = 26
    case shadowedSize = 27
  }

  init() {}

  /// Extends the bounds, which are those of the entries, by range tombstones.
  ///
  /// A table whose upper bound is the end of a range tombstone does not contain that key. Its last trailer records
  /// this.
  mutating func include(_ list: RangeTombstoneList) {
    rangeTombstoneCount = UInt64(list.tombstoneCount)
    guard !list.isEmpty else { return }
    let start = list.start(0)
    let end = list.end(list.count - 1)
    let newest = list.sequences(0).first ?? 0
    if entryCount == 0 || smallestKey.withByteView({ start.compare($0) <= 0 }) {
      let trailer = Trailer(SequenceNumber(newest), .rangeDelete)
      // Among entries of one key, the greater trailer comes first.
      if entryCount == 0 || smallestKey.withByteView({ $0 != start }) || trailer.word > smallestTrailer.word {
        smallestTrailer = trailer
      }
      smallestKey = start.bytes
    }
    if entryCount == 0 || largestKey.withByteView({ end.compare($0) > 0 }) {
      largestKey = end.bytes
      largestTrailer = Self.excludedTrailer
    }
    smallestSequence = entryCount == 0 ? list.smallestSequence : min(smallestSequence, list.smallestSequence)
    largestSequence = max(largestSequence, list.largestSequence)
  }

  /// The trailer of an excluded upper bound: it sorts before every possible entry with this key. On disk: never
  /// change.
  static let excludedTrailer = Trailer(.maximum, .rangeDelete)

  func append(to writer: inout ByteWriter) {
    for tag in Tag.allCases {
      switch tag {
      case .smallestKey: TableProperties.append(tag, smallestKey, to: &writer)
      case .largestKey: TableProperties.append(tag, largestKey, to: &writer)
      case .family: if let family { TableProperties.append(tag, UInt64(family.value), to: &writer) }
      case .familyName: if let familyName { TableProperties.append(tag, familyName, to: &writer) }
      case .familyOptions: if let familyOptions { TableProperties.append(tag, familyOptions, to: &writer) }
      case .shadowedSize: if let shadowedSize { TableProperties.append(tag, shadowedSize, to: &writer) }
      case .hiddenEntries:
        guard !hidden.isEmpty else { continue }
        var field = ByteWriter(capacity: 64)
        hidden.encode(appendingTo: &field)
        writer.append(varint: tag.rawValue)
        writer.append(lengthPrefixed: field.view)
      default: TableProperties.append(tag, number(tag), to: &writer)
      }
    }
  }

  private static func append(_ tag: Tag, _ bytes: [UInt8], to writer: inout ByteWriter) {
    writer.append(varint: tag.rawValue)
    bytes.withByteView { writer.append(lengthPrefixed: $0) }
  }

  private static func append(_ tag: Tag, _ number: UInt64, to writer: inout ByteWriter) {
    writer.append(varint: tag.rawValue)
    writer.append(varint: UInt64(Varint.size(number)))
    writer.append(varint: number)
  }

  private func number(_ tag: Tag) -> UInt64 {
    switch tag {
    case .entryCount: entryCount
    case .tombstoneCount: tombstoneCount
    case .rangeTombstoneCount: rangeTombstoneCount
    case .keyCount: keyCount
    case .keysSize: keysSize
    case .valuesSize: valuesSize
    case .contentSize: contentSize
    case .dataBlockCount: dataBlockCount
    case .copiedBlockCount: copiedBlockCount
    case .indexPartitionCount: indexPartitionCount
    case .smallestKey, .largestKey, .family, .familyName, .familyOptions, .hiddenEntries, .shadowedSize: 0
    case .smallestTrailer: smallestTrailer.word
    case .largestTrailer: largestTrailer.word
    case .smallestSequence: smallestSequence.value
    case .largestSequence: largestSequence.value
    case .compression: UInt64(compression)
    case .blockSize: blockSize
    case .bloomBitsPerKey: bloomBitsPerKey
    case .origin: UInt64(origin)
    case .level: level
    case .createdAt: createdAt
    }
  }

  /// Reads the content of a properties block.
  init(_ content: ByteView, path: String, offset: UInt64) throws(EngineError) {
    var reader = ByteReader(content, file: path, fileOffset: offset)
    var previous: UInt64 = 0
    while !reader.isAtEnd {
      let number = try reader.varint()
      guard number > previous else {
        throw reader.corruption("table properties are out of order: \(number) follows \(previous)")
      }
      previous = number
      let field = try reader.lengthPrefixed()
      guard let tag = Tag(rawValue: number) else { continue }
      if setBytes(tag, field) { continue }
      var fieldReader = ByteReader(field, file: path, fileOffset: offset)
      let value: UInt64
      if tag == .hiddenEntries {
        hidden = try HiddenEntries(&fieldReader)
        value = 0
      } else {
        value = try fieldReader.varint()
      }
      guard fieldReader.isAtEnd else {
        throw reader.corruption("table property \(number) has \(fieldReader.remaining) bytes too many")
      }
      guard value <= TableProperties.maximum(tag) else {
        throw reader.corruption(
          "table property \(number) is \(value); at most \(TableProperties.maximum(tag)) is allowed")
      }
      set(tag, value)
    }
  }

  /// Returns the largest valid value of a property.
  private static func maximum(_ tag: Tag) -> UInt64 {
    switch tag {
    case .smallestSequence, .largestSequence: SequenceNumber.maximum.value
    case .compression, .origin: UInt64(UInt8.max)
    case .shadowedSize: shadowedMaximum
    default: UInt64.max
    }
  }

  /// Sets a property that is not a number. Returns false for a property that is one.
  private mutating func setBytes(_ tag: Tag, _ field: ByteView) -> Bool {
    switch tag {
    case .smallestKey: smallestKey = field.bytes
    case .largestKey: largestKey = field.bytes
    case .familyName: familyName = field.bytes
    case .familyOptions: familyOptions = field.bytes
    default: return false
    }
    return true
  }

  private mutating func set(_ tag: Tag, _ value: UInt64) {
    switch tag {
    case .entryCount: entryCount = value
    case .tombstoneCount: tombstoneCount = value
    case .rangeTombstoneCount: rangeTombstoneCount = value
    case .keyCount: keyCount = value
    case .keysSize: keysSize = value
    case .valuesSize: valuesSize = value
    case .contentSize: contentSize = value
    case .dataBlockCount: dataBlockCount = value
    case .copiedBlockCount: copiedBlockCount = value
    case .indexPartitionCount: indexPartitionCount = value
    case .smallestKey, .largestKey, .familyName, .familyOptions, .hiddenEntries: break
    case .family: family = FamilyID(UInt32(truncatingIfNeeded: value))
    case .smallestTrailer: smallestTrailer = Trailer(word: value)
    case .largestTrailer: largestTrailer = Trailer(word: value)
    case .smallestSequence: smallestSequence = SequenceNumber(value)
    case .largestSequence: largestSequence = SequenceNumber(value)
    case .compression: compression = UInt8(truncatingIfNeeded: value)
    case .blockSize: blockSize = value
    case .bloomBitsPerKey: bloomBitsPerKey = value
    case .origin: origin = UInt8(truncatingIfNeeded: value)
    case .level: level = value
    case .createdAt: createdAt = value
    case .shadowedSize: shadowedSize = value
    }
  }
}

/// The metadata of a table, known without opening it: its file, its bounds and its content.
///
/// The level is not included: a table that moves down unread keeps its metadata.
///
/// # Invariants
/// 1. `smallest` <= `largest` as internal keys: user key ascending, trailer descending.
/// 2. Every entry's sequence is within `smallestSequence ... largestSequence`.
/// 3. `largestIsExcluded`: the largest key is the end of a range tombstone, and the table has no entry with that key.
///    Such a bound has the trailer `excludedTrailer`, and the next table of a level may begin with that very key.
/// 4. The heads are the first eight bytes of the bounds: unequal heads decide an order, equal heads do not.
///
/// # Safety
/// The object is the only owner of the memory of both keys: `smallest` and `largest` are valid while it lives.
///
/// # Concurrency
/// Immutable; safe from any thread.
@safe
final class TableMetadata: @unchecked Sendable {
  // Sendable: immutable after init, sole owner of its memory.
  let number: FileNumber
  let fileSize: UInt64
  /// The random id of the table, which seeds every checksum in its file.
  let tableID: UInt64
  /// The first user key. Valid while the metadata lives.
  let smallest: ByteView
  let smallestTrailer: Trailer
  /// The last user key. Valid while the metadata lives.
  let largest: ByteView
  let largestTrailer: Trailer
  let smallestHead: UInt64
  let largestHead: UInt64
  let smallestSequence: SequenceNumber
  let largestSequence: SequenceNumber
  let entryCount: UInt64
  /// The number of deletes and single deletes among the entries.
  let tombstoneCount: UInt64
  let rangeTombstoneCount: UInt64
  /// The number of bytes of keys and values before compression.
  let rawSize: UInt64
  /// The entries that only readers of old states need. Empty in tables of builds that did not count them.
  let hidden: HiddenEntries
  /// The estimated bytes of older tables that the tombstones hid when the table was written: a sum over its tombstones,
  /// without tables that lie completely under its range tombstones, which are dropped unread (`ShadowEstimate`). It
  /// does not change when these bytes are removed. `nil` if there are no tombstones, or no estimate.
  let shadowedSize: UInt64?
  private let keys: UnsafeMutableRawPointer
  /// The open reader, if a read has used the table recently.
  let slot = TableReaderSlot()

  /// The trailer of an excluded upper bound: it sorts before every possible entry with this key.
  static let excludedTrailer = TableProperties.excludedTrailer

  init(
    number: FileNumber, fileSize: UInt64, tableID: UInt64,
    smallestKey: ByteView, smallestTrailer: Trailer, largestKey: ByteView, largestTrailer: Trailer,
    smallestSequence: SequenceNumber, largestSequence: SequenceNumber,
    entryCount: UInt64, tombstoneCount: UInt64 = 0, rangeTombstoneCount: UInt64 = 0, rawSize: UInt64,
    hidden: HiddenEntries = .none, shadowedSize: UInt64? = nil
  ) {
    self.number = number
    self.fileSize = fileSize
    self.tableID = tableID
    self.smallestTrailer = smallestTrailer
    self.largestTrailer = largestTrailer
    self.smallestSequence = smallestSequence
    self.largestSequence = largestSequence
    self.entryCount = entryCount
    self.tombstoneCount = tombstoneCount
    self.rangeTombstoneCount = rangeTombstoneCount
    self.rawSize = rawSize
    self.hidden = hidden
    self.shadowedSize = shadowedSize
    let total = smallestKey.count + largestKey.count
    let memory = UnsafeMutableRawPointer.allocate(byteCount: max(total, 1), alignment: 8)
    unsafe memory.copyMemory(from: smallestKey.base, byteCount: smallestKey.count)
    unsafe (memory + smallestKey.count).copyMemory(from: largestKey.base, byteCount: largestKey.count)
    unsafe keys = memory
    unsafe smallest = ByteView(base: UnsafeRawPointer(memory), count: smallestKey.count)
    unsafe largest = ByteView(base: UnsafeRawPointer(memory) + smallestKey.count, count: largestKey.count)
    smallestHead = smallest.head()
    largestHead = largest.head()
  }

  /// Creates a copy of `table` with these hidden entries, and this estimate of what its tombstones hide.
  convenience init(_ table: TableMetadata, hidden: HiddenEntries, shadowedSize: UInt64? = nil) {
    self.init(
      number: table.number, fileSize: table.fileSize, tableID: table.tableID,
      smallestKey: table.smallest, smallestTrailer: table.smallestTrailer,
      largestKey: table.largest, largestTrailer: table.largestTrailer,
      smallestSequence: table.smallestSequence, largestSequence: table.largestSequence,
      entryCount: table.entryCount, tombstoneCount: table.tombstoneCount,
      rangeTombstoneCount: table.rangeTombstoneCount, rawSize: table.rawSize, hidden: hidden,
      shadowedSize: shadowedSize)
  }

  deinit {
    slot.end()
    unsafe keys.deallocate()
  }

  /// The approximate memory of the object, with its keys, its slot, and its elements in the arrays of a Version and in
  /// the MANIFEST's state.
  var memorySize: Int {
    let groups = hidden.isEmpty ? 0 : 32 + hidden.groups.count * MemoryLayout<HiddenEntries.Group>.stride
    return 400 + smallest.count + largest.count + groups
  }

  /// A copy of the first user key.
  var smallestKey: [UInt8] { smallest.bytes }
  /// A copy of the last user key.
  var largestKey: [UInt8] { largest.bytes }

  @inline(__always)
  var largestIsExcluded: Bool { largestTrailer.word == Self.excludedTrailer.word }

  /// Returns whether every key of the table is before `userKey`.
  @inline(__always)
  func endsBefore(_ userKey: ByteView) -> Bool {
    let order = largest.compare(userKey)
    return order < 0 || (order == 0 && largestIsExcluded)
  }

  /// Returns whether every key of the table is before every key of `other`.
  func endsBefore(_ other: TableMetadata) -> Bool {
    if largestHead != other.smallestHead { return largestHead < other.smallestHead }
    return endsBefore(other.smallest)
  }

  /// Returns whether the table's bounds include `userKey`.
  @inline(__always)
  func covers(_ userKey: ByteView) -> Bool { smallest.compare(userKey) <= 0 && !endsBefore(userKey) }

  func overlaps(_ other: TableMetadata) -> Bool { !endsBefore(other) && !other.endsBefore(self) }

  /// Returns whether every entry is older than every entry of `other`.
  func isOlder(than other: TableMetadata) -> Bool { largestSequence < other.smallestSequence }

  /// The file's size, increased by what its tombstones are estimated to free.
  var compensatedSize: UInt64 { fileSize + tombstoneWeight }

  /// Returns `compensatedSize` if no reader of a state before `oldest` needs what the tombstones hide, or the file's
  /// size.
  func compensatedSize(at oldest: SequenceNumber) -> UInt64 {
    largestSequence <= oldest ? compensatedSize : fileSize
  }

  /// What the tombstones are estimated to free. Without an estimate of what they hide, each frees one entry of average
  /// size and itself.
  var tombstoneWeight: UInt64 { shadowedSize ?? averageWeight }

  /// Two entries of average size for each tombstone.
  var averageWeight: UInt64 { 2 * tombstoneSize }

  /// The bytes of the file that its tombstones take.
  var tombstoneSize: UInt64 {
    guard tombstoneCount > 0, entryCount > 0 else { return 0 }
    return UInt64(Double(fileSize) * min(Double(tombstoneCount) / Double(entryCount), 1))
  }

  /// The estimated bytes that are free once the tombstones have met what they hide.
  var garbageSize: UInt64 { shadowedSize.map { $0 + tombstoneSize } ?? min(averageWeight, fileSize) }

  /// The bytes that the tombstones hide, for each byte of the file, or zero without an estimate.
  var shadowShare: Double { shadowedSize.map { Double($0) / Double(max(fileSize, 1)) } ?? 0 }

  /// Whether at least half of the entries are tombstones: the other half may be entries that they hide.
  var isMostlyTombstones: Bool { tombstoneShare >= 0.5 }

  /// The number of tombstones for each entry, at most 1.
  var tombstoneShare: Double {
    let count = tombstoneCount + rangeTombstoneCount
    return count == 0 ? 0 : min(Double(count) / Double(max(entryCount, 1)), 1)
  }

  /// The share of the bytes of keys and values that hidden entries have, whether they are free or not.
  var hiddenShare: Double { hidden.isEmpty ? 0 : Double(hidden.size) / Double(max(rawSize, 1)) }

  /// The number of bytes of hidden entries that `share` of the table's bytes are, at least one.
  func hiddenSize(ofShare share: Double) -> UInt64 { max(UInt64(Double(rawSize) * share), 1) }

  /// Returns whether `left` comes before `right` in the order of level 0: newest first. The order is deterministic
  /// even for tables of one flush.
  static func isNewerFirst(_ left: TableMetadata, _ right: TableMetadata) -> Bool {
    if left.largestSequence != right.largestSequence { return left.largestSequence > right.largestSequence }
    if left.smallestSequence != right.smallestSequence { return left.smallestSequence > right.smallestSequence }
    return left.number > right.number
  }

  /// Returns whether `left` comes before `right` in the order of deeper levels.
  static func isSmallerFirst(_ left: TableMetadata, _ right: TableMetadata) -> Bool {
    if left.smallestHead != right.smallestHead { return left.smallestHead < right.smallestHead }
    let order = left.smallest.compare(right.smallest)
    return order == 0 ? left.number < right.number : order < 0
  }
}

extension TableMetadata: Equatable {
  static func == (left: TableMetadata, right: TableMetadata) -> Bool {
    left === right
      || (left.number == right.number && left.fileSize == right.fileSize && left.tableID == right.tableID
        && left.smallest == right.smallest && left.smallestTrailer == right.smallestTrailer
        && left.largest == right.largest && left.largestTrailer == right.largestTrailer
        && left.smallestSequence == right.smallestSequence && left.largestSequence == right.largestSequence
        && left.entryCount == right.entryCount && left.tombstoneCount == right.tombstoneCount
        && left.rangeTombstoneCount == right.rangeTombstoneCount && left.rawSize == right.rawSize
        && left.hidden == right.hidden && left.shadowedSize == right.shadowedSize)
  }
}

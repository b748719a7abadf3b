/// A range tombstone of a prepared edit, as it was written.
///
/// ```
///  0       4            6          8
///  ┌───────┬────────────┬──────────┬───────┬─────┬─────────────────────────────┐
///  │ index │ start size │ end size │ start │ end │ to the next multiple of 8   │
///  └───────┴────────────┴──────────┴───────┴─────┴─────────────────────────────┘
/// ```
///
/// The records of an edit are contiguous, in the order of the batch. `index` is the position of the tombstone's entry
/// in the batch: its sequence number is that of the batch's first entry plus the index. Sizes of keys have 16 bits
/// (`Limits.keySizeMaximum`). The boundaries of the edit use the keys of its records.
///
/// # Safety
/// `base` is in memory that the owner of the records keeps. A record is written once, before a reader can reach it.
@safe
struct TombstoneRecord {
  private static let headerSize = 8
  /// The alignment of records, in bytes.
  static let alignment = 8

  private let base: UnsafeMutableRawPointer

  init(_ base: UnsafeMutableRawPointer) { unsafe self.base = base }

  /// Returns the number of bytes that a tombstone with these keys takes.
  static func size(_ start: ByteView, _ end: ByteView) -> Int {
    (headerSize + start.count + end.count + alignment - 1) / alignment * alignment
  }

  func initialize(_ start: ByteView, _ end: ByteView, index: UInt32) {
    unsafe base.storeBytes(of: index, as: UInt32.self)
    unsafe base.storeBytes(of: UInt16(start.count), toByteOffset: 4, as: UInt16.self)
    unsafe base.storeBytes(of: UInt16(end.count), toByteOffset: 6, as: UInt16.self)
    unsafe (base + Self.headerSize).copyMemory(from: start.base, byteCount: start.count)
    unsafe (base + Self.headerSize + start.count).copyMemory(from: end.base, byteCount: end.count)
  }

  var bits: UInt { unsafe UInt(bitPattern: base) }
  var index: UInt32 { unsafe base.load(as: UInt32.self) }

  var start: ByteView {
    unsafe ByteView(base: base + Self.headerSize, count: Int(base.load(fromByteOffset: 4, as: UInt16.self)))
  }

  var end: ByteView {
    let start = start
    return unsafe ByteView(base: start.base + start.count, count: Int(base.load(fromByteOffset: 6, as: UInt16.self)))
  }

  /// The record after this one, which must exist.
  var next: TombstoneRecord { unsafe TombstoneRecord(base + Self.size(start, end)) }

  /// Returns the offset from `first` in units of the alignment.
  func location(after first: TombstoneRecord) -> UInt32 { UInt32((bits - first.bits) / UInt(Self.alignment)) }

  /// Returns the record whose offset from this one is `location` units of the alignment.
  func record(at location: UInt32) -> TombstoneRecord { unsafe TombstoneRecord(base + Int(location) * Self.alignment) }
}

/// The record of what the feed contains, so that the feed need not be read to determine it.
///
/// ```
///  byte 0        format of this record, 1
///  byte 1        1: nothing is recorded at present, and the feed is empty; else 0
///  bytes 2–9     the last commit that was trimmed, or not recorded, big-endian; 0: none
///  4 bytes       how many closed segments follow, big-endian, at most 64
///    8 bytes     the last commit of the segment, big-endian
///    8 bytes     how many bytes its entries have, big-endian
///    8 bytes     when its last entry was made, in seconds since 1970, big-endian
/// ```
/// The format is on disk and must never change. The record is written with the commit that begins a segment, and at
/// open if the feed is turned on or off. The segments ascend; entries after the last of them are in the open segment.
package struct FeedRecord: Equatable {
  struct Segment: Equatable {
    var last: CommitVersion
    var size: UInt64
    var time: Int64
  }

  package var isOff = false
  /// The last commit up to which commits are not in the feed.
  package var trimmedThrough = CommitVersion.zero
  /// The closed segments, the oldest first.
  var segments: [Segment] = []

  /// The last commit up to which entries are in closed segments, or were trimmed.
  var closedThrough: CommitVersion { segments.last?.last ?? trimmedThrough }

  var bytes: [UInt8] {
    var bytes: [UInt8] = [1, isOff ? 1 : 0]
    bytes += BigEndian.bytes(trimmedThrough.number)
    bytes += BigEndian.bytes(UInt32(segments.count))
    for segment in segments {
      bytes += BigEndian.bytes(segment.last.number) + BigEndian.bytes(segment.size)
      bytes += BigEndian.bytes(UInt64(max(0, segment.time)))
    }
    return bytes
  }

  init() {}

  /// Adds the restart of the feed to a batch: afterwards the feed contains nothing up to the batch's commit.
  static func beginAgain(isOff: Bool, in family: StorageFamily, _ batch: inout StorageBatch) {
    var record = FeedRecord()
    record.isOff = isOff
    batch.deleteRange(FeedKey.range(after: .zero), in: family)
    batch.putStamped(FeedKey.record, record.bytes, at: .value(2), in: family)
  }

  /// Reads a record. Throws `.corruption` for invalid bytes, and `.unsupportedVersion`.
  package init(_ bytes: [UInt8]) throws {
    guard let format = bytes.first else { throw Self.damaged }
    guard format == 1 else { throw DatabaseError(.unsupportedVersion, "the feed's record has format \(format)") }
    guard let trimmed = BigEndian.number(bytes, at: 2, as: UInt64.self),
      let count = BigEndian.number(bytes, at: 10, as: UInt32.self), bytes[1] <= 1,
      count <= ChangeLimits.segmentsMaximum, bytes.count == 14 + 24 * Int(count)
    else { throw Self.damaged }
    isOff = bytes[1] == 1
    trimmedThrough = CommitVersion(trimmed)
    for index in 0..<Int(count) {
      let offset = 14 + 24 * index
      guard let last = BigEndian.number(bytes, at: offset, as: UInt64.self), last > closedThrough.number,
        let size = BigEndian.number(bytes, at: offset + 8, as: UInt64.self), size < 1 << 56,
        let time = BigEndian.number(bytes, at: offset + 16, as: Int64.self), time >= 0
      else { throw Self.damaged }
      segments.append(Segment(last: CommitVersion(last), size: size, time: time))
    }
  }

  private static var damaged: DatabaseError { DatabaseError(.corruption, "the feed's record is damaged") }
}

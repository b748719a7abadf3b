@testable import Varve

/// The target for the feed. The input is its kind (1 byte), then an entry of the feed, the feed's own record, or a key
/// of the feed.
enum FeedTarget {
  static func read(_ input: [UInt8]) throws {
    guard let kind = input.first else { throw FeedEntry.damaged("the input is empty") }
    let bytes = Array(input.dropFirst())
    let again: [UInt8]
    switch kind % 3 {
    case 0: again = FeedTarget.bytes(try FeedEntry(bytes))
    case 1: again = try FeedRecord(bytes).bytes
    default:
      let (version, part) = try FeedKey.parse(bytes)
      again = BigEndian.bytes(version.number) + BigEndian.bytes(part)
    }
    try require(again == bytes, "\(bytes) is written as \(again)")
  }

  /// Returns an entry in the form that `FeedEntry` documents.
  static func bytes(_ entry: FeedEntry) -> [UInt8] {
    var flags: UInt8 = entry.isLast ? FeedEntry.lastPart : 0
    if entry.isEverythingCleared { flags |= FeedEntry.everythingCleared }
    if entry.label != nil { flags |= FeedEntry.hasLabel }
    if entry.custom != nil { flags |= FeedEntry.hasCustom }
    var bytes = [FeedEntry.format, flags]
    func append(_ content: [UInt8]) {
      Varint.append(UInt64(content.count), to: &bytes)
      bytes += content
    }
    Varint.append(entry.offset, to: &bytes)
    Varint.append(UInt64(entry.time), to: &bytes)
    if let label = entry.label { append(Array(label.utf8)) }
    if let custom = entry.custom { append(custom) }
    Varint.append(UInt64(entry.collections.count), to: &bytes)
    for collection in entry.collections {
      Varint.append(UInt64(collection.id), to: &bytes)
      Varint.append(UInt64(collection.rows.count) << 1 | (collection.isCleared ? 1 : 0), to: &bytes)
      for row in collection.rows {
        bytes.append(row.state.bits)
        append(row.key)
      }
    }
    return bytes
  }
}

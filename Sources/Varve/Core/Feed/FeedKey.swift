/// The keys of the family `feed`.
///
/// ```
///  version (8, big-endian) part (4, big-endian)   → FeedEntry: a commit, or a part of one
///  0xFF                                           → FeedRecord: what the feed holds
/// ```
/// On disk: never change. The version of the commit is written by the storage (`StorageBatch.putStamped`), so entries
/// are in commit order. No version begins with 0xFF.
enum FeedKey {
  static let size = 12
  /// Where the feed's own record is.
  static let record: [UInt8] = [0xFF]

  /// The key of a part of a commit whose version the storage will fill in.
  static func stamped(part: Int) -> [UInt8] { BigEndian.bytes(UInt64(0)) + BigEndian.bytes(UInt32(part)) }

  /// The entries of the commits after `lower`, up to `upper`; nil: up to the last.
  static func range(after lower: CommitVersion, through upper: CommitVersion? = nil) -> StorageRange {
    StorageRange(lower: begin(after: lower), upper: upper.map(begin) ?? record)
  }

  private static func begin(after version: CommitVersion) -> [UInt8] {
    version.number == .max ? record : BigEndian.bytes(version.number + 1)
  }

  /// Throws `.corruption` for bytes that are no key of an entry.
  static func parse(_ key: [UInt8]) throws -> (version: CommitVersion, part: UInt32) {
    guard key.count == size, let version = BigEndian.number(key, as: UInt64.self),
      let part = BigEndian.number(key, at: 8, as: UInt32.self), version >> 56 != 0xFF
    else { throw FeedEntry.damaged("a key has \(key.count) bytes, or is not a version and a part") }
    return (CommitVersion(version), part)
  }
}

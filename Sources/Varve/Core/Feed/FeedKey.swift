/// The keys of the family `feed`.
///
/// ```
///  version (8, big-endian) part (4, big-endian)   → FeedEntry: a commit, or a part of one
///  0xFF                                           → FeedRecord: what the feed holds
/// ```
/// The format is on disk and must never change. The version of the commit is written by the storage
/// (`StorageBatch.putStamped`), so entries are in commit order. No version begins with 0xFF.
package enum FeedKey {
  static let size = 12
  /// The key of the feed's own record.
  package static let record: [UInt8] = [0xFF]

  /// Returns the key of a part of a commit, in which the storage will fill in the version.
  static func stamped(part: Int) -> [UInt8] { BigEndian.bytes(UInt64(0)) + BigEndian.bytes(UInt32(part)) }

  /// Returns the range of the entries of the commits after `lower`, up to `upper`, or up to the last one if that is
  /// `nil`.
  package static func range(after lower: CommitVersion, through upper: CommitVersion? = nil) -> StorageRange {
    StorageRange(lower: begin(after: lower), upper: upper.map(begin) ?? record)
  }

  private static func begin(after version: CommitVersion) -> [UInt8] {
    version.number == .max ? record : BigEndian.bytes(version.number + 1)
  }

  /// Parses the key of an entry. Throws `.corruption` for other bytes.
  static func parse(_ key: [UInt8]) throws -> (version: CommitVersion, part: UInt32) {
    guard key.count == size, let version = BigEndian.number(key, as: UInt64.self),
      let part = BigEndian.number(key, at: 8, as: UInt32.self), version >> 56 != 0xFF
    else { throw FeedEntry.damaged("a key has \(key.count) bytes, or is not a version and a part") }
    return (CommitVersion(version), part)
  }
}

public import Varve

/// A commit as the feed of changes has it. Only its version is read until more is requested.
///
/// It belongs to the snapshot of its inspector, and may be used as long as the inspector is open. Safe from any thread.
public struct InspectedCommit: Sendable {
  /// The version of the commit.
  public let version: CommitVersion
  private let inspector: DatabaseInspector
  /// The key of its entry that was found: the version, and what may be damaged.
  private let key: [UInt8]

  init(_ inspector: DatabaseInspector, key: [UInt8]) {
    self.inspector = inspector
    self.key = key
    version = CommitVersion(BigEndian.number(key) ?? 0)
  }

  /// The position of the commit in the feed.
  public var position: InspectedPosition { InspectedPosition(.feed, BigEndian.bytes(version.number)) }

  /// Reads and returns the changes of the commit.
  ///
  /// Throws `.corruption` if any part of its entries is damaged or missing, `.unsupportedVersion` if a newer version
  /// wrote them, and `.storage`. Complexity: O(rows of the commit).
  public func changes() throws -> ChangeSet { try inspector.changes(ofCommitAt: key) }
}

/// The feed of changes.
extension DatabaseInspector {
  /// Returns the commits before a position, or the last ones without a position, from the newest to the oldest, at most
  /// `limit`.
  ///
  /// The position is that of a commit: of any page, in either direction. The feed has the commits that changed rows
  /// since `feedBeginning`.
  ///
  /// Throws `.invalidArgument` for a limit below 1 and for a position of another list, `.corruption` if a block can't
  /// be read, `.storage`. Complexity: O(commits of the page).
  public func feed(before position: InspectedPosition? = nil, limit: Int) throws -> InspectedPage<InspectedCommit> {
    var range = FeedKey.range(after: .zero)
    if let position { range.upper = try Self.key(of: position) }
    return try commits(range, isReverse: true, limit)
  }

  /// Returns the commits after a position, or the first ones that the feed has without one, from the oldest to the
  /// newest, at most `limit`: see `feed(before:limit:)`.
  public func feed(after position: InspectedPosition?, limit: Int) throws -> InspectedPage<InspectedCommit> {
    let version = try position.map { BigEndian.number(try Self.key(of: $0), as: UInt64.self) ?? 0 }
    return try commits(FeedKey.range(after: CommitVersion(version ?? 0)), isReverse: false, limit)
  }

  /// The last commit that the feed does not have any more, which is zero if it has all; or `nil` if the database keeps
  /// no feed.
  ///
  /// Throws `.corruption` if the record of the feed is damaged, `.unsupportedVersion`, `.storage`.
  public var feedBeginning: CommitVersion? {
    get throws {
      guard let feed = families["feed"] else { return nil }
      guard let bytes = try snapshot.value(of: FeedKey.record, in: feed) else { return .zero }
      let record = try FeedRecord(bytes)
      return record.isOff ? nil : record.trimmedThrough
    }
  }

  private static func key(of position: InspectedPosition) throws -> [UInt8] {
    let key = try InspectedListID.feed.key(of: position, "the feed")
    guard key.count == 8 else {
      throw DatabaseError(.invalidArgument, "the position in the feed has \(key.count) bytes; expected 8")
    }
    return key
  }

  private func commits(
    _ range: StorageRange, isReverse: Bool, _ limit: Int
  ) throws -> InspectedPage<InspectedCommit> {
    let cursor = families["feed"].map {
      FamilyCursor(range, in: $0, of: snapshot, isReverse: isReverse, keysOnly: true)
    }
    var list = InspectedList<InspectedCommit>(cursor, position: { $0.position }) { cursor in
      // A key without a version belongs to no commit, and no position is after it.
      var found = try cursor.nextKey()
      while let key = found, key.count < 8 { found = try cursor.nextKey() }
      guard let key = found else { return nil }
      let commit = InspectedCommit(self, key: key)
      // A commit may have several entries. The others are passed, except beside a damaged key.
      if key.count > 8, commit.version.number < .max {
        cursor.skip(to: isReverse ? Array(key.prefix(8)) : BigEndian.bytes(commit.version.number + 1))
      }
      return commit
    }
    return try list.page(limit: limit)
  }

  /// Returns the changes of the commit one of whose entries has a key.
  fileprivate func changes(ofCommitAt key: [UInt8]) throws -> ChangeSet {
    guard let feed = families["feed"] else { throw DatabaseError(.notFound, "the database has no feed") }
    let names = try collectionNames()
    // The feed may speak of collections that were dropped.
    func name(_ id: UInt32) throws -> String? {
      if let name = names[id] { return name }
      let bytes = try snapshot.value(of: CatalogKey.dropped(id), in: catalog)
      return bytes.flatMap { String(validating: $0, as: UTF8.self) }
    }
    var cursor = FamilyCursor(StorageRange(prefix: Array(key.prefix(8))), in: feed, of: snapshot, isReverse: false)
    var commit: FeedCommit?
    while let (key, value) = try cursor.next() {
      if commit == nil {
        commit = try FeedCommit(key, value, name: name)
      } else {
        try commit?.add(key, value, name: name)
      }
    }
    guard let commit else { throw DatabaseError(.corruption, "the feed has no entry of the commit") }
    return try commit.changeSet(shapes: coding.shapes)
  }
}

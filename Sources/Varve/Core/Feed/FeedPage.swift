/// A range of the feed, as delivered to subscriptions.
struct FeedPage {
  /// The events in commit order.
  var events: [ChangeEvent] = []
  /// The version of the snapshot that it was read from.
  var version: CommitVersion
  /// Whether the snapshot has no further commits after this page.
  var isComplete = true
}

/// Reads the feed from one snapshot.
///
/// # Damage
/// An entry or a storage block that can't be read is reported as a gap up to the first readable commit after it, or up
/// to the snapshot: a consumer must know that something is missing, and still receives everything that can be read.
struct FeedReading {
  private let path: String
  private let catalog: Catalog
  private let coding: ObjectCoding
  private let isFollowed: Bool
  private let snapshot: any StorageSnapshot
  /// The last commit to read.
  private let last: CommitVersion

  init(_ database: DatabaseCore, _ snapshot: any StorageSnapshot, through last: CommitVersion? = nil) {
    path = database.path
    catalog = database.catalog
    coding = database.coding
    isFollowed = database.backend.isReadOnly
    self.snapshot = snapshot
    self.last = last.map { min($0, snapshot.version) } ?? snapshot.version
  }

  /// The commits after `position`: at most `commitLimit` commits and, except for the last, `rowLimit` rows.
  func page(after position: CommitVersion, commitLimit: Int, rowLimit: Int = .max) throws -> FeedPage {
    var page = FeedPage(version: snapshot.version)
    var position = position
    let known = try beginning(after: position)
    if position < known {
      page.events.append(.gap(from: position, to: known))
      position = known
    }
    var cursor = cursor(after: position)
    var rowCount = 0
    while position < last, page.events.count < commitLimit, rowCount < rowLimit {
      do {
        guard let changeSet = try next(&cursor) else { return page }
        rowCount += changeSet.rowCount
        page.events.append(.changes(changeSet))
        position = changeSet.version
      } catch let error as DatabaseError where error.code == .corruption {
        let end = try endOfDamage(after: position)
        DatabaseLog.feedGap(error, path: path, from: position, to: end)
        page.events.append(.gap(from: position, to: end))
        position = end
        cursor = self.cursor(after: end)
      }
    }
    page.isComplete = try position >= last || isAtEnd(&cursor)
    return page
  }

  private func cursor(after position: CommitVersion) -> FamilyCursor {
    FamilyCursor(
      FeedKey.range(after: position, through: last), in: catalog.families.feed, of: snapshot, isReverse: false)
  }

  /// The position up to which the feed lacks commits; `last` if the feed is off, or its record is corrupt.
  private func beginning(after position: CommitVersion) throws -> CommitVersion {
    do {
      let bytes = try snapshot.value(of: FeedKey.record, in: catalog.families.feed)
      let record = try bytes.map { try FeedRecord($0) } ?? FeedRecord()
      return record.isOff ? last : min(last, record.trimmedThrough)
    } catch let error as DatabaseError where error.code == .corruption {
      if position < last { DatabaseLog.feedGap(error, path: path, from: position, to: last) }
      return last
    }
  }

  /// Returns whether no entry follows. An unreadable entry counts as one.
  private func isAtEnd(_ cursor: inout FamilyCursor) throws -> Bool {
    do {
      return try cursor.next() == nil
    } catch let error as DatabaseError where error.code == .corruption {
      return false
    }
  }

  // MARK: - Damage

  /// The position from which reading can continue after `position`, whose next commit can't be read.
  ///
  /// The position is searched in increasing steps, and then backwards by bisection: usually one block is damaged, so
  /// the end is near, and a few reads find it in a feed of any size. Readable commits between damaged ones may be
  /// included in the gap.
  private func endOfDamage(after position: CommitVersion) throws -> CommitVersion {
    var damaged = position.number
    var readable = last.number
    var step: UInt64 = 1
    while readable - damaged > step {
      if try canRead(after: damaged + step) {
        readable = damaged + step
        break
      }
      damaged += step
      step *= 2
    }
    while readable - damaged > 1 {
      let middle = damaged + (readable - damaged) / 2
      if try canRead(after: middle) { readable = middle } else { damaged = middle }
    }
    return CommitVersion(readable)
  }

  /// Returns whether the next commit can be read, or there is none.
  private func canRead(after position: UInt64) throws -> Bool {
    var cursor = cursor(after: CommitVersion(position))
    do {
      _ = try next(&cursor)
      return true
    } catch let error as DatabaseError where error.code == .corruption {
      return false
    }
  }

  // MARK: - Commits

  /// Returns the next commit, assembled from its parts, or `nil` after the last.
  private func next(_ cursor: inout FamilyCursor) throws -> ChangeSet? {
    guard let (key, value) = try cursor.next() else { return nil }
    var commit = try FeedCommit(key, value, name: name)
    while !commit.isComplete, let (key, value) = try cursor.next() { try commit.add(key, value, name: name) }
    return try commit.changeSet(coding)
  }

  private func name(of id: UInt32) throws -> String? {
    if let name = catalog.name(of: id) { return name }
    guard isFollowed else { return nil }
    // The other process may have made the collection since this process has read the catalog.
    try catalog.refresh(snapshot)
    return catalog.name(of: id)
  }
}

/// A commit of the feed, which is put together from its entries: one after another, in the order of their parts.
///
/// A commit whose entries are damaged, or do not belong together, is `.corruption`.
package struct FeedCommit {
  package let version: CommitVersion
  private let first: FeedEntry
  private var part: UInt32 = 0
  private var isLast: Bool
  private var collections: [String: ChangeSet.Rows] = [:]

  /// Creates the commit with its first entry. `name` returns the name of the collection with an id, or nil if there is
  /// none. Throws `.corruption`, and `.unsupportedVersion`.
  package init(_ key: [UInt8], _ value: [UInt8], name: (UInt32) throws -> String?) throws {
    (version, part) = try FeedKey.parse(key)
    first = try FeedEntry(value)
    guard part == 0 else { throw FeedEntry.damaged("commit \(version) begins with part \(part)") }
    isLast = first.isLast
    try add(first.collections, name)
  }

  /// Whether all its entries were added.
  package var isComplete: Bool { isLast }

  /// Adds its next entry. Throws `.corruption`, and `.unsupportedVersion`.
  package mutating func add(_ key: [UInt8], _ value: [UInt8], name: (UInt32) throws -> String?) throws {
    let location = try FeedKey.parse(key)
    guard !isLast else { throw FeedEntry.damaged("an entry follows the last part of commit \(version)") }
    part += 1
    guard location == (version, part) else {
      throw FeedEntry.damaged("part \(part) of commit \(version) is missing")
    }
    let entry = try FeedEntry(value)
    guard entry.label == nil, entry.custom == nil, !entry.isEverythingCleared else {
      throw FeedEntry.damaged("part \(part) of commit \(version) has what belongs into the first")
    }
    try add(entry.collections, name)
    isLast = entry.isLast
  }

  private mutating func add(_ changed: [FeedEntry.Collection], _ name: (UInt32) throws -> String?) throws {
    for collection in changed {
      guard let name = try name(collection.id) else {
        throw FeedEntry.damaged("the catalog has no collection \(collection.id)")
      }
      var rows = collections.removeValue(forKey: name) ?? ChangeSet.Rows()
      if collection.isCleared { rows.isCleared = true }
      rows.states.reserveCapacity(rows.states.count + collection.rows.count)
      for row in collection.rows {
        guard rows.states.set(row.state, for: row.key) == nil else {
          throw FeedEntry.damaged("a row stands in it twice")
        }
      }
      collections[name] = rows
    }
  }

  /// Returns the change set. Throws `.corruption` if entries are missing.
  func changeSet(_ coding: ObjectCoding) throws -> ChangeSet {
    guard isComplete else { throw FeedEntry.damaged("commit \(version) has no end") }
    return ChangeSet(
      version: version, time: first.time, label: first.label, isEverythingCleared: first.isEverythingCleared,
      isFromFeed: true, collections: collections,
      custom: first.custom.map { ChangeSet.StoredCustom(bytes: $0, coding: coding) }, extensions: .unknown)
  }

  /// Returns the change set for a reader that has no database. Throws `.corruption` if entries are missing.
  package func changeSet(shapes: any ShapeRegistry) throws -> ChangeSet {
    try changeSet(ObjectCoding(shapes: shapes))
  }
}

extension DatabaseCore {
  /// Returns the acknowledged commits after `position`.
  func readFeed(
    after position: CommitVersion, commitLimit: Int = ChangeLimits.pageCommits, rowLimit: Int = ChangeLimits.pageRows,
    isCancellable: Bool = false
  ) throws -> FeedPage {
    try atPresent { snapshot in
      if position > snapshot.version, try position > backend.snapshot().version {
        // No commit has this number yet: the number comes from another database, or from a commit that was lost.
        return FeedPage(events: [.gap(from: position, to: snapshot.version)], version: snapshot.version)
      }
      let read = isCancellable ? CancellableSnapshot(snapshot, self) : snapshot
      return try FeedReading(self, read).page(after: position, commitLimit: commitLimit, rowLimit: rowLimit)
    }
  }

  /// Returns all acknowledged commits after one version, up to another.
  func feedEvents(after version: CommitVersion, through last: CommitVersion) throws -> [ChangeEvent] {
    try atPresent { snapshot in
      try FeedReading(self, snapshot, through: last).page(after: version, commitLimit: .max).events
    }
  }

  /// Calls `body` with the current snapshot, which contains the acknowledged commits.
  ///
  /// If another process writes the database, it retries when a table was removed before it was opened (`Follower`): the
  /// next snapshot contains its replacement.
  func atPresent<Result>(_ body: (any StorageSnapshot) throws -> Result) throws -> Result {
    var attempts = 1
    while true {
      let snapshot = try publication.snapshot()
      if options.follows { try catalog.refresh(snapshot) }
      do { return try body(snapshot) } catch let error as DatabaseError where isToRepeat(error, attempts) {
        attempts += 1
      }
    }
  }

  /// Returns whether a read at this snapshot is retried at the next one, because what it needs was dropped by the
  /// process that writes, or by a build that begins again.
  func isToRepeat(_ error: DatabaseError, _ attempts: Int) -> Bool {
    attempts < 8 && (error.code == .snapshotTooOld || options.follows && error.code == .notFound)
  }
}

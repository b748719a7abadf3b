/// A stretch of the feed, as subscriptions hear it.
struct FeedPage {
  /// In order.
  var events: [ChangeEvent] = []
  /// The instant that it was read at.
  var version: CommitVersion
  /// Whether nothing of that instant is left behind it.
  var isComplete = true
}

/// Reads the feed at one instant.
struct FeedReading {
  private let catalog: Catalog
  private let coding: ObjectCoding
  private let isFollowed: Bool
  private let snapshot: any StorageSnapshot
  /// The last commit that is read, or would be.
  private let last: CommitVersion

  init(_ database: DatabaseCore, _ snapshot: any StorageSnapshot, through last: CommitVersion? = nil) {
    catalog = database.catalog
    coding = database.coding
    isFollowed = database.backend.isReadOnly
    self.snapshot = snapshot
    self.last = last.map { min($0, snapshot.version) } ?? snapshot.version
  }

  /// What was committed behind `position`: at most `commitLimit` commits and, but for the last, `rowLimit` rows.
  func page(behind position: CommitVersion, commitLimit: Int, rowLimit: Int = .max) throws -> FeedPage {
    var page = FeedPage(version: snapshot.version)
    var position = position
    let record = try record()
    let known = record.isOff ? last : min(last, record.trimmedThrough)
    if position < known {
      page.events.append(.gap(from: position, to: known))
      position = known
    }
    var cursor = FamilyCursor(
      FeedKey.range(behind: position, through: last), in: catalog.families.feed, of: snapshot, isReverse: false)
    var rowCount = 0
    while page.events.count < commitLimit, rowCount < rowLimit {
      guard let changeSet = try next(&cursor) else { return page }
      rowCount += changeSet.rowCount
      page.events.append(.changes(changeSet))
    }
    page.isComplete = try cursor.next() == nil
    return page
  }

  private func record() throws -> FeedRecord {
    try snapshot.value(of: FeedKey.record, in: catalog.families.feed).map { try FeedRecord($0) } ?? FeedRecord()
  }

  /// The next commit, put together from its parts; nil behind the last.
  private func next(_ cursor: inout FamilyCursor) throws -> ChangeSet? {
    guard let (key, value) = try cursor.next() else { return nil }
    var (version, part) = try FeedKey.parse(key)
    let first = try FeedEntry(value)
    guard part == 0 else { throw FeedEntry.damaged("commit \(version) begins with part \(part)") }
    var collections: [String: ChangeSet.Rows] = [:]
    try add(first.collections, to: &collections)
    var isLast = first.isLast
    while !isLast {
      guard let (key, value) = try cursor.next() else { throw FeedEntry.damaged("commit \(version) has no end") }
      let place = try FeedKey.parse(key)
      part += 1
      guard place == (version, part) else {
        throw FeedEntry.damaged("part \(part) of commit \(version) is missing")
      }
      let entry = try FeedEntry(value)
      guard entry.label == nil, entry.custom == nil, !entry.isEverythingCleared else {
        throw FeedEntry.damaged("part \(part) of commit \(version) has what belongs into the first")
      }
      try add(entry.collections, to: &collections)
      isLast = entry.isLast
    }
    return ChangeSet(
      version: version, time: first.time, label: first.label, isEverythingCleared: first.isEverythingCleared,
      isFromFeed: true, collections: collections,
      custom: first.custom.map { ChangeSet.StoredCustom(bytes: $0, coding: coding) })
  }

  private func add(_ changed: [FeedEntry.Collection], to collections: inout [String: ChangeSet.Rows]) throws {
    for collection in changed {
      let name = try name(of: collection.id)
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

  private func name(of id: UInt32) throws -> String {
    if let info = catalog.collection(id) { return info.name }
    if isFollowed {
      // The other process may have made it since this one has read the catalog.
      try catalog.refresh(snapshot)
      if let info = catalog.collection(id) { return info.name }
    }
    throw FeedEntry.damaged("the catalog has no collection \(id)")
  }
}

extension DatabaseCore {
  /// What was committed behind `position`, and acknowledged.
  func readFeed(
    behind position: CommitVersion, commitLimit: Int = ChangeLimits.pageCommits, rowLimit: Int = ChangeLimits.pageRows
  ) throws -> FeedPage {
    try atPresent { snapshot in
      if position > snapshot.version, try position > backend.snapshot().version {
        // No commit has this number yet: it was given by another database, or taken back.
        return FeedPage(events: [.gap(from: position, to: snapshot.version)], version: snapshot.version)
      }
      return try FeedReading(self, snapshot).page(behind: position, commitLimit: commitLimit, rowLimit: rowLimit)
    }
  }

  /// Everything that was committed behind a version up to another, which was acknowledged.
  func feedEvents(after version: CommitVersion, through last: CommitVersion) throws -> [ChangeEvent] {
    try atPresent { snapshot in
      try FeedReading(self, snapshot, through: last).page(behind: version, commitLimit: .max).events
    }
  }

  /// Calls `body` with this instant: what was acknowledged.
  ///
  /// Beside another process that writes, again where a table was removed before it was opened (`Follower`): the next
  /// instant has what took its place.
  func atPresent<Result>(_ body: (any StorageSnapshot) throws -> Result) throws -> Result {
    var attempts = 1
    while true {
      let snapshot = try publication.snapshot()
      if options.follows { try catalog.refresh(snapshot) }
      do {
        return try body(snapshot)
      } catch let error as DatabaseError where error.code == .notFound && options.follows && attempts < 8 {
        attempts += 1
      }
    }
  }
}

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

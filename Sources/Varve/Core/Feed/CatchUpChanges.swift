/// A position in the feed. Everything before it has been processed.
///
/// ```
///  8 bytes   version of a commit, big-endian
///  4 bytes   part of its entries, big-endian
///  4 bytes   how many steps of that part are done, big-endian
/// ```
/// The format is on disk and must never change. The steps of an entry are: the removal of all rows of all collections,
/// if the entry contains it; then for each collection, in the entry's order, the removal of all its rows, if the entry
/// contains it, and each of its rows. If no commit has the version, part and step are 0, and the position is before the
/// next commit.
package struct FeedPosition: Hashable, Sendable {
  static let size = 16

  package var version: UInt64
  var part: UInt32 = 0
  var step: UInt32 = 0

  /// Creates the position after everything that a commit reported, and before what the next one will report.
  init(after version: CommitVersion) { self.version = version.number + 1 }

  init(version: UInt64, part: UInt32, step: UInt32) {
    self.version = version
    self.part = part
    self.step = step
  }

  var bytes: [UInt8] { key + BigEndian.bytes(step) }

  /// Parses a position. Returns `nil` for invalid bytes.
  init?(_ bytes: [UInt8]) {
    guard bytes.count == Self.size, let version = BigEndian.number(bytes, as: UInt64.self), version > 0,
      let part = BigEndian.number(bytes, at: 8, as: UInt32.self),
      let step = BigEndian.number(bytes, at: 12, as: UInt32.self)
    else { return nil }
    self.init(version: version, part: part, step: step)
  }

  /// The key of the entry (`FeedKey`).
  var key: [UInt8] { BigEndian.bytes(version) + BigEndian.bytes(part) }
}

/// A scan of the changes in the feed after a position, one row at a time.
///
/// Unlike a `FeedPage` it does not read a whole commit into memory, and it can stop and continue within one.
struct CatchUpChanges {
  enum Change {
    case everythingRemoved
    /// All rows of a collection were removed. It is also used if rows of a collection that was dropped since were
    /// changed.
    case removed(String)
    /// The change was reported together with another one. Steps are counted as in the entry, whatever was dropped
    /// since.
    case delivered
    /// The change of a row, by the key in the collection's families.
    case row(CollectionInfo, [UInt8])
  }

  /// The position after the last change that was returned.
  private(set) var position: FeedPosition
  private let catalog: Catalog
  private var cursor: FamilyCursor
  private var changes: [Change] = []
  private var index = 0
  private var isLastPart = true
  /// The entry whose changes are in `changes`, or `nil` before the first.
  private var current: (version: UInt64, part: UInt32)?

  /// Creates a scan. Returns `nil` if the feed does not contain all changes since the position, or no longer does.
  init?(_ catalog: Catalog, _ snapshot: any StorageSnapshot, at position: FeedPosition) throws {
    let family = catalog.families.feed
    let record = try snapshot.value(of: FeedKey.record, in: family).map { try FeedRecord($0) } ?? FeedRecord()
    guard !record.isOff, record.trimmedThrough.number < position.version,
      position.version <= snapshot.version.number + 1
    else { return nil }
    self.catalog = catalog
    self.position = position
    cursor = FamilyCursor(
      StorageRange(lower: position.key, upper: FeedKey.record), in: family, of: snapshot, isReverse: false)
  }

  /// Returns the next change, or `nil` after the last. Throws `.corruption` for invalid entries.
  mutating func next() throws -> Change? {
    while index == changes.count {
      guard try readEntry() else { return nil }
    }
    defer {
      index += 1
      advance()
    }
    return changes[index]
  }

  private mutating func advance() {
    guard let current else { return }
    if index < changes.count {
      position = FeedPosition(version: current.version, part: current.part, step: UInt32(index))
    } else if isLastPart {
      position = FeedPosition(version: current.version + 1, part: 0, step: 0)
    } else {
      position = FeedPosition(version: current.version, part: current.part + 1, step: 0)
    }
  }

  /// Reads the next entry. Returns false after the last.
  private mutating func readEntry() throws -> Bool {
    guard let (key, value) = try cursor.next() else {
      guard isLastPart, position.part == 0, position.step == 0 else { throw FeedEntry.damaged("a commit has no end") }
      return false
    }
    let (version, part) = try FeedKey.parse(key)
    let isExpected = version.number == position.version && part == position.part
    guard isExpected || part == 0 && position.part == 0 && position.step == 0 else {
      throw FeedEntry.damaged("part \(position.part) of commit \(position.version) is missing")
    }
    let entry = try FeedEntry(value)
    changes = try changes(of: entry)
    index = isExpected ? Int(position.step) : 0
    guard index <= changes.count else {
      throw FeedEntry.damaged("it has \(changes.count) steps, and \(index) are done")
    }
    current = (version.number, part)
    isLastPart = entry.isLast
    advance()
    return true
  }

  private func changes(of entry: FeedEntry) throws -> [Change] {
    var changes: [Change] = entry.isEverythingCleared ? [.everythingRemoved] : []
    changes.reserveCapacity(entry.collections.reduce(1) { $0 + $1.rows.count + 1 })
    for collection in entry.collections {
      guard let info = catalog.collection(collection.id) else {
        guard let name = catalog.name(of: collection.id) else {
          throw FeedEntry.damaged("the catalog has no collection \(collection.id)")
        }
        let clearing = collection.isCleared && !entry.isEverythingCleared ? 1 : 0
        for step in 0..<(clearing + collection.rows.count) { changes.append(step == 0 ? .removed(name) : .delivered) }
        continue
      }
      // If the entry removed everything, it has also removed this collection's rows.
      if collection.isCleared && !entry.isEverythingCleared { changes.append(.removed(info.name)) }
      for row in collection.rows { changes.append(.row(info, info.prefix + row.key)) }
    }
    return changes
  }
}

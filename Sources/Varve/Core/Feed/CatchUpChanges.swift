/// A position in the feed: everything before it is done with.
///
/// ```
///  8 bytes   version of a commit, big-endian
///  4 bytes   part of its entries, big-endian
///  4 bytes   how many steps of that part are done, big-endian
/// ```
/// On disk: never change. The steps of an entry are: that all rows of all collections were removed, where it says so;
/// then for each collection, in its order, that all its rows were, where it says so, and each of its rows. Where no
/// commit has the version, part and steps are 0 and the position is before the next one.
package struct FeedPosition: Hashable, Sendable {
  static let size = 16

  package var version: UInt64
  var part: UInt32 = 0
  var step: UInt32 = 0

  /// After all that a commit reported, and before what the next one will.
  init(after version: CommitVersion) { self.version = version.number + 1 }

  init(version: UInt64, part: UInt32, step: UInt32) {
    self.version = version
    self.part = part
    self.step = step
  }

  var bytes: [UInt8] { key + BigEndian.bytes(step) }

  /// Nil for bytes that are none.
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

/// Scans what the feed says was changed after a position, one row at a time.
///
/// Unlike a `FeedPage` it takes no commit whole into memory, and can stop and go on within one.
struct CatchUpChanges {
  enum Change {
    case everythingRemoved
    /// All rows of a collection. Also where rows of one were changed that was dropped since.
    case removed(String)
    /// Was reported with another. Steps are counted as the entry has them, whatever was dropped since.
    case toldAlready
    /// By the key in the collection's families.
    case row(CollectionInfo, [UInt8])
  }

  /// The position after the last change that was returned.
  private(set) var position: FeedPosition
  private let catalog: Catalog
  private var cursor: FamilyCursor
  private var changes: [Change] = []
  private var index = 0
  private var isLastPart = true
  /// The entry that `changes` are of; nil before the first.
  private var current: (version: UInt64, part: UInt32)?

  /// Nil where the feed has not, or not any more, all that was changed since.
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

  /// The next change; nil after the last. Throws `.corruption` for entries that are none.
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

  /// False after the last entry.
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
        for step in 0..<(clearing + collection.rows.count) { changes.append(step == 0 ? .removed(name) : .toldAlready) }
        continue
      }
      // What removed everything has removed this, too.
      if collection.isCleared && !entry.isEverythingCleared { changes.append(.removed(info.name)) }
      for row in collection.rows { changes.append(.row(info, info.prefix + row.key)) }
    }
    return changes
  }
}

import Foundation
import Varve
import VarveViews

/// The object of the lists' tests.
struct Item: Codable, Identifiable, Sendable, Hashable {
  var id: Int
  var group = "a"
  var rank = 0
  var text = ""

  /// The text of an item that the test source can't read.
  static let unreadable = "unreadable"
}

/// A small view for the lists' tests: items by group, rank and id.
struct Shelf: DatabaseExtension {
  static let kind = "test.shelf"
  var version = "1"
  /// Whether items are by descending rank.
  var isDescending = false
  /// The text of items that are left out.
  var leavesOut: String?
  /// Whether it takes in the items that exist already.
  var isFilled = true
  /// The gate through which each item goes, for builds that take as long as a test wants.
  var gate: (@Sendable (Item) -> Void)?

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: version)
    configuration.scope = .only(["items"])
    var rows = PartDefinition("rows")
    rows.isCounted = true
    if !isFilled { configuration.build = .none }
    configuration.parts = [rows, PartDefinition("places")]
    return configuration
  }

  func makeTransaction(_ context: ExtensionContext<Self>) throws -> ShelfTransaction {
    try ShelfTransaction(self, context)
  }
}

final class ShelfTransaction: ExtensionTransaction {
  typealias Definition = Shelf
  private let definition: Shelf
  private let rows: Part
  private let places: Part

  init(_ definition: Shelf, _ context: ExtensionContext<Shelf>) throws {
    self.definition = definition
    rows = try context.part("rows")
    places = try context.part("places")
  }

  // MARK: - Writing

  func didChange(_ change: borrowing RowChange) throws {
    var new: [UInt8]?
    if let item = try change.row?.object(as: Item.self) {
      definition.gate?(item)
      if item.group != "", definition.leavesOut != item.text { new = try Self.key(item, definition) }
    }
    let old = try places.get(change.key.bytes)
    if old == new { return }
    if let old {
      try rows.remove(old)
      try places.delete(change.key.bytes)
    }
    if let new {
      try rows.insert(new, [])
      try places.put(change.key.bytes, new)
    }
  }

  func removesAll(in collection: String?) throws -> Bool {
    try rows.deleteRange(StorageRange())
    try places.deleteRange(StorageRange())
    return true
  }

  private static func key(_ item: Item, _ definition: Shelf) throws -> [UInt8] {
    var encoder = KeyEncoder()
    try encoder.encode(item.group)
    try encoder.encode(definition.isDescending ? -item.rank : item.rank)
    try encoder.encode(item.id)
    return encoder.bytes
  }

  // MARK: - Reading

  var isReady: Bool { get throws { try rows.isReady } }
  var version: String { definition.version }

  private static func range(_ group: String) throws -> StorageRange {
    var encoder = KeyEncoder()
    try encoder.encode(group)
    return StorageRange(prefix: encoder.bytes)
  }

  private static func parts(_ key: [UInt8]) throws -> (group: String, id: Int) {
    var decoder = unsafe KeyDecoder(key.span.bytes)
    let group = try decoder.decode(String.self)
    _ = try decoder.decode(Int.self)
    return (group, try decoder.decode(Int.self))
  }

  func groups() throws -> [(group: String, count: Int)] {
    var groups: [(group: String, count: Int)] = []
    var rest = StorageRange()
    while let first = try rows.first(in: rest) {
      let group = try Self.parts(first.key).group
      let range = try Self.range(group)
      groups.append((group, try rows.count(range)))
      guard let upper = range.upper else { break }
      rest.lower = upper
    }
    return groups
  }

  func count(in group: String) throws -> Int { try rows.count(Self.range(group)) }

  func ids(in group: String, _ offsets: Range<Int>) throws -> [Int] {
    var cursor = try rows.cursor(from: offsets.lowerBound, in: Self.range(group), keysOnly: true)
    var ids: [Int] = []
    while ids.count < offsets.count, let entry = try cursor.next() { ids.append(try Self.parts(entry.key).id) }
    return ids
  }

  func group(of id: Int) throws -> String? {
    try places.get(RowKey(id, in: "items").bytes).map { try Self.parts($0).group }
  }

  func place(of id: Int) throws -> (group: String, offset: Int)? {
    guard let key = try places.get(RowKey(id, in: "items").bytes) else { return nil }
    let group = try Self.parts(key).group
    return (group, try rows.offset(of: key, in: Self.range(group)))
  }
}

/// What a test source has been asked, and what it refuses.
final class ShelfProbe: @unchecked Sendable {
  private let lock = NSLock()
  private var counts: [String: Int] = [:]
  private var refused: (@Sendable (CommitVersion) -> (any Error)?)?
  private var mainReads = 0

  func note(_ call: String, _ tx: ReadTransaction) throws {
    let refuse = lock.withLock {
      counts[call, default: 0] += 1
      if Thread.isMainThread { mainReads += 1 }
      return refused
    }
    if let error = refuse?(tx.version) { throw error }
  }

  /// Returns how often a method was called since the last reset.
  func count(_ call: String) -> Int { lock.withLock { counts[call] ?? 0 } }
  func reset() { lock.withLock { counts = [:] } }
  /// How many calls came from the main thread.
  var callsOnMain: Int { lock.withLock { mainReads } }
  /// Makes reads of some snapshots throw.
  func refuse(_ body: (@Sendable (CommitVersion) -> (any Error)?)?) { lock.withLock { refused = body } }
}

/// The items of a shelf as the source of a list.
struct ShelfSource: ListSource {
  let database: Database
  let shelf: ExtensionHandle<Shelf>
  let probe = ShelfProbe()

  var progress: BuildProgress? { database.progress(of: shelf.name) }

  private func transaction(_ call: String, _ tx: ReadTransaction) throws -> ShelfTransaction {
    try probe.note(call, tx)
    return try tx[shelf]
  }

  func groups(in tx: ReadTransaction) throws -> [(group: String, count: Int)] {
    try transaction("groups", tx).groups()
  }
  func count(in group: String, _ tx: ReadTransaction) throws -> Int { try transaction("count", tx).count(in: group) }
  func ids(in group: String, at offsets: Range<Int>, _ tx: ReadTransaction) throws -> [Int] {
    try transaction("ids", tx).ids(in: group, offsets)
  }
  func group(of id: Int, _ tx: ReadTransaction) throws -> String? { try transaction("group", tx).group(of: id) }
  func place(of id: Int, _ tx: ReadTransaction) throws -> (group: String, offset: Int)? {
    try transaction("place", tx).place(of: id)
  }
  func element(_ id: Int, _ tx: ReadTransaction) throws -> Item? {
    try probe.note("element", tx)
    let item = try tx.object(Item.self, key: id, in: "items")
    if item?.text == Item.unreadable { throw DatabaseError(.decodingFailed, "item \(id) can't be read") }
    return item
  }
  func changedIDs(by changes: ChangeSet, _ tx: ReadTransaction) throws -> [Int: ListFlags]? {
    if changes.isCleared("items") { return nil }
    var changed: [Int: ListFlags] = [:]
    for row in changes.keys(in: "items") { changed[try row.key()] = ListFlags(row, in: changes) }
    return changed
  }
  func generation(_ tx: ReadTransaction) throws -> UInt64? {
    do {
      let shelf = try transaction("generation", tx)
      return try shelf.isReady ? UInt64(shelf.version) ?? 0 : nil
    } catch let error as DatabaseError where error.code == .notReady { return nil }
  }
}

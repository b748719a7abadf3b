import Foundation
import Varve

// The extensions of `varve-bench extensions`, as a program would write them. Each does the least that its kind has to
// do, so that a figure is the cost of Varve's side more than of theirs.

/// Receives every change of its collections, and looks at the event only.
struct Listener: DatabaseExtension {
  static let kind = "bench.listener"
  var scope = CollectionScope.all

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.scope = scope
    configuration.hears = .all
    configuration.build = .none
    return configuration
  }

  func makeTransaction(_ context: ExtensionContext<Self>) -> ListenerTransaction { ListenerTransaction() }
}

final class ListenerTransaction: ExtensionTransaction {
  typealias Definition = Listener
  private var events: UInt8 = 0

  func didChange(_ change: borrowing RowChange) { events |= change.event.rawValue }
}

/// One part that a program fills and reads by the extension's own methods; changes of rows are nothing to it.
struct OnePart: DatabaseExtension {
  static let kind = "bench.onePart"
  var form = PartDefinition.Form.values
  var isIndependent = false

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.scope = .only([])
    configuration.hears = []
    configuration.build = .none
    var part = PartDefinition("entries", form)
    part.isIndependent = isIndependent
    configuration.parts = [part]
    return configuration
  }

  func makeTransaction(_ context: ExtensionContext<Self>) throws -> OnePartTransaction {
    try OnePartTransaction(context)
  }
}

final class OnePartTransaction: ExtensionTransaction {
  typealias Definition = OnePart
  private let entries: Part

  init(_ context: ExtensionContext<OnePart>) throws { entries = try context.part("entries") }

  func didChange(_ change: borrowing RowChange) {}

  func put(_ key: [UInt8], _ value: [UInt8]) throws { try entries.put(key, value) }
  func deleteRange(_ range: StorageRange) throws { try entries.deleteRange(range) }
  func hasEntry(in range: StorageRange) throws -> Bool { try entries.first(in: range) != nil }
  func count() throws -> Int { try entries.count() }
}

/// The prototype of one index or two: an entry a row in the part of each, and in one more part what the row has in
/// them, by its key.
struct Indexes: DatabaseExtension {
  static let kind = "bench.indexes"
  /// One or two.
  var count = 2
  /// Whether the feed brings it what it missed: then a build of many rows goes by tables.
  var catchesUp = false
  /// Whether it receives updates and removals too, with the row as it was: that is what its entries were made of.
  var followsOldRows = false

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.scope = .only([Book.collection])
    configuration.delivery = .immediate
    if followsOldRows { configuration.needs = .oldRows } else { configuration.hears = .inserts }
    configuration.catchesUp = catchesUp
    configuration.parts = (0..<count).map { PartDefinition("index\($0)") } + [PartDefinition("emitted")]
    return configuration
  }

  func makeTransaction(_ context: ExtensionContext<Self>) throws -> IndexesTransaction {
    try IndexesTransaction(count, context)
  }
}

final class IndexesTransaction: ExtensionTransaction {
  typealias Definition = Indexes
  private let indexes: [Part]
  private let emitted: Part

  init(_ count: Int, _ context: ExtensionContext<Indexes>) throws {
    indexes = try (0..<count).map { try context.part("index\($0)") }
    emitted = try context.part("emitted")
  }

  func didChange(_ change: borrowing RowChange) throws {
    let key = change.key.bytes
    let new = try change.row?.object(as: Book.self)
    let old = change.event == .inserted ? nil : try change.old?.object(as: Book.self)
    var isChanged = false
    for (number, index) in indexes.enumerated() {
      let newValue = new?.indexed(number)
      let oldValue = old?.indexed(number)
      if newValue == oldValue { continue }
      isChanged = true
      if let oldValue { try index.delete(EntryKey.bytes(oldValue, key)) }
      if let newValue { try index.put(EntryKey.bytes(newValue, key), []) }
    }
    guard isChanged else { return }
    guard let new else { return try emitted.delete(key) }
    try emitted.put(key, EntryKey.bytes(new.indexed(0), indexes.count > 1 ? new.indexed(1) : nil))
  }

  /// The entries of the row as it was are in what it has emitted.
  func didMiss(_ key: RowKey, _ row: Varve.Row?) throws {
    let key = key.bytes
    if let known = try emitted.get(key) {
      for (number, index) in indexes.enumerated() {
        try index.delete(Array(known[(8 * number)..<(8 * number + 8)]) + key)
      }
      try emitted.delete(key)
    }
    guard let book = try row?.object(as: Book.self) else { return }
    for (number, index) in indexes.enumerated() { try index.put(EntryKey.bytes(book.indexed(number), key), []) }
    try emitted.put(key, EntryKey.bytes(book.indexed(0), indexes.count > 1 ? book.indexed(1) : nil))
  }

  /// How many entries the parts have together.
  func count() throws -> Int { try (indexes + [emitted]).reduce(0) { $0 + (try $1.count()) } }
}

/// The prototype of a sorted view: it looks for the neighbour of a row, and puts the row beside it. Changes reach it
/// after the current one, as they reach what a program writes itself.
struct Neighbours: DatabaseExtension {
  static let kind = "bench.neighbours"

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.scope = .only([Book.collection])
    configuration.hears = .inserts
    configuration.parts = [PartDefinition("order")]
    return configuration
  }

  func makeTransaction(_ context: ExtensionContext<Self>) throws -> NeighboursTransaction {
    try NeighboursTransaction(context)
  }
}

final class NeighboursTransaction: ExtensionTransaction {
  typealias Definition = Neighbours
  private let order: Part

  init(_ context: ExtensionContext<Neighbours>) throws { order = try context.part("order") }

  func didChange(_ change: borrowing RowChange) throws {
    guard let book = try change.row?.object(as: Book.self) else { return }
    let entry = EntryKey.bytes(book.indexed(1), change.key.bytes)
    // What it finds is kept, so that the look can't be left out.
    let neighbour = try order.first(in: StorageRange(lower: entry))
    try order.put(entry, neighbour?.key ?? [])
  }

  func count() throws -> Int { try order.count() }
}

/// Four parts, of which each has an entry a row.
struct FourParts: DatabaseExtension {
  static let kind = "bench.fourParts"

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.scope = .only([Book.collection])
    configuration.hears = .inserts
    configuration.parts = FourPartsTransaction.names.map { PartDefinition($0) }
    return configuration
  }

  func makeTransaction(_ context: ExtensionContext<Self>) throws -> FourPartsTransaction {
    try FourPartsTransaction(context)
  }
}

final class FourPartsTransaction: ExtensionTransaction {
  typealias Definition = FourParts
  static let names = ["part0", "part1", "part2", "part3"]
  private let parts: [Part]

  init(_ context: ExtensionContext<FourParts>) throws {
    parts = try Self.names.map { try context.part($0) }
  }

  func didChange(_ change: borrowing RowChange) throws {
    let key = change.key.bytes
    for part in parts { try part.put(key, key) }
  }

  func count() throws -> Int { try parts.reduce(0) { $0 + (try $1.count()) } }
}

extension Book {
  /// What index 0 or 1 has of it: a year, which many books share, or a time, which few do.
  fileprivate func indexed(_ number: Int) -> UInt64 {
    number == 0 ? UInt64(year) : updated.timeIntervalSinceReferenceDate.bitPattern
  }
}

/// The keys of entries: 8 bytes of a field in their order, and the key of the row.
private enum EntryKey {
  static func bytes(_ value: UInt64, _ key: [UInt8]) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(8 + key.count)
    withUnsafeBytes(of: value.bigEndian) { bytes.append(contentsOf: $0) }
    bytes.append(contentsOf: key)
    return bytes
  }

  /// The fields of what a row has emitted.
  static func bytes(_ first: UInt64, _ second: UInt64?) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(16)
    withUnsafeBytes(of: first.bigEndian) { bytes.append(contentsOf: $0) }
    if let second { withUnsafeBytes(of: second.bigEndian) { bytes.append(contentsOf: $0) } }
    return bytes
  }
}

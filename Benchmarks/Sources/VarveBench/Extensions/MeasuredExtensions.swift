import Foundation
import Varve

// The extensions of `varve-bench extensions`, as a program would write them. Each does as little as its kind allows, so
// that a result is the cost of Varve's side more than of the extension's.

/// Receives every change of its collections, and reads only the event.
struct Listener: DatabaseExtension {
  static let kind = "bench.listener"
  var scope = CollectionScope.all

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.scope = scope
    configuration.events = .all
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

/// An extension with one part, which a program fills and reads by the extension's own methods. It receives no changes.
struct OnePart: DatabaseExtension {
  static let kind = "bench.onePart"
  var form = PartDefinition.Form.values
  var isIndependent = false

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.scope = .only([])
    configuration.events = []
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

/// A prototype of one or two indexes: each has a part with an entry per row, and one more part maps the row's key to
/// the values that the row has in them.
struct Indexes: DatabaseExtension {
  static let kind = "bench.indexes"
  /// The number of indexes, one or two.
  var count = 2
  /// Whether the feed delivers changes that it missed, in which case many rows are built by tables.
  var catchesUp = false
  /// Whether it receives updates and removals too, with the old row, from which its entries were computed.
  var followsOldRows = false

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.scope = .only([Book.collection])
    configuration.delivery = .immediate
    if followsOldRows { configuration.needs = .oldRows } else { configuration.events = .inserts }
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

  /// The entries of the old row are determined by the values that it has emitted.
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

  /// Returns the number of entries of all parts together.
  func count() throws -> Int { try (indexes + [emitted]).reduce(0) { $0 + (try $1.count()) } }
}

/// A prototype of a sorted view: it searches for the neighbor of a row, and puts the row beside it.
///
/// It receives changes after the current one, as those that the program itself writes.
struct Neighbours: DatabaseExtension {
  static let kind = "bench.neighbours"

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.scope = .only([Book.collection])
    configuration.events = .inserts
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
    // The result is stored, so that the search can't be optimized away.
    let neighbour = try order.first(in: StorageRange(lower: entry))
    try order.put(entry, neighbour?.key ?? [])
  }

  func count() throws -> Int { try order.count() }
}

/// An extension with four parts, each of which has an entry per row.
struct FourParts: DatabaseExtension {
  static let kind = "bench.fourParts"

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.scope = .only([Book.collection])
    configuration.events = .inserts
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
  /// Returns the value of index 0 or 1: a year, which many books share, or a time, which few share.
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

  /// Returns the stored form of the values that a row has emitted.
  static func bytes(_ first: UInt64, _ second: UInt64?) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(16)
    withUnsafeBytes(of: first.bigEndian) { bytes.append(contentsOf: $0) }
    if let second { withUnsafeBytes(of: second.bigEndian) { bytes.append(contentsOf: $0) } }
    return bytes
  }
}

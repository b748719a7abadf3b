import VarveTestSupport

@testable import Varve

/// The object of a row of the model suite.
struct ModelObject: Codable, Hashable, Sendable {
  var number: Int
  var text: String
  var parts: [String]?
}

/// The metadata of some rows.
struct ModelNote: Codable, Hashable, Sendable {
  var rank: Double
  var tags: [String]
}

/// A row of the model.
struct ModelRow: Hashable, Sendable {
  var object: ModelObject
  var note: ModelNote?
  var id: UInt64
}

/// The content of a database as dictionaries. Keys are indexes in the sorted pool of the collection.
struct ModelState: Hashable, Sendable {
  var collections: [String: [Int: ModelRow]] = [:]

  subscript(collection: String) -> [Int: ModelRow] {
    get { collections[collection] ?? [:] }
    set { collections[collection] = newValue.isEmpty ? nil : newValue }
  }

  var count: Int { collections.values.reduce(0) { $0 + $1.count } }
}

/// The changes of a transaction so far, event by event: the expected change set is derived from them at the end.
struct ModelChanges: Hashable, Sendable {
  enum Event: Hashable, Sendable {
    case set, object, metadata, touchedObject, touchedMetadata, touchedRow, removed
  }

  struct Row: Hashable, Sendable {
    /// Whether the row existed before the transaction, or when the collection was last cleared.
    let existed: Bool
    var events: [Event] = []

    var isRemoved: Bool { events.last == .removed }
    var isInserted: Bool { !existed && !isRemoved }
    private var sinceRemoval: ArraySlice<Event> {
      guard let index = events.lastIndex(of: .removed) else { return events[...] }
      return events[(index + 1)...]
    }
    var concernsObject: Bool {
      isRemoved || sinceRemoval.contains { [.set, .object, .touchedObject, .touchedRow].contains($0) }
    }
    var concernsMetadata: Bool {
      isRemoved || sinceRemoval.contains { [.set, .metadata, .touchedMetadata, .touchedRow].contains($0) }
    }
  }

  private(set) var rows: [String: [Int: Row]] = [:]
  private(set) var cleared: Set<String> = []
  private(set) var isEverythingCleared = false

  var isEmpty: Bool { rows.isEmpty && cleared.isEmpty }
  var collections: Set<String> { cleared.union(rows.keys) }

  /// Returns whether a collection was cleared. After everything was removed, this is true even for collections that
  /// never existed.
  func isCleared(_ collection: String) -> Bool { isEverythingCleared || cleared.contains(collection) }

  mutating func note(_ event: Event, _ key: Int, _ collection: String, existed: Bool) {
    rows[collection, default: [:]][key, default: Row(existed: existed)].events.append(event)
  }

  mutating func noteCleared(_ collection: String) {
    rows[collection] = nil
    cleared.insert(collection)
  }

  mutating func noteEverythingCleared(_ collections: Set<String>) {
    rows = [:]
    cleared = collections
    isEverythingCleared = true
  }
}

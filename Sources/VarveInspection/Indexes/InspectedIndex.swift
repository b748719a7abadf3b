internal import Varve

/// An index of a collection, as the catalog and the storage describe it.
///
/// It belongs to the inspector that created it, and may be used as long as the inspector is open. Safe from any thread.
public struct InspectedIndex: Sendable {
  /// The state of an index.
  public enum State: Hashable, Sendable, CustomStringConvertible {
    /// The index has all rows, and answers queries.
    case ready
    /// The program is building the index, and rows are missing.
    case building
    /// The index has missed changes, because a program that does not define it wrote rows. It catches up the next time
    /// a program that defines it opens the database.
    case stale
    /// The build of the index failed with this error.
    case failed(String)
    /// The index is unique, and when it was built this many rows had the value of another row. Its use throws
    /// `.notUnique`.
    case collided(Int)

    /// The name of the case.
    public var description: String {
      switch self {
      case .ready: "ready"
      case .building: "building"
      case .stale: "stale"
      case .failed: "failed"
      case .collided: "collided"
      }
    }
  }

  /// The collection.
  public let collection: String
  /// The name.
  public let name: String
  /// The kind of the index: `index`, `oneToOne`, `manyToOne` or `manyToMany`, or another word if a newer version wrote
  /// it.
  public let kind: String
  /// The name of the type of its values: see `KeyType`. Several fields are a compound.
  public let keyType: String
  /// Whether each value belongs to only one row.
  public let isUnique: Bool
  /// Whether its entries contain the rows in addition to their keys.
  public let isDirect: Bool
  /// Whether the database has counts of the entries.
  public let isCounted: Bool
  /// The approximate size of its entries in bytes: compressed in tables, uncompressed in memtables.
  public let approximateSize: UInt64
  /// The state.
  public let state: State
  /// Whether another definition of the collection's indexes is being built, which will replace this one.
  public let isBeingReplaced: Bool

  let extensionNumber: UInt32
  /// The number that identifies it in the rows' emitted values.
  let number: UInt32
  /// The name of the family of its entries.
  let familyName: String
  /// The family of its entries, or `nil` before the first entry, because a family is created by the first write to it.
  let entries: StorageFamily?
  /// The name of the family of the counts, or `nil` for an index that is not counted.
  let runsName: String?
  /// The family of the counts, or `nil` if there is none.
  let runs: StorageFamily?
  /// The family of the rows' emitted values, or `nil` before the first row.
  let emitted: StorageFamily?

  /// Whether it has all rows, so that its entries can be compared with them.
  public var isComplete: Bool {
    switch state {
    case .ready, .collided: true
    case .building, .stale, .failed: false
    }
  }
}

extension DatabaseInspector {
  /// Returns the indexes of all collections, or of one, in the order of the names of collections and indexes.
  ///
  /// The error of each record that can't be read is passed to `fault`.
  ///
  /// Throws `.notFound` if neither a collection nor indexes have that name, `.storage`. Complexity: O(indexes), and a
  /// search in the tables' indexes for each.
  public func indexes(
    of collection: String? = nil, fault: (any Error) throws -> Void
  ) throws -> [InspectedIndex] {
    var found: [InspectedIndex] = []
    var isKnown = collection == nil
    try forEachRecord(fault: fault) { _, record in
      guard let owner = IndexFormat.collection(of: record), collection == nil || owner == collection else { return }
      isKnown = true
      for part in record.contentParts {
        guard let name = IndexFormat.index(ofPart: part.name) else { continue }
        do {
          found.append(try index(name, of: owner, part, record))
        } catch {
          try fault(error)
        }
      }
    }
    // A collection without indexes is accepted, and an unknown name is rejected.
    if !isKnown, let collection { _ = try self.collection(collection) }
    return found.sorted { ($0.collection, $0.name) < ($1.collection, $1.name) }
  }

  /// Returns the number of entries of an index.
  ///
  /// Complexity: O(entries), because storages don't count them.
  public func entryCount(of index: InspectedIndex) throws -> Int {
    guard let entries = index.entries else { return 0 }
    let cursor = FamilyCursor(StorageRange(), in: entries, of: snapshot, isReverse: false, keysOnly: true)
    return try cursor.count()
  }

  private func index(
    _ name: String, of collection: String, _ part: ExtensionRecord.Part, _ record: ExtensionRecord
  ) throws -> InspectedIndex {
    guard let definition = IndexFormat.Definition(part.version) else {
      throw DatabaseError(
        .corruption, "index \"\(name)\": \"\(part.version)\" is not a definition of an index", collection: collection)
    }
    guard let emitted = record.parts.first(where: { $0.name == IndexFormat.emittedPart }) else {
      throw DatabaseError(
        .corruption, "index \"\(name)\": the catalog's record has no part for emitted values", collection: collection)
    }
    let entries = families[record.familyName(part)]
    let runsName = record.runs(of: part).map { record.familyName($0) }
    let isBuilt = part.watermark == nil && emitted.watermark == nil
    return InspectedIndex(
      collection: collection, name: name, kind: definition.kind, keyType: definition.keyType,
      isUnique: definition.isUnique, isDirect: definition.isDirect,
      isCounted: runsName != nil,
      approximateSize: try entries.map { try size(of: StorageRange(), in: $0) } ?? 0,
      state: try state(of: name, of: collection, part, isBuilt: isBuilt, isUnique: definition.isUnique, record),
      isBeingReplaced: record.shadow != nil, extensionNumber: record.number, number: IndexFormat.number(of: name),
      familyName: record.familyName(part), entries: entries, runsName: runsName,
      runs: runsName.flatMap { families[$0] }, emitted: families[record.familyName(emitted)])
  }

  private func state(
    of name: String, of collection: String, _ part: ExtensionRecord.Part, isBuilt: Bool, isUnique: Bool,
    _ record: ExtensionRecord
  ) throws -> InspectedIndex.State {
    switch record.state {
    case .stale: return .stale
    case .failed(let message): return .failed(message)
    case .ingesting: return .building
    case .building, .ready: break
    }
    guard isBuilt else { return .building }
    let collisions = record.parts.first { $0.name == IndexFormat.collisionsPart }
    guard isUnique, let family = collisions.flatMap({ families[record.familyName($0)] }),
      let bytes = try snapshot.value(of: IndexFormat.collisionsKey(of: name, definition: part.version), in: family)
    else { return .ready }
    return .collided(try IndexFormat.collisionCount(bytes, index: name, collection: collection))
  }
}

internal import Synchronization

/// The families that exist, by id and by name.
///
/// Safe from any thread.
final class FamilyRegistry: Sendable {
  private struct Table: Sendable {
    var byID: [FamilyID: ColumnFamily] = [:]
    var byName: [String: ColumnFamily] = [:]
    /// Ascending by id: whoever goes through all of ten thousand families must not sort them first.
    var ordered: [ColumnFamily] = []

    /// The index of the first family whose id is not below `id`.
    func position(of id: FamilyID) -> Int {
      // Ids only grow: a new family nearly always comes last.
      if ordered.last.map({ $0.id < id }) ?? true { return ordered.count }
      var low = 0
      var high = ordered.count
      while low < high {
        let middle = (low + high) / 2
        if ordered[middle].id < id { low = middle + 1 } else { high = middle }
      }
      return low
    }
  }

  private let table = Mutex(Table())

  func add(_ family: ColumnFamily) {
    table.withLock { table in
      table.byID[family.id] = family
      table.byName[family.name] = family
      table.ordered.insert(family, at: table.position(of: family.id))
    }
  }

  func remove(_ family: ColumnFamily) {
    table.withLock { table in
      guard table.byID.removeValue(forKey: family.id) != nil else { return }
      // The name may have gone to another family already, where a follower meets both changes at once.
      if table.byName[family.name]?.id == family.id { table.byName[family.name] = nil }
      table.ordered.remove(at: table.position(of: family.id))
    }
  }

  /// Lets all families go: they hold the registry, and it them.
  func removeAll() { table.withLock { $0 = Table() } }

  func find(_ id: FamilyID) -> FamilyState? { table.withLock { $0.byID[id]?.state } }
  func named(_ name: String) -> ColumnFamily? { table.withLock { $0.byName[name] } }
  /// All families, ascending by id. Complexity: O(1).
  var all: [ColumnFamily] { table.withLock { $0.ordered } }
  var count: Int { table.withLock { $0.ordered.count } }
}

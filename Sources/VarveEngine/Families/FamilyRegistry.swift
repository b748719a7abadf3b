internal import FutexLocks
internal import Synchronization

/// The existing families, by id and by name.
///
/// Safe from any thread.
final class FamilyRegistry: Sendable {
  private struct Table: Sendable {
    var byName: [String: ColumnFamily] = [:]
    /// Ascending by id, so that an iteration over ten thousand families needs no sort.
    var ordered: [ColumnFamily] = []

    /// Returns the index of a family.
    ///
    /// Ids ascend from zero, and few families are dropped, so most are found at the index of their id.
    @inline(__always)
    func index(of id: FamilyID) -> Int? {
      let guess = Int(id.value)
      if guess < ordered.count, ordered[guess].id == id { return guess }
      let position = position(of: id)
      return position < ordered.count && ordered[position].id == id ? position : nil
    }

    /// Returns the index of the first family whose id is not less than `id`.
    func position(of id: FamilyID) -> Int {
      // Ids only grow, so a new family nearly always is the last.
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

  private let table = FutexLock(Table())

  func add(_ family: ColumnFamily) {
    table.withLock { table in
      table.byName[family.name] = family
      table.ordered.insert(family, at: table.position(of: family.id))
    }
  }

  func remove(_ family: ColumnFamily) {
    table.withLock { table in
      guard let index = table.index(of: family.id) else { return }
      // Another family may have the name already, if a follower applies both changes at once.
      if table.byName[family.name]?.id == family.id { table.byName[family.name] = nil }
      table.ordered.remove(at: index)
    }
  }

  /// Releases all families, because they and the registry reference each other.
  func removeAll() { table.withLock { $0 = Table() } }

  func find(_ id: FamilyID) -> FamilyState? {
    table.withLock { table in table.index(of: id).map { table.ordered[$0].state } }
  }
  func named(_ name: String) -> ColumnFamily? { table.withLock { $0.byName[name] } }
  /// All families, ascending by id. Complexity: O(1).
  var all: [ColumnFamily] { table.withLock { $0.ordered } }
  var count: Int { table.withLock { $0.ordered.count } }
}

internal import Synchronization

/// The families that exist, by id and by name.
///
/// Safe from any thread.
final class FamilyRegistry: Sendable {
  private struct Table: Sendable {
    var byID: [UInt32: ColumnFamily] = [:]
    var byName: [String: ColumnFamily] = [:]
  }

  private let table = Mutex(Table())

  func add(_ family: ColumnFamily) {
    table.withLock { table in
      table.byID[family.id] = family
      table.byName[family.name] = family
    }
  }

  func remove(_ family: ColumnFamily) {
    table.withLock { table in
      table.byID[family.id] = nil
      // The name may have gone to another family already, where a follower meets both changes at once.
      if table.byName[family.name]?.id == family.id { table.byName[family.name] = nil }
    }
  }

  /// Lets all families go: they hold the registry, and it them.
  func removeAll() { table.withLock { $0 = Table() } }

  func find(_ id: UInt32) -> FamilyState? { table.withLock { $0.byID[id]?.state } }
  func named(_ name: String) -> ColumnFamily? { table.withLock { $0.byName[name] } }
  /// All families, ascending by id.
  var all: [ColumnFamily] { table.withLock { $0.byID.values.sorted { $0.id < $1.id } } }
  var count: Int { table.withLock { $0.byID.count } }
}

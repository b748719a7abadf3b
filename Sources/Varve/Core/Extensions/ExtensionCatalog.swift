internal import FutexLocks
internal import Synchronization

/// The extensions in the catalog, registered or not.
///
/// It is changed only at open and with the writer held.
final class ExtensionCatalog: Sendable {
  private struct State {
    var records: [String: ExtensionRecord] = [:]
    var nextNumber: UInt32 = 1
    /// The extensions on disk that are not registered: they become stale with the first commit.
    ///
    /// That includes one whose build was interrupted, because its watermark would otherwise continue to guarantee that
    /// no row before it was missed. It excludes one that is built by tables, because that follows the feed from its
    /// beginning on.
    var unregistered: Set<String> = []
  }

  private let state = FutexLock(State())

  /// Reads the records from a snapshot.
  func load(_ snapshot: any StorageSnapshot, _ families: Catalog.Families) throws {
    var records: [String: ExtensionRecord] = [:]
    var cursor = FamilyCursor(
      StorageRange(prefix: CatalogKey.extensions), in: families.catalog, of: snapshot, isReverse: false)
    while let (key, value) = try cursor.next() {
      let name = try CatalogKey.name(in: key)
      records[name] = try ExtensionRecord(value, name: name)
    }
    let next = try snapshot.value(of: CatalogKey.nextExtension, in: families.catalog)
    state.withLock { state in
      state.records = records
      state.unregistered = Set(records.keys)
      state.nextNumber = next.flatMap { BigEndian.number($0) } ?? 1
    }
  }

  func record(_ name: String) -> ExtensionRecord? { state.withLock { $0.records[name] } }

  /// The names of all extensions on disk.
  var names: [String] { state.withLock { $0.records.keys.sorted() } }

  /// Returns the extensions that the first commit makes stale.
  func missed() -> [(name: String, record: ExtensionRecord)] {
    state.withLock { state in
      if state.unregistered.isEmpty { return [] }
      return state.unregistered.compactMap { name in
        state.records[name].flatMap { $0.state.isUpToDate ? (name, $0) : nil }
      }
    }
  }

  func noteRegistered(_ name: String) { state.withLock { _ = $0.unregistered.remove(name) } }

  func noteUnregistered(_ name: String) { state.withLock { _ = $0.unregistered.insert(name) } }

  /// Returns the names of the extensions on disk that were built with the extension `name` as a dependency, according
  /// to their tags.
  func dependents(of name: String) -> [String] {
    state.withLock { state in state.records.filter { $0.value.depends(on: name) }.keys.sorted() }
  }

  func set(_ record: ExtensionRecord?, for name: String) { state.withLock { $0.records[name] = record } }

  /// The number for the next extension that is registered for the first time.
  var nextNumber: UInt32 { state.withLock { $0.nextNumber } }

  func noteAssigned(_ number: UInt32) { state.withLock { $0.nextNumber = max($0.nextNumber, number + 1) } }
}

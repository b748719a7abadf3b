internal import FutexLocks
internal import Synchronization

/// The extensions that the catalog knows, registered or not.
///
/// Changed by the caller that holds the writer, or at open.
final class ExtensionCatalog: Sendable {
  private struct State {
    var records: [String: ExtensionRecord] = [:]
    var nextNumber: UInt32 = 1
    /// Those of the disk that no one has registered: they become stale with the first commit. One whose build was cut
    /// short does too: its watermark would go on to guarantee that no row before it was missed. One that is built by tables
    /// does not: it follows the feed from its beginning on.
    var unregistered: Set<String> = []
  }

  private let state = FutexLock(State())

  /// What is on disk.
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

  /// The names of all that are on disk.
  var names: [String] { state.withLock { $0.records.keys.sorted() } }

  /// Those that the first commit makes stale.
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

  /// Those of the disk that were made with an extension as a dependency, as their tags say.
  func dependents(of name: String) -> [String] {
    state.withLock { state in state.records.filter { $0.value.depends(on: name) }.keys.sorted() }
  }

  func set(_ record: ExtensionRecord?, for name: String) { state.withLock { $0.records[name] = record } }

  /// The number of the next that is registered first.
  var nextNumber: UInt32 { state.withLock { $0.nextNumber } }

  func noteGiven(_ number: UInt32) { state.withLock { $0.nextNumber = max($0.nextNumber, number + 1) } }
}

internal import FutexLocks
internal import Synchronization

/// A cache of a connection's decoded objects, which evicts the least recently used ones first.
///
/// # Invariants
/// 1. The objects in the cache are those of rows at the snapshot of the cache's *generation*: the connection raises the
///    generation and removes what changed, in one step, before it reads a later snapshot.
/// 2. A transaction has the generation with which it began, and neither reads nor stores anything if the cache has
///    another one. It therefore never sees objects of another snapshot, and never stores outdated ones.
///
/// It is safe to use from any thread.
final class ObjectCache: Sendable {
  struct Key: Hashable {
    let collection: UInt32
    let key: [UInt8]
  }

  private struct State {
    var generation: UInt64 = 0
    var entries = RecencyList()
  }

  private let limit: Int
  private let state = FutexLock(State())

  /// Creates a cache for at most `limit` objects.
  init(limit: Int) { self.limit = limit }

  var generation: UInt64 { state.withLock { $0.generation } }
  var count: Int { state.withLock { $0.entries.count } }

  /// Returns the object of a row, as of a generation.
  func find(_ key: Key, generation: UInt64) -> Any? {
    state.withLock { state in state.generation == generation ? state.entries.use(key)?.object : nil }
  }

  /// Stores the object of a row, as of a generation.
  func keep(_ object: CachedObject, for key: Key, generation: UInt64) {
    state.withLock { state in
      guard state.generation == generation, limit > 0 else { return }
      state.entries.insert(key, object)
      while state.entries.count > limit { state.entries.removeLeastRecent() }
    }
  }

  /// Moves the cache to a later snapshot, and removes the rows in `changes`.
  func advance(_ changes: [ChangeSet], ids: (String) -> (id: UInt32, prefix: [UInt8])?) {
    if changes.isEmpty { return }
    state.withLock { state in
      state.generation += 1
      for change in changes {
        if change.isEverythingCleared || change.changedCollections.contains(where: change.isCleared) {
          state.entries.removeAll()
        }
        for row in change.allKeys {
          guard let (id, prefix) = ids(row.collection) else { continue }
          state.entries.remove(Key(collection: id, key: prefix + row.bytes))
        }
      }
    }
  }

  /// Moves the cache to a snapshot whose changes are not known, and removes everything.
  func clear() {
    state.withLock { state in
      state.generation += 1
      state.entries.removeAll()
    }
  }
}

/// A cached object, which may be shared because its type is `Sendable`.
struct CachedObject: @unchecked Sendable {
  // Sendable: only `ReadTransaction.object` makes one, of the object type of a definition, which is `Sendable`.
  let object: Any
}

/// A dictionary that tracks the order in which its entries were used.
private struct RecencyList {
  private struct Node {
    let key: ObjectCache.Key
    var object: CachedObject
    /// The indexes of the more recent and the less recent node; -1 stands for none.
    var newer = -1
    var older = -1
  }

  private var locations: [ObjectCache.Key: Int] = [:]
  private var nodes: [Node?] = []
  private var free: [Int] = []
  private var newest = -1
  private var oldest = -1

  var count: Int { locations.count }

  mutating func use(_ key: ObjectCache.Key) -> CachedObject? {
    guard let location = locations[key] else { return nil }
    unlink(location)
    linkNewest(location)
    return nodes[location]?.object
  }

  mutating func insert(_ key: ObjectCache.Key, _ object: CachedObject) {
    remove(key)
    let node = Node(key: key, object: object)
    let location = free.popLast() ?? nodes.count
    if location == nodes.count { nodes.append(node) } else { nodes[location] = node }
    locations[key] = location
    linkNewest(location)
  }

  mutating func remove(_ key: ObjectCache.Key) {
    guard let location = locations.removeValue(forKey: key) else { return }
    unlink(location)
    nodes[location] = nil
    free.append(location)
  }

  mutating func removeLeastRecent() {
    if oldest >= 0, let key = nodes[oldest]?.key { remove(key) }
  }

  mutating func removeAll() { self = RecencyList() }

  private mutating func linkNewest(_ location: Int) {
    nodes[location]?.older = newest
    nodes[location]?.newer = -1
    if newest >= 0 { nodes[newest]?.newer = location }
    newest = location
    if oldest < 0 { oldest = location }
  }

  private mutating func unlink(_ location: Int) {
    guard let node = nodes[location] else { return }
    if node.newer >= 0 { nodes[node.newer]?.older = node.older } else { newest = node.older }
    if node.older >= 0 { nodes[node.older]?.newer = node.newer } else { oldest = node.newer }
  }
}

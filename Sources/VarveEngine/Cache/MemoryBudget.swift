import Synchronization

/// The one bound of the engine's memory: who takes memory charges it here by category, and the block
/// cache gets what the others leave.
///
///     limit
///     ├── memTables     arenas of mutable and immutable memtables
///     ├── log           mapped segments
///     ├── openTables    table readers, their files and what they keep outside of the cache
///     ├── compaction    read-ahead, merge and write buffers of flushes and compactions
///     ├── other         families, versions, snapshots, batches that wait
///     └── cache         the rest, but at least the floor
///
/// # Invariants
/// 1. The cache's capacity is `max(floor, limit - sum of the other categories)`, as that sum was at a
///    moment since which it changed by less than `stepSize`.
/// 2. The budget bounds the cache alone. The others bound themselves by it: a memtable is switched, a
///    write stalls. So their sum can pass the limit, and then the cache stands at its floor.
///
/// # Concurrency
/// `charge` is safe from any thread and costs two relaxed additions; one call in many megabytes takes
/// a lock and resizes the cache, which evicts on the caller's thread.
final class MemoryBudget: Sendable {
  /// Who holds memory. The cache charges itself.
  enum Category: Int, CaseIterable, Sendable {
    case memTables = 0
    case log = 1
    case openTables = 2
    case compaction = 3
    case other = 4

    /// As in `explain()`.
    var name: String {
      switch self {
      case .memTables: "memtables"
      case .log: "log"
      case .openTables: "open tables"
      case .compaction: "compaction"
      case .other: "other"
      }
    }
  }

  /// The change of the other categories after which the cache is resized: small against any budget,
  /// large against what one operation charges.
  static let stepSize = 1 << 20

  let cache: BlockCache
  private let memTables = Atomic<Int>(0)
  private let log = Atomic<Int>(0)
  private let openTables = Atomic<Int>(0)
  private let compaction = Atomic<Int>(0)
  private let other = Atomic<Int>(0)
  /// The sum of all categories but the cache.
  private let total = Atomic<Int>(0)
  /// That sum when the cache was last resized.
  private let settled = Atomic<Int>(0)
  private let limits: Mutex<Limits>

  private struct Limits {
    var limit: Int
    var cacheFloor: Int
  }

  /// Takes over the capacity of `cache`. Requires: 0 <= cacheFloor <= limit.
  init(limit: Int, cacheFloor: Int, cache: BlockCache) {
    MemoryBudget.check(limit, cacheFloor)
    limits = Mutex(Limits(limit: limit, cacheFloor: cacheFloor))
    self.cache = cache
    cache.setCapacity(limit)
  }

  // MARK: - Charging

  /// Adds to a category, or takes from it what was added before.
  func charge(_ category: Category, _ bytes: Int) {
    counter(category) { _ = $0.wrappingAdd(bytes, ordering: .relaxed) }
    let sum = total.wrappingAdd(bytes, ordering: .relaxed).newValue
    if abs(sum &- settled.load(ordering: .relaxed)) >= MemoryBudget.stepSize { resizeCache() }
  }

  @inline(never)
  private func resizeCache() {
    // The lock orders two callers, so that the later sum is what stays.
    limits.withLock { limits in
      let sum = total.load(ordering: .relaxed)
      settled.store(sum, ordering: .relaxed)
      cache.setCapacity(max(limits.cacheFloor, limits.limit - sum))
    }
  }

  // MARK: - Limits and overview

  var limit: Int { limits.withLock { $0.limit } }
  var cacheFloor: Int { limits.withLock { $0.cacheFloor } }

  /// Changes the budget while everything is open; the cache follows at once.
  func setLimit(_ limit: Int, cacheFloor: Int) {
    MemoryBudget.check(limit, cacheFloor)
    limits.withLock { $0 = Limits(limit: limit, cacheFloor: cacheFloor) }
    resizeCache()
  }

  func used(_ category: Category) -> Int {
    var result = 0
    counter(category) { result = $0.load(ordering: .relaxed) }
    return result
  }

  /// All categories and the cache.
  var used: Int { total.load(ordering: .relaxed) + cache.usedBytes }

  /// One line a category, for `explain()`.
  var overview: String {
    var text = "memory budget: \(used) of \(limit) bytes\n"
    for category in Category.allCases { text += "  \(category.name): \(used(category))\n" }
    text += "  block cache: \(cache.usedBytes) of \(cache.capacity), at least \(cacheFloor)\n"
    return text
  }

  @inline(__always)
  private func counter(_ category: Category, _ body: (borrowing Atomic<Int>) -> Void) {
    switch category {
    case .memTables: body(memTables)
    case .log: body(log)
    case .openTables: body(openTables)
    case .compaction: body(compaction)
    case .other: body(other)
    }
  }

  private static func check(_ limit: Int, _ cacheFloor: Int) {
    precondition(cacheFloor >= 0 && cacheFloor <= limit, "the floor of the cache: from 0 to the memory budget")
  }
}

import Synchronization

/// The count of the engine's memory, from which the capacity of the block cache follows.
///
/// Components that allocate memory charge it here by category. The block cache gets seven eighths of what the others
/// leave of the limit, but at least its floor.
///
/// ```
/// limit
/// ├── memTables     arenas of mutable and immutable memtables
/// ├── log           mapped segments
/// ├── openTables    table readers, their files, and what they keep outside of the cache
/// ├── compaction    read-ahead, merge and write buffers of flushes and compactions
/// ├── other         families, versions, snapshots, batches that wait
/// └── cache         seven eighths of the rest, but at least the floor
/// ```
///
/// # How the cache follows
/// An eighth of the rest is left for memory that the heap holds between the blocks.
///
/// The cache shrinks at once. If a callback is set by `onRoom`, it grows slowly: `growCache`, called once a second,
/// grows it by an eighth of the difference to the memory that was free during all of the last sixteen steps. Under a
/// load of writes, memtables are allocated and freed every second. A cache that took their memory each time would
/// return it in pieces, and the heap would keep the gaps between them.
///
/// # Invariants
/// 1. The cache's capacity is at most `max(floor, min(maximum, 7/8 (limit - sum of the other categories)))`, for a
///    recent value of that sum from which the present one differs by less than a step.
/// 2. This object bounds the cache alone. Each other component keeps a bound of its own, which `MemoryPlan` computes
///    from the limit: a memtable is switched, a write stalls. Their sum can exceed the limit, for example after a large
///    batch or while readers keep flushed memtables. The cache then has its floor as its capacity.
///
/// # Concurrency
/// `charge` is safe from any thread and costs two relaxed additions. One call in many megabytes takes a lock and
/// resizes the cache, which evicts on the caller's thread.
final class MemoryBudget: Sendable {
  /// The category of memory that is charged. The cache charges its own memory.
  enum Category: Int, CaseIterable, Sendable {
    case memTables = 0
    case log = 1
    case openTables = 2
    case compaction = 3
    case other = 4

    /// The name in `explain()`.
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

  /// Returns the change of the other categories after which the cache is resized.
  ///
  /// It is small compared to the budget, and large compared to the charge of one operation.
  static func stepSize(limit: Int) -> Int { min(max(limit / 64, 64 << 10), 1 << 20) }

  private let cacheBudget: CacheBudget
  private let accounts: [MemoryAccount]

  /// Takes control of the capacity of `cache`, which is never above `cacheMaximum`.
  ///
  /// Requires: 0 <= cacheFloor <= limit, and cacheFloor <= cacheMaximum.
  init(limit: Int, cacheFloor: Int, cacheMaximum: Int = .max, cache: BlockCache) {
    let cacheBudget = CacheBudget(limit: limit, cacheFloor: cacheFloor, cacheMaximum: cacheMaximum, cache: cache)
    self.cacheBudget = cacheBudget
    accounts = Category.allCases.map { _ in MemoryAccount { cacheBudget.didCharge($0) } }
  }

  var cache: BlockCache { cacheBudget.cache }

  // MARK: - Charging

  /// Returns the account of a category, for components that don't know the budget.
  func account(_ category: Category) -> MemoryAccount { accounts[category.rawValue] }

  /// Adds bytes to a category, or subtracts bytes that were added before.
  func charge(_ category: Category, _ bytes: Int) { account(category).charge(bytes) }

  // MARK: - Growth

  /// Sets a callback that is notified when the cache may grow; it should call `growCache` after a while.
  ///
  /// Without a callback the cache grows at once.
  func onRoom(_ request: @escaping @Sendable () -> Void) { cacheBudget.onRoom(request) }

  /// Grows the cache by an eighth of the difference to the memory that the others have left at all times since the
  /// sixteenth call before this one.
  ///
  /// Returns false if the cache has all the memory that they leave now.
  func growCache() -> Bool { cacheBudget.growCache() }

  // MARK: - Limits and overview

  var limit: Int { cacheBudget.limits.limit }
  var cacheFloor: Int { cacheBudget.limits.cacheFloor }

  /// Changes the budget of an open engine. The cache follows at once.
  func setLimit(_ limit: Int, cacheFloor: Int, cacheMaximum: Int = .max) {
    cacheBudget.setLimits(CacheBudget.Limits(limit: limit, cacheFloor: cacheFloor, cacheMaximum: cacheMaximum))
  }

  func used(_ category: Category) -> Int { account(category).used }

  /// The bytes of all categories and the cache.
  var used: Int { cacheBudget.othersUsed + cache.usedBytes }

  /// Text for `explain()`, one line per category.
  var overview: String {
    var text = "memory budget: \(used) of \(limit) bytes\n"
    for category in Category.allCases { text += "  \(category.name): \(used(category))\n" }
    text += "  block cache: \(cache.usedBytes) of \(cache.capacity), at least \(cacheFloor)\n"
    return text
  }
}

/// The block cache and the memory that the other categories leave to it: the part of the budget that its accounts know.
private final class CacheBudget: Sendable {
  struct Limits: Sendable {
    var limit: Int
    var cacheFloor: Int
    var cacheMaximum: Int

    /// Returns the maximum capacity of the cache if the other categories use `others` bytes.
    func room(_ others: Int) -> Int { max(cacheFloor, min(cacheMaximum, (limit - others) / 8 * 7)) }
  }

  private struct State: ~Copyable {
    var limits: Limits
    /// The maximum sum of the other categories in each of the last steps of growth, the current one first.
    var peaks = [Int](repeating: 0, count: CacheBudget.rememberedSteps)
  }

  private static let rememberedSteps = 16

  let cache: BlockCache
  /// The sum of all categories except the cache.
  private let total = Atomic<Int>(0)
  /// The value of `total` when the cache was last resized.
  private let settled = Atomic<Int>(0)
  private let state: Mutex<State>
  private let step: Atomic<Int>
  private let roomRequest = Callback()

  init(limit: Int, cacheFloor: Int, cacheMaximum: Int, cache: BlockCache) {
    self.cache = cache
    let limits = Limits(limit: limit, cacheFloor: cacheFloor, cacheMaximum: cacheMaximum)
    Self.check(limits)
    state = Mutex(State(limits: limits))
    step = Atomic(MemoryBudget.stepSize(limit: limit))
    cache.setCapacity(limits.room(0))
  }

  var limits: Limits { state.withLock { $0.limits } }
  var othersUsed: Int { total.load(ordering: .relaxed) }

  func setLimits(_ limits: Limits) {
    Self.check(limits)
    state.withLock { $0.limits = limits }
    step.store(MemoryBudget.stepSize(limit: limits.limit), ordering: .relaxed)
    _ = resizeCache { _, _, room in room }
  }

  func onRoom(_ request: @escaping @Sendable () -> Void) { roomRequest.set(request) }

  func growCache() -> Bool {
    let step = step.load(ordering: .relaxed)
    return resizeCache { state, now, _ in
      let steady = state.limits.room(state.peaks.max() ?? 0)
      state.peaks.removeLast()
      state.peaks.insert(0, at: 0)
      return steady > now ? min(steady, now + max((steady - now) / 8, step)) : now
    }
  }

  func didCharge(_ bytes: Int) {
    let sum = total.wrappingAdd(bytes, ordering: .relaxed).newValue
    if abs(sum &- settled.load(ordering: .relaxed)) >= step.load(ordering: .relaxed) { follow() }
  }

  @inline(never)
  private func follow() {
    guard roomRequest.isSet else {
      _ = resizeCache { _, _, room in room }
      return
    }
    if resizeCache({ _, now, _ in now }) { roomRequest() }
  }

  /// Sets the capacity that `choose` returns for the present capacity and the room, but at most the room.
  ///
  /// Returns true if the capacity is less than the room.
  private func resizeCache(_ choose: (inout State, _ now: Int, _ room: Int) -> Int) -> Bool {
    // The lock orders concurrent callers, so that the later sum decides.
    state.withLock { state in
      let sum = total.load(ordering: .relaxed)
      settled.store(sum, ordering: .relaxed)
      state.peaks[0] = max(state.peaks[0], sum)
      let room = state.limits.room(sum)
      let capacity = min(max(choose(&state, cache.capacity, room), state.limits.cacheFloor), room)
      cache.setCapacity(capacity)
      return capacity < room
    }
  }

  private static func check(_ limits: Limits) {
    precondition(
      limits.cacheFloor >= 0 && limits.cacheFloor <= limits.limit && limits.cacheFloor <= limits.cacheMaximum,
      "the floor of the cache: from 0 to the memory budget and the cache's maximum")
  }
}

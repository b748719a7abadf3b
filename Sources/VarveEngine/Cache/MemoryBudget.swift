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
///     └── cache         seven eighths of the rest, but at least the floor
///
/// # How the cache follows
/// An eighth of the rest is left for what the heap holds between the blocks.
///
/// The cache shrinks at once, and grows slowly (`growCache`, once a second), where someone sees to that: an eighth of
/// the way to what was free all the time of the last sixteen steps. Under a load of writes memtables come and go by the
/// second: a cache that took their memory each time would give it back in pieces, and the heap would keep what lies
/// between them.
///
/// # Invariants
/// 1. The cache's capacity is at most `max(floor, min(maximum, 7/8 (limit - sum of the other categories)))`, as
///    that sum was at a moment since which it changed by less than a step.
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

  /// The change of the other categories after which the cache is resized: small against the budget, large
  /// against what one operation charges.
  static func stepSize(limit: Int) -> Int { min(max(limit / 64, 64 << 10), 1 << 20) }

  private let rest: CacheRest
  private let accounts: [MemoryAccount]

  /// Takes over the capacity of `cache`, which is never above `cacheMaximum`.
  /// Requires: 0 <= cacheFloor <= limit, and cacheFloor <= cacheMaximum.
  init(limit: Int, cacheFloor: Int, cacheMaximum: Int = .max, cache: BlockCache) {
    let rest = CacheRest(limit: limit, cacheFloor: cacheFloor, cacheMaximum: cacheMaximum, cache: cache)
    self.rest = rest
    accounts = Category.allCases.map { _ in MemoryAccount { rest.didCharge($0) } }
  }

  var cache: BlockCache { rest.cache }

  // MARK: - Charging

  /// What a category is charged to; for those who don't know the budget.
  func account(_ category: Category) -> MemoryAccount { accounts[category.rawValue] }

  /// Adds to a category, or takes from it what was added before.
  func charge(_ category: Category, _ bytes: Int) { account(category).charge(bytes) }

  // MARK: - Growth

  /// Whom to notify that the cache may grow: `growCache` is to be called in a while. Without anybody it grows at once.
  func onRoom(_ request: @escaping @Sendable () -> Void) { rest.onRoom(request) }

  /// Lets the cache grow an eighth of the way to what the others left to it at least since the sixteenth call before
  /// this one. False where it has all that they leave now.
  func growCache() -> Bool { rest.growCache() }

  // MARK: - Limits and overview

  var limit: Int { rest.limits.limit }
  var cacheFloor: Int { rest.limits.cacheFloor }

  /// Changes the budget while everything is open; the cache follows at once.
  func setLimit(_ limit: Int, cacheFloor: Int, cacheMaximum: Int = .max) {
    rest.setLimits(CacheRest.Limits(limit: limit, cacheFloor: cacheFloor, cacheMaximum: cacheMaximum))
  }

  func used(_ category: Category) -> Int { account(category).used }

  /// All categories and the cache.
  var used: Int { rest.othersUsed + cache.usedBytes }

  /// One line a category, for `explain()`.
  var overview: String {
    var text = "memory budget: \(used) of \(limit) bytes\n"
    for category in Category.allCases { text += "  \(category.name): \(used(category))\n" }
    text += "  block cache: \(cache.usedBytes) of \(cache.capacity), at least \(cacheFloor)\n"
    return text
  }
}

/// The block cache and what the others leave to it: the part of the budget that its accounts know.
private final class CacheRest: Sendable {
  struct Limits: Sendable {
    var limit: Int
    var cacheFloor: Int
    var cacheMaximum: Int

    /// What the cache may have where the others have so much.
    func room(_ others: Int) -> Int { max(cacheFloor, min(cacheMaximum, (limit - others) / 8 * 7)) }
  }

  private struct State: ~Copyable {
    var limits: Limits
    /// The most that the others had in each of the last steps of growth, the current one first.
    var peaks = [Int](repeating: 0, count: CacheRest.rememberedSteps)
  }

  private static let rememberedSteps = 16

  let cache: BlockCache
  /// The sum of all categories but the cache.
  private let total = Atomic<Int>(0)
  /// That sum when the cache was last resized.
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

  /// Gives the cache the capacity that `choose` says, of the one it has and of all that there is, and no more than that.
  /// True where there is more.
  private func resizeCache(_ choose: (inout State, _ now: Int, _ room: Int) -> Int) -> Bool {
    // The lock orders two callers, so that the later sum is what stays.
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

internal import FutexLocks
internal import Synchronization

/// Retired arenas, kept for the next memtables: their pages are there already, and taking a page from
/// the system costs more than an insert.
///
/// Bounded in bytes of memory; what doesn't fit goes back to the system. Arenas in the pool and those
/// in memtables that it gave out are charged to its account, and an arena is kept only where that is within
/// `accountMaximum`: memtables that readers keep have no memory for later beside them.
///
/// # Concurrency
/// Any thread; one lock, held for a scan of a short list. Mapping and unmapping happen outside it.
final class ArenaPool: Sendable {
  private struct State {
    var arenas: [Arena] = []
    var bytes = 0
    var limit: Int
    var accountMaximum: Int
  }
  private let state: FutexLock<State>
  let account: MemoryAccount?

  /// A pool that keeps at most `limit` bytes of touched memory, and none where more than `accountMaximum` bytes
  /// are charged.
  init(limit: Int, accountMaximum: Int = .max, account: MemoryAccount? = nil) {
    state = FutexLock(State(limit: limit, accountMaximum: accountMaximum))
    self.account = account
  }

  deinit { account?.charge(-retainedBytes) }

  /// Bytes of memory that the pool holds: part of the engine's budget.
  var retainedBytes: Int { state.withLock { $0.bytes } }

  /// An arena of at least `size` bytes: a retired one of exactly the size that a new one would have,
  /// with at most `touchedMaximum` bytes of memory, else a new one. What it has of memory stays charged,
  /// for the caller. Throws as `Arena.init`.
  func take(size: Int, touchedMaximum: Int = .max) throws(EngineError) -> Arena {
    let wanted = Arena.reservedSize(for: size)
    let reused: Arena? = state.withLock { state in
      guard
        let index = state.arenas.lastIndex(where: { $0.reservedSize == wanted && $0.touchedBytes <= touchedMaximum })
      else { return nil }
      let arena = state.arenas.remove(at: index)
      state.bytes -= arena.touchedBytes
      return arena
    }
    if let reused { return reused }
    return try Arena(reserving: size)
  }

  /// Keeps `arena`, for which `charged` bytes were charged, for later if it may be and there is room, else
  /// lets it go.
  ///
  /// Requires: no one reads or writes the arena any more.
  func retire(_ arena: Arena, charged: Int, isReusable: Bool) {
    arena.reset()
    let bytes = arena.touchedBytes
    let isKept = state.withLock { state in
      let isTooMuch = account.map { $0.used > state.accountMaximum } ?? false
      guard isReusable, bytes > 0, state.bytes + bytes <= state.limit, !isTooMuch else { return false }
      state.arenas.append(arena)
      state.bytes += bytes
      return true
    }
    account?.charge((isKept ? bytes : 0) - charged)
  }

  /// Gives memory back until at most `bytes` are kept; the bound stays.
  func trim(to bytes: Int) { release { _ in bytes } }

  /// Changes the bounds, and gives memory back until the first holds.
  func setLimit(_ limit: Int, accountMaximum: Int = .max) {
    release { state in
      state.limit = limit
      state.accountMaximum = accountMaximum
      return limit
    }
  }

  /// Gives memory back until what is kept is at most what `bound` says.
  private func release(downTo bound: (inout State) -> Int) {
    // The arenas are unmapped after the lock is released, when this array goes.
    let released: [Arena] = state.withLock { state in
      let bytes = bound(&state)
      var released: [Arena] = []
      while state.bytes > bytes, let arena = state.arenas.popLast() {
        state.bytes -= arena.touchedBytes
        released.append(arena)
      }
      return released
    }
    account?.charge(-released.reduce(0) { $0 + $1.touchedBytes })
  }
}

internal import FutexLocks
internal import Synchronization

/// Retired arenas, kept for the next memtables, because their pages are resident and getting a page from the system
/// costs more than an insert.
///
/// The pool is bounded in bytes of memory and returns the excess to the system. Arenas in the pool and those in
/// memtables that it supplied are charged to its account. An arena is kept only if the account is within
/// `accountMaximum`: if readers retain memtables, no further memory is kept for later ones.
///
/// # Concurrency
/// Safe from any thread. One lock is held for a scan of a short list; mapping and unmapping happen outside it.
final class ArenaPool: Sendable {
  private struct State {
    var arenas: [Arena] = []
    var bytes = 0
    var limit: Int
    var accountMaximum: Int
  }
  private let state: FutexLock<State>
  let account: MemoryAccount?

  /// Creates a pool that keeps at most `limit` bytes of touched memory, and none if more than `accountMaximum` bytes
  /// are charged.
  init(limit: Int, accountMaximum: Int = .max, account: MemoryAccount? = nil) {
    state = FutexLock(State(limit: limit, accountMaximum: accountMaximum))
    self.account = account
  }

  deinit { account?.charge(-retainedBytes) }

  /// The number of bytes of memory that the pool holds, which are part of the engine's budget.
  var retainedBytes: Int { state.withLock { $0.bytes } }

  /// Returns an arena of at least `size` bytes.
  ///
  /// The arena is a retired one with the size that a new one would have and at most `touchedMaximum` bytes of memory,
  /// or else a new one. Its memory stays charged, to the caller. Throws what `Arena.init` throws.
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

  /// Keeps `arena`, for which `charged` bytes were charged, for reuse if `isReusable` is true and there is room;
  /// otherwise releases it.
  ///
  /// Requires that no thread reads or writes the arena any more.
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

  /// Releases memory until at most `bytes` are kept. The limit does not change.
  func trim(to bytes: Int) { release { _ in bytes } }

  /// Changes the limits, and releases memory until at most `limit` bytes are kept.
  func setLimit(_ limit: Int, accountMaximum: Int = .max) {
    release { state in
      state.limit = limit
      state.accountMaximum = accountMaximum
      return limit
    }
  }

  /// Releases memory until at most as many bytes are kept as `bound` returns.
  private func release(downTo bound: (inout State) -> Int) {
    // The arenas are unmapped after the lock is released, when this array is destroyed.
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

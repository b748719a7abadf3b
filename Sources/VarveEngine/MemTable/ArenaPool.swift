internal import Synchronization

/// Retired arenas, kept for the next memtables: their pages are there already, and taking a page from
/// the system costs more than an insert.
///
/// Bounded in bytes of memory; what doesn't fit goes back to the system.
///
/// # Concurrency
/// Any thread; one lock, held for a scan of a short list. Mapping and unmapping happen outside it.
final class ArenaPool: Sendable {
  private struct State {
    var arenas: [Arena] = []
    var bytes = 0
    var limit: Int
  }
  private let state: Mutex<State>

  /// A pool that keeps at most `limit` bytes of touched memory.
  init(limit: Int) { state = Mutex(State(limit: limit)) }

  /// Bytes of memory that the pool holds: part of the engine's budget.
  var retainedBytes: Int { state.withLock { $0.bytes } }

  /// An arena of at least `size` bytes: a retired one of exactly the size that a new one would have,
  /// else a new one.
  func take(size: Int) -> Arena {
    let wanted = Arena.reservedSize(for: size)
    let reused: Arena? = state.withLock { state in
      guard let index = state.arenas.lastIndex(where: { $0.reservedSize == wanted }) else { return nil }
      let arena = state.arenas.remove(at: index)
      state.bytes -= arena.touchedBytes
      return arena
    }
    return reused ?? Arena(size: size)
  }

  /// Keeps `arena` for later if there is room, else lets it go.
  ///
  /// Requires: nobody reads or writes the arena any more.
  func retire(_ arena: Arena) {
    arena.reset()
    let bytes = arena.touchedBytes
    state.withLock { state in
      guard bytes > 0, state.bytes + bytes <= state.limit else { return }
      state.arenas.append(arena)
      state.bytes += bytes
    }
  }

  /// Changes the bound, and gives memory back until it holds.
  func setLimit(_ limit: Int) {
    // The arenas are unmapped after the lock is released, when this array goes.
    let released: [Arena] = state.withLock { state in
      state.limit = limit
      var released: [Arena] = []
      while state.bytes > limit, let arena = state.arenas.popLast() {
        state.bytes -= arena.touchedBytes
        released.append(arena)
      }
      return released
    }
    _ = released.count
  }
}

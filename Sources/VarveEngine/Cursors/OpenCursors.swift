internal import CVarve
internal import Synchronization

/// The open cursors of an engine, which can take back the views of idle ones.
///
/// Safe from any thread. Adding and removing a cursor hold a lock for a short time.
final class OpenCursors: Sendable {
  private let open = Mutex<[CursorHolder]>([])
  private let passBarrier: @Sendable () -> Bool

  /// Creates an empty list. `passBarrier` makes every thread of the process pass a memory barrier, and returns
  /// whether the system supports it.
  init(passBarrier: @escaping @Sendable () -> Bool = { cvarve_barrier_threads() }) { self.passBarrier = passBarrier }

  func add(_ holder: CursorHolder) {
    open.withLock { open in
      holder.location = open.count
      open.append(holder)
    }
  }

  func remove(_ holder: CursorHolder) {
    open.withLock { open in
      let location = holder.location
      let last = open.removeLast()
      guard last !== holder else { return }
      open[location] = last
      last.location = location
    }
  }

  var count: Int { open.withLock { $0.count } }

  /// Takes back the views of the cursors that are at least `age` views old. An age of zero includes the current
  /// views.
  ///
  /// Cursors that are being moved release theirs at their next move. Returns the number of views taken.
  @discardableResult
  func takeBack(age: UInt64) -> Int {
    let old = open.withLock { open in open.filter { $0.age.map { $0 >= age } ?? false } }
    guard !old.isEmpty else { return 0 }
    for holder in old { holder.ask() }
    // If the barrier failed, a move may be under way that has not seen the demand, so each cursor releases its view
    // itself, at its next move. On a system without this barrier, each move issues its own.
    guard passBarrier() || !CursorHolder.hasThreadBarrier else { return 0 }
    return old.reduce(0) { $0 + ($1.take() ? 1 : 0) }
  }
}

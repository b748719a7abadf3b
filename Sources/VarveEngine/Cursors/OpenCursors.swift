internal import CVarve
internal import Synchronization

/// The cursors of an engine, so that what idle ones keep can be taken back.
///
/// Safe from any thread. A cursor enters and leaves by a short lock.
final class OpenCursors: Sendable {
  private let open = Mutex<[CursorHolder]>([])
  private let passBarrier: @Sendable () -> Bool

  /// `passBarrier` has every thread of the process pass a barrier, and says whether it could.
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

  /// Takes the views of cursors back whose age in views is at least `age`: zero means also those in force. Those
  /// that are just moved give theirs up at their next move. Returns how many were taken.
  @discardableResult
  func takeBack(age: UInt64) -> Int {
    let old = open.withLock { open in open.filter { $0.age.map { $0 >= age } ?? false } }
    guard !old.isEmpty else { return 0 }
    for holder in old { holder.ask() }
    // A move may be under way that has not seen the demand: then each cursor gives its view up itself, at its next
    // move. Where the system has no such barrier, each move has one of its own.
    guard passBarrier() || !CursorHolder.hasThreadBarrier else { return 0 }
    return old.reduce(0) { $0 + ($1.take() ? 1 : 0) }
  }
}

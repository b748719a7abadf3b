internal import CVarve
internal import Synchronization

/// The cursors of an engine, so that what idle ones keep can be taken back.
///
/// Safe from any thread. A cursor enters and leaves by a short lock.
final class OpenCursors: Sendable {
  private let open = Mutex<[CursorHolder]>([])

  func add(_ holder: CursorHolder) {
    open.withLock { open in
      holder.place = open.count
      open.append(holder)
    }
  }

  func remove(_ holder: CursorHolder) {
    open.withLock { open in
      let place = holder.place
      let last = open.removeLast()
      guard last !== holder else { return }
      open[place] = last
      last.place = place
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
    // Without it each move has a barrier of its own.
    _ = cvarve_barrier_threads()
    return old.reduce(0) { $0 + ($1.take() ? 1 : 0) }
  }
}

import Synchronization

@testable import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#endif

/// The files of this machine as one of two processes sees them: on a disk that can be full, in directories that can be
/// such as may not be changed.
///
/// Both hold for every user, also for the system's administrator. Safe from any thread.
final class Hindrance: Sendable {
  private struct State {
    var isFull = false
    var isUnwritable = false
    /// The number of changes of entries whose names have an end. After them, none can be changed.
    var awaited: (count: Int, suffix: String)?
  }

  private let state = Mutex(State())

  /// Whether no file can take a block more than it has.
  var isFull: Bool {
    get { state.withLock(\.isFull) }
    set { state.withLock { $0.isFull = newValue } }
  }

  /// Whether no entry of a directory can be made, renamed or removed.
  var isUnwritable: Bool {
    get { state.withLock(\.isUnwritable) }
    set { state.withLock { $0 = State(isFull: $0.isFull, isUnwritable: newValue) } }
  }

  /// Makes directories unwritable after the next changes of entries with names that end in `suffix`.
  func makeUnwritable(after count: Int, changesOf suffix: String) {
    state.withLock { $0.awaited = (count, suffix) }
  }

  private static let block: Int64 = 4_096

  /// The files. A log is written, not mapped, so that it takes part.
  var files: PosixFileSystem {
    var calls = SystemCalls.system
    unsafe calls.write = { [self] descriptor, source, count, offset in
      let room = isFull ? Self.allocated(descriptor) - offset : .max
      guard room > 0 else { return -Int(ENOSPC) }
      return unsafe SystemCalls.system.write(descriptor, source, Int(min(Int64(count), room)), offset)
    }
    calls.changeEntry = { [self] path in
      state.withLock { state in
        if state.awaited?.count == 0 { state.isUnwritable = true }
        if let suffix = state.awaited?.suffix, path.hasSuffix(suffix) { state.awaited?.count -= 1 }
        return state.isUnwritable ? -EACCES : 0
      }
    }
    return PosixFileSystem(calls: calls, mapsFiles: false)
  }

  private static func allocated(_ descriptor: Int32) -> Int64 {
    var found = stat()
    guard unsafe fstat(descriptor, &found) == 0 else { return 0 }
    return (Int64(found.st_size) + block - 1) / block * block
  }
}

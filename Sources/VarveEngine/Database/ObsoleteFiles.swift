internal import Synchronization

/// Removes the files of tables that no version, cursor or job names any more.
///
/// A table becomes obsolete by a durable edit; its file goes in the background when the last reference
/// to its metadata has gone. What a crash leaves is found by the next open.
///
/// Safe from any thread.
final class ObsoleteFiles: Sendable {
  private let executor: any BackgroundExecutor
  private let fileSystem: any FileSystem
  private let state = Mutex(State())

  private struct State {
    var paths: [String] = []
    var isScheduled = false
    /// Jobs that remove files now.
    var removingCount = 0
    var isStopped = false
  }

  init(executor: any BackgroundExecutor, fileSystem: any FileSystem) {
    self.executor = executor
    self.fileSystem = fileSystem
  }

  /// Removes the file of `table` once nothing names it.
  func whenGone(_ table: TableMetadata, in tree: Tree) {
    let path = tree.path(.table(table.number))
    table.slot.whenGone { [self] in add(path) }
  }

  /// After this no file is removed any more: the next open does it.
  func stop() { state.withLock { $0.isStopped = true } }

  private func add(_ path: String) {
    let shouldSchedule = state.withLock { state in
      state.paths.append(path)
      defer { state.isScheduled = true }
      return !state.isScheduled && !state.isStopped
    }
    if shouldSchedule { executor.submit("files.remove", priority: .normal) { [self] in removeAll() } }
  }

  /// Whether every file that may go is gone.
  var isIdle: Bool { state.withLock { $0.isStopped || (!$0.isScheduled && $0.removingCount == 0) } }

  private func removeAll() {
    let paths = state.withLock { state in
      state.isScheduled = false
      state.removingCount += 1
      defer { state.paths.removeAll() }
      return state.isStopped ? [] : state.paths
    }
    // A file that can't be removed now is an orphan, which the next open removes.
    for path in paths.sorted() { try? fileSystem.remove(path) }
    state.withLock { $0.removingCount -= 1 }
    executor.wakeWaiters()
  }
}

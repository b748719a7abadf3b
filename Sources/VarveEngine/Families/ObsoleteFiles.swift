internal import Synchronization

/// Removes the files of tables that no version, cursor or job references any more.
///
/// A table becomes obsolete by a durable edit; its file is removed in the background after the last reference to its
/// metadata is released. Files left by a crash are found by the next open.
///
/// Safe from any thread.
final class ObsoleteFiles: Sendable {
  private let executor: any BackgroundExecutor
  private let fileSystem: any FileSystem
  private let events: EventQueue
  private let state = Mutex(State())
  private let whenKept = Callback()
  private let whenRemoved = Callback()

  private struct State {
    var tables: [(number: FileNumber, path: String)] = []
    var isScheduled = false
    var pinnedBytes: UInt64 = 0
    var pinnedCount = 0
    /// The number of jobs that are removing files.
    var removingCount = 0
    var isStopped = false
  }

  init(executor: any BackgroundExecutor, fileSystem: any FileSystem, events: EventQueue) {
    self.executor = executor
    self.events = events
    self.fileSystem = fileSystem
  }

  /// Removes the file of `table` once no reference to it is left.
  func whenGone(_ table: TableMetadata, in tree: Tree) {
    let path = tree.path(.table(table.number))
    let size = table.fileSize
    state.withLock { state in
      state.pinnedBytes += size
      state.pinnedCount += 1
    }
    let number = table.number
    table.slot.whenGone { [self] in add(number, path, size) }
    whenKept()
  }

  /// Sets a callback that runs after each table that became obsolete.
  func onKept(_ body: @escaping @Sendable () -> Void) { whenKept.set(body) }

  /// Sets a callback that runs after files were removed.
  func onRemoved(_ body: @escaping @Sendable () -> Void) { whenRemoved.set(body) }

  /// Stops removing files. The next open removes the rest.
  func stop() { state.withLock { $0.isStopped = true } }

  /// The bytes of obsolete tables that are still referenced.
  var pinnedBytes: UInt64 { state.withLock { $0.pinnedBytes } }
  /// The number of obsolete tables that are still referenced.
  var pinnedCount: Int { state.withLock { $0.pinnedCount } }

  private func add(_ number: FileNumber, _ path: String, _ size: UInt64) {
    let shouldSchedule = state.withLock { state in
      state.pinnedBytes -= size
      state.pinnedCount -= 1
      state.tables.append((number, path))
      defer { state.isScheduled = true }
      return !state.isScheduled && !state.isStopped
    }
    if shouldSchedule { executor.submit("files.remove", priority: .normal) { [self] in removeAll() } }
  }

  /// Retries the removal of files that could not be removed.
  func retry() {
    let shouldSchedule = state.withLock { state in
      guard !state.tables.isEmpty, !state.isScheduled, !state.isStopped else { return false }
      state.isScheduled = true
      return true
    }
    if shouldSchedule { executor.submit("files.remove", priority: .normal) { [self] in removeAll() } }
  }

  /// A Boolean value that indicates whether every removable file was removed, or could not be removed.
  var isIdle: Bool { state.withLock { $0.isStopped || (!$0.isScheduled && $0.removingCount == 0) } }

  private func removeAll() {
    let tables = state.withLock { state in
      state.isScheduled = false
      state.removingCount += 1
      defer { state.tables.removeAll() }
      return state.isStopped ? [] : state.tables
    }
    var failed: [(number: FileNumber, path: String)] = []
    for table in tables.sorted(by: { $0.path < $1.path }) {
      do throws(EngineError) { try fileSystem.remove(table.path) } catch {
        failed.append(table)
        continue
      }
      events.emit(.tableDeleted(number: table.number.value))
    }
    state.withLock { state in
      // Their removal is retried with that of the next ones. A file that then remains is an orphan, which the next open
      // removes.
      state.tables += failed
      state.removingCount -= 1
    }
    if failed.count < tables.count { whenRemoved() }
    executor.wakeWaiters()
  }
}

internal import Dispatch
internal import Synchronization

/// Work that another thread does for a build. The build waits for the end of the work in any case, even if the build
/// itself fails.
///
/// It is safe to use from any thread.
final class BuildThread: Sendable {
  private let end = DispatchSemaphore(value: 0)
  private let failure = Mutex<(any Error)?>(nil)

  /// Starts the work at once. `executor` must have a thread for each job.
  init(on executor: DatabaseExecutor, _ body: @escaping @Sendable () throws -> Void) {
    Task.detached(executorPreference: executor) { [self] in
      do { try body() } catch { failure.withLock { $0 = error } }
      end.signal()
    }
  }

  /// Waits for the end of the work, and throws its error. It may be called once.
  func wait() throws {
    end.wait()
    if let error = failure.withLock({ $0 }) { throw error }
  }

  /// Calls `body` with each index below a count, on this thread and on another one. Throws the first error, after both
  /// threads have ended; the remaining indexes are skipped in that case.
  static func forEach(
    below count: Int, on executor: DatabaseExecutor, _ body: @escaping @Sendable (Int) throws -> Void
  ) throws {
    let indexes = Indexes(count)
    let work: @Sendable () throws -> Void = {
      while let index = indexes.next() {
        do { try body(index) } catch {
          indexes.stop()
          throw error
        }
      }
    }
    guard count > 1 else { return try work() }
    let other = BuildThread(on: executor, work)
    let own = Result { try work() }
    try other.wait()
    try own.get()
  }

  private final class Indexes: Sendable {
    private let rest: Mutex<Range<Int>>

    init(_ count: Int) { rest = Mutex(0..<count) }
    func next() -> Int? { rest.withLock { $0.popFirst() } }
    func stop() { rest.withLock { $0 = 0..<0 } }
  }
}

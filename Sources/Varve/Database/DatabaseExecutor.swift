internal import Dispatch

/// Threads that may wait for a disk: where asynchronous doors run what could block, so that no thread of Swift's
/// concurrency is kept from others.
///
/// As a task executor it takes the caller's task along, with its task-locals, its priority and its cancellation; a hop
/// there and back costs some 40 µs.
final class DatabaseExecutor: TaskExecutor {
  private let queue = DispatchQueue(label: "varve.database", attributes: .concurrent)

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    queue.async { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }

  /// Runs `body` on one of the threads.
  func run<Result: Sendable>(_ body: @Sendable () throws -> Result) async throws -> Result {
    try await withTaskExecutorPreference(self) { try await Self.runThere(body) }
  }

  @concurrent
  private static func runThere<Result: Sendable>(_ body: @Sendable () throws -> Result) async throws -> Result {
    try body()
  }
}

public import Foundation
internal import Synchronization

/// A write as a Foundation operation, for programs that order their work with queues: it is done, durable as the
/// database's options say, when the operation has finished. One that is cancelled before it is run does nothing.
///
/// Safe from any thread.
public final class DatabaseOperation: Operation, @unchecked Sendable {
  // Sendable: as every operation; what this one adds is never changed, or locked.
  private let body: @Sendable () throws -> Void
  private let failure = Mutex<Failure>(Failure())

  private struct Failure {
    var error: (any Error)?
  }

  init(_ body: @escaping @Sendable () throws -> Void) { self.body = body }

  /// What went wrong; nil where nothing has, or the operation was not run.
  public var error: (any Error)? { failure.withLock { $0.error } }

  /// Writes, on the thread that runs the operation.
  public override func main() {
    guard !isCancelled else { return }
    do {
      try body()
    } catch {
      failure.withLock { $0.error = error }
    }
  }
}

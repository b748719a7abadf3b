internal import VarveEngine

/// Calls `body`, which the engine ends if the task is cancelled, and throws `CancellationError` then.
func endingIfCancelled<Result>(_ body: () throws -> Result) throws -> Result {
  do { return try Engine.endingIfCancelled(body) } catch {
    // The storage has its own error for it.
    try Task.checkCancellation()
    throw error
  }
}

internal import CVarve

/// Determines whether long work of the calling thread ends if the thread's task is cancelled.
///
/// It is a property of the thread, like `FileReadBan`, because the loops that check it are far below the call that
/// decides it, and most of their callers, such as compactions and writes, must not end early.
enum TaskCancellation {
  /// Throws `.canceled` if the thread's task is cancelled and its work may end early.
  @inline(__always)
  static func check() throws(EngineError) {
    if cvarve_ends_if_cancelled(), Task.isCancelled { throw error }
  }

  private static var error: EngineError {
    EngineError(.canceled, "the task was canceled")
  }

  static func ends<Result>(_ body: () throws -> Result) rethrows -> Result {
    let outer = cvarve_ends_if_cancelled()
    cvarve_set_ends_if_cancelled(true)
    defer { cvarve_set_ends_if_cancelled(outer) }
    return try body()
  }
}

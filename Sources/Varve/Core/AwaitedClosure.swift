/// A closure of a call that its caller awaits, on its way to another thread.
private struct AwaitedClosure<Argument, Result>: @unchecked Sendable {
  // Sendable: the caller is suspended until the closure has returned, and no other code can reach what it captures: the
  // closure was passed as `sending`. So no two threads use that at once.
  let call: (Argument) throws -> Result
}

/// The same for a closure that changes a value.
private struct AwaitedChange<Value>: @unchecked Sendable {
  // Sendable: see `AwaitedClosure`.
  let call: (inout Value) throws -> Void
}

/// Calls `operation`, where the caller is, with `body` as a closure that another thread may call meanwhile.
func withAwaited<Argument, Result, Outcome>(
  isolation: isolated (any Actor)? = #isolation, _ body: sending (Argument) throws -> Result,
  _ operation: (@Sendable (Argument) throws -> Result) async throws -> Outcome
) async throws -> Outcome {
  try await withoutActuallyEscaping(body) { body in
    _ = isolation
    let closure = AwaitedClosure(call: body)
    return try await operation { try closure.call($0) }
  }
}

/// Calls `operation`, where the caller is, with `body`, which changes a value, as a closure that another thread may
/// call meanwhile.
func withAwaitedChange<Value, Outcome>(
  isolation: isolated (any Actor)? = #isolation, _ body: sending (inout Value) throws -> Void,
  _ operation: (@Sendable (inout Value) throws -> Void) async throws -> Outcome
) async throws -> Outcome {
  try await withoutActuallyEscaping(body) { body in
    _ = isolation
    let change = AwaitedChange(call: body)
    return try await operation { try change.call(&$0) }
  }
}

/// Recovery from a full or failed disk.
extension Engine {
  /// Retries at once everything that failed: refused commits, and failed flushes and compactions.
  ///
  /// A full disk needs no call: the engine retries by itself, after pauses of at most five seconds. After a failed sync
  /// that the engine could not recover from, it refuses writes until this call. A table in which a compaction found
  /// damage is read again completely, and is compacted again if it is no longer damaged.
  ///
  /// Returns when all failed work continues, immediately if none failed. Throws the first new failure; reads continue,
  /// and a later call can succeed.
  public func resume() throws(EngineError) {
    try core.requireOpen()
    try core.requireWritable()
    try core.background.resume()
  }

  /// The error of the last failed attempt to commit, flush or compact, or nil if no work is failing.
  public var backgroundError: EngineError? {
    core.checkOpen()
    return core.background.failure
  }

  /// The writes that the engine accepts now. Safe from any thread. Complexity: a few short locks.
  public var acceptedWrites: AcceptedWrites {
    core.checkOpen()
    if core.options.readOnly || core.pipeline.refusal != nil { return .none }
    return core.background.reserve.isExhausted ? .deletesOnly : .all
  }
}

/// What to do when a disk was full or failed, and is not any more.
extension Engine {
  /// Tries at once what the engine gave up on: commits that it refuses, flushes and compactions that failed.
  ///
  /// A full disk needs no call: the engine tries by itself, after pauses of at most five seconds. After a
  /// failed sync of which the consequences could not be mended, it takes no more writes until this is called.
  /// Returns when everything that had failed goes on, at once where nothing had. Throws what the first
  /// thing met that fails now; reads go on meanwhile, and another call may succeed.
  public func resume() throws(EngineError) {
    checkOpen()
    try requireWritable()
    try background.resume()
  }

  /// Why the engine refuses commits, or does not flush or compact: what the last attempt met. Nil where
  /// everything goes on.
  public var backgroundError: EngineError? {
    checkOpen()
    return background.failure
  }
}

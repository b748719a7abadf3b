extension Engine {
  /// Creates a second database at `target` with the content of this one, while this one is in use.
  ///
  /// The checkpoint holds all families as of one commit, which the report names. Reads and writes continue. Tables are
  /// linked, or copied if the file system cannot link them (for example to another device); the log is copied up to
  /// that commit and replayed when the checkpoint is first opened. Later changes to either database do not affect the
  /// other. The checkpoint is durable when the call returns.
  ///
  /// It contains commits of durability `.none` that were acknowledged before the call, because the call flushes them
  /// first. Such commits during the call can be missing, each as a whole, as after a crash.
  ///
  /// `target` must not exist, or must be an empty directory. It appears in one step, complete. Until then its files are
  /// in `TARGET.checkpoint` beside it, which is removed if the call throws. A leftover of that name after a crash is
  /// harmless; the next checkpoint to the same target removes it. If the last step, the sync of the parent directory,
  /// fails and the removal fails too, the target exists and is complete.
  ///
  /// With `fileSystem`, the checkpoint is created in that file system, and everything is copied. Use it to write a
  /// database in memory to a disk.
  ///
  /// Throws `.alreadyExists` if the target is not empty, `.invalidArgument` if it is in the directory of this database,
  /// `.locked` while another checkpoint to it is running, `.notFound` if the parent directory does not exist,
  /// `.readOnly` for a read-only engine, and errors of the file system.
  ///
  /// Complexity: O(tables + bytes of the log). Writers wait while the last commit is chosen, at most for one sync of
  /// the MANIFEST in progress. While the call runs, the log may grow beyond its bound, and no table or segment that the
  /// checkpoint needs is removed.
  @discardableResult
  public func checkpoint(
    to target: String, on fileSystem: (any FileSystem)? = nil
  ) throws(EngineError) -> CheckpointReport {
    try core.requireOpen()
    try core.requireWritable()
    return try CheckpointJob(engine: core, target: target, on: fileSystem).run()
  }
}

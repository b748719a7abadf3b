/// What a checkpoint holds, and what it cost.
public struct CheckpointReport: Sendable, Hashable {
  /// The last commit in it.
  public internal(set) var sequence: SequenceNumber
  /// Tables that are hard links: they take no space as long as the database has them, too.
  public internal(set) var tablesLinked = 0
  /// Tables that were copied, because the file system could not link them.
  public internal(set) var tablesCopied = 0
  /// Bytes of the tables that were copied.
  public internal(set) var tableBytesCopied: UInt64 = 0
  /// Segments of the log that were copied.
  public internal(set) var segmentsCopied = 0
  /// Bytes of the log that were copied.
  public internal(set) var logBytesCopied: UInt64 = 0
}

extension Engine {
  /// Makes a database of its own at `target` that holds what this one does, while this one is in use.
  ///
  /// All families are there as of one commit, which the report names; reads and writes go on meanwhile.
  /// Tables are linked, or copied where the file system can't link (to another device, say); the log is
  /// copied up to that commit and replayed when the checkpoint is opened first. Nothing that happens to
  /// this database later changes the checkpoint, and the other way round. All of it is durable when the
  /// call returns.
  ///
  /// Commits of durability `.none` that were acknowledged before the call are in it, because it flushes
  /// them first. Such commits during the call may be missing, each whole, as after a crash.
  ///
  /// `target` must not exist, or be an empty directory. It appears at once and complete: until then the
  /// files are in `TARGET.checkpoint` beside it, which is removed where the call throws. After a crash a
  /// leftover of that name is harmless; the next checkpoint to the same target removes it. Where the very last
  /// step fails, the sync of the directory above, and so does the removal, the target is there, and whole.
  ///
  /// With `fileSystem` it is made in that one instead of the environment's, and everything is copied: how a database
  /// in memory gets to a disk.
  ///
  /// Throws `.alreadyExists` where something is at the target, `.locked` where another checkpoint to it is
  /// being made, `.notFound` where the directory above is missing, `.readOnly` for an engine that can't
  /// write, and what the file system threw.
  ///
  /// Complexity: O(tables + bytes of the log). Writers wait while the last commit is chosen, at most for one
  /// sync of the MANIFEST that is under way. While the call runs, the log may grow beyond its bound, and no
  /// table or segment that the checkpoint needs is removed.
  @discardableResult
  public func checkpoint(
    to target: String, on fileSystem: (any FileSystem)? = nil
  ) throws(EngineError) -> CheckpointReport {
    checkOpen()
    try requireWritable()
    return try CheckpointJob(engine: self, target: target, on: fileSystem).run()
  }
}

/// What an engine is made of, in the order in which it is put together.
struct OpenedParts {
  let path: String
  let options: EngineOptions
  let environment: EngineEnvironment
  let executor: any BackgroundExecutor
  let registry: FamilyRegistry
  let epochs: ReadEpochs
  let snapshots: SnapshotList
  let tree: Tree
  let pipeline: CommitPipeline
  let background: BackgroundWork
  let fileLock: (any FileLock)?
  let defaultFamily: ColumnFamily
  let memory: MemTableKeeper
  /// Only in an engine that follows another process.
  var views: FollowedViews?
}

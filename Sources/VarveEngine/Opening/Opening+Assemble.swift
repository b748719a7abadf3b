extension Opening {
  /// Performs steps 5 to 8.
  func assemble(
    _ manifest: Manifest, files: [FileName], lock: (any FileLock)?, _ reserve: SpaceReserve
  ) throws(EngineError) -> Engine {
    for file in files { if let number = file.number { manifest.reserveFileNumbers(through: number) } }
    let executor = environment.makeExecutor(options.threadCount)
    let metrics = EngineMetrics(clock: environment.clock)
    if let listener = options.listener { _ = metrics.events.add(listener) }
    do throws(EngineError) {
      return Engine(
        try makeCore(
          manifest, files: files, lock: lock, executor: executor, metrics: metrics, views: nil, reserve: reserve))
    } catch {
      executor.shutDown()
      metrics.events.finish()
      manifest.close()
      throw error
    }
  }

  func makeCore(
    _ manifest: Manifest, files: [FileName], lock: (any FileLock)?, executor: any BackgroundExecutor,
    metrics: EngineMetrics, views: FollowedViews?, reserve: SpaceReserve
  ) throws(EngineError) -> EngineCore {
    let registry = FamilyRegistry()
    let epochs = ReadEpochs(clock: environment.clock)
    var plan = try options.memoryPlan()
    plan.fit(options, diskSize: environment.fileSystem.totalSpace(path))
    let budget = MemoryBudget(
      limit: plan.limit, cacheFloor: plan.cacheFloor, cacheMaximum: plan.cacheMaximum, cache: BlockCache(capacity: 0))
    metrics.charge(to: budget.account(.other))
    let memory = try MemTableManager(
      plan: plan, account: budget.account(.memTables), executor: executor, stalls: metrics.frozenMemTables)
    let obsolete = ObsoleteFiles(
      executor: executor, fileSystem: environment.fileSystem, events: metrics.events)
    let tree = Tree(
      directory: path, environment: environment, registry: registry, epochs: epochs, budget: budget, plan: plan,
      manifest: manifest, obsolete: obsolete, metrics: metrics)
    let defaultFamily = try addFamilies(manifest.state, registry, epochs, memory, budget)
    // A read-only engine reads the log as a follower does: another process may be writing it.
    let replayed =
      options.readOnly
      ? ReplayedLog()
      : try replayLog(
        manifest.state, files: files, registry: registry, memory: memory,
        maker: ReplayFlush.Maker(
          tree: tree, options: options, plan: plan, executor: executor, metrics: metrics,
          picker: LeveledCompactionPicker(
            options: plan.pickerOptions(threadCount: executor.parallelism, diskSize: tree.diskSize)),
          hasSpace: !reserve.isExhausted))
    let log = try beginLog(
      manifest, files: files, replayed: replayed, executor: executor, plan: plan, account: budget.account(.log),
      metrics: metrics, tree: tree, hasSpace: !reserve.isExhausted,
      oldestNeeded: registry.all.compactMap(\.state.oldestSegment).min())
    let pipeline = CommitPipeline(
      log: log, memory: memory, families: registry, lastSequence: replayed.lastSequence,
      logBytesMaximum: plan.logBytesMaximum,
      announcer: makeAnnouncer(manifest.state.databaseID, replayed.lastSequence, log),
      commitEdit: { (edit) throws(EngineError) in try tree.commit(edit) },
      settleEdits: { () throws(EngineError) in try tree.settle() })
    let snapshots = SnapshotList(clock: environment.clock, latencies: metrics.latencies)
    let background = BackgroundWork(
      options: options, plan: plan, tree: tree, pipeline: pipeline, registry: registry, epochs: epochs,
      snapshots: snapshots,
      executor: executor, obsolete: obsolete, reserve: reserve, metrics: metrics)
    return EngineCore(background, defaultFamily: defaultFamily, fileLock: lock, views: views)
  }

  private func makeAnnouncer(
    _ databaseID: UInt64, _ last: SequenceNumber, _ log: LogWriter
  ) -> CommitAnnouncer {
    if options.readOnly { return CommitAnnouncer(nil) }
    return .make(directory: path, environment, databaseID: databaseID, sequence: last, log: log)
  }

  private func addFamilies(
    _ state: ManifestState, _ registry: FamilyRegistry, _ epochs: ReadEpochs, _ memory: MemTableManager,
    _ budget: MemoryBudget
  ) throws(EngineError) -> ColumnFamily {
    for family in state.families.values.sorted(by: { $0.id < $1.id }) {
      registry.add(try makeFamily(family, family.version, registry, epochs, memory, budget))
    }
    guard let defaultFamily = registry.named("default"), defaultFamily.id == .default else {
      throw .corruption("the MANIFEST has no default column family", file: path)
    }
    return defaultFamily
  }

  func makeFamily(
    _ family: ManifestState.Family, _ version: Version, _ registry: FamilyRegistry, _ epochs: ReadEpochs,
    _ memory: MemTableManager, _ budget: MemoryBudget
  ) throws(EngineError) -> ColumnFamily {
    let familyOptions = try FamilyOptions(decoding: family.options, family: family.name)
    let state = FamilyState(
      id: family.id, name: family.name, options: familyOptions,
      merge: options.mergeFunction(named: familyOptions.mergeOperator, account: budget.account(.other)),
      memTable: memory.empty, version: version,
      epochs: epochs, registry: registry, account: budget.account(.other))
    return ColumnFamily(name: family.name, id: family.id, state: state)
  }

  // MARK: - 6 and 7. Orphans, the cut, the new segment

  private func beginLog(
    _ manifest: Manifest, files: [FileName], replayed: ReplayedLog, executor: any BackgroundExecutor,
    plan: MemoryPlan, account: MemoryAccount, metrics: EngineMetrics, tree: Tree, hasSpace: Bool,
    oldestNeeded: FileNumber?
  ) throws(EngineError) -> LogWriter {
    if options.readOnly { return try makeIdleLog(manifest, executor, plan) }
    let fileSystem = environment.fileSystem
    // The MANIFEST is rolled first, because files removed below must not be named by a state that only a torn MANIFEST
    // seems to have.
    if manifest.mustRoll { try manifest.roll() }
    try removeOrphans(manifest, files: files, dropped: Set(replayed.outcome.dropped))
    let pool = SegmentPool(
      directory: path, fileSystem: fileSystem, usesMapping: fileSystem.supportsMapping(path),
      account: account)
    let chain = replayed.outcome.chain
    for link in chain { try syncReplayed(link, hasSpace: hasSpace) }
    let log = try LogWriter(
      environment: environment, executor: executor, directory: path, databaseID: manifest.state.databaseID,
      options: plan.logOptions(usesMapping: pool.usesMapping),
      replayed: chain.map {
        LogWriter.LiveSegment(
          number: $0.number, lifeID: $0.lifeID, capacity: $0.capacity, file: nil, logBase: .zero, end: $0.end,
          isDurable: true)
      },
      predecessor: chain.last.map { .init(number: $0.number, lifeID: $0.lifeID, end: UInt64($0.end)) },
      lastSequence: replayed.lastSequence, pool: pool, metrics: metrics,
      allocateNumber: { [numbers = manifest] in numbers.allocateFileNumber() })
    // Segments whose entries are all in tables are not needed any more.
    let oldest = oldestNeeded ?? log.currentNumber
    var edit = replayed.edit
    edit.oldestLog = oldest
    edit.lastSequence = replayed.lastSequence
    if let last = chain.last, last.number >= oldest {
      edit.logCuts = [.init(segment: last.number, lifeID: last.lifeID, endOffset: UInt64(last.end))]
    }
    // If the segment of an earlier cut is the last one again, it was cut at the same offset.
    edit.logCuts.removeAll { manifest.state.logCut(of: $0.segment) == $0 }
    // The edit is not committed through the MANIFEST alone, because families get the tables that replay wrote.
    try tree.commit(edit)
    log.release(before: oldest)
    return log
  }

  /// Returns the log of an engine that does not write: in memory, and always empty.
  private func makeIdleLog(
    _ manifest: Manifest, _ executor: any BackgroundExecutor, _ plan: MemoryPlan
  ) throws(EngineError) -> LogWriter {
    var idle = environment
    idle.fileSystem = MemoryFileSystem()
    var logOptions = plan.logOptions(usesMapping: false)
    logOptions.initialSegmentSize = 2 * LogFormat.headerBlockSize
    return try LogWriter(
      environment: idle, executor: executor, directory: "", databaseID: manifest.state.databaseID, options: logOptions,
      replayed: [], predecessor: nil, lastSequence: manifest.state.lastSequence,
      pool: SegmentPool(directory: "", fileSystem: idle.fileSystem, usesMapping: false),
      allocateNumber: { FileNumber(1) })
  }

  /// Makes the replayed bytes durable, because the cut will mark them as durable.
  ///
  /// Bytes without a durable mark may have been through a failed sync of an earlier engine: their pages can be read,
  /// but no sync writes them. So the same bytes are written again first.
  ///
  /// On a full disk, the space past the records is given up, so that an engine that is killed again and again does not
  /// add a segment each time.
  private func syncReplayed(_ link: LogRecovery.Link, hasSpace: Bool) throws(EngineError) {
    let file = try environment.fileSystem.openFile(path + "/" + FileName.log(link.number).name, writable: true)
    defer { file.close() }
    try repairHeader(of: file, link)
    if link.durableEnd < link.end {
      let content = try FileContents(reading: file, size: link.end)
      // The bytes are written in chunks as in the pool, because the system keeps folios of the size that was written.
      var start = link.durableEnd
      while start < content.view.count {
        let end = min(start + SegmentPool.zeroPieceSize, content.view.count)
        try unsafe file.write(content.view.slice(start, end).buffer, at: UInt64(start))
        start = end
      }
    }
    if !hasSpace { try file.truncate(to: UInt64(link.end)) }
    try file.sync()
  }

  /// Rewrites the header block if one of its copies was lost.
  ///
  /// A later edit may name the segment as the oldest, whose header is assumed to be durable and so must be intact.
  private func repairHeader(of file: any File, _ link: LogRecovery.Link) throws(EngineError) {
    let block = try FileContents(reading: file, size: LogFormat.headerBlockSize)
    guard
      case .valid(let header, isIntact: false) = try LogSegmentHeader.decode(
        block.view, number: link.number, file: file.path)
    else { return }
    var whole = ByteWriter(capacity: LogFormat.headerBlockSize)
    header.encode(into: &whole)
    try unsafe file.write(whole.view.buffer, at: 0)
  }

  private func removeOrphans(
    _ manifest: Manifest, files: [FileName], dropped: Set<FileNumber>
  ) throws(EngineError) {
    let state = manifest.state
    var isChanged = false
    for file in files {
      let isOrphan =
        switch file {
        case .table(let number): !state.isLiveTable(number)
        case .log(let number): number < state.oldestLog || dropped.contains(number) || state.oldestLog.value == 0
        case .manifest(let number): number != manifest.number
        // Files of an engine that has ended: this one publishes its own statistics, and creates its own segments. It is
        // unknown whether all blocks of a pooled file are still allocated, as a mapping needs: a copy may have left
        // holes.
        case .currentTemporary, .statistics, .pooledLog: true
        // A request that no engine has taken is carried out by this one. The sender that waits for another one knows
        // that its engine has ended.
        case .inbox(let name): name.kind != .request
        case .lock, .current, .shared, .reserve: false
        }
      guard isOrphan, try environment.fileSystem.attributes(path + "/" + file.name) != nil else { continue }
      try environment.fileSystem.remove(path + "/" + file.name)
      isChanged = true
    }
    // The names must be gone before a later state could use one of them.
    if isChanged { try environment.fileSystem.syncDirectory(path) }
  }
}

extension FileName {
  var logNumber: FileNumber? {
    if case .log(let number) = self { return number }
    return nil
  }
}

internal import Synchronization

/// Handles damage found by compactions, which stops only those that need the damaged table.
extension CompactionScheduler {
  // MARK: - Known damage

  /// Every damaged block that a compaction found and that still exists.
  var damagedBlocks: [DamagedBlock] {
    let suspects = state.withLock { $0.suspects.isEmpty ? [] : $0.suspects.all }
    return suspects.compactMap(describe)
  }

  private func describe(_ suspect: SuspectTable) -> DamagedBlock? {
    guard let family = background.registry.find(suspect.family) else { return nil }
    return DamagedBlock(
      family: family.name, table: suspect.number.value, level: suspect.level,
      file: background.tree.path(.table(suspect.number)), offset: suspect.error.offset,
      message: suspect.error.message)
  }

  /// Returns the table of a family that a failed compaction could not read, or `nil` if it failed for another reason.
  ///
  /// An I/O error does not count as damage: it may be temporary, and the compaction is retried after a pause.
  func suspect(_ family: FamilyID, _ result: Result<Void, EngineError>) -> SuspectTable? {
    guard case .failure(let error) = result, error.code == .corruption || error.code == .notFound,
      let name = error.file?.split(separator: "/").last, case .table(let number) = FileName(String(name)),
      let version = background.registry.find(family)?.version
    else { return nil }
    return Self.find(number, in: version).map {
      SuspectTable($0.table, family: family, level: $0.level, error: error)
    }
  }

  private static func find(_ number: FileNumber, in version: Version) -> (table: TableMetadata, level: Int)? {
    for level in 0..<Limits.levelCount {
      if let table = version.tables(level: level).first(where: { $0.number == number }) { return (table, level) }
    }
    return nil
  }

  func reportDamage(_ suspect: SuspectTable) {
    if let block = describe(suspect) { background.metrics.events.emit(.damageFound(block)) }
  }

  /// Removes suspects of a family whose tables no longer exist.
  func forgetGoneSuspects(of family: FamilyID) {
    guard state.withLock({ !$0.suspects.of(family).isEmpty }) else { return }
    let version = background.registry.find(family)?.version ?? .empty
    state.withLock { $0.suspects.forgetGone(family, version) }
  }

  /// Returns the error of the first damaged table in a range, for callers that requested the range.
  func damage(in range: UserKeyRange, of family: FamilyID) -> EngineError? {
    state.withLock { $0.suspects.of(family).first { $0.range.overlaps(range) }?.error }
  }

  // MARK: - Rechecking

  /// Reads every suspect table again. Intact ones are compacted again. Returns the error of the first one that is not
  /// intact.
  func resumeSuspects() -> EngineError? {
    let suspects = state.withLock { $0.suspects.all }
    var failure: EngineError?
    for var suspect in suspects {
      guard let version = background.registry.find(suspect.family)?.version,
        let table = version.tables(level: suspect.level).first(where: { $0.number == suspect.number })
      else {
        state.withLock { $0.suspects.forget(suspect.number, of: suspect.family) }
        continue
      }
      do throws(EngineError) {
        try verify(table)
        state.withLock { $0.suspects.forget(suspect.number, of: suspect.family) }
      } catch {
        suspect.error = error
        failure = failure ?? error
        state.withLock { $0.suspects.note(suspect) }
      }
    }
    didChange(Set(suspects.map(\.family)))
    return failure
  }

  /// Reads every table, and returns all known damage.
  func findDamage() throws(EngineError) -> [DamagedBlock] {
    for family in background.registry.all {
      let version = family.state.retainView().version
      for level in 0..<Limits.levelCount {
        for table in version.tables(level: level) {
          do throws(EngineError) { try verify(table) } catch {
            // A compaction may have replaced the table meanwhile.
            guard Self.find(table.number, in: background.registry.find(family.id)?.version ?? .empty) != nil else {
              continue
            }
            guard error.code == .corruption || error.code == .notFound else { throw error }
            let suspect = SuspectTable(table, family: family.id, level: level, error: error)
            state.withLock { $0.suspects.note(suspect) }
          }
        }
      }
    }
    return damagedBlocks
  }

  private func verify(_ table: TableMetadata) throws(EngineError) {
    let tree = background.tree
    let file = try tree.environment.fileSystem.openFile(tree.path(.table(table.number)), writable: false)
    defer { file.close() }
    // Blocks in the engine's cache would not show damage in the file.
    let reader = try TableReader.open(
      file: file, number: table.number, fileSize: table.fileSize, cache: BlockCache(capacity: 1 << 20),
      tableID: table.tableID)
    try reader.verify()
  }

  // MARK: - Giving up

  /// Rewrites a table on its level, without its unreadable parts.
  func giveUp(_ number: FileNumber, of family: FamilyState) throws(EngineError) -> GivenUpDamage {
    let reservation = try reserveRewrite(number, of: family)
    let eventReport = CompactionReport(reservation.compaction, background)
    var result: Result<Void, EngineError> = .success(())
    var given: GivenUpDamage?
    do throws(EngineError) {
      given = try rewrite(reservation.compaction, family, eventReport)
    } catch {
      result = .failure(error)
    }
    eventReport.end(result)
    finish(family.id, reservation.ticket, result)
    guard let given else {
      try result.get()
      throw EngineError(.canceled, "the table was not rewritten")
    }
    background.metrics.events.emit(.damageGivenUp(given))
    return given
  }

  private func rewrite(
    _ compaction: Compaction, _ family: FamilyState, _ eventReport: CompactionReport
  ) throws(EngineError) -> GivenUpDamage {
    let (written, report) = try DamageRewrite(
      background, family, compaction.inputTables[0], level: compaction.outputLevel
    ).run()
    let outputs = written.map { [$0] } ?? []
    let dropped = try background.tree.commit(compaction.edit(outputs: outputs))
    if !dropped.isEmpty { throw EngineError(.canceled, "the column family was dropped") }
    // Entries that lost tombstones hid may be there again.
    family.deadRanges.removeAll()
    background.metrics.counters.addCompaction(
      into: compaction.outputLevel, read: compaction.inputSize, written: outputs.reduce(0) { $0 + $1.fileSize })
    eventReport.didWrite(outputs, level: compaction.outputLevel)
    return report
  }

  /// Reserves the table alone, once no compaction writes to its range.
  private func reserveRewrite(_ number: FileNumber, of family: FamilyState) throws(EngineError) -> Reservation {
    while true {
      if family.isDropped { throw CommitPipeline.droppedError(family) }
      if background.isClosing { throw EngineError(.canceled, "the engine closes") }
      var isThere = false
      let reservation = reserve {
        let input = input(family)
        guard let (table, level) = Self.find(number, in: input.version) else { return nil }
        isThere = true
        let range = UserKeyRange(table)
        guard !input.inProgress.isBusy(table),
          !input.inProgress.hasOutputs(of: family.id, level: level, overlapping: range)
        else { return nil }
        return Compaction(
          family: family.id, reason: .damage, inputs: [Compaction.Input(level: level, tables: [table])],
          outputLevel: level, range: range, version: input.version, targetFileSize: picker.options.targetFileSize)
      }
      if let reservation { return reservation }
      guard isThere else {
        throw EngineError(
          .notFound, "column family \"\(family.name)\" has no table \(number) any more: it was compacted or dropped",
          file: background.tree.path(.table(number)))
      }
      waitForOne()
    }
  }
}

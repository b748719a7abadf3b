internal import Synchronization

/// Makes the reserve of a database, and decides when it is used and when it is made again (`SpaceReserve`).
extension BackgroundWork {
  /// The time between two looks at the free space while only writes that free space are accepted.
  private static let reservePollNanoseconds: UInt64 = 5_000_000_000
  /// The time after a delete on a full disk after which memtables are flushed: only then does it free space.
  private static let deleteFlushNanoseconds: UInt64 = 1_000_000_000

  // MARK: - Size

  /// The bytes of the database: what its disk may hold in the log alone must be deleted as well.
  private var databaseSize: UInt64 { compactions.measureDebt().tableBytes + UInt64(pipeline.log.extent.bytes) }

  /// The bytes that the reserve should have: as many as an open needs (a snapshot of the MANIFEST, the smallest
  /// segment, the tables of a replayed memtable), and the rewrite of one table.
  ///
  /// Zero for a small database.
  private var wantedReserve: UInt64 {
    let databaseSize = databaseSize
    guard databaseSize >= options.reserveDatabaseMinimum else { return 0 }
    // The tables of a memtable have keys, filters and indexes that it has not.
    let memtable = UInt64(plan.memtableSize)
    let table = max(picker.options.targetFileSizeMaximum, memtable + memtable / 8)
    let need = 2 * tree.manifestSize + UInt64(pipeline.log.smallestTarget) + table
    return min(need, databaseSize / SpaceReserve.databaseShare, SpaceReserve.sizeMaximum)
  }

  /// Makes the reserve of a database that has become large enough for one, or for a larger one.
  func growReserve() {
    let databaseSize = databaseSize
    let isDue = state.withLock { state in
      guard databaseSize >= max(options.reserveDatabaseMinimum, state.reservedFor + state.reservedFor / 4),
        !state.isReserveDue,
        !state.isClosing
      else { return false }
      state.isReserveDue = true
      return true
    }
    guard isDue else { return }
    // Before compactions, which may run until the disk is full.
    executor.submit("reserve.make", priority: .normal) { [self] in
      let isMade = !isClosing && makeReserve()
      state.withLock { state in
        state.isReserveDue = false
        if isMade { state.reservedFor = databaseSize }
      }
    }
  }

  /// Returns whether the reserve is as large as it should be. As much as is missing must stay free, because the reserve
  /// is not to be what fills the disk.
  private func makeReserve() -> Bool {
    let (wanted, size) = (wantedReserve, reserve.size)
    if wanted <= size { return true }
    guard !reserve.isExhausted, reserve.freeSpace / 2 >= wanted - size else { return false }
    return reserve.write(wanted, keepsPart: false)
  }

  // MARK: - Use

  /// Connects the reserve with the parts that use it.
  func connectReserve() {
    pipeline.onReserve(
      .init(
        exhaust: { [weak self] in self?.noteLackOfSpace() },
        isExhausted: { [reserve] in reserve.isExhausted },
        admit: { [weak self] in self?.admit($0) ?? false },
        giveUp: { [weak self] in self?.useReserve() ?? false }))
    tree.onNoSpace { [weak self] in
      self?.exhaustReserve()
      return self?.useReserve() ?? false
    }
  }

  /// Makes a reserve again that was given up before, or accepts only writes that free space from the start. Called when
  /// the sizes of the families are known.
  func startReserve() {
    guard reserve.isExhausted, !regainsReserve() else { return }
    beginDeletesOnly()
    // What was replayed takes more space in the log than in tables.
    flushDeletesLater()
  }

  /// Notes that there is no space. If there is a reserve, only writes that free space are accepted from now on.
  private func exhaustReserve() { if reserve.noteExhausted() { beginDeletesOnly() } }

  /// Notes that a commit found no space. If twice the reserve is free, the commit is too large, and others fit.
  private func noteLackOfSpace() { if !isSpaceFree(wantedReserve) { exhaustReserve() } }

  /// Returns whether twice the reserve is free, and it is known how much is free.
  private func isSpaceFree(_ wanted: UInt64) -> Bool {
    let free = reserve.freeSpace
    return free != .max && free / 2 >= max(wanted, reserve.size)
  }

  private func beginDeletesOnly() {
    pipeline.noteBroken()
    metrics.events.emit(.writesChanged(.deletesOnly))
    lookAtReserveLater()
  }

  /// Counts what a write that frees space puts. Returns false if all of them would put more than a quarter of the
  /// reserve.
  private func admit(_ putBytes: Int) -> Bool { reserve.admit(UInt64(putBytes), limit: wantedReserve / 4) }

  /// Uses the space of the reserve for a write that frees space. Returns false if it was used already.
  private func useReserve() -> Bool {
    guard reserve.isExhausted else { return false }
    flushDeletesLater()
    guard reserve.giveUp() else { return false }
    retryFlushNow()
    compactions.lookForSpace()
    return true
  }

  /// Flushes memtables when the deletes on a full disk pause, and after an open.
  private func flushDeletesLater() {
    let now = tree.environment.clock.now()
    let shouldSubmit = state.withLock { state in
      state.lastDelete = now
      defer { state.isDeleteFlushSet = true }
      return !state.isDeleteFlushSet && !state.isClosing
    }
    if shouldSubmit { submitDeleteFlush() }
  }

  private func submitDeleteFlush() {
    executor.submit("flush.deletes", after: Self.deleteFlushNanoseconds) { [self] in
      let now = tree.environment.clock.now()
      let isQuiet: Bool? = state.withLock { state in
        if state.isClosing { return nil }
        let isQuiet = now &- state.lastDelete >= Self.deleteFlushNanoseconds
        if isQuiet { state.isDeleteFlushSet = false }
        return isQuiet
      }
      guard let isQuiet else { return }
      guard isQuiet else { return submitDeleteFlush() }
      pipeline.leadIfFree { pipeline.memory.freezeAll(registry, includingVolatile: false, $0) }
      // A flush that failed before the deletes may find space with them: what they cover is not written.
      state.withLock { $0.flushesDeletes = true }
      retryFlushNow()
    }
  }

  // MARK: - End

  private func lookAtReserveLater() {
    let shouldSubmit = state.withLock { state in
      defer { state.isReservePollSet = true }
      return !state.isReservePollSet && !state.isClosing
    }
    guard shouldSubmit else { return }
    executor.submit("reserve.look", after: Self.reservePollNanoseconds) { [self] in
      state.withLock { $0.isReservePollSet = false }
      guard !isClosing else { return }
      lookAtReserve()
      if reserve.isExhausted { lookAtReserveLater() }
    }
  }

  /// Accepts all writes again if twice the reserve is free, after it was made again.
  func lookAtReserve() {
    guard reserve.isExhausted, !isClosing, regainsReserve() else { return }
    metrics.events.emit(.writesChanged(.all))
    compactions.lookForSpace()
  }

  /// Makes the reserve again if twice as much is free. Returns whether all writes are accepted.
  ///
  /// A database that has become too small for a reserve has none from then on.
  private func regainsReserve() -> Bool {
    let (wanted, free) = (wantedReserve, reserve.freeSpace)
    guard free == .max || (free + reserve.size) / 2 >= wanted else { return false }
    guard wanted == 0 ? reserve.remove() : reserve.write(wanted, keepsPart: false) else { return false }
    let size = wanted == 0 ? 0 : databaseSize
    state.withLock { $0.reservedFor = size }
    reserve.noteRegained()
    return true
  }

  /// Keeps as much of the reserve as there is space for, for the next open of a database that was closed on a full
  /// disk.
  func keepReserve() { if reserve.isExhausted { reserve.write(wantedReserve, keepsPart: true) } }

  /// Throws `.noSpace` if only writes that free space are accepted.
  func requireSpace() throws(EngineError) {
    if reserve.isExhausted { throw CommitPipeline.deletesOnlyError(tree.directory) }
  }
}

internal import Synchronization

/// Makes compactions wait for space, and looks for it (`CompactionSpace`).
extension CompactionScheduler {
  /// The time between two looks at the free space while a family waits for some.
  private static let spacePollNanoseconds: UInt64 = 5_000_000_000

  /// Reads the free space, by which compactions are chosen. Families that waited for more may be picked again.
  func measureSpace() {
    let background = background
    let free = try? background.tree.environment.fileSystem.freeSpace(background.tree.directory)
    state.withLock { state in
      let families = state.space.update(free: free ?? .max)
      if !state.isClosing { state.changed.formUnion(families) }
    }
  }

  /// Notes whether a family, for which no compaction was picked, has one that needs more space than there is.
  func waitForSpace(_ family: FamilyState, _ input: LeveledCompactionPicker.Input) {
    // After a failure the family waits anyway.
    if state.withLock({ $0.space.hasFailed(family.id) }) { return }
    var error: EngineError?
    if input.isShortOfSpace {
      var wanted = input
      wanted.space = .max
      error = pick(family, wanted).map { compaction in
        EngineError(
          .noSpace,
          "a compaction of column family \"\(family.name)\" needs \(compaction.spaceNeed) bytes, found \(input.space)",
          file: background.tree.directory)
      }
    }
    let isNew = state.withLock { state in
      let isNew = state.space.wait(family.id, error)
      if isNew { state.hasFailed = true }
      return isNew
    }
    guard let error else { return }
    if isNew { background.metrics.events.emit(.backgroundError(error, in: .compaction, refusesWrites: false)) }
    pollSpaceLater()
  }

  func pollSpaceLater() {
    let shouldSubmit = state.withLock { state in
      guard !state.space.isPollSet, !state.isClosing else { return false }
      state.space.isPollSet = true
      return true
    }
    guard shouldSubmit else { return }
    background.executor.submit("compaction.space", after: Self.spacePollNanoseconds) { [self] in
      // `nil` means that the engine is closing. The job then ends without access to any other part of the engine.
      let isWaiting: Bool? = state.withLock { state in
        state.space.endPoll()
        return state.isClosing ? nil : state.space.isWaiting
      }
      guard isWaiting == true else { return }
      lookForSpace()
      useReserve()
      if state.withLock({ $0.space.isWaiting }) { pollSpaceLater() }
    }
  }

  /// Gives up the reserve for a compaction that has waited for space, if deletes free more than the reserve has.
  ///
  /// So a database that is emptied on a nearly full disk gets its space back, even if no write finds the disk full. As
  /// after such a write, only writes that free space are accepted until the reserve is made again.
  private func useReserve() {
    // What runs may free space without the reserve.
    let (families, free) = state.withLock { state in
      (state.isIdle && !state.isClosing ? state.space.waitingFamilies : [], state.space.free)
    }
    let size = families.isEmpty ? 0 : background.reserve.size
    // With more free than the reserve has, it would be made again at once, out of the space of the compaction.
    guard free < size else { return }
    for family in families.compactMap({ background.registry.find($0) }) where isWorth(size, family) {
      let error = EngineError(.noSpace, "compactions wait for space", file: background.tree.directory)
      _ = background.pipeline.usesReserve(after: error, frees: true)
      return
    }
  }

  /// Returns whether `size` bytes more are enough for a compaction of a family, and the deletes of the family free more
  /// than that.
  private func isWorth(_ size: UInt64, _ family: FamilyState) -> Bool {
    var input = input(family)
    if family.isDropped || !input.isShortOfSpace { return false }
    input.space += size
    guard picker.freeableSize(input) > size, let next = pick(family, input) else { return false }
    // A division frees nothing itself.
    return next.freedSize > 0 || next.reason == .division
  }

  /// Compacts again the families that wait for space, if there is more. Called when files were removed.
  func lookForSpace() {
    guard state.withLock({ $0.space.isWaiting && !$0.isClosing }) else { return }
    measureSpace()
    schedulePick()
  }
}

extension CompactionScheduler.State {
  /// The bytes that the outputs of a family's next compaction may take.
  func available(to family: FamilyID) -> UInt64 { space.available(to: family, written: progress) }
}

/// Carries out what other processes request (`EngineInbox`).
extension Engine {
  func carryOut(
    _ request: EngineRequest, _ inbox: EngineInbox, progress: @escaping (CompactionProgress) -> Void
  ) throws(EngineError) -> RequestAnswer {
    switch request {
    case .statistics: return .statistics(statistics.json)
    case .flush:
      try flush()
      return .flushed
    case .compact(let family, let lower, let upper):
      return .compacted(try compact(familyNamed: family, from: lower, to: upper, progress: progress))
    case .checkpoint(let target):
      let rule = RequestTarget(
        databasePath: inbox.directory, folders: options.backupFolders, fileSystem: inbox.fileSystem)
      return .checkpoint(try checkpoint(to: try rule.resolve(target)))
    }
  }

  /// Compacts the family with a name, or all families, as `compact`, and returns what it cost.
  package func compact(
    familyNamed name: String?, from lower: [UInt8]?, to upper: [UInt8]?,
    progress: @escaping (CompactionProgress) -> Void
  ) throws(EngineError) -> CompactionTotals {
    var chosen = families
    if let name { chosen = [try family(named: name)] }
    try flush()
    let before = statistics
    for family in chosen {
      do throws(EngineError) {
        try compact(family: family, from: lower, to: upper, progress: progress)
      } catch {
        // A family that is dropped meanwhile has nothing to compact any more.
        guard error.code == .familyDropped, name == nil else { throw error }
      }
    }
    return CompactionTotals(from: before, to: statistics)
  }
}

extension EngineCore {
  /// Begins to take requests of other processes, and notes in the file `LOCK` whether it does.
  func startInbox() {
    guard let inbox else { return LockNote(.alone).write(to: fileLock) }
    // The inbox must not retain the engine, except while it carries out a request.
    let isStarted = inbox.start { [weak self, weak inbox] (request, progress) throws(EngineError) in
      guard let self, let inbox else { return nil }
      return try Engine(self).carryOut(request, inbox, progress: progress)
    }
    LockNote(isStarted ? .requests : .alone).write(to: fileLock)
  }
}

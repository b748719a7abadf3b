internal import Synchronization

/// Creation, change and removal of families.
extension BackgroundWork {
  /// Creates all of these families by one edit of the MANIFEST, or none of them.
  func createFamilies(_ names: [String], options: FamilyOptions) throws(EngineError) -> [ColumnFamily] {
    try familyChanges.withLock { (_) throws(EngineError) in
      try requireSpace()
      try checkNew(names)
      let encoded = options.encoded
      let state = tree.state
      var id = state.nextFamilyID
      var edit = VersionEdit()
      let features = state.requiredFeatures | options.flags.requiredFeatures
      if features != state.requiredFeatures { edit.requiredFeatures = features }
      var families: [ColumnFamily] = []
      for name in names {
        edit.createFamily(id, name: name, options: encoded)
        let state = FamilyState(
          id: id, name: name, options: options,
          merge: self.options.mergeFunction(named: options.mergeOperator, account: tree.budget.account(.other)),
          memTable: pipeline.memory.empty, version: .empty, epochs: epochs, registry: registry,
          account: tree.budget.account(.other))
        families.append(ColumnFamily(name: name, id: id, state: state))
        id = id.next
      }
      // The edit is durable before the first record that names one of the families can be written.
      if !names.isEmpty { try tree.commit(edit) }
      for family in families {
        registry.add(family)
        metrics.events.emit(.familyCreated(name: family.name, id: family.id))
      }
      return families
    }
  }

  private func checkNew(_ names: [String]) throws(EngineError) {
    var seen: Set<String> = []
    for name in names {
      guard registry.named(name) == nil, seen.insert(name).inserted else {
        throw EngineError(.alreadyExists, "a column family is named \"\(name)\" already", file: tree.directory)
      }
    }
    guard names.count <= Limits.familyCountMaximum - registry.count else {
      throw EngineError(
        .limitExceeded,
        "there are \(registry.count) column families, and at most \(Limits.familyCountMaximum) are taken")
    }
  }

  /// Changes the options of a family: makes them durable first, then applies them.
  func setOptions(_ options: FamilyOptions, of family: FamilyState) throws(EngineError) {
    try familyChanges.withLock { (_) throws(EngineError) in
      if family.isDropped { throw CommitPipeline.droppedError(family) }
      let old = family.options
      try family.requireForm(of: options)
      guard options != old else { return }
      try requireSpace()
      var edit = VersionEdit()
      edit.changedOptions = [.init(family: family.id, options: options.encoded)]
      do throws(EngineError) { try tree.commit(edit) } catch {
        // The old options stay, even after a crash, if that can be settled now; otherwise the next edit settles it.
        try? tree.settle()
        throw error
      }
      family.options = options
    }
  }

  /// Drops a family, after all commits before: a reader in another process that finds it gone shows them, too.
  func dropFamily(_ family: ColumnFamily) throws(EngineError) {
    try familyChanges.withLock { (_) throws(EngineError) in
      guard !family.state.isDropped else { throw CommitPipeline.droppedError(family.state) }
      var edit = VersionEdit()
      edit.droppedFamilies = [family.id]
      let frozen = try pipeline.lead { (lead) throws(EngineError) in
        try pipeline.syncLeading(lead)
        edit.lastSequence = pipeline.lastLogged(lead)
        do throws(EngineError) { try tree.commit(edit) } catch {
          // The outcome after a crash is settled before any further write to the family.
          do throws(EngineError) { try tree.settle() } catch { pipeline.poison(error) }
          throw error
        }
        family.state.markDropped()
        registry.remove(family)
        pipeline.memory.didDrop(family.state, lead)
        return family.state.discardMemTables(lead)
      }
      compactions.didDrop(family.id)
      pipeline.memory.didFlush(frozen)
      metrics.events.emit(.familyDropped(name: family.name, id: family.id))
    }
  }
}

extension FamilyState {
  /// Throws `.invalidArgument` if options differ in what can't be changed: the merge operator and the volatility.
  func requireForm(of other: FamilyOptions) throws(EngineError) {
    guard other.mergeOperator == options.mergeOperator, other.isVolatile == options.isVolatile else {
      throw EngineError(
        .invalidArgument,
        "column family \"\(name)\" keeps its merge operator (\(options.mergeOperator ?? "none")) and stays "
          + "\(options.isVolatile ? "volatile" : "durable"): what it holds was written with these")
    }
  }
}

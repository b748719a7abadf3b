internal import Synchronization

/// The dropping of families of definitions that were replaced, or that never came into force.
extension DatabaseCore {
  /// Starts dropping unused families in the background, if no reader needs them any more.
  func sweepWhereDue() {
    guard extensions.hasLeftovers, !isClosing, !backend.isReadOnly else { return }
    guard extensions.isSweepDue((try? backend.oldestVersion()) ?? nil), builds.begin() else { return }
    guard !isSweeping.exchange(true, ordering: .sequentiallyConsistent) else { return builds.end() }
    Task.detached(executorPreference: writerExecutor) { [self] in
      BuildFrame.$database.withValue(ObjectIdentifier(self)) {
        do { try sweepExtensions() } catch { extensions.noteLeftovers() }
      }
      isSweeping.store(false, ordering: .sequentiallyConsistent)
      builds.end()
    }
  }

  /// Drops the families that no record names and no reader needs. The next open does the same with what a crash has
  /// left.
  func sweepExtensions() throws { try droppingLock.withLock { _ in try sweep() } }

  private func sweep() throws {
    var dead: [StorageFamily] = []
    // A dropped family is gone for certain, so the records that named it must be durably replaced before.
    try write(.beforeDrop("without what was replaced", isOfBuild: true)) { transaction in
      let needed = extensions.sweep(try backend.oldestVersion())
      var numbers: Set<UInt32> = []
      for family in try backend.families() {
        guard let owner = ExtensionRecord.owner(ofFamily: family.name), let generations = needed[owner.number],
          !generations.contains(owner.generation)
        else { continue }
        dead.append(family)
        numbers.insert(owner.number)
      }
      for registered in extensions.list.inForce where numbers.contains(registered.number) {
        guard let record = try registered.storedRecord(transaction) else { continue }
        dead.removeAll { $0.name == ExtensionRecord.settingsFamily(of: record.number) }
        try registered.rewrite(record, transaction)
      }
    }
    for family in dead { try backend.dropFamily(family) }
  }
}

extension DatabaseDefinition {
  /// Registers the indexes of the collections. New ones are built in the background, and those that are no longer in
  /// the definition are dropped.
  func registerIndexes(in core: DatabaseCore) throws {
    for collection in collections.values.sorted(by: { $0.name < $1.name }) {
      guard let indexing = collection.indexing else { continue }
      try indexing.register(in: core, collection: collection.name)
    }
  }
}

extension IndexSpecification {
  fileprivate func register(in core: DatabaseCore, collection: String) throws {
    let name = IndexesName.name(for: collection)
    if indexes.isEmpty {
      let isKept = core.extensionCatalog.record(name) != nil
      if isKept, !core.backend.isReadOnly { _ = try core.drop(name) }
      return
    }
    let reviewed = core.extensionCatalog.record(name)?.parts.first {
      $0.name == IndexExtension<Instance>.reviewPartName
    }
    let definition = IndexExtension(
      collection: collection, indexes, formatVersion: formatVersion,
      surviving: (reviewed?.version, survivingVersions), standIn: standIn)
    if core.backend.isReadOnly {
      _ = try core.registerReadOnly(definition, name, isCheckedAtUse: true)
    } else {
      _ = try core.register(definition, name, nil)
      try rebuildColliding(in: core, collection: collection, name)
    }
  }

  /// Builds unique indexes again whose rows collided. This is tried at each open.
  private func rebuildColliding(in core: DatabaseCore, collection: String, _ name: String) throws {
    guard indexes.contains(where: { $0.declaration.kind.isUnique }) else { return }
    let colliding = try core.read { tx in
      try tx.indexes(of: collection, named: name, Instance.self).collidingIndexes()
    }
    if colliding.isEmpty { return }
    try core.rebuild(colliding, of: name) { tx in
      try tx.indexes(of: collection, named: name, Instance.self).forgetCollisions(of: colliding)
    }
  }
}

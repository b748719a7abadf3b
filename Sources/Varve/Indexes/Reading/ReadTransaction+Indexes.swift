extension ReadTransaction {
  /// Returns the indexes of a collection in this transaction. Those that have all rows can be used.
  ///
  /// Throws `.unknownExtension` if the database was opened without them.
  final func indexes<Instance>(
    of collection: String, named name: String, _ type: Instance.Type
  ) throws -> IndexesTransaction<Instance> {
    try check()
    guard let registered = try find(name), let found = try open(registered).listener as? IndexesTransaction<Instance>
    else {
      throw DatabaseError(
        .unknownExtension,
        "the indexes are not in use: add the format that declares them to the definition that the database is opened with",
        collection: collection)
    }
    return found
  }
}

extension IndexesTransaction {
  /// Returns the part of an index if it can be read. Throws `.notReady` while it is built, and `.notUnique`.
  func readable(_ index: Int) throws -> Part {
    let named = definition.indexes[index]
    guard try part(index).isReady else {
      throw DatabaseError(
        .notReady, "index \"\(named.name)\" \(context.buildText)", collection: definition.collection)
    }
    if named.plan.isUnique, let collisions = try collisions(of: index) {
      throw DatabaseError(
        .notUnique, "index \"\(named.name)\" can't be used: \(collisions)", collection: definition.collection,
        cause: collisions)
    }
    return part(index)
  }
}

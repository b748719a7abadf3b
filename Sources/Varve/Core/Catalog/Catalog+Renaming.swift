internal import FutexLocks

/// The renaming of collections.
extension Catalog {
  /// Checks that a collection may get a name, and notes that the catalog changes. Returns the resulting generation of
  /// the catalog, for the commit that renames.
  func beginRenaming(_ info: CollectionInfo, to name: String) throws -> UInt32 {
    try state.withLock { state in
      if let definition = state.definitions[info.name], !definition.isProvisional {
        throw DatabaseError(
          .alreadyDefined,
          "the program has defined the collection by this name; define it as \"\(name)\", with this one among `formerKeys`, "
            + "and open the database again", collection: info.name)
      }
      if let definition = state.definitions[name] { try definition.check(info.record, state.coders) }
      state.generation += 1
      return state.generation
    }
  }

  /// Adds to a batch the changes that rename a collection, without its extensions.
  func rename(_ info: CollectionInfo, to name: String, generation: UInt32, _ batch: inout StorageBatch) {
    batch.delete(CatalogKey.collection(info.name), in: families.catalog)
    batch.put(CatalogKey.collection(name), info.record.bytes, in: families.catalog)
    batch.put(CatalogKey.generation, BigEndian.bytes(generation), in: families.catalog)
  }

  /// Updates the catalog after the commit that renames. Must be called with the writer held.
  func didRename(_ info: CollectionInfo, to name: String, generation: UInt32, at version: CommitVersion) throws {
    try state.withLock { state in
      let known = state.collections[info.name] ?? info
      state.end(known, at: version)
      state.collections[info.name] = nil
      // A provisional definition, made by a typed store, described the former name.
      if state.definitions[info.name]?.isProvisional == true { state.definitions[info.name] = nil }
      state.names[info.record.id] = name
      state.begins[name] = version
      let definition = state.definitions[name]
      let renamed = try makeInfo(name, known.record, definition, known.versions.names, state.coders)
      state.collections[name] = renamed
      if let definition {
        state.collections[name] = try intern(definition.codec.versions, renamed, definition, &state)
      }
      guard state.generation != generation else { return }
      // Something else has changed meanwhile, and its commit may have come first.
      var batch = StorageBatch()
      noteChange(&batch, &state)
      _ = try backend.commit(batch, check: nil, durability: .process)
    }
  }

  // MARK: - Former names

  /// Throws if a collection that a definition would make or find exists under a former name.
  ///
  /// Throws `.invalidDefinition` if the collection exists under both names, or if it exists under the former name alone
  /// and the database was opened without the definition; `.readOnly` if the database was opened with it, but is
  /// read-only.
  func requireNoFormer(_ formerKeys: [String], of name: String, at version: CommitVersion? = nil) throws {
    if formerKeys.isEmpty { return }
    try state.withLock { state in try requireNoFormer(formerKeys, of: name, at: version, state) }
  }

  /// Throws likewise for the former names in the definition with which the database was opened.
  func requireNoFormer(of name: String, at version: CommitVersion) throws {
    try state.withLock { state in
      guard let definition = state.definitions[name], !definition.formerKeys.isEmpty else { return }
      try requireNoFormer(definition.formerKeys, of: name, at: version, state)
    }
  }

  func requireNoFormer(
    _ formerKeys: [String], of name: String, at version: CommitVersion? = nil, _ state: CatalogState
  ) throws {
    func isThere(_ name: String) -> Bool {
      version.map { state.collection(name, at: $0) != nil } ?? (state.collections[name] != nil)
    }
    guard let former = formerKeys.first(where: isThere) else { return }
    if isThere(name) { throw Self.isThereTwice(name, former) }
    if backend.isReadOnly {
      throw DatabaseError(
        .readOnly,
        "the collection is on disk by its former name \"\(former)\", and the database is only read: a program that writes "
          + "renames it when it is opened", collection: name)
    }
    throw DatabaseError(
      .invalidDefinition,
      "the collection is on disk by its former name \"\(former)\": add the format to the definition that the database is "
        + "opened with, which renames it", collection: name)
  }

  static func isThereTwice(_ name: String, _ former: String) -> DatabaseError {
    DatabaseError(
      .invalidDefinition,
      "the collection is there, and so is \"\(former)\", one of its former names: move the rows of one to the other, or "
        + "drop one", collection: name)
  }
}

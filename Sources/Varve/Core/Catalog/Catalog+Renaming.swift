internal import FutexLocks

/// Other names of collections.
extension Catalog {
  /// Checks that a collection may get a name, and notes in the catalog that it changes. Returns how often it has changed then,
  /// for the commit that renames.
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

  /// Adds to a batch what gives a collection another name, without its extensions.
  func rename(_ info: CollectionInfo, to name: String, generation: UInt32, _ batch: inout StorageBatch) {
    batch.delete(CatalogKey.collection(info.name), in: families.catalog)
    batch.put(CatalogKey.collection(name), info.record.bytes, in: families.catalog)
    batch.put(CatalogKey.generation, BigEndian.bytes(generation), in: families.catalog)
  }

  /// The commit that renames was made. With the writer held.
  func didRename(_ info: CollectionInfo, to name: String, generation: UInt32, at version: CommitVersion) throws {
    try state.withLock { state in
      let known = state.collections[info.name] ?? info
      state.end(known, at: version)
      state.collections[info.name] = nil
      // What a typed store has said of it was about its former name.
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
      // Something else has changed meanwhile, and its commit may have been the first.
      var batch = StorageBatch()
      noteChange(&batch, &state)
      _ = try backend.commit(batch, check: nil, durability: .process)
    }
  }

  // MARK: - Former names

  /// Throws where a collection that a definition would make, or find, is there by a former name.
  ///
  /// `.invalidDefinition` where it is there by both, or by the former name alone and the database was opened without the
  /// definition; `.readOnly` where it was opened with it, and only reads.
  func requireNoFormer(_ formerKeys: [String], of name: String, at version: CommitVersion? = nil) throws {
    if formerKeys.isEmpty { return }
    try state.withLock { state in try requireNoFormer(formerKeys, of: name, at: version, state) }
  }

  /// The same of the definition that the database was opened with.
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

extension Database {
  /// Renames a collection in one commit. Its rows with their numbers and metadata, its coder, its versions and its
  /// indexes are unchanged.
  ///
  /// This is for collections that the program uses by name alone. If the program defines the collection, change the
  /// name in its definition and add the former name to ``StoreFormat/formerKeys``, or use
  /// ``CollectionDefinition/formerly(_:)``: opening the database then renames it, so that no start of the program finds
  /// an empty collection.
  ///
  /// Snapshots that are held have the collection under its former name. Observers, subscriptions, connections, and a
  /// process that follows this one receive a gap, after which they read again what they need. Extensions that receive
  /// changes of the collection under either name are built again, because what they keep may contain its name;
  /// `waitUntilReady` waits for that.
  ///
  /// Complexity: O(extensions), independent of the number of rows. Throws `.notFound`, `.alreadyExists` if a collection
  /// has the new name, `.alreadyDefined` if the program has defined the collection under the old name,
  /// `.definitionDiffers` if it does not match the program's definition of the new name, `.invalidArgument` inside a
  /// transaction and for an empty name, and what `write` throws.
  @_disfavoredOverload
  public func renameCollection(_ name: String, to newName: String) throws {
    try core.renameCollection(name, to: newName)
  }

  /// Renames a collection without blocking the task's thread: see the synchronous form.
  public func renameCollection(_ name: String, to newName: String) async throws {
    let core = core
    try await core.writerExecutor.run { try core.renameCollection(name, to: newName) }
  }
}

extension DatabaseCore {
  func renameCollection(_ name: String, to newName: String) throws {
    try requireNoTransaction("collection \"\(name)\" is renamed")
    guard !newName.isEmpty else {
      throw DatabaseError(.invalidArgument, "the new name of the collection is empty", collection: name)
    }
    var outcome: Result<Void, any Error> = .success(())
    try write(WriteTerms(label: "rename \(name)")) { transaction in
      try CollectionRename(transaction, of: name, to: newName).run { outcome = $0 }
    }
    try outcome.get()
  }
}

/// The work of a transaction that renames a collection.
struct CollectionRename {
  private let transaction: WriteTransaction
  private let name: String
  private let newName: String

  private var core: DatabaseCore { transaction.database }
  private var catalog: Catalog { core.catalog }

  init(_ transaction: WriteTransaction, of name: String, to newName: String) {
    self.transaction = transaction
    self.name = name
    self.newName = newName
  }

  /// Writes the renaming. `noteOutcome` receives the outcome of the steps that follow once the commit is applied.
  func run(_ noteOutcome: @escaping (Result<Void, any Error>) -> Void) throws {
    guard let info = catalog.collection(name) else {
      throw DatabaseError(.notFound, "the database has no such collection", collection: name)
    }
    guard catalog.collection(newName) == nil else {
      throw DatabaseError(.alreadyExists, "the database has a collection by this name already", collection: newName)
    }
    let generation = try catalog.beginRenaming(info, to: newName)
    let (pending, family) = (transaction.pending, catalog.families.catalog)
    try pending.delete(CatalogKey.collection(name), in: family)
    try pending.put(CatalogKey.collection(newName), info.record.bytes, in: family)
    try pending.put(CatalogKey.generation, BigEndian.bytes(generation), in: family)
    transaction.cutsFeed = true
    // This callback has to run before the builds that begin with the commit, which use the names of collections.
    transaction.onApplied { [core, newName] version in
      noteOutcome(
        Result { try core.catalog.didRename(info, to: newName, generation: generation, at: version) })
      // The extensions that receive changes of the collection are determined again.
      core.extensions.change { _ in }
    }
    try renameExtensions(RenamedScope(old: name, new: newName))
  }

  private func renameExtensions(_ scope: RenamedScope) throws {
    let known = core.extensionCatalog
    for name in known.names {
      guard let record = known.record(name) else { continue }
      switch scope.outcome(name, record, isTaken: { known.record($0) != nil }) {
      case .stays: break
      case .moves(let record, let target):
        try put(record, target)
        try remove(name)
        transaction.onApplied { _ in known.noteUnregistered(target) }
      case .isRemoved: try remove(name)
      case .isBuiltAgain(let record): try buildAgain(name, record)
      }
    }
  }

  private func put(_ record: ExtensionRecord, _ name: String) throws {
    try transaction.pending.put(CatalogKey.databaseExtension(name), record.bytes, in: catalog.families.catalog)
    transaction.onApplied { [core] _ in core.extensionCatalog.set(record, for: name) }
  }

  private func remove(_ name: String) throws {
    try transaction.pending.delete(CatalogKey.databaseExtension(name), in: catalog.families.catalog)
    transaction.onApplied { [core] _ in
      core.extensionCatalog.set(nil, for: name)
      core.extensionCatalog.noteRegistered(name)
    }
  }

  private func buildAgain(_ name: String, _ record: ExtensionRecord) throws {
    guard let registered = core.extensions.list[name] else { return try put(record, name) }
    let renewal = ExtensionRenewal(transaction)
    try renewal.run(registered, isShadow: false, isKept: false)
    if let shadow = core.extensions.list.shadow(name) { try renewal.run(shadow, isShadow: true, isKept: false) }
  }
}

internal import Synchronization

extension Database {
  /// Registers an extension, which receives every change from then on. What it has missed is built in the background,
  /// in chunks, while others write; `waitUntilReady` waits for the end of the build.
  ///
  /// An extension that is known by its name with the same version is ready at once, or, if it can catch up
  /// (`ExtensionConfiguration.catchesUp`), once it has processed the changes made while no program had it registered.
  /// Otherwise it is built. `progress` is called after each chunk.
  ///
  /// Throws `.alreadyDefined`, `.unknownExtension` for a dependency, `.invalidDefinition`, `.extensionMismatch`,
  /// `.unsupportedVersion`, and `.invalidArgument` inside a transaction. In a read-only database, the extension on disk
  /// must match the definition, or `.definitionDiffers` is thrown.
  @_disfavoredOverload
  @discardableResult
  public func register<Definition: DatabaseExtension>(
    _ definition: Definition, as name: String, progress: (@Sendable (BuildProgress) -> Void)? = nil
  ) throws -> ExtensionHandle<Definition> {
    try core.register(definition, name, progress)
  }

  /// Registers an extension without blocking the task's thread: see the synchronous form. Cancelling the task does not
  /// end the build.
  @discardableResult
  public func register<Definition: DatabaseExtension>(
    _ definition: Definition, as name: String, progress: (@Sendable (BuildProgress) -> Void)? = nil
  ) async throws -> ExtensionHandle<Definition> {
    let core = core
    return try await core.writerExecutor.run { try core.register(definition, name, progress) }
  }

  /// Registers an extension that replaces an older definition of it.
  ///
  /// `old` is a definition that an earlier start of the program may have left in force: it answers, and is kept up to
  /// date, while `definition` is built, also after further starts (`WriteTransaction.replaceDefinition`). `old` is
  /// ignored if the database contains what matches neither, or if `definition` is in force already.
  @_disfavoredOverload
  @discardableResult
  public func register<Definition: DatabaseExtension>(
    _ definition: Definition, as name: String, replacing old: Definition,
    progress: (@Sendable (BuildProgress) -> Void)? = nil
  ) throws -> ExtensionHandle<Definition> {
    try core.register(definition, name, replacing: old, progress)
  }

  /// Registers an extension that replaces an older definition, without blocking the task's thread.
  @discardableResult
  public func register<Definition: DatabaseExtension>(
    _ definition: Definition, as name: String, replacing old: Definition,
    progress: (@Sendable (BuildProgress) -> Void)? = nil
  ) async throws -> ExtensionHandle<Definition> {
    let core = core
    return try await core.writerExecutor.run { try core.register(definition, name, replacing: old, progress) }
  }

  /// Waits until an extension is built: it then covers all rows, by its newest definition
  /// (`WriteTransaction.replaceDefinition`).
  ///
  /// Throws the error that has ended the build: that of the extension, which after a restart is an `.extensionFailed`,
  /// or one of the storage; `retry` builds again. Throws `.unknownExtension`, `.definitionDiffers` for a handle of
  /// another type, and `.invalidArgument` inside a transaction, which the build may have to wait for.
  @_disfavoredOverload
  public func waitUntilReady<Definition: DatabaseExtension>(_ handle: ExtensionHandle<Definition>) throws {
    try core.requireNoTransaction("extension \"\(handle.name)\" is waited for")
    try core.requireNoBuild("extension \"\(handle.name)\" is waited for")
    try core.requireType(of: handle)
    while let building = try core.building(handle.name) {
      if building.build.waitForEnd() { continue }
      try core.requireReady(building)
    }
  }

  /// Waits until an extension is built: see the synchronous form. Cancelling the task ends the wait with
  /// `CancellationError`, but not the build.
  public func waitUntilReady<Definition: DatabaseExtension>(_ handle: ExtensionHandle<Definition>) async throws {
    try core.requireNoTransaction("extension \"\(handle.name)\" is waited for")
    try core.requireNoBuild("extension \"\(handle.name)\" is waited for")
    try core.requireType(of: handle)
    while let building = try core.building(handle.name) {
      if try await building.build.waitForEndSuspended() { continue }
      try core.requireReady(building)
    }
  }

  /// Restarts the failed build of an extension, or continues one that a storage error has interrupted, in the
  /// background. Does nothing if the extension is ready or is being built. Throws `.unknownExtension`, and
  /// `.invalidArgument` inside a transaction.
  @_disfavoredOverload
  public func retry<Definition: DatabaseExtension>(_ handle: ExtensionHandle<Definition>) throws {
    try core.retry(handle.name)
  }

  /// Restarts or continues the build of an extension without blocking the task's thread: see the synchronous form.
  public func retry<Definition: DatabaseExtension>(_ handle: ExtensionHandle<Definition>) async throws {
    let core = core
    try await core.writerExecutor.run { try core.retry(handle.name) }
  }

  /// Drops an extension with all that it keeps, and the extensions that depend on it, at once. The extension need not
  /// be registered. Returns the names of all dropped extensions. Throws `.unknownExtension`, and `.invalidArgument`
  /// inside a transaction.
  @discardableResult
  @_disfavoredOverload
  public func unregister(_ name: String) throws -> [String] { try core.unregister(name) }

  /// Drops an extension without blocking the task's thread: see the synchronous form.
  @discardableResult
  public func unregister(_ name: String) async throws -> [String] {
    let core = core
    return try await core.writerExecutor.run { try core.unregister(name) }
  }

  /// The names of the registered extensions, in the order in which they receive changes.
  public var registeredExtensions: [String] {
    core.extensions.list.inForce.map(\.name).filter { !ReservedName.isReserved($0) }
  }

  /// The names of the extensions that are stored in the database, registered or not.
  public var knownExtensions: [String] { core.extensionCatalog.names.filter { !ReservedName.isReserved($0) } }

  /// Returns the progress of an extension's build, or nil if the extension is not registered. While its definition is
  /// being replaced, this is the progress of the new one.
  public func progress(of name: String) -> BuildProgress? {
    let name = Name.composed(name)
    let list = core.extensions.list
    return (list.shadow(name) ?? list[name])?.progress
  }
}

extension DatabaseCore {
  /// Returns the extension if it is not ready or its old parts are still being dropped, or else the replacement that is
  /// being built; nil if it is ready. Throws `.unknownExtension`.
  func building(_ name: String) throws -> RegisteredExtension? {
    let list = extensions.list
    guard let registered = list[name] else {
      throw DatabaseError(.unknownExtension, "no extension is registered as \"\(name)\"")
    }
    // If another program writes the database, each use checks the state.
    if backend.isReadOnly { return nil }
    return registered.record.state == .ready && !registered.build.isRunning ? list.shadow(name) : registered
  }

  /// Throws `.definitionDiffers` if another type is registered under the handle's name.
  func requireType<Definition: DatabaseExtension>(of handle: ExtensionHandle<Definition>) throws {
    guard let registered = extensions.list[handle.name], !(registered.definition is Definition) else { return }
    throw DatabaseError(
      .definitionDiffers,
      "the extension that is registered as \"\(handle.name)\" is of the type \(type(of: registered.definition)), and the handle of \(Definition.self)"
    )
  }

  /// Throws the reason why an extension that is not being built is not ready.
  func requireReady(_ registered: RegisteredExtension) throws {
    if registered.record.state == .ready || registered.build.isRunning { return }
    // The extension was unregistered or replaced.
    guard extensions.list.contains(registered) else { return }
    if let error = registered.build.error as? WaitsForDependency {
      let build = ExtensionBuild(self, registered)
      // The dependency that it waited for may be ready by now, or is being built again.
      if build.dependenciesAreReady || build.dependencyIsRunning { return build.start() }
      throw DatabaseError(.notReady, error.message)
    }
    if let error = registered.build.error { throw error }
    throw registered.notReadyError
  }

  /// Continues a build that a storage error has ended, because the cause may be gone. A build that failed because of
  /// its input remains failed, unless `isFailed` allows a restart. Returns whether the extension could not be used at
  /// all.
  @discardableResult
  func continueBuild(of name: String, orIfFailed isFailed: Bool = false) throws -> Bool {
    guard !backend.isReadOnly, let registered = try building(name) else { return false }
    let state = registered.record.state
    if state.isFailed, !isFailed { return true }
    try retry(name)
    switch state {
    case .ready, .building: return false
    case .stale, .ingesting, .failed: return true
    }
  }

  func retry(_ name: String) throws {
    try requireNoTransaction("extension \"\(name)\" is built again")
    try requireWritable()
    try enter()
    defer { leave() }
    guard let registered = try building(name), !registered.build.isRunning else { return }
    ExtensionBuild(self, registered).start()
  }

  func register<Definition: DatabaseExtension>(
    _ definition: Definition, _ name: String, replacing old: Definition? = nil,
    _ progress: (@Sendable (BuildProgress) -> Void)?
  ) throws -> ExtensionHandle<Definition> {
    if backend.isReadOnly { return try registerReadOnly(definition, name, replacing: old, isCheckedAtUse: false) }
    guard let old else {
      return try Registration(core: self, definition: definition, name: name, progress: progress).run()
    }
    return try register(definition, name, keeping: old, progress)
  }

  /// Registers the definition that is in force, and the one that is to replace it.
  private func register<Definition: DatabaseExtension>(
    _ definition: Definition, _ name: String, keeping old: Definition, _ progress: (@Sendable (BuildProgress) -> Void)?
  ) throws -> ExtensionHandle<Definition> {
    var registration = Registration(core: self, definition: old, name: name, progress: progress)
    registration.successor = definition
    guard try registration.isInForce() else {
      return try Registration(core: self, definition: definition, name: name, progress: progress).run()
    }
    let handle = try registration.run()
    // The replacement exists already if an earlier start of the program has begun it.
    if extensions.list.shadow(handle.name) == nil {
      try write(WriteTerms(label: "replace \(handle.name)", waitsForWriter: true)) { transaction in
        try transaction.replaceDefinition(of: handle, by: definition, progress: progress)
      }
    }
    return handle
  }

  /// Registers an extension of a database that this process does not write. Nothing is built or marked, and each
  /// transaction that uses the extension checks whether the content on disk matches this definition.
  func registerReadOnly<Definition: DatabaseExtension>(
    _ definition: Definition, _ name: String, replacing old: Definition? = nil, isCheckedAtUse: Bool
  ) throws -> ExtensionHandle<Definition> {
    try enter()
    defer { leave() }
    let name = Name.composed(name)
    let traits = ExtensionTraits(definition)
    try traits.check(name: name)
    if let map = traits.rowIDMap, extensions.list[map] == nil {
      _ = try registerReadOnly(RowIDMap(scope: traits.scope), map, isCheckedAtUse: isCheckedAtUse)
    }
    func make(_ definition: Definition, fallback: RegisteredExtension?) throws -> RegisteredExtension {
      let traits = ExtensionTraits(definition)
      try traits.check(name: name)
      return try RegisteredExtension(
        name: name, definition: definition, traits: traits,
        record: ExtensionRecord(number: 0, state: .stale(nil), traits, versionTag: ""),
        order: UInt64(extensions.list.ordered.count), backend: backend, catalogFamily: catalog.families.catalog,
        readySince: .zero, fallback: fallback)
    }
    let registered = try make(definition, fallback: try old.map { try make($0, fallback: nil) })
    if !isCheckedAtUse {
      let snapshot = try backend.snapshot()
      do { _ = try registered.content(at: snapshot) } catch {
        guard let fallback = registered.fallback else { throw error }
        _ = try fallback.content(at: snapshot)
      }
    }
    try extensions.change { members in
      guard !members.inForce.contains(where: { $0.name == name }) else {
        throw DatabaseError(.alreadyDefined, "an extension is registered as \"\(name)\" already")
      }
      members.inForce.append(registered)
    }
    return ExtensionHandle(name: name, definition: definition)
  }

  func unregister(_ name: String) throws -> [String] {
    let name = Name.composed(name)
    guard !ReservedName.isReserved(name) else {
      throw DatabaseError(.unknownExtension, "no extension is named \"\(name)\"")
    }
    try requireNoTransaction("extension \"\(name)\" is unregistered")
    try enter()
    defer { leave() }
    return try rowIDMapLock.withLock { _ in
      let gone = try drop(name)
      try dropUnusedRowIDMaps()
      return gone
    }
  }

  /// Registers the row id map of a scope unless it exists. The caller holds `rowIDMapLock`.
  func provideRowIDMap(_ name: String, _ scope: CollectionScope) throws {
    if let map = extensions.list[name] {
      if !map.record.state.isFailed { return }
      _ = try drop(map.name)
    }
    _ = try Registration(core: self, definition: RowIDMap(scope: scope), name: name, progress: nil).run()
  }

  /// Drops the maps that no registered extension uses. An unregistered extension on disk that uses one has its map
  /// built again when it is registered. The caller holds `rowIDMapLock`.
  func dropUnusedRowIDMaps() throws {
    let used = extensions.list.rowIDMaps
    for name in extensionCatalog.names where RowIDMap.isMap(name) && !used.contains(name) { _ = try drop(name) }
  }

  /// Drops an extension and all that depend on it, registered or not, and returns their names. Does nothing if `meant`
  /// is given and another extension is registered under the name by now.
  func drop(_ name: String, of meant: RegisteredExtension? = nil) throws -> [String] {
    // The families are certainly gone once they are dropped, so the removal of the record has to be durable.
    let terms = WriteTerms(label: "unregister \(name)", durability: .power, waitsForWriter: meant != nil)
    let (gone, numbers) = try write(terms) { transaction in
      if let meant, extensions.list[name] !== meant { return ([String](), [UInt32]()) }
      let record = extensionCatalog.record(name)
      guard record != nil || extensions.list[name] != nil else {
        throw DatabaseError(.unknownExtension, "no extension is named \"\(name)\"")
      }
      // Dependents that are not registered were derived from the dropped extension, too.
      let registered = extensions.list.dependents(of: name)
      let others = extensionCatalog.dependents(of: name).filter { !registered.contains($0) }
      let gone = registered + others
      let numbers = gone.compactMap { extensionCatalog.record($0)?.number }
      for name in gone where extensionCatalog.record(name) != nil {
        try transaction.pending.delete(CatalogKey.databaseExtension(name), in: catalog.families.catalog)
      }
      for number in numbers {
        try transaction.pending.deleteRange(
          StorageRange(prefix: CatalogKey.settings(of: number)), in: catalog.families.catalog)
      }
      transaction.onApplied { [self] _ in
        extensions.change { members in
          members.inForce.removeAll { gone.contains($0.name) }
          members.shadows.removeAll { gone.contains($0.name) }
        }
        for name in gone { extensionCatalog.set(nil, for: name) }
      }
      return (gone, numbers)
    }
    try dropFamilies(of: numbers)
    return gone
  }

  /// Drops the families after the commit. Without a record they are not used, and the next open drops those that a
  /// crash left.
  func dropFamilies(of numbers: [UInt32]) throws {
    try droppingLock.withLock { _ in
      for family in try backend.families() {
        if let owner = ExtensionRecord.owner(ofFamily: family.name), numbers.contains(owner.number) {
          try backend.dropFamily(family)
        }
      }
    }
  }
}

extension Database {
  /// Returns the name of the extension that keeps the indexes of a collection, or `nil` if it has none.
  package func extensionName(ofIndexesOf collection: String) -> String? {
    core.extensionCatalog.names.first { name in
      core.extensionCatalog.record(name).flatMap { IndexFormat.collection(of: $0) } == collection
    }
  }

  /// Waits until an extension is built, whatever its type.
  package func waitUntilReady(named name: String) throws {
    while let building = try core.building(name) {
      if building.build.waitForEnd() { continue }
      try core.requireReady(building)
    }
  }

  /// Drops an extension, also one of the database's own, so that the next opening builds it again.
  package func dropExtension(named name: String) throws { _ = try core.drop(name) }
}

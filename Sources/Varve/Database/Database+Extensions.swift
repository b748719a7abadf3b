internal import Synchronization

extension Database {
  /// Registers an extension. It receives every change from then on, and what it misses is built in the background, chunk
  /// by chunk, while others write; `ready` waits for the end of that.
  ///
  /// Known by its name and of the same version it is ready at once, or after what it missed while no program had it
  /// registered, where it can catch up (`ExtensionConfiguration.catchesUp`); else it is built. `progressed` is called after
  /// each chunk. Throws `.alreadyDefined`, `.unknownExtension` for a dependency, `.invalidDefinition`,
  /// `.extensionMismatch`, `.unsupportedVersion`, `.invalidArgument` inside of a transaction. On a read-only database it has
  /// to be on disk as this definition has it, else `.definitionDiffers`.
  @_disfavoredOverload
  @discardableResult
  public func register<Definition: DatabaseExtension>(
    _ definition: Definition, as name: String, progress: (@Sendable (BuildProgress) -> Void)? = nil
  ) throws -> ExtensionHandle<Definition> {
    try core.register(definition, name, progress)
  }

  /// The same for tasks. Cancelling the task does not end the build.
  @discardableResult
  public func register<Definition: DatabaseExtension>(
    _ definition: Definition, as name: String, progress: (@Sendable (BuildProgress) -> Void)? = nil
  ) async throws -> ExtensionHandle<Definition> {
    let core = core
    return try await core.writerExecutor.run { try core.register(definition, name, progress) }
  }

  /// The same, where `old` is what another start of the program may have left in force: it answers, and is kept up, while
  /// `definition` is built, also after further starts (`WriteTransaction.replaceDefinition`). Where the database has what
  /// neither would keep, or `definition` is in force already, `old` does not matter.
  @_disfavoredOverload
  @discardableResult
  public func register<Definition: DatabaseExtension>(
    _ definition: Definition, as name: String, replacing old: Definition,
    progress: (@Sendable (BuildProgress) -> Void)? = nil
  ) throws -> ExtensionHandle<Definition> {
    try core.register(definition, name, replacing: old, progress)
  }

  /// The same for tasks.
  @discardableResult
  public func register<Definition: DatabaseExtension>(
    _ definition: Definition, as name: String, replacing old: Definition,
    progress: (@Sendable (BuildProgress) -> Void)? = nil
  ) async throws -> ExtensionHandle<Definition> {
    let core = core
    return try await core.writerExecutor.run { try core.register(definition, name, replacing: old, progress) }
  }

  /// Returns when an extension is built: what it keeps is that of all rows, and by its newest definition
  /// (`WriteTransaction.replaceDefinition`). Throws what has ended the build: the error of
  /// the extension, also after a restart, then as `.extensionFailed`, or one of the storage; `retry` builds again.
  /// Throws `.unknownExtension`, `.definitionDiffers` for a handle of another type, and `.invalidArgument` inside of a
  /// transaction, which the build may have to wait for.
  @_disfavoredOverload
  public func ready<Definition: DatabaseExtension>(_ handle: ExtensionHandle<Definition>) throws {
    try core.requireNoTransaction("extension \"\(handle.name)\" is waited for")
    try core.requireNoBuild("extension \"\(handle.name)\" is waited for")
    try core.requireType(of: handle)
    while let building = try core.building(handle.name) {
      if building.build.waitForEnd() { continue }
      try core.requireReady(building)
    }
  }

  /// The same for tasks. Cancelling the task ends the wait, with `CancellationError`, and not the build.
  public func ready<Definition: DatabaseExtension>(_ handle: ExtensionHandle<Definition>) async throws {
    try core.requireNoTransaction("extension \"\(handle.name)\" is waited for")
    try core.requireNoBuild("extension \"\(handle.name)\" is waited for")
    try core.requireType(of: handle)
    while let building = try core.building(handle.name) {
      if try await building.build.waitForEndSuspended() { continue }
      try core.requireReady(building)
    }
  }

  /// Builds an extension again whose build has failed, or continues one that an error of the storage has interrupted,
  /// in the background. Nothing happens where it is ready or being built. Throws `.unknownExtension`, and
  /// `.invalidArgument` inside of a transaction.
  @_disfavoredOverload
  public func retry<Definition: DatabaseExtension>(_ handle: ExtensionHandle<Definition>) throws {
    try core.retry(handle.name)
  }

  /// The same for tasks.
  public func retry<Definition: DatabaseExtension>(_ handle: ExtensionHandle<Definition>) async throws {
    let core = core
    try await core.writerExecutor.run { try core.retry(handle.name) }
  }

  /// Drops an extension with everything that it keeps, at once, and those that depend on it. Also one of the disk
  /// that is not registered. Returns the names of all that went. Throws `.unknownExtension`, and `.invalidArgument`
  /// inside of a transaction.
  @discardableResult
  @_disfavoredOverload
  public func unregister(_ name: String) throws -> [String] { try core.unregister(name) }

  /// The same for tasks.
  @discardableResult
  public func unregister(_ name: String) async throws -> [String] {
    let core = core
    return try await core.writerExecutor.run { try core.unregister(name) }
  }

  /// The names of the extensions that are registered, in the order in which they hear of changes.
  public var registeredExtensions: [String] {
    core.extensions.list.inForce.map(\.name).filter { !ReservedName.isReserved($0) }
  }

  /// The names of the extensions that the disk knows, registered or not.
  public var knownExtensions: [String] { core.extensionCatalog.names.filter { !ReservedName.isReserved($0) } }

  /// How far the building of an extension is; nil where it isn't registered.
  /// Where its definition is being replaced, of the new one.
  public func progress(of name: String) -> BuildProgress? {
    let name = Name.composed(name)
    let list = core.extensions.list
    return (list.shadow(name) ?? list[name])?.progress
  }
}

extension DatabaseCore {
  /// An extension that is not ready, or whose old parts are still being dropped, or what is built to replace it; nil for
  /// one that is. Throws `.unknownExtension`.
  func building(_ name: String) throws -> RegisteredExtension? {
    let list = extensions.list
    guard let registered = list[name] else {
      throw DatabaseError(.unknownExtension, "no extension is registered as \"\(name)\"")
    }
    // Where another program writes, each use looks.
    if backend.isReadOnly { return nil }
    return registered.record.state == .ready && !registered.build.isRunning ? list.shadow(name) : registered
  }

  /// Throws `.definitionDiffers` where another type is registered by the handle's name.
  func requireType<Definition: DatabaseExtension>(of handle: ExtensionHandle<Definition>) throws {
    guard let registered = extensions.list[handle.name], !(registered.definition is Definition) else { return }
    throw DatabaseError(
      .definitionDiffers,
      "the extension that is registered as \"\(handle.name)\" is of the type \(type(of: registered.definition)), and the handle of \(Definition.self)"
    )
  }

  /// Throws why an extension that is not being built is not ready.
  func requireReady(_ registered: RegisteredExtension) throws {
    if registered.record.state == .ready || registered.build.isRunning { return }
    // It was unregistered, or replaced.
    guard extensions.list.contains(registered) else { return }
    if let error = registered.build.error as? WaitsForDependency {
      let build = ExtensionBuild(self, registered)
      // What it waited for may be ready by now, or is being built again.
      if build.dependenciesAreReady || build.dependencyIsRunning { return build.start() }
      throw DatabaseError(.notReady, error.message)
    }
    if let error = registered.build.error { throw error }
    throw registered.notReadyError
  }

  /// Continues a build that an error of the storage has ended: what was in the way may be gone. One that has failed because
  /// of what it was given stays so, unless `isFailed` allows it to begin again. Returns whether the extension could not be
  /// used at all.
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

  /// Registers what is in force, and what is to replace it.
  private func register<Definition: DatabaseExtension>(
    _ definition: Definition, _ name: String, keeping old: Definition, _ progress: (@Sendable (BuildProgress) -> Void)?
  ) throws -> ExtensionHandle<Definition> {
    var registration = Registration(core: self, definition: old, name: name, progress: progress)
    registration.successor = definition
    guard try registration.isInForce() else {
      return try Registration(core: self, definition: definition, name: name, progress: progress).run()
    }
    let handle = try registration.run()
    // It is there already where an earlier start has begun it.
    if extensions.list.shadow(handle.name) == nil {
      try write(WriteTerms(label: "replace \(handle.name)", waitsForWriter: true)) { transaction in
        try transaction.replaceDefinition(of: handle, by: definition, progress: progress)
      }
    }
    return handle
  }

  /// Where another program writes, or no one does: nothing is built or marked, and each transaction that uses it looks
  /// whether what is on disk is of this definition.
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

  /// Sees to it that there is the map of a scope. Under `rowIDMapLock`.
  func provideRowIDMap(_ name: String, _ scope: CollectionScope) throws {
    if let map = extensions.list[name] {
      if !map.record.state.isFailed { return }
      _ = try drop(map.name)
    }
    _ = try Registration(core: self, definition: RowIDMap(scope: scope), name: name, progress: nil).run()
  }

  /// Drops the maps that no registered extension asks. One of the disk that does, and that is not registered, has its map
  /// built again when it is. Under `rowIDMapLock`.
  func dropUnusedRowIDMaps() throws {
    let used = extensions.list.rowIDMaps
    for name in extensionCatalog.names where RowIDMap.isMap(name) && !used.contains(name) { _ = try drop(name) }
  }

  /// Drops an extension and all that depend on it, registered or not, and returns their names. Where it is meant to be
  /// one that is registered, and another is by now, nothing happens.
  func drop(_ name: String, of meant: RegisteredExtension? = nil) throws -> [String] {
    // The families are gone for certain once they are dropped, and so must the record be.
    let terms = WriteTerms(label: "unregister \(name)", durability: .power, waitsForWriter: meant != nil)
    let (gone, numbers) = try write(terms) { transaction in
      if let meant, extensions.list[name] !== meant { return ([String](), [UInt32]()) }
      let record = extensionCatalog.record(name)
      guard record != nil || extensions.list[name] != nil else {
        throw DatabaseError(.unknownExtension, "no extension is named \"\(name)\"")
      }
      // Those that no one has registered were made of what goes, too.
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

  /// After the commit: without a record no one looks at them, and an open drops what a crash left.
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

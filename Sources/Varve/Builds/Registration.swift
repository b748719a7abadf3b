internal import Synchronization

/// Registers an extension: one commit ensures that the extension's content covers all rows, or will do so.
///
/// The commit writes the extension's record with the watermark of each part, and empties what can't be used any more:
/// parts of another version or form, and parts that the definition no longer has. From then on the extension misses no
/// commit. Whatever has to be built is built in the background (`ExtensionBuild`).
struct Registration<Definition: DatabaseExtension> {
  let core: DatabaseCore
  let definition: Definition
  let traits: ExtensionTraits
  let name: String
  let progress: (@Sendable (BuildProgress) -> Void)?
  /// The definition that may be being built already to replace this one.
  var successor: Definition?

  init(
    core: DatabaseCore, definition: Definition, name: String, progress: (@Sendable (BuildProgress) -> Void)?
  ) {
    self.core = core
    self.definition = definition
    traits = ExtensionTraits(definition)
    self.name = Name.composed(name)
    self.progress = progress
  }

  /// Registers the extension. When it returns, the extension is ready or its build has begun.
  func run() throws -> ExtensionHandle<Definition> {
    try core.requireNoTransaction("extension \"\(name)\" is registered")
    try core.enter()
    defer { core.leave() }
    let registered = try traits.rowIDMap.map { try begin(withRowIDMap: $0) } ?? begin()
    if try registered.record.state == .ready && registered.deadFamilies().isEmpty {
      progress?(BuildProgress(rowsDone: 0, rowsTotal: 0))
    } else if !registered.record.state.isFailed {
      ExtensionBuild(core, registered).start()
    }
    if let shadow = core.extensions.list.shadow(name), !shadow.record.state.isFailed {
      ExtensionBuild(core, shadow).start()
    }
    if let repairing = definition as? any DamageRepairing {
      try ExtensionRepair(core: core, registered: registered).run(repairing)
    }
    return ExtensionHandle(name: name, definition: definition)
  }

  // MARK: - The first commit

  /// Registers an extension that uses a map of row numbers. The map must exist, for all rows of the scope, before the
  /// extension is given the first row.
  private func begin(withRowIDMap map: String) throws -> RegisteredExtension {
    try core.rowIDMapLock.withLock { _ in
      try core.provideRowIDMap(map, traits.scope)
      do { return try begin() } catch {
        try? core.dropUnusedRowIDMaps()
        throw error
      }
    }
  }

  private func begin() throws -> RegisteredExtension {
    let (registered, outcome) = try core.write(.beforeDrop(name)) { transaction in
      let list = core.extensions.list
      try traits.check(name: name)
      guard definition is any ReservedExtension || !ReservedName.isReserved(name) else {
        throw DatabaseError(.invalidArgument, "names of extensions that begin with \"varve.\" are the database's own")
      }
      let present = list[name]
      if let present {
        // An extension whose build was interrupted continues; one whose build failed can be replaced by another
        // version.
        if try isInterrupted(present, list) {
          present.setProgressed(progress)
          return (present, Outcome())
        }
        guard present.record.state.isFailed, !isSame(present.record, fullTag(list)) else {
          throw DatabaseError(.alreadyDefined, "an extension is registered as \"\(name)\" already")
        }
      }
      for dependency in traits.dependencies where list[dependency] == nil {
        throw DatabaseError(
          .unknownExtension, "\"\(name)\" depends on \"\(dependency)\", which is not registered; register it first")
      }
      try traits.check(name: name, beside: list)
      try definition.check(registered: Dictionary(uniqueKeysWithValues: list.inForce.map { ($0.name, $0.definition) }))
      let (registered, shadow) = try record(transaction, list)
      let outcome = Outcome()
      transaction.onApplied { _ in
        // No commit is made meanwhile, so the delta of the next commit is the first that the state receives.
        do { try registered.share(core) } catch { return outcome.error = error }
        core.extensions.change { members in
          members.inForce.removeAll { $0 === present }
          members.inForce.append(registered)
          members.shadows.removeAll { $0.name == name }
          if let shadow { members.shadows.append(shadow) }
        }
        core.extensionCatalog.noteRegistered(name)
      }
      return (registered, outcome)
    }
    if let error = outcome.error { throw error }
    return registered
  }

  private func isInterrupted(_ present: RegisteredExtension, _ list: ExtensionList) throws -> Bool {
    let record = present.record
    guard record.state != .ready, !record.state.isFailed, !present.build.isRunning else { return false }
    return present.definition is Definition && isSame(record, fullTag(list))
  }

  /// Returns whether a record matches this definition.
  private func isSame(_ record: ExtensionRecord, _ tag: String) -> Bool { record.isOf(traits, tag) }

  /// Returns whether the record on disk matches this definition.
  func isInForce() throws -> Bool {
    guard let known = core.extensionCatalog.record(name) else { return false }
    return isSame(known, fullTag(core.extensions.list))
  }

  /// Holds the error of making the shared state, because the handler can't throw.
  private final class Outcome {
    var error: (any Error)?
  }

  /// Makes the record: keeps what can be used of the previous content, and begins again with the rest.
  private func record(
    _ transaction: WriteTransaction, _ list: ExtensionList
  ) throws -> (RegisteredExtension, shadow: RegisteredExtension?) {
    let stored = core.extensionCatalog.record(name)
    if let stored { try requireSameExtension(stored) }
    let tag = fullTag(list)
    var known = stored?.alone
    // A shadow that is registered itself takes the record over, because nothing keeps the definition that it was to
    // replace up to date any more.
    if let stored, let shadow = stored.shadow, !isSame(stored, tag), isSame(shadow, tag) { known = shadow }
    // An extension without a record has the number zero.
    let isRecorded = traits.isRecorded || known != nil
    let number = isRecorded ? known?.number ?? core.extensionCatalog.nextNumber : 0
    var record = ExtensionRecord(number: number, state: .ready, traits, versionTag: tag)
    record.generation = known?.generation ?? 0
    let kept = known.flatMap { canContinue($0, tag, list) ? $0 : nil }
    let isRestart = !begin(&record, with: kept, known: known) && isRecorded
    let recounted = recountedParts(of: record, known)
    // An extension that is repaired instead of built is ready at once, unless old families have to be dropped first.
    let isRepaired = ExtensionRepair.isNeeded(definition, stored)
    if isRepaired, let stored, isSame(stored.alone, tag) { record.state = .ready }
    // In a database without rows there is nothing to build, and the extension can be used at once.
    if known == nil, isRecorded, try transaction.count() == 0 {
      while record.frontier != nil { record.advance(to: nil) }
    }
    let registered = try RegisteredExtension(
      name: name, definition: definition, traits: traits, record: record,
      order: isRecorded ? UInt64(number) : core.extensions.nextOrder, backend: core.backend,
      catalogFamily: core.catalog.families.catalog, readySince: record.state == .ready ? .zero : nil,
      wasRestarted: isRestart, progressed: progress)
    if !isRecorded { return (registered, nil) }
    if isRepaired { try ExtensionRepair(core: core, registered: registered).begin(transaction) }
    // Options of the storage may change without a rebuild, for example the size of memtables.
    for (family, part) in zip(registered.families, traits.parts) {
      if let family { try core.backend.setOptions(part.storageOptions, of: family) }
    }
    if stored?.shadow != nil || known?.generation != stored?.generation { core.extensions.noteLeftovers() }
    for family in try registered.deadFamilies() {
      try transaction.pending.deleteRange(StorageRange(), in: family)
      core.runTrees.forget(family)
    }
    for part in recounted { try transaction.recount(part, of: registered) }
    let shadow = isRestart ? nil : try keptShadow(of: stored, registered, list)
    // If everything is kept, the record on disk has the same bytes already.
    var whole = record
    whole.shadow = shadow?.record
    if whole != stored { try registered.save(record, transaction, as: shadow == nil ? .alone : .inForce) }
    if known == nil {
      try transaction.pending.put(
        CatalogKey.nextExtension, BigEndian.bytes(max(core.extensionCatalog.nextNumber, number + 1)),
        in: core.catalog.families.catalog)
      transaction.onApplied { _ in core.extensionCatalog.noteAssigned(number) }
    }
    return (registered, shadow)
  }

  /// Returns the shadow that an earlier session has begun to build, if it matches the definition that is to replace
  /// this one now.
  private func keptShadow(
    of stored: ExtensionRecord?, _ registered: RegisteredExtension, _ list: ExtensionList
  ) throws -> RegisteredExtension? {
    guard let successor, let record = stored?.shadow else { return nil }
    let next = Registration(core: core, definition: successor, name: name, progress: progress)
    guard next.isSame(record, next.fullTag(list)) else { return nil }
    try next.traits.check(name: name, beside: list)
    return try RegisteredExtension(
      name: name, definition: successor, traits: next.traits, record: record, order: registered.order,
      backend: core.backend, catalogFamily: core.catalog.families.catalog, readySince: nil, progressed: progress,
      replacing: registered)
  }

  /// Sets the watermarks of a new record by the record whose content is kept. Returns whether all content is kept;
  /// false means that something begins again.
  private func begin(
    _ record: inout ExtensionRecord, with kept: ExtensionRecord?, known former: ExtensionRecord?
  ) -> Bool {
    // An extension that is given no rows also gets a build, which ends at once, if it may have old families: they have
    // to be dropped before anything is written.
    let isBuilt = traits.configuration.build != .none || former != nil
    var isFailed = false
    if case .failed? = kept?.state { isFailed = true }
    var keepsAll = kept != nil
    for index in record.parts.indices {
      let part = record.parts[index]
      if part.form == .scratch { continue }
      // Counts are as complete as what they count. If there are none, this transaction makes them.
      if let counted = traits.companions.firstIndex(of: index) {
        record.parts[index].watermark = record.parts[counted].watermark
        continue
      }
      // Data that the program has written stays, whatever was missed.
      if !part.isDerived, former?.parts.contains(where: { $0.name == part.name && !$0.isSame(as: part) }) != true {
        continue
      }
      let known = kept?.parts.first { $0.isSame(as: part) }
      // A volatile part is empty since the database was opened, whatever it missed.
      if let known, !part.isVolatile {
        record.parts[index].watermark = isFailed ? [] : known.watermark
      } else if known != nil, traits.configuration.build == .none {
        record.parts[index].watermark = nil
      } else if isBuilt {
        record.parts[index].watermark = []
        keepsAll = false
      }
    }
    let isSame = keepsAll && kept?.parts.count == record.parts.count
    if case .failed? = kept?.state, let kept, isSame {
      // The extension stays failed until another version is registered, or a build is requested.
      record = kept
    } else if case .ingesting? = kept?.state, let state = kept?.state, isSame {
      // Runs can be kept only if they contain entries of all parts.
      record.state = state
    } else if case .stale? = kept?.state, let state = kept?.state {
      // The extension catches up first; new parts are built afterwards.
      record.state = state
    } else if record.keepsNoPart {
      record.state = isFailed ? .building(watermark: []) : kept?.state ?? (isBuilt ? .building(watermark: []) : .ready)
    } else {
      record.settle()
    }
    return keepsAll
  }

  /// Returns the counted parts whose entries are kept and whose counts are not on disk.
  private func recountedParts(of record: ExtensionRecord, _ known: ExtensionRecord?) -> [Int] {
    traits.companions.indices.filter { index in
      guard let companion = traits.companions[index], record.parts[index].watermark != [], let known else {
        return false
      }
      return !record.parts[index].isVolatile
        && !known.parts.contains { $0.isSame(as: record.parts[companion]) }
        && known.parts.contains { $0.isSame(as: record.parts[index]) }
    }
  }

  /// Returns whether the content on disk matches this definition and is complete, or can be completed.
  private func canContinue(_ known: ExtensionRecord, _ tag: String, _ list: ExtensionList) -> Bool {
    guard known.versionTag == tag, known.layout == traits.configuration.layout,
      known.scope == traits.scope.recordText
    else { return false }
    // Content that was made from a dependency is invalid if the dependency's content is gone.
    for dependency in traits.dependencies.compactMap({ list[$0] }) {
      if dependency.wasRestarted || dependency.record.state != .ready { return false }
    }
    switch known.state {
    case .building, .ready, .failed: return true
    case .ingesting: return traits.canBeIngested
    // A dependency may have been built again since, with other content than this extension has read.
    case .stale(let position):
      return position != nil && traits.configuration.catchesUp && traits.dependencies.isEmpty
    }
  }

  /// Throws if the record is of another kind, or of a newer program.
  private func requireSameExtension(_ known: ExtensionRecord) throws {
    try known.requireKind(traits.kind, name)
    guard known.layout <= traits.configuration.layout else {
      throw DatabaseError(
        .unsupportedVersion,
        "extension \"\(name)\" is on disk with layout \(known.layout), and the program knows up to layout "
          + "\(traits.configuration.layout)")
    }
  }

  /// Returns the version tag: the extension's own version, and those of its dependencies, so that it is built again
  /// with them.
  private func fullTag(_ list: ExtensionList) -> String {
    traits.fullTag { list[$0]?.record }
  }
}

extension ExtensionTraits {
  /// Returns the version of the definition and the identities of its dependencies, as records contain them.
  func fullTag(_ record: (String) throws -> ExtensionRecord?) rethrows -> String {
    let tags = try dependencies.sorted().compactMap { name in try record(name).map { "\(name)=\($0.identity)" } }
    return ([configuration.version] + tags).joined(separator: String(ExtensionRecord.tagSeparator))
  }
}

extension ExtensionRecord {
  /// Returns whether the record matches a definition.
  func isOf(_ traits: ExtensionTraits, _ tag: String) -> Bool {
    let parts = traits.parts.map { Part($0) }
    return versionTag == tag && layout == traits.configuration.layout && scope == traits.scope.recordText
      && self.parts.count == parts.count && zip(self.parts, parts).allSatisfy { $0.isSame(as: $1) }
  }
}

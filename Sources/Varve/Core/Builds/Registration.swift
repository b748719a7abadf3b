internal import Synchronization

/// Registers an extension: one commit makes sure that what it keeps is that of all rows, or will become that.
///
/// It writes the record of the extension, says in it how far each part is built, and empties what is of no use any more:
/// parts of another version or form, and parts that the definition does not have. From then on no commit passes the
/// extension. What is left to be built is built in the background (`ExtensionBuild`).
struct Registration<Definition: DatabaseExtension> {
  let core: DatabaseCore
  let definition: Definition
  let traits: ExtensionTraits
  let name: String
  let progress: (@Sendable (BuildProgress) -> Void)?

  init(
    core: DatabaseCore, definition: Definition, name: String, progress: (@Sendable (BuildProgress) -> Void)?
  ) {
    self.core = core
    self.definition = definition
    traits = ExtensionTraits(definition)
    self.name = Name.composed(name)
    self.progress = progress
  }

  /// Returns when the extension is registered. It is ready, or its build has begun.
  func run() throws -> ExtensionHandle<Definition> {
    try core.requireNoTransaction("extension \"\(name)\" is registered")
    try core.enter()
    defer { core.leave() }
    let registered = try traits.asksRowsByID ? beginWithRowIDMap() : begin()
    if try registered.record.state == .ready && registered.deadFamilies().isEmpty {
      progress?(BuildProgress(rowsDone: 0, rowsTotal: 0))
    } else if !registered.record.state.isFailed {
      ExtensionBuild(core, registered).start()
    }
    return ExtensionHandle(name: name)
  }

  // MARK: - The first commit

  /// The map has to be there, and of all rows that are asked for, before one that asks is given the first.
  private func beginWithRowIDMap() throws -> RegisteredExtension {
    try core.rowIDMapLock.withLock { _ in
      try core.provideRowIDMap()
      do { return try begin() } catch {
        try? core.dropRowIDMapIfUnused()
        throw error
      }
    }
  }

  private func begin() throws -> RegisteredExtension {
    let (registered, outcome) = try core.write(ExtensionBuild.termsBeforeDrop(name)) { transaction in
      let list = core.extensions.list
      try traits.check(name: name)
      guard definition is RowIDMap || !RowIDMap.isReserved(name) else {
        throw DatabaseError(.invalidArgument, "names of extensions that begin with \"varve.\" are the database's own")
      }
      let present = list[name]
      if let present {
        // One whose build was interrupted goes on; one whose build failed makes room for another version.
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
      try definition.check(registered: Dictionary(uniqueKeysWithValues: list.ordered.map { ($0.name, $0.definition) }))
      let registered = try record(transaction, list)
      let outcome = Outcome()
      transaction.onApplied { _ in
        // No commit is made meanwhile: the next one's delta is the first that it receives.
        do { try registered.share(core) } catch { return outcome.error = error }
        core.extensions.change { list in
          list.removeAll { $0 === present }
          list.append(registered)
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

  /// Whether a record is of this definition.
  private func isSame(_ record: ExtensionRecord, _ tag: String) -> Bool {
    let parts = traits.parts.map { ExtensionRecord.Part($0) }
    return record.versionTag == tag && record.layout == traits.configuration.layout
      && record.scope == traits.scope.recordText && record.parts.count == parts.count
      && zip(record.parts, parts).allSatisfy { $0.isSame(as: $1) }
  }

  /// Why the shared state could not be made, where nothing can be thrown.
  private final class Outcome {
    var error: (any Error)?
  }

  /// Finds what it kept of use, and begins again with the rest.
  private func record(_ transaction: WriteTransaction, _ list: ExtensionList) throws -> RegisteredExtension {
    let known = core.extensionCatalog.record(name)
    if let known { try requireSameExtension(known) }
    let tag = fullTag(list)
    // Zero: it needs no record.
    let isRecorded = traits.isRecorded || known != nil
    let number = isRecorded ? known?.number ?? core.extensionCatalog.nextNumber : 0
    var record = ExtensionRecord(number: number, state: .ready, traits, versionTag: tag)
    let kept = known.flatMap { canGoOn($0, tag, list) ? $0 : nil }
    let isAnew = !begin(&record, with: kept, isKnown: known != nil) && isRecorded
    // In a database without rows there is nothing to build, and it can be used at once.
    if known == nil, isRecorded, try transaction.count() == 0 {
      while record.frontier != nil { record.advance(to: nil) }
    }
    let registered = try RegisteredExtension(
      name: name, definition: definition, traits: traits, record: record,
      order: isRecorded ? UInt64(number) : core.extensions.nextOrder, backend: core.backend,
      catalogFamily: core.catalog.families.catalog, readySince: record.state == .ready ? .zero : nil,
      beganAnew: isAnew, progressed: progress)
    if !isRecorded { return registered }
    for family in try registered.deadFamilies() {
      try transaction.pending.deleteRange(StorageRange(), in: family)
    }
    if record != known { try registered.save(record, transaction) }
    if known == nil {
      try transaction.pending.put(
        CatalogKey.nextExtension, BigEndian.bytes(max(core.extensionCatalog.nextNumber, number + 1)),
        in: core.catalog.families.catalog)
      transaction.onApplied { _ in core.extensionCatalog.noteGiven(number) }
    }
    return registered
  }

  /// Says in a new record how far each part is, by the record whose content is of use. Returns whether all of it is
  /// kept; false: something begins again.
  private func begin(_ record: inout ExtensionRecord, with kept: ExtensionRecord?, isKnown: Bool) -> Bool {
    // One that is given no rows is built, too, in no time, where it may have old families: those have to be dropped
    // before anything is written.
    let isBuilt = traits.configuration.build != .none || isKnown
    var isFailed = false
    if case .failed? = kept?.state { isFailed = true }
    var keepsAll = kept != nil
    for index in record.parts.indices {
      let part = record.parts[index]
      let known = kept?.parts.first { $0.isSame(as: part) }
      // What is kept in memory is empty since the database was opened, whatever it missed.
      if let known, !part.isVolatile {
        record.parts[index].watermark = isFailed ? [] : known.watermark
      } else if known != nil, traits.configuration.build == .none {
        record.parts[index].watermark = nil
      } else if isBuilt {
        record.parts[index].watermark = []
        keepsAll = false
      }
    }
    if case .failed? = kept?.state, let kept, keepsAll, kept.parts.count == record.parts.count {
      // It fails again until another version is registered, or it is asked for.
      record = kept
    } else if case .stale? = kept?.state, let state = kept?.state {
      // It catches up first: new parts are built after that.
      record.state = state
    } else if record.parts.isEmpty {
      record.state = isFailed ? .building(watermark: []) : kept?.state ?? (isBuilt ? .building(watermark: []) : .ready)
    } else {
      record.settle()
    }
    return keepsAll
  }

  /// Whether what is on disk is of this definition, and whole, or can be made so.
  private func canGoOn(_ known: ExtensionRecord, _ tag: String, _ list: ExtensionList) -> Bool {
    guard known.versionTag == tag, known.layout == traits.configuration.layout,
      known.scope == traits.scope.recordText
    else { return false }
    // What it made of another is gone with that one's content.
    for dependency in traits.dependencies.compactMap({ list[$0] }) {
      if dependency.beganAnew || dependency.record.state != .ready { return false }
    }
    switch known.state {
    case .building, .ready, .failed: return true
    // Another extension may have been built again since, with other content than it has looked at.
    case .stale(let position):
      return position != nil && traits.configuration.catchesUp && traits.dependencies.isEmpty
    }
  }

  /// Throws where the record is of another kind, or of a newer program.
  private func requireSameExtension(_ known: ExtensionRecord) throws {
    try known.requireKind(traits.kind, name)
    guard known.layout <= traits.configuration.layout else {
      throw DatabaseError(
        .unsupportedVersion,
        "extension \"\(name)\" is on disk with layout \(known.layout), and the program knows up to layout "
          + "\(traits.configuration.layout)")
    }
  }

  /// What it is built from: its own version, and those of what it depends on, so that it is built again with them.
  private func fullTag(_ list: ExtensionList) -> String {
    let dependencies = traits.dependencies.sorted().compactMap { list[$0] }
    return ([traits.configuration.version] + dependencies.map { "\($0.name)=\($0.record.identity)" }).joined(
      separator: String(ExtensionRecord.tagSeparator))
  }
}

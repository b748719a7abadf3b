internal import Synchronization

/// Puts another definition in force for an extension, in a write transaction.
///
/// The content of the new definition is built into a *generation* of families of its own, so that nothing has to be
/// undone if the transaction is not committed, and readers of earlier commits keep the old content.
///
/// ```
///  nothing to build, or what is kept stays:  switch in this transaction
///  other parts are counted:                  count their entries in this transaction, switch
///  at most 10,000 rows:                      build in this transaction, switch
///  more:                                     record names the shadow ─▶ chunks of a build ─▶ one commit switches
///  more, and the old one is not whole:       switch in this transaction, build as after a registration
/// ```
/// While a shadow is built, both definitions receive each change and write to their own parts, and the old one serves
/// reads.
struct Replacement<Definition: DatabaseExtension> {
  private let transaction: WriteTransaction
  private let definition: Definition
  private let traits: ExtensionTraits
  private let name: String
  private let progress: (@Sendable (BuildProgress) -> Void)?

  init(
    _ transaction: WriteTransaction, of name: String, by definition: Definition,
    progress: (@Sendable (BuildProgress) -> Void)?
  ) {
    self.transaction = transaction
    self.definition = definition
    traits = ExtensionTraits(definition)
    self.name = name
    self.progress = progress
  }

  private var core: DatabaseCore { transaction.database }

  func run() throws {
    let list = transaction.registered
    guard let present = list[name] else {
      throw DatabaseError(.unknownExtension, "no extension is registered as \"\(name)\"")
    }
    guard present.definition is Definition else {
      throw DatabaseError(.definitionDiffers, "the extension that is registered as \"\(name)\" is of another type")
    }
    try check(list)
    // The families of a replacement that is not committed, or is undone, are dropped later.
    core.extensions.noteLeftovers()
    let tag = try traits.fullTag { dependency in
      try list[dependency].map { try $0.storedRecord(transaction)?.alone ?? $0.record }
    }
    let number = traits.isRecorded ? try present.number(in: transaction) : try present.knownNumber(in: transaction) ?? 0
    let stored = try present.storedRecord(transaction)
    var record = ExtensionRecord(number: number, state: .ready, traits, versionTag: tag)
    if let stored, stored.alone.isOf(traits, tag), transaction.isReady(present) {
      return try DefinitionSwitch(transaction, to: make(stored.alone, present), stored.alone, keepsContent: true).run()
    }
    if let stored, record.hasContent(of: stored.alone), transaction.isReady(present) {
      record.generation = stored.generation
      let registered = try make(record, present)
      return try DefinitionSwitch(transaction, to: registered, record, keepsContent: true).run {
        try recount($0, since: stored)
      }
    }
    record.generation = max(try present.lastGeneration(), stored?.generation ?? 0, stored?.shadow?.generation ?? 0) + 1
    if number == 0 || traits.configuration.build == .none {
      return try DefinitionSwitch(transaction, to: make(record, present), record).run()
    }
    if try rowCount() <= core.extensions.rowsInTransaction.load(ordering: .relaxed) {
      return try DefinitionSwitch(transaction, to: make(record, present), record).run { try build($0, record) }
    }
    record.restart()
    let registered = try make(record, present)
    if transaction.isReady(present) || present.record.state.isStale {
      try addShadow(registered, record, list)
    } else {
      try DefinitionSwitch(transaction, to: registered, record).run()
      transaction.onApplied { [core] _ in ExtensionBuild(core, registered).start() }
    }
  }

  private func make(_ record: ExtensionRecord, _ present: RegisteredExtension) throws -> RegisteredExtension {
    try RegisteredExtension(
      name: name, definition: definition, traits: traits, record: record, order: present.order, backend: core.backend,
      catalogFamily: core.catalog.families.catalog, readySince: nil, progressed: progress, replacing: present)
  }

  // MARK: - Checks

  private func check(_ list: ExtensionList) throws {
    try traits.check(name: name)
    if let part = (traits.parts + (list[name]?.traits.parts ?? [])).first(where: { !$0.isDerived }) {
      throw invalid(
        "keeps in its part \"\(part.name)\" what no build can make again; register the other definition at the next open"
      )
    }
    for dependency in traits.dependencies where list[dependency] == nil {
      throw DatabaseError(.unknownExtension, "\"\(name)\" depends on \"\(dependency)\", which is not registered")
    }
    let dependents = list.dependents(of: name)
    if let dependency = traits.dependencies.first(where: { dependents.contains($0) }) {
      throw invalid("would depend on \"\(dependency)\", which depends on it")
    }
    try traits.check(name: name, beside: list)
    if !traits.isImmediate,
      let other = list.inForce.first(where: { $0.traits.isImmediate && $0.traits.dependencies.contains(name) })
    {
      throw invalid("would receive changes after \"\(other.name)\", which is immediate and depends on it")
    }
    if let map = traits.rowIDMap, list[map] == nil {
      throw invalid(
        "asks for rows of its scope by number, and the definition that is in force does not; unregister it and register the other"
      )
    }
    try definition.check(registered: Dictionary(uniqueKeysWithValues: list.inForce.map { ($0.name, $0.definition) }))
  }

  private func invalid(_ what: String) -> DatabaseError {
    DatabaseError(.invalidDefinition, "extension \"\(name)\" \(what)")
  }

  // MARK: - In this transaction

  private var infos: [CollectionInfo] { core.catalog.collections.filter { traits.scope.contains($0.name) } }

  private func rowCount() throws -> Int { try infos.reduce(0) { try $0 + transaction.count($1) } }

  /// Passes all rows to the definition. Changes that its hooks make to later rows are included when these rows are
  /// passed.
  private func build(_ registered: RegisteredExtension, _ record: ExtensionRecord) throws {
    var reached = record
    reached.restart()
    transaction.setReach(BuildReach(reached), of: registered)
    let open = try transaction.dooming { try transaction.open(registered) }
    var position: [UInt8]? = []
    while let begin = position {
      position = nil
      var iterator = BuildScan(infos, after: begin, transaction)
      let changeCount = transaction.changes.changeCount
      while position == nil, let (info, key, row) = try iterator.next() {
        reached.advance(to: info.scanKey(key))
        transaction.setReach(BuildReach(reached), of: registered)
        try transaction.give(row, key, info, to: open, parts: .all)
        if transaction.changes.changeCount != changeCount { position = info.scanKey(key) }
      }
    }
    transaction.setReach(BuildReach(record), of: registered)
    try transaction.flushExtensions()
    try transaction.open(registered).listener?.didFinishBuild()
  }

  /// Counts the entries of parts that were not counted, and removes the counts of those that no longer are.
  private func recount(_ registered: RegisteredExtension, since former: ExtensionRecord) throws {
    for family in try registered.deadFamilies() { try transaction.pending.deleteRange(StorageRange(), in: family) }
    let record = registered.record
    for (slot, companion) in traits.companions.enumerated() {
      guard let family = registered.families[slot], !record.isCompanion(record.parts[slot]) else { continue }
      let isCounted = companion.map { former.parts.contains(where: record.parts[$0].isSame) }
      if isCounted == true { continue }
      // What this transaction has counted so far counts no more.
      let known = transaction.countedWrites.index(of: family)
      guard let companion else {
        if let known { transaction.countedWrites.with(known) { $0.end() } }
        continue
      }
      let change = CountedWrites.Change(
        family: family, runs: { try registered.makeFamily(companion) }, tree: RunTree())
      if let known {
        transaction.countedWrites.with(known) { $0 = change }
      } else {
        _ = transaction.countedWrites.append(change)
      }
      try transaction.recount(slot, of: registered)
    }
  }

  // MARK: - Beside the one in force

  private func addShadow(
    _ registered: RegisteredExtension, _ record: ExtensionRecord, _ list: ExtensionList
  ) throws {
    var members = list.members
    members.shadows.removeAll { $0.name == name }
    members.shadows.append(registered)
    transaction.install(ReplacedDefinitions(ExtensionList(members), transaction.replaced))
    try registered.save(record, transaction, as: .shadow)
    transaction.onApplied { [core, name] _ in
      core.extensions.change { members in
        members.shadows.removeAll { $0.name == name }
        members.shadows.append(registered)
      }
      core.extensions.noteLeftovers()
      ExtensionBuild(core, registered).start()
    }
  }
}

extension ExtensionRecord {
  /// Returns whether an extension with this record has the content of one with another record, whatever parts of them
  /// are counted.
  fileprivate func hasContent(of other: ExtensionRecord) -> Bool {
    versionTag == other.versionTag && layout == other.layout && scope == other.scope
      && contentParts.elementsEqual(other.contentParts) { $0.isSame(as: $1) }
  }
}

extension CountedWrites.Change {
  /// Discards what has been counted, of a part that is counted no longer.
  fileprivate mutating func end() { self = CountedWrites.Change(family: family, runs: runs, tree: RunTree()) }
}

extension WriteTransaction {
  /// Passes a row to an extension that is being built, as inserted. The row counts for `parts`, and the extension's
  /// writes are applied to these and to `reviewed`.
  func give(
    _ row: StoredRow, _ key: [UInt8], _ info: CollectionInfo, to open: OpenExtension, parts: PartSet,
    reviewed: PartSet = []
  ) throws {
    let facts = usableFacts(info)
    facts.set(
      .inserted, key, info, id: row.header.id, number: 0, bytes: row.bytes,
      row.metadataBytes.map { EncodedMetadata(bytes: $0) }, old: nil, oldMetadata: nil, wasChanged: false)
    try dooming { try notify(facts, to: open, parts: parts, reviewed: reviewed) }
  }

  /// Replaces the definition of an extension by another one, with other closures or another version of what it keeps.
  ///
  /// The new definition is in force for this transaction from this call on, and for others with the commit; if the
  /// transaction or a savepoint around the call is undone, the old one is in force again. Transactions that began
  /// before the commit keep the old definition and its content. If version, layout, scope, parts and dependencies are
  /// those of the old definition, the content stays; if parts differ in `isCounted` alone, the content stays, too, and
  /// their entries are counted in this transaction, or their counts removed. Otherwise, if its scope has at most 10,000
  /// rows, they are passed to the new definition in this transaction. If it has more, the new definition is built in
  /// the background while the old one serves reads and is kept up to date, until one commit puts the new one in force:
  /// `Database.waitUntilReady` waits for that. Another replacement ends such a build. If the old definition was not
  /// ready, the new one is in force at once, and throws `.notReady` until it is built.
  ///
  /// Extensions that depend on this one receive `ReplacedDependency`. Settings stay. The shared state moves by
  /// `didSkip`. A program that is started again before the build has ended registers one of the two definitions, or
  /// both by `Database.register(_:as:replacing:)`.
  ///
  /// Must not be called inside hooks or in concurrent writes: throws `.invalidArgument`. Also throws
  /// `.unknownExtension`, `.invalidDefinition`, `.definitionDiffers` for a handle of another type, and what the
  /// extension throws: an error of its hooks dooms the transaction, whereas after an error of `didFinishBuild` nothing
  /// has changed.
  public func replaceDefinition<Definition: DatabaseExtension>(
    of handle: ExtensionHandle<Definition>, by new: Definition, progress: (@Sendable (BuildProgress) -> Void)? = nil
  ) throws {
    try check()
    try requireRowsWritable()
    guard reads == nil else {
      throw DatabaseError(.invalidArgument, "a definition can't be replaced in a concurrent write; use write")
    }
    guard !hooks.isRunning, !hooks.isFlushing, hooks.rowBan == nil else {
      throw DatabaseError(
        .invalidArgument, "a definition is replaced by a hook; replace it in the closure of the write")
    }
    // The pending changes were received by the current definitions.
    try flushExtensions()
    try savepoint { try Replacement(self, of: handle.name, by: new, progress: progress).run() }
  }
}

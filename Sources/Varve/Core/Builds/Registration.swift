internal import Synchronization

/// Registers an extension: makes sure that what it keeps is that of all rows, and goes on being that.
///
/// # Steps
/// 1. One commit writes its record with the state *building*, empties what it kept before where that is not of this
///    definition (its families are dropped once the commit is durable), and from then on it receives the changes of rows up to
///    the watermark, which is before all rows.
/// 2. Chunk by chunk, each an ordinary write: the next rows as they are now are given to it as inserted, and the
///    watermark behind them moves with the same commit. Other writers come in between.
/// 3. One commit says *ready*.
///
/// No snapshot is held, so a build may take as long as it wants, and no row can be missed: whoever
/// changes a row behind the watermark leaves it to the build, and in front of it notifies the extension. A chunk ends after
/// a row whose hooks changed rows: the next one reads again what lies ahead.
///
/// # How a build ends
/// - An error of the extension drops what was built, in one commit.
/// - A crash, `close`, a failure of the storage and cancellation leave the watermark. The next registration continues
///   there: in the same session the extension stays registered meanwhile, so that no commit passes it.
/// - A dependency that another thread builds is waited for first.
///
/// One that is stale and catches up goes by the feed instead (`CatchingUp`); where that can't be done it begins at 1.
struct Registration<Definition: DatabaseExtension> {
  let core: DatabaseCore
  let definition: Definition
  let traits: ExtensionTraits
  let name: String
  let progress: (@Sendable (BuildProgress) -> Void)?
  private let failure = SharingFailure()

  init(
    core: DatabaseCore, definition: Definition, name: String, progress: (@Sendable (BuildProgress) -> Void)?
  ) {
    self.core = core
    self.definition = definition
    traits = ExtensionTraits(definition)
    self.name = Name.composed(name)
    self.progress = progress
  }

  /// The most rows, and the longest, that a chunk holds the writer.
  static var chunkRows: Int { 1_000 }
  static var chunkDuration: Duration { .milliseconds(5) }

  /// A build waits for the writer as long as it takes: giving up would throw away what was built.
  private var terms: WriteTerms { WriteTerms(label: "register \(name)", waitsForWriter: true) }

  /// For a commit behind which families are dropped: those are gone for certain then, also after a loss of power, and
  /// the record that says so must be there.
  private var termsBeforeDrop: WriteTerms {
    WriteTerms(label: "register \(name)", durability: .power, waitsForWriter: true)
  }

  func run() throws -> Registered<Definition> {
    try core.requireNoTransaction("extension \"\(name)\" is registered")
    try core.enter()
    defer { core.leave() }
    let registered = try traits.asksRowsByID ? beginWithRowIDMap() : begin()
    defer { registered.build.end() }
    if let error = failure.error { throw error }
    do {
      try dropDeadFamilies(registered)
      try waitForDependencies()
      try catchUp(registered)
      while try !step(registered) {}
    } catch let failure as ExtensionFailure {
      try? abandon(registered)
      if traits.asksRowsByID { try? core.rowIDMapLock.withLock { _ in try core.dropRowIDMapIfUnused() } }
      throw failure.cause
    }
    return Registered(name: name)
  }

  /// Runs a chunk of a build in a write. An error of the extension comes as `ExtensionFailure`, every other one as it is.
  private func chunk<Result>(_ body: (WriteTransaction) throws -> Result) throws -> Result {
    try Task.checkCancellation()
    var running: WriteTransaction?
    do {
      return try core.write(terms) { transaction in
        running = transaction
        return try body(transaction)
      }
    } catch {
      // Hooks and flushes doom their transaction. What they met in the storage is not their own error.
      guard running?.doom != nil, !Self.isOfStorage(error) else { throw error }
      throw ExtensionFailure(cause: error)
    }
  }

  private static func isOfStorage(_ error: any Error) -> Bool {
    guard let error = error as? DatabaseError else { return error is CancellationError }
    let codes: [DatabaseError.Code] = [.storage, .outcomeUnknown, .corruption, .snapshotTooOld, .closed, .writerBusy]
    return codes.contains(error.code)
  }

  /// A dependency that is being built is built first. Throws `.notReady` where its build was interrupted.
  private func waitForDependencies() throws {
    for dependency in traits.dependencies {
      while true {
        try Task.checkCancellation()
        guard let other = core.extensions.list[dependency] else {
          throw DatabaseError(
            .unknownExtension, "\"\(name)\" depends on \"\(dependency)\", which was unregistered meanwhile")
        }
        if other.record.state == .ready { break }
        guard other.build.waitForEnd() || other.record.state == .ready else {
          throw DatabaseError(
            .notReady, "\"\(name)\" depends on \"\(dependency)\", whose build was interrupted; register that one first")
        }
      }
    }
  }

  // MARK: - The first commit

  /// The map has to be there, and of all rows that are asked for, before one that asks is given the first.
  private func beginWithRowIDMap() throws -> RegisteredExtension {
    try core.rowIDMapLock.withLock { _ in
      try core.provideRowIDMap(for: traits.scope)
      do { return try begin() } catch {
        try? core.dropRowIDMapIfUnused()
        throw error
      }
    }
  }

  private func begin() throws -> RegisteredExtension {
    try core.write(termsBeforeDrop) { transaction in
      let list = core.extensions.list
      try traits.check(name: name)
      guard definition is RowIDMap || !RowIDMap.isReserved(name) else {
        throw DatabaseError(.invalidArgument, "names of extensions that begin with \"varve.\" are the database's own")
      }
      if let interrupted = list[name] {
        guard interrupted.record.state != .ready, interrupted.definition is Definition,
          interrupted.record.versionTag == fullTag(list), interrupted.build.take()
        else { throw DatabaseError(.alreadyDefined, "an extension is registered as \"\(name)\" already") }
        return interrupted
      }
      for dependency in traits.dependencies where list[dependency] == nil {
        throw DatabaseError(
          .unknownExtension, "\"\(name)\" depends on \"\(dependency)\", which is not registered; register it first")
      }
      try traits.check(name: name, beside: list)
      try definition.check(registered: Dictionary(uniqueKeysWithValues: list.ordered.map { ($0.name, $0.definition) }))
      let registered = try record(transaction, list)
      transaction.onApplied { _ in
        // No commit is made meanwhile: the next one's delta is the first that it receives.
        guard share(registered) else { return }
        core.extensions.change { $0.append(registered) }
        core.extensionCatalog.noteRegistered(name)
      }
      return registered
    }
  }

  /// Makes what its transactions share, or moves it on, with the writer held. False: it can't be made, and the
  /// registration fails.
  private func share(_ registered: RegisteredExtension) -> Bool {
    guard let shared = registered.shared else { return true }
    do {
      let transaction = ReadTransaction(database: core, snapshot: try core.backend.snapshot())
      defer { transaction.end() }
      try shared.skip(to: SharedView(registered, transaction, nil))
      return true
    } catch {
      failure.set(error)
      return false
    }
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
    let registered = try RegisteredExtension(
      name: name, definition: definition, traits: traits, record: record,
      order: isRecorded ? UInt64(number) : core.extensions.nextOrder, backend: core.backend,
      catalogFamily: core.catalog.families.catalog, readySince: record.state == .ready ? .zero : nil,
      beganAnew: isAnew)
    _ = registered.build.take()
    if !isRecorded { return registered }
    for family in try registered.deadFamilies() {
      try transaction.pending.deleteRange(StorageRange(), in: family)
    }
    if record != known { try save(record, of: registered, transaction) }
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
    var keepsAll = kept != nil
    for index in record.parts.indices {
      let part = record.parts[index]
      let known = kept?.parts.first { $0.isSame(as: part) }
      // What is kept in memory is empty since the database was opened, whatever it missed.
      if let known, !part.isVolatile {
        record.parts[index].watermark = known.watermark
      } else if known != nil, traits.configuration.build == .none {
        record.parts[index].watermark = nil
      } else if isBuilt {
        record.parts[index].watermark = []
        keepsAll = false
      }
    }
    if case .stale? = kept?.state, let state = kept?.state {
      // It catches up first: new parts are built after that.
      record.state = state
    } else if record.parts.isEmpty {
      record.state = kept?.state ?? (isBuilt ? .building(watermark: []) : .ready)
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
    guard !traits.dependencies.contains(where: { list[$0]?.beganAnew == true }) else { return false }
    switch known.state {
    case .building, .ready: return true
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

  /// Drops the families of parts that begin again, which may be of another form, and of parts that the definition does not
  /// have any more. They were emptied by the commit that said so: a crash leaves them whole with the old record, or empty
  /// with the new one.
  private func dropDeadFamilies(_ registered: RegisteredExtension) throws {
    if registered.number == 0 { return }
    // Nobody writes to them meanwhile.
    try core.write(terms) { _ in try registered.drop(try registered.deadFamilies()) }
  }

  /// It can't catch up.
  private func beginAnew(_ registered: RegisteredExtension) throws {
    try core.write(termsBeforeDrop) { transaction in
      try requireRegistered(registered)
      var record = registered.record
      record.beginAnew()
      for family in registered.families.compactMap(\.self) {
        try transaction.pending.deleteRange(StorageRange(), in: family)
      }
      try save(record, of: registered, transaction)
      transaction.onApplied { _ in
        registered.forgetFamilies()
        _ = share(registered)
      }
    }
    try dropDeadFamilies(registered)
    registered.set(BuildProgress(rowsDone: 0, rowsTotal: 0))
  }

  /// What it is built from: its own version, and those of what it depends on, so that it is built again with them.
  private func fullTag(_ list: ExtensionList) -> String {
    let dependencies = traits.dependencies.sorted().compactMap { list[$0] }
    return ([traits.configuration.version] + dependencies.map { "\($0.name)=\($0.record.versionTag)" }).joined(
      separator: String(ExtensionRecord.tagSeparator))
  }

  /// Writes its record, and lets it stand in memory once the commit is applied.
  private func save(
    _ record: ExtensionRecord, of registered: RegisteredExtension, _ transaction: WriteTransaction
  ) throws {
    try transaction.pending.put(
      CatalogKey.databaseExtension(name), record.bytes, in: core.catalog.families.catalog)
    transaction.onApplied { version in
      core.extensionCatalog.set(record, for: name)
      registered.set(record, readySince: record.state == .ready ? version : nil)
      core.extensions.noteChange()
    }
  }

  /// Somebody may have unregistered it between two chunks, and even registered another by its name. With the writer
  /// held.
  private func requireRegistered(_ registered: RegisteredExtension) throws {
    guard core.extensions.list[name] === registered else {
      throw DatabaseError(.unknownExtension, "extension \"\(name)\" was unregistered while it was being registered")
    }
  }

  // MARK: - Catching up

  /// Brings it what it missed; where that can't be done it is to be built again afterwards.
  private func catchUp(_ registered: RegisteredExtension) throws {
    let known = try core.backend.snapshot().version
    var rowLimit = Self.chunkRows
    var duration = Self.chunkDuration
    while case .stale(let position?) = registered.record.state {
      // Behind the end as it was it runs after the other writers: with longer steps, until it is there.
      if position.version > known.number {
        rowLimit = min(2 * rowLimit, .max / 2)
        duration *= 2
      }
      let isPossible = try chunk { transaction in
        try catchUp(registered, from: position, rowLimit, duration, transaction)
      }
      guard isPossible else { return try beginAnew(registered) }
      progress?(registered.progress)
    }
  }

  /// One chunk. False where it can't: nothing was done.
  private func catchUp(
    _ registered: RegisteredExtension, from position: FeedPosition, _ rowLimit: Int, _ duration: Duration,
    _ transaction: WriteTransaction
  ) throws -> Bool {
    try requireRegistered(registered)
    let catching = CatchingUp(core: core, definition: definition, name: name, registered: registered)
    var record = registered.record
    var progress = registered.progress
    guard let step = try catching.step(from: position, rowLimit: rowLimit, duration: duration, transaction) else {
      return false
    }
    record.state = step.state
    // Parts that are new are built now.
    if record.state == .ready, !record.parts.isEmpty { record.settle() }
    progress.rowsDone += step.count
    // How much there is nobody knows before it was read.
    progress.rowsTotal = progress.rowsDone + (record.state == .ready ? 0 : 1)
    try save(record, of: registered, transaction)
    registered.set(progress)
    return true
  }

  // MARK: - The chunks

  /// Gives it the next rows. True: it is ready.
  private func step(_ registered: RegisteredExtension) throws -> Bool {
    guard registered.record.frontier != nil else {
      progress?(BuildProgress(rowsDone: 0, rowsTotal: 0))
      return true
    }
    let isReady = try chunk { transaction in try give(registered, transaction) }
    progress?(registered.progress)
    return isReady
  }

  /// Returns whether it is ready.
  private func give(_ registered: RegisteredExtension, _ transaction: WriteTransaction) throws -> Bool {
    try requireRegistered(registered)
    var record = registered.record
    guard let frontier = record.frontier else { return true }
    if traits.configuration.build == .none {
      while record.frontier != nil { record.advance(to: nil) }
      try save(record, of: registered, transaction)
      return true
    }
    let limit = record.nextFrontier
    var walk = BuildWalk(core.catalog.collections, behind: frontier.watermark, transaction)
    let begin = ContinuousClock.now
    var reached: [UInt8]?
    var isAtLimit = false
    var count = 0
    let open = try transaction.dooming { try transaction.open(registered) }
    let changeCount = transaction.changes.changeCount
    while count < Self.chunkRows, transaction.changes.changeCount == changeCount,
      count % 64 != 63 || ContinuousClock.now - begin < Self.chunkDuration,
      let (info, key, row) = try walk.next()
    {
      let position = info.walkKey(key)
      if let limit, ByteOrder.precedes(limit, position) {
        // From here on the parts that were ahead need the rows, too.
        isAtLimit = true
        break
      }
      record.advance(to: position)
      transaction.setReach(BuildReach(record), of: registered)
      // A hook may change rows ahead, which the cursor does not see: the next chunk begins after this row.
      if traits.scope.contains(info.name) {
        let facts = ChangeFacts(info)
        facts.set(
          .inserted, key, info, id: row.header.id, number: 0, bytes: row.bytes,
          row.metadataBytes.map { EncodedMetadata(bytes: $0) }, old: nil, oldMetadata: nil)
        try transaction.dooming { try transaction.notify(facts, to: open, parts: frontier.parts) }
      }
      reached = position
      count += 1
    }
    if isAtLimit {
      record.advance(to: limit)
    } else if reached == nil {
      // What is flushed in the commit that says "ready" may change any row.
      record.advance(to: limit)
    }
    transaction.setReach(
      record.state == .ready ? BuildReach(whole: record.wholeParts) : BuildReach(record), of: registered)
    try save(record, of: registered, transaction)
    var progress = registered.progress
    if progress.rowsDone == 0 { progress.rowsTotal = try transaction.count() }
    progress.rowsDone += count
    registered.set(progress)
    return record.state == .ready
  }

  /// Leaves nothing of a build that failed, and of those that were registered on top of it meanwhile. What was catching
  /// up stays where it came to. Waits for the writer as long as it takes: nobody comes after it to do so.
  private func abandon(_ registered: RegisteredExtension) throws {
    let terms = WriteTerms(label: "register \(name)", waitsForWriter: true)
    if registered.record.state.isStale {
      try core.write(terms) { transaction in
        guard core.extensions.list[name] === registered else { return }
        let gone = core.extensions.list.dependents(of: name)
        transaction.onApplied { _ in core.extensions.change { $0.removeAll { gone.contains($0.name) } } }
        for other in gone where other != name { core.extensionCatalog.noteUnregistered(other) }
      }
      return
    }
    _ = try core.drop(name, of: registered)
  }
}

/// An error of the extension that is built.
private struct ExtensionFailure: Error {
  let cause: any Error
}

/// Why the shared state of an extension could not be made, where nothing can be thrown.
private final class SharingFailure {
  private(set) var error: (any Error)?
  func set(_ error: any Error) { self.error = error }
}

internal import Synchronization

/// Registers an extension: makes sure that what it keeps is that of all rows, and goes on being that.
///
/// # Steps
/// 1. One commit writes its record with the state *building*, empties what it kept before where that is not of this
///    definition (its families are dropped once the commit is durable), and from then on writers tell it of rows up to
///    the watermark, which is before all rows.
/// 2. Chunk by chunk, each an ordinary write: the next rows as they are now are given to it as inserted, and the
///    watermark behind them moves with the same commit. Other writers come in between.
/// 3. One commit says *ready*.
///
/// There is no instant that is held, so a build may take as long as it wants, and no row can be missed: whoever
/// changes a row behind the watermark leaves it to the build, and in front of it tells the extension. A crash goes on
/// from the watermark. A build that throws drops what was built, in one commit.
///
/// One that is stale and catches up goes by the feed instead (`CatchingUp`); where that can't be done it begins at 1.
struct Registration<Definition: DatabaseExtension> {
  let core: DatabaseCore
  let definition: Definition
  let name: String
  let progress: (@Sendable (BuildProgress) -> Void)?

  /// The most rows, and the longest, that a chunk holds the writer.
  static var chunkRows: Int { 1_000 }
  static var chunkDuration: Duration { .milliseconds(5) }

  private var terms: WriteTerms { WriteTerms(label: "register \(name)") }

  /// For a commit behind which families are dropped: those are gone for certain then, also after a loss of power, and
  /// the record that says so must be there.
  private var termsBeforeDrop: WriteTerms { WriteTerms(label: "register \(name)", durability: .power) }

  func run() throws -> Registered<Definition> {
    try core.requireNoTransaction("extension \"\(name)\" is registered")
    try core.enter()
    defer { core.leave() }
    let (registered, isKept) = try definition.findsRowsByID ? beginWithRowIDMap() : begin()
    do {
      if !isKept { try drop(registered) }
      try catchUp(registered)
      while try !step(registered) {}
    } catch {
      try? abandon(registered)
      if definition.findsRowsByID { try? core.rowIDMapLock.withLock { _ in try core.dropRowIDMapIfUnused() } }
      throw error
    }
    return Registered(name: name)
  }

  // MARK: - The first commit

  /// The map has to be there, and of all rows, before one that asks for it is given the first.
  private func beginWithRowIDMap() throws -> (RegisteredExtension, isKept: Bool) {
    try core.rowIDMapLock.withLock { _ in
      // One whose build failed, and could not be taken away then.
      if let map = core.extensions.list[RowIDMap.name], map.record.state != .ready { _ = try core.drop(map.name) }
      if core.extensions.list[RowIDMap.name] == nil {
        _ = try Registration<RowIDMap>(core: core, definition: RowIDMap(), name: RowIDMap.name, progress: nil).run()
      }
      do { return try begin() } catch {
        try? core.dropRowIDMapIfUnused()
        throw error
      }
    }
  }

  private func begin() throws -> (RegisteredExtension, isKept: Bool) {
    try core.write(termsBeforeDrop) { transaction in
      let list = core.extensions.list
      guard !name.isEmpty else { throw DatabaseError(.invalidArgument, "an extension's name is empty") }
      guard definition is RowIDMap || !RowIDMap.isReserved(name) else {
        throw DatabaseError(.invalidArgument, "names of extensions that begin with \"varve.\" are the database's own")
      }
      guard list[name] == nil else {
        throw DatabaseError(.alreadyDefined, "an extension is registered as \"\(name)\" already")
      }
      for dependency in definition.dependencies where list[dependency] == nil {
        throw DatabaseError(
          .unknownExtension, "\"\(name)\" depends on \"\(dependency)\", which is not registered; register it first")
      }
      try definition.check(registered: Dictionary(uniqueKeysWithValues: list.ordered.map { ($0.name, $0.definition) }))
      let (registered, isKept) = try record(transaction, list)
      transaction.onApplied { _ in
        core.extensions.change { $0.append(registered) }
        core.extensionCatalog.noteRegistered(name)
      }
      return (registered, isKept)
    }
  }

  /// Finds what it kept of use, or begins anew.
  private func record(
    _ transaction: WriteTransaction, _ list: ExtensionList
  ) throws -> (RegisteredExtension, isKept: Bool) {
    let known = core.extensionCatalog.record(name)
    let tag = fullTag(list)
    let number = known?.number ?? core.extensionCatalog.nextNumber
    let isKept = known.map { canGoOn($0, tag, list) } ?? false
    // One that is given no rows is built, too, in no time: before its old families are dropped nobody may write to it.
    let record =
      isKept && known != nil
      ? known ?? ExtensionRecord(number: number, state: .ready, layoutVersion: 0, versionTag: tag)
      : ExtensionRecord(
        number: number, state: .building(watermark: []), layoutVersion: Definition.layoutVersion, versionTag: tag)
    let registered = try RegisteredExtension(
      name: name, definition: definition, record: record, order: Int(number), backend: core.backend,
      catalogFamily: core.catalog.families.catalog, readySince: record.state == .ready ? .zero : nil,
      beganAnew: !isKept)
    if !isKept {
      registered.empty(transaction)
      try save(record, of: registered, transaction)
      transaction.pending.put(
        CatalogKey.nextExtension, BigEndian.bytes(max(core.extensionCatalog.nextNumber, number + 1)),
        in: core.catalog.families.catalog)
      transaction.onApplied { _ in core.extensionCatalog.noteGiven(number) }
    }
    return (registered, isKept)
  }

  /// Whether what is on disk is of this definition, and whole, or can be made so.
  private func canGoOn(_ known: ExtensionRecord, _ tag: String, _ list: ExtensionList) -> Bool {
    guard known.versionTag == tag, known.layoutVersion == Definition.layoutVersion, definition.isPersistent else {
      return false
    }
    // What it made of another is gone with that one's content.
    guard !definition.dependencies.contains(where: { list[$0]?.beganAnew == true }) else { return false }
    switch known.state {
    case .building, .ready: return true
    // Another extension may have been built anew since, with other content than it has looked at.
    case .stale(let position): return position != nil && definition.catchesUp && definition.dependencies.isEmpty
    }
  }

  /// Drops the families of one that begins anew: its next parts may be of another kind. They were emptied by the commit
  /// that said so: a crash leaves it whole with its old record, or empty with the new one.
  private func drop(_ registered: RegisteredExtension) throws {
    // Nobody writes to them meanwhile.
    try core.write(terms) { _ in try registered.dropFamilies() }
  }

  /// It can't catch up.
  private func beginAnew(_ registered: RegisteredExtension) throws {
    try core.write(termsBeforeDrop) { transaction in
      try requireRegistered(registered)
      var record = registered.record
      record.state = .building(watermark: [])
      registered.empty(transaction)
      try save(record, of: registered, transaction)
    }
    try drop(registered)
    registered.set(BuildProgress(rowsDone: 0, rowsTotal: 0))
  }

  /// What it is built from: its own tag, and those of what it depends on, so that it is built anew with them.
  private func fullTag(_ list: ExtensionList) -> String {
    let dependencies = definition.dependencies.sorted().compactMap { list[$0] }
    return ([definition.versionTag] + dependencies.map { "\($0.name)=\($0.record.versionTag)" }).joined(
      separator: String(ExtensionRecord.tagSeparator))
  }

  /// Writes its record, and lets it stand in memory once the commit is applied.
  private func save(
    _ record: ExtensionRecord, of registered: RegisteredExtension, _ transaction: WriteTransaction
  ) throws {
    transaction.pending.put(
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

  /// Tells it what it missed; where that can't be done it is to be built anew afterwards.
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
      let isPossible = try core.write(terms) { transaction in
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
    guard case .building(let watermark) = registered.record.state else {
      progress?(BuildProgress(rowsDone: 0, rowsTotal: 0))
      return true
    }
    let reached = try core.write(terms) { transaction in
      try give(registered, behind: watermark, transaction)
    }
    progress?(registered.progress)
    return reached == nil
  }

  /// Returns the new watermark; nil behind the last row: then it is ready.
  private func give(
    _ registered: RegisteredExtension, behind watermark: [UInt8], _ transaction: WriteTransaction
  ) throws -> [UInt8]? {
    try requireRegistered(registered)
    guard definition.isPopulated else {
      var record = registered.record
      record.state = .ready
      try save(record, of: registered, transaction)
      return nil
    }
    var walk = BuildWalk(core.catalog.collections, behind: watermark, transaction)
    let begin = ContinuousClock.now
    var reached: [UInt8]?
    var count = 0
    let hearing = try transaction.open(registered)
    while count < Self.chunkRows, count % 64 != 63 || ContinuousClock.now - begin < Self.chunkDuration,
      let (info, key, row) = try walk.next()
    {
      let place = info.walkKey(key)
      transaction.building = (name, place)
      if definition.scope.contains(info.name) {
        do {
          try hearing.didInsert(row)
        } catch {
          transaction.doom(error)
          throw error
        }
      }
      reached = place
      count += 1
    }
    var record = registered.record
    record.state = reached.map { .building(watermark: $0) } ?? .ready
    try save(record, of: registered, transaction)
    var progress = registered.progress
    if progress.rowsDone == 0 { progress.rowsTotal = try transaction.count() }
    progress.rowsDone += count
    registered.set(progress)
    return reached
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

/// Walks the rows of all collections by the ids of those, and then by key.
private struct BuildWalk {
  private let transaction: WriteTransaction
  private var infos: [CollectionInfo]
  private var cursor: FamilyCursor?
  private let watermark: [UInt8]

  init(_ infos: [CollectionInfo], behind watermark: [UInt8], _ transaction: WriteTransaction) {
    self.transaction = transaction
    self.watermark = watermark
    let first = BigEndian.number(watermark, as: UInt32.self) ?? 0
    self.infos = infos.filter { $0.record.id >= first }.sorted { $0.record.id > $1.record.id }
  }

  mutating func next() throws -> (CollectionInfo, [UInt8], Row)? {
    while let info = infos.last {
      if cursor == nil { cursor = transaction.cursor(range(of: info), in: info.objects) }
      if let (key, value) = try cursor?.next() {
        return (info, key, Row(try transaction.stored(key, value, info), in: transaction))
      }
      infos.removeLast()
      cursor = nil
    }
    return nil
  }

  private func range(of info: CollectionInfo) -> StorageRange {
    var range = info.range
    guard watermark.starts(with: BigEndian.bytes(info.record.id)) else { return range }
    let key = info.record.isOwn ? Array(watermark.dropFirst(4)) : watermark
    range.lower = key + [0]
    return range
  }
}

internal import Synchronization

/// Keeps a read-only engine up to date with the process that writes the database.
///
/// # One step
/// 1. *Aim*: load the last commit that the writer published (`SharedPage`), then the MANIFEST's new edits. Everything
///    up to the last sequence of these edits counts as published: it is durable.
/// 2. *Read*: insert the log's records up to that commit into memtables of this process. Entries that are in tables
///    already are skipped. If an edit is read meanwhile, the log is read up to the last sequence of that edit, too.
/// 3. *Keep*: open the new tables, because the writer may remove them at any time.
/// 4. *Show*: change versions and memtables, and raise the visible sequence, while no read begins.
///
/// Nothing is written, and nothing becomes visible before 4: a step that throws leaves the earlier state, and the next
/// one continues where it stopped.
///
/// # Concurrent changes by the writer
/// - It appends: an incomplete record means "not yet".
/// - It frees segments, removes them or reuses their files: the MANIFEST records that first, and the name of a segment
///   is gone before its bytes change. If the name of the segment at the cursor is gone, the position is lost: the log
///   is read again from the oldest segment that the MANIFEST names; entries that were read before are skipped. The
///   second time, this process keeps the segments meanwhile (`SharedPage+Slots`).
/// - It logs a memtable again and frees the segment with the original: the edit that frees it has a last sequence at or
///   after the last commit before the copy (`CommitPipeline+LogBound`), so the copy is read.
/// - It removes tables: a later edit records that. The MANIFEST is read again, and the step continues with it.
/// - Its sync fails, and it logs again what was not durable (`LogWriter` restarts): the log is read again as for freed
///   segments.
/// - It dies. Commits that waited for a sync are in the log, and so are those after them: from now on a step reads to
///   the end of the log, as the next recovery does.
/// - Another process opens the database. It finds what the first one published, unless the power failed; then this
///   engine has seen more than there is, and every later step throws `.rewound`.
///
/// # Invariants
/// 1. Every logged entry up to `incorporated` is in memtables or tables of the views.
/// 2. No entry is both in a memtable and in a table of a view.
/// 3. No table of a view has an entry above the visible sequence.
/// 4. What is shown with the tables of an edit includes the log from the oldest segment of that edit, or from the
///    earlier position where this process had read to, at least up to the last sequence of that edit.
///
/// # Concurrency
/// Safe from any thread; one step at a time.
final class Following: @unchecked Sendable {
  // Sendable: mutable state is accessed under `turn`.
  private let turn = Mutex(())
  let opening: Opening
  let engine: EngineCore
  let views: FollowedViews
  let session: MachineSession?

  var manifest: ManifestTail
  var tail: LogTail
  var page: SharedPage?
  /// The life of the last writer seen.
  private var lifeID: UInt64?
  /// The last commit that this writer had published at the last step.
  ///
  /// The engine may show later ones by now, which the next writer committed: a step continues over the end of a writer.
  private var announcedInLife = SequenceNumber.zero
  /// The last published commit for the last step to read, or `nil` if the step read to the end of the log.
  private(set) var announced: SequenceNumber?
  /// The life of the writer when the segment at the cursor had its name when it was last checked.
  private var placedLifeID: UInt64?
  /// The page's last commit at the last step, or `nil` if there is no valid page.
  ///
  /// It is set even for a writer that has ended, because the next writer changes it.
  private var awaited: SequenceNumber?
  /// The life of a writer whose process has ended.
  private var endedLifeID: UInt64?
  /// The time at which the writer's process was last compared with the one that now has its process id.
  private var askedAt: UInt64 = 0
  private let namespace = ProcessIdentity.namespace
  /// The time at which the files' identities were last checked.
  private var filesCheckedAt: UInt64 = 0
  /// The sequence up to which every logged entry is in the views (invariant 1).
  private(set) var incorporated = SequenceNumber.zero
  /// The last entry that was read.
  private var lastRead = SequenceNumber.zero
  /// The families of the MANIFEST's state.
  private var families = ReplayedFamilies()
  /// The ends of segments that recovery or a failed sync might cut elsewhere.
  private var ends: [FileNumber: LogSegmentHeader.Predecessor] = [:]
  /// The sizes in bytes of the segments that were read.
  private var capacities: [FileNumber: Int] = [:]
  private var isExtentNoted = false
  /// The state that the views show.
  private var shown: ManifestState
  /// The error because of which this engine can't continue.
  private var failure: EngineError?
  private var lastStop: LogSegmentHeader.Predecessor?
  private var isStopChecked = false
  /// The number of consecutive steps in which the log could not be followed although the writer had more.
  private var stuckCount = 0

  private static let stuckMaximum = 1_000

  /// The number of times that a step may lose its position before it keeps segments, if it can.
  private static let freePassMaximum = 2
  /// The number of times that a step may lose its position before it fails.
  private static let passMaximum = 8

  init(_ opening: Opening, _ engine: EngineCore, _ views: FollowedViews, _ manifest: ManifestTail) {
    self.opening = opening
    self.engine = engine
    self.views = views
    self.manifest = manifest
    let fileSystem = opening.environment.fileSystem
    tail = LogTail(
      directory: opening.path, fileSystem: fileSystem, account: engine.tree.budget.account(.log))
    session = fileSystem.machineSession()
    shown = manifest.state
  }

  var fileSystem: any FileSystem { opening.environment.fileSystem }
  private var visible: SequenceNumber { engine.pipeline.visible }

  /// Advances to the last commit that the writer has published. Returns the last commit that reads see afterwards.
  func catchUp() throws(EngineError) -> SequenceNumber {
    try turn.withLock { (_) throws(EngineError) in
      if let failure { throw failure }
      try step()
      return visible
    }
  }

  /// A Boolean value that indicates whether the last step read the last commit that a running writer had announced.
  var hasReadAnnounced: Bool { turn.withLock { _ in announced.map { $0 <= lastRead } ?? false } }

  /// Runs `body` between two steps.
  func betweenSteps<R>(_ body: () throws(EngineError) -> R) throws(EngineError) -> R {
    try turn.withLock { (_) throws(EngineError) in try body() }
  }

  // MARK: - A step

  /// The result of reading the log.
  private enum End {
    /// All requested records were read.
    case complete
    /// The segment at the cursor does not belong to the log any more.
    case lost
    /// The writer is in another segment that can't be reached yet.
    case stuck
  }

  private func step() throws(EngineError) {
    var goal = try aim()
    var lostCount = 0
    var hasPlace = tail.number != nil
    var mayRestart = true
    var kept: KeptSegments?
    defer { withExtendedLifetime(kept) {} }
    while true {
      let changes = manifest.changeCount
      var end = try readLog(through: goal)
      // The chain may end here although the writer is in a later segment, for example if that was a restart.
      if end == .stuck && mayRestart {
        mayRestart = false
        end = .lost
      }
      if end == .lost {
        if hasPlace {
          lostCount += 1
          // Entries of what was lost may come after newer ones. They are inserted between memtables.
          engine.pipeline.memory.freezeReplayed(engine.registry, .beforeOpen)
        }
        guard lostCount < Self.passMaximum else { throw busy() }
        if lostCount >= Self.freePassMaximum, kept == nil { kept = page?.keepSegments(namespace: namespace) }
        hasPlace = true
        try findOldestSegment()
        goal = max(goal, flushed)
        continue
      }
      if end == .stuck, flushed > lastRead {
        // The new views would need entries that were not read.
        try noteStuck()
        return
      }
      let isRead = announced == nil ? manifest.changeCount == changes || flushed <= lastRead : flushed <= goal
      goal = max(goal, flushed)
      guard isRead, try keepTables() else {
        goal = max(goal, flushed)
        continue
      }
      try show()
      return
    }
  }

  private func busy() -> EngineError {
    let help =
      page.map(\.isWritable) == false
      ? "this process has no write permission for \(FileName.shared.name), by which it would keep segments"
      : "try again later"
    return EngineError(
      .busy, "the writer freed segments of the log \(Self.passMaximum) times while they were being read; \(help)",
      file: opening.path)
  }

  /// Returns the last commit that this step reads.
  private func aim() throws(EngineError) -> SequenceNumber {
    try checkFiles()
    // The page is read before the MANIFEST, because a published commit names only families that earlier edits made.
    try readPage()
    _ = try manifest.poll()
    try didChangeManifest()
    if let announced { return max(announced, flushed) }
    return .maximum
  }

  /// Checks occasionally that the files are still the ones that a new reader would find.
  ///
  /// The open files of a database that was replaced never change, so nothing else shows it.
  private func checkFiles() throws(EngineError) {
    let now = opening.environment.clock.now()
    guard now - min(filesCheckedAt, now) >= Self.askInterval else { return }
    filesCheckedAt = now
    guard try manifest.isReplaced() || opening.openedDirectory?.isReplaced ?? false else { return }
    failure = ManifestTail.replaced(opening.path)
    throw ManifestTail.replaced(opening.path)
  }

  /// The last entry that the MANIFEST covers.
  ///
  /// It is durable, and no table has a newer one. It is not always the last entry of its batch.
  private var flushed: SequenceNumber { manifest.state.lastSequence }

  private func readPage() throws(EngineError) {
    guard let session else { return }
    if page == nil {
      page = try SharedPage.open(at: opening.path + "/" + FileName.shared.name, fileSystem)
    }
    let reading = page?.read(session: session, databaseID: manifest.state.databaseID)
    awaited = reading?.announced
    announced = awaited
    guard let page, let reading else { return }
    if hasWriterEnded(reading, page) {
      announced = nil
      // The log is read to its end, so the start of the next life does not indicate whether the power failed.
      lifeID = nil
      return
    }
    if lifeID != nil, lifeID != reading.lifeID, reading.opened < announcedInLife { throw rewound(to: reading.opened) }
    lifeID = reading.lifeID
    announcedInLife = reading.announced
  }

  /// Returns whether the process of this life is known to have ended.
  ///
  /// Whether another process got its id is checked only occasionally, because that takes several system calls.
  private func hasWriterEnded(_ reading: SharedPage.Reading, _ page: SharedPage) -> Bool {
    if reading.lifeID == endedLifeID { return true }
    guard let writer = page.writer(life: reading.lifeID, namespace: namespace) else { return false }
    let now = opening.environment.clock.now()
    if reading.lifeID == lifeID, writer.isNumberInUse, now - min(askedAt, now) < Self.askInterval { return false }
    askedAt = now
    guard !writer.isAlive else { return false }
    endedLifeID = reading.lifeID
    return true
  }

  private static let askInterval: UInt64 = 100_000_000

  /// Returns the error for shown commits that no longer exist. The state of this engine can't be used any further.
  private func rewound(to sequence: SequenceNumber) -> EngineError {
    let error = EngineError(
      .rewound,
      "the database went back to commit \(sequence), but this follower has read up to commit \(max(incorporated, visible)); close it and follow the database again",
      file: opening.path)
    failure = error
    return error
  }

  /// Creates the state of new families, so that the entries of the log find them.
  private func didChangeManifest() throws(EngineError) {
    families.removeAll()
    for family in manifest.state.families.values.sorted(by: { $0.id < $1.id }) {
      if let before = shown.families[family.id], family.flushedSequence < before.flushedSequence {
        throw rewound(to: family.flushedSequence)
      }
      guard engine.registry.find(family.id) == nil else { continue }
      engine.registry.add(
        try opening.makeFamily(
          family, .empty, engine.registry, engine.epochs, engine.pipeline.memory, engine.tree.budget))
    }
  }

  private func noteStuck() throws(EngineError) {
    stuckCount += 1
    guard stuckCount > Self.stuckMaximum else { return }
    throw .corruption("log cannot be followed: no segment continues where this one ends", file: stopName)
  }

  private var stopName: String {
    tail.number.map { opening.path + "/" + FileName.log($0).name } ?? opening.path
  }

  // MARK: - The log

  private func readLog(through goal: SequenceNumber) throws(EngineError) -> End {
    guard manifest.state.oldestLog.value != 0 else { return .complete }
    while true {
      guard let number = tail.number else { return .lost }
      if capacities.updateValue(tail.capacity, forKey: number) == nil { isExtentNoted = false }
      let cut = manifest.state.logCut(of: number).flatMap { $0.lifeID == tail.lifeID ? $0.endOffset : nil }
      while let record = try tail.record(before: cut) {
        if record.header.kind == .batch, record.header.sequence > goal { return .complete }
        try insert(record, of: number)
        tail.advance(over: record)
      }
      if let page, announced != nil, page.segment == number {
        // Another engine may have given the number to another segment.
        if placedLifeID != lifeID, try isLost(number) { return .lost }
        placedLifeID = lifeID
        return try stop()
      }
      let location = tail.location
      if try tail.moveOn(try segments(), isCut: cut.map { UInt64(tail.offset) == $0 } ?? false) {
        ends[number] = location
        continue
      }
      let isChanged = try manifest.poll()
      try didChangeManifest()
      if try isLost(number) { return .lost }
      // The change may be the cut after which the log continues.
      if isChanged { continue }
      return announced == nil ? try stop() : .stuck
    }
  }

  /// Returns the segments in the directory, ascending.
  private func segments() throws(EngineError) -> [FileNumber] {
    try fileSystem.list(opening.path).compactMap { FileName($0)?.logNumber }.sorted()
  }

  /// Returns whether the cursor is not in a live part of the log.
  private func isLost(_ number: FileNumber) throws(EngineError) -> Bool {
    let state = manifest.state
    if state.oldestLog > number { return true }
    guard try tail.isInPlace() else { return true }
    ends = ends.filter { $0.key >= state.oldestLog }
    for cut in state.logCuts {
      if cut.segment == number, cut.lifeID == tail.lifeID, cut.endOffset < UInt64(tail.offset) { return true }
      if let end = ends[cut.segment], cut.segment < number, end.end != cut.endOffset { return true }
    }
    return false
  }

  /// Stops because the writer has no more records.
  ///
  /// Damaged bytes look the same. They are searched for if a commit that is known was not found, although it may be one
  /// that was not logged, and, if no commit is known, at the second attempt at the same position.
  private func stop() throws(EngineError) -> End {
    let isSecond = lastStop == tail.location
    lastStop = tail.location
    if !isSecond { isStopChecked = false }
    let isShort = max(announced ?? .zero, flushed) > lastRead
    guard !isStopChecked, isShort || (isSecond && announced == nil) else { return .complete }
    if let damage = try tail.findDamage() { throw damage }
    isStopChecked = true
    return .complete
  }

  private func insert(_ record: LogReader.Record, of segment: FileNumber) throws(EngineError) {
    var entries = LogEntryReader(record, file: opening.path + "/" + FileName.log(segment).name)
    let isCopy = record.header.kind == .entries
    let replayed = ReplayedRecord(of: segment)
    defer { replayed.endEdits() }
    while let (sequence, entry) = try entries.next() {
      // A copy may be older than entries read before, and still be the first one that is found.
      guard sequence > incorporated, isCopy || sequence > lastRead else { continue }
      var target = families.known(entry.family)
      if target == nil { target = try findTarget(entry.family, segment) }
      if let target {
        try opening.insert(
          entry, sequence, isCopy: isCopy, segment: segment, into: target, engine.pipeline.memory, replayed)
      }
      lastRead = max(lastRead, sequence)
    }
    try replayed.end(engine.pipeline.memory, .beforeOpen)
    if record.header.kind == .batch { lastRead = max(lastRead, record.header.sequence) }
  }

  /// Returns the family of an entry, or `nil` if it was dropped. The edit that created it may not have been read yet.
  ///
  /// Called once for each family: the MANIFEST's state is too large to be copied for each entry.
  @inline(never)
  private func findTarget(
    _ family: FamilyID, _ segment: FileNumber
  ) throws(EngineError) -> ReplayedFamilies.Target? {
    if manifest.state.families[family] == nil, !manifest.state.isDropped(family) {
      _ = try manifest.poll()
      try didChangeManifest()
    }
    if let target = families.find(family, manifest.state, engine.registry) { return target }
    try opening.requireDropped(family, manifest.state, segment: segment)
    return nil
  }

  /// Moves to the oldest segment that the MANIFEST names, unless it is gone by now: then the position is lost again.
  private func findOldestSegment() throws(EngineError) {
    ends = [:]
    let oldest = manifest.state.oldestLog
    if oldest.value == 0 { return }
    if try tail.begin(at: oldest) { return }
    guard try pollForWhatIsGone() else {
      throw .corruption("the oldest log segment is missing", file: opening.path + "/" + FileName.log(oldest).name)
    }
  }

  /// Polls the MANIFEST after a file that it names was not found, because an edit, possibly the last one, must record
  /// the removal.
  ///
  /// Returns false if there is no such edit.
  private func pollForWhatIsGone() throws(EngineError) -> Bool {
    var isChanged = try manifest.poll()
    if !isChanged { isChanged = try manifest.poll(.lastEdit) }
    if isChanged { try didChangeManifest() }
    return isChanged
  }

  // MARK: - Tables

  /// The ids of chunks whose tables were all found. Chunks shared with the next version are not checked again.
  private var seenChunks: Set<UInt64> = []

  /// Opens the files of new tables, or, once enough are open, only checks that they exist.
  ///
  /// Returns false if one does not exist, because the MANIFEST has then changed. All tables, including those of known
  /// chunks, count as open, so fewer new ones are opened than could be.
  /// Complexity: O(chunks, plus the tables of new chunks).
  private func keepTables() throws(EngineError) -> Bool {
    guard manifest.changeCount != shownChangeCount else { return true }
    let maximum = engine.tree.openTables.countMaximum / 2
    var count = 0
    var seen: Set<UInt64> = []
    for family in manifest.state.families.values.sorted(by: { $0.id < $1.id }) {
      var isGone = false
      try family.version.forEachRun { (run, _) throws(EngineError) in
        for chunk in run.chunks where !isGone {
          if seenChunks.contains(chunk.id) {
            count += chunk.tables.count
          } else if let gone = try keep(chunk, of: family.name, &count, maximum) {
            guard try pollForWhatIsGone() else {
              throw .corruption(
                "a table of column family \"\(family.name)\" is missing",
                file: opening.path + "/" + FileName.table(gone.number).name)
            }
            isGone = true
            return
          }
          seen.insert(chunk.id)
        }
      }
      if isGone { return false }
    }
    seenChunks = seen
    return true
  }

  /// Keeps the tables of a chunk. Returns one that does not exist, if there is any.
  private func keep(
    _ chunk: TableChunk, of family: String, _ count: inout Int, _ maximum: Int
  ) throws(EngineError) -> TableMetadata? {
    for table in chunk.tables {
      count += 1
      guard table.slot.keptFile == nil else { continue }
      guard try keep(table, of: family, opens: count <= maximum) else { return table }
    }
    return nil
  }

  /// Opens the file of a table, or, if enough are open, only checks that it exists. Returns false if it does not.
  private func keep(_ table: TableMetadata, of family: String, opens: Bool) throws(EngineError) -> Bool {
    let path = opening.path + "/" + FileName.table(table.number).name
    guard let attributes = try fileSystem.attributes(path), !attributes.isDirectory else { return false }
    guard attributes.size == table.fileSize else {
      throw .corruption("the table has \(attributes.size) bytes instead of \(table.fileSize)", file: path)
    }
    guard opens else { return true }
    do throws(EngineError) { table.slot.keep(try fileSystem.openFile(path, writable: false)) } catch {
      guard error.code == .notFound else { throw error }
      return false
    }
    return true
  }

  // MARK: - Showing

  private func show() throws(EngineError) {
    let state = manifest.state
    // The views show all entries up to the end of the last batch that was read: a flush of one family may end within a
    // batch whose rest is in the log. A published commit that was not read was empty.
    let sequence = [visible, flushed, lastRead].max() ?? .zero
    if manifest.changeCount == shownChangeCount {
      engine.pipeline.showCommits(through: sequence)
    } else {
      isExtentNoted = false
      try change(to: state, at: sequence)
    }
    incorporated = max(incorporated, sequence)
    stuckCount = 0
    if !isExtentNoted { noteExtent(state) }
  }

  private var shownChangeCount = -1

  /// Notes the extent of the log for statistics, which would otherwise show the idle log of a read-only engine.
  private func noteExtent(_ state: ManifestState) {
    capacities = capacities.filter { $0.key >= state.oldestLog }
    engine.pipeline.log.noteFollowed(
      LogExtent(segmentCount: capacities.count, bytes: capacities.values.reduce(0, +)))
    isExtentNoted = true
  }

  private func change(to state: ManifestState, at sequence: SequenceNumber) throws(EngineError) {
    var installs: [() -> Void] = []
    for family in state.families.values {
      guard let target = engine.registry.find(family.id) else { continue }
      let before = shown.families[family.id]
      if before?.options != family.options {
        let options = try FamilyOptions(decoding: family.options, family: family.name)
        installs.append { target.options = options }
      }
      let isSame = before.map { $0.flushedSequence == family.flushedSequence && $0.version === family.version } ?? false
      if isSame && target.version === family.version { continue }
      let memory = engine.pipeline.memory
      let memTables = try memory.entries(of: target, above: family.flushedSequence, .beforeOpen)
      installs.append { memory.replace(target, family.version, memTables, .beforeOpen) }
    }
    let dropped = engine.registry.all.filter { state.families[$0.id] == nil }
    views.whileStill {
      engine.pipeline.holdReads()
      for install in installs { install() }
      for family in dropped {
        family.state.markDropped()
        engine.registry.remove(family)
      }
      engine.pipeline.showCommits(through: sequence)
    }
    for family in dropped { discard(family) }
    shown = state
    shownChangeCount = manifest.changeCount
    engine.tree.follow(state)
    engine.epochs.poll()
  }

  private func discard(_ family: ColumnFamily) {
    engine.pipeline.memory.didDrop(family.state, .beforeOpen)
    engine.pipeline.memory.didFlush(family.state.discardMemTables(.beforeOpen))
    family.state.close(engine.pipeline.memory.empty, .beforeOpen)
  }

  /// A line for `Engine.explain()`.
  var overview: String {
    let (page, announced) = look()
    let name = FileName.shared.name
    var way = "polls the log each millisecond (no \(name) of an engine of this machine)"
    if let page, announced != nil {
      way = page.isWritable ? "sleeps on \(name) until it is notified of commits" : "polls \(name) each millisecond"
    }
    return
      "follower: \(way); \(engine.pipeline.memory.frozenSize) bytes of frozen memtables wait for the writer's flushes"
  }

  /// Returns the page, and its last commit at the last step.
  private func look() -> (page: SharedPage?, announced: SequenceNumber?) {
    turn.withLock { _ in (self.page, self.awaited) }
  }

  // MARK: - Waiting

  /// Ends the steps, and runs `body` after the last one.
  func end(_ body: () throws(EngineError) -> Void) throws(EngineError) {
    try turn.withLock { (_) throws(EngineError) in
      failure = EngineError(.canceled, "the follower was closed", file: opening.path)
      try body()
    }
  }

  /// Sleeps until there may be more commits than the last step saw, or for at most `nanoseconds`.
  func sleep(nanoseconds: UInt64) {
    let (page, announced) = look()
    let clock = opening.environment.clock
    let bounded = min(nanoseconds, Self.sleepMaximum)
    guard let page, let announced, announced <= visible else { return clock.pause(min(nanoseconds, Self.pollInterval)) }
    if page.isWritable { return page.rest(while: announced, nanoseconds: bounded) }
    let start = clock.now()
    while page.announced == announced, clock.now() - start < bounded { clock.pause(min(bounded, Self.pollInterval)) }
  }

  /// Wakes sleeping threads, which check again.
  func interrupt() { look().page?.interrupt() }

  /// The interval at which a follower polls if it can't be woken.
  static let pollInterval: UInt64 = 1_000_000
  /// The longest single sleep.
  ///
  /// It is bounded because the writer that should wake this thread may have died, and another one may notify in another
  /// way.
  private static let sleepMaximum: UInt64 = 100_000_000
}

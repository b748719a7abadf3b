internal import Synchronization

/// The durable state of the tree: families, tables, versions. Every change is made by `commit`, which makes the edit
/// durable first and installs the new versions second.
///
/// # Concurrency
/// Safe from any thread. The lock is held while the MANIFEST is written: only background jobs and the rare family
/// changes wait for it, never a reader or a writer of data.
final class Tree: TableReaders {
  let directory: String
  let environment: EngineEnvironment
  let registry: FamilyRegistry
  let cache: BlockCache
  private let manifest: Mutex<Manifest>
  /// The object in `manifest`, for its thread-safe counter of file numbers.
  private let numbers: Manifest
  private let obsolete: ObsoleteFiles
  /// Tables of edits that failed and may still count after a crash. Under `manifest`'s lock.
  private let doubted = Mutex<[FileNumber]>([])
  private let epochs: ReadEpochs
  let metrics: EngineMetrics
  let budget: MemoryBudget
  let openTables: OpenTables
  /// The number of the database, read from the MANIFEST, and never changed by an edit.
  let databaseID: UInt64
  let incarnation: UInt64
  private let noSpace = Mutex<NoSpace?>(nil)
  let formatVersion: UInt32
  /// The size of the device in bytes when the engine was opened, or `nil` if it is unknown.
  let diskSize: UInt64?
  /// The memory of the metadata of tables, which is known without opening them. Under `manifest`'s lock.
  private let metadataCharge: MemoryCharge

  init(
    directory: String, environment: EngineEnvironment, registry: FamilyRegistry, epochs: ReadEpochs,
    budget: MemoryBudget, plan: MemoryPlan, manifest: Manifest, obsolete: ObsoleteFiles, metrics: EngineMetrics
  ) {
    self.metrics = metrics
    databaseID = manifest.state.databaseID
    incarnation = manifest.state.incarnation
    formatVersion = manifest.state.formatVersion
    self.directory = directory
    self.environment = environment
    diskSize = environment.fileSystem.totalSpace(directory)
    self.registry = registry
    self.epochs = epochs
    self.budget = budget
    cache = budget.cache
    openTables = OpenTables(countMaximum: plan.openTableCount, bytesMaximum: plan.openTableBytes) {
      epochs.retire($0, weight: ReadEpochs.Weight(bytes: $0.footprint))
    }
    var size = 0
    for family in manifest.state.families.values {
      family.version.forEachTable { table, _ in size += table.memorySize }
    }
    metadataCharge = MemoryCharge(size, to: budget.account(.other))
    self.manifest = Mutex(manifest)
    self.obsolete = obsolete
    numbers = manifest
  }

  /// A structure that holds a function, for the reason given at `Callback`.
  private struct NoSpace {
    let makesRoom: @Sendable () -> Bool
  }

  /// Sets the function that makes room for an edit that found no space. It returns whether it did.
  func onNoSpace(_ makesRoom: @escaping @Sendable () -> Bool) {
    noSpace.withLock { $0 = NoSpace(makesRoom: makesRoom) }
  }

  /// The size of the MANIFEST in bytes.
  var manifestSize: UInt64 { manifest.withLock { $0.size } }

  func allocateFileNumber() -> FileNumber { numbers.allocateFileNumber() }

  func path(_ name: FileName) -> String { directory + "/" + name.name }

  /// A copy of the durable state.
  var state: ManifestState { manifest.withLock { $0.state } }

  /// Makes an edit durable, then visible to new reads.
  ///
  /// `flushed` is the number of a family's oldest frozen memtables that the edit's tables replace.
  ///
  /// A job doesn't prevent its family from being dropped meanwhile: the edit's changes to tables of dropped families
  /// are omitted. Returns those families.
  ///
  /// The files of added tables that end up unreferenced are removed: those of dropped families, and all of them if this
  /// throws, once it is settled that the edit does not count.
  @discardableResult
  func commit(_ edit: VersionEdit, flushed: [FamilyID: Int] = [:]) throws(EngineError) -> Set<FamilyID> {
    let moved = Set(edit.deletedTables.map(\.number))
    let new = edit.addedTables.filter { !moved.contains($0.table.number) }
    let (gone, useless, dropped) = try manifest.withLock {
      (manifest) throws(EngineError) -> ([TableMetadata], [FileNumber], Set<FamilyID>) in
      var edit = edit
      let dropped = Set(edit.familiesWithTables).union(flushed.keys).filter { manifest.state.isDropped($0) }
      if !dropped.isEmpty { edit.leaveOutTables(of: dropped) }
      let leaving = tablesLeaving(edit, manifest.state)
      let before = manifest.number
      do throws(EngineError) { try append(edit, to: manifest) } catch {
        let numbers = new.map(\.table.number)
        // After a close the directory, and so the numbers, may belong to another engine: its open removes orphans.
        if manifest.isClosed { throw error }
        // A crash could still make the edit count.
        if manifest.isInDoubt { doubted.withLock { $0 += numbers } } else { removeTables(numbers) }
        throw error
      }
      if manifest.number != before { metrics.events.emit(.manifestRolled(number: manifest.number.value)) }
      let added = new.lazy.filter { !dropped.contains($0.family) }.reduce(0) { $0 + $1.table.memorySize }
      metadataCharge.resize(to: metadataCharge.bytes + added - leaving.reduce(0) { $0 + $1.memorySize })
      for id in Set(edit.familiesWithTables).union(flushed.keys).subtracting(dropped).sorted() {
        guard let family = registry.find(id) else { continue }
        family.install(manifest.state.families[id]?.version ?? .empty, flushed: flushed[id] ?? 0)
      }
      let settled = doubted.withLock { doubted in
        defer { doubted = [] }
        return doubted
      }
      return (leaving, settled + new.filter { dropped.contains($0.family) }.map(\.table.number), dropped)
    }
    for table in gone { obsolete.whenGone(table, in: self) }
    removeTables(useless)
    return dropped
  }

  /// The space that must be left for the edit that names new tables.
  private static let editSpace: UInt64 = 16 << 10

  /// Throws `.noSpace` if new tables have left no space for the edit that names them.
  ///
  /// If that edit failed, the tables could not be removed: they might count after a crash.
  func requireEditSpace() throws(EngineError) {
    guard let free = try? environment.fileSystem.freeSpace(directory), free < Self.editSpace else { return }
    throw EngineError(
      .noSpace, "new tables leave \(free) bytes, and the edit that names them needs up to \(Self.editSpace)",
      file: directory)
  }

  private func append(_ edit: VersionEdit, to manifest: Manifest) throws(EngineError) {
    do throws(EngineError) { try manifest.append(edit) } catch {
      guard error.code == .noSpace, let noSpace = noSpace.withLock({ $0 }), noSpace.makesRoom() else { throw error }
      // The edit may be in the file that failed. Appending rolls now: another file counts, with the edit.
      try manifest.append(edit)
    }
  }

  /// Makes sure that an edit whose commit failed does not count, not even after a crash.
  func settle() throws(EngineError) {
    try manifest.withLock { (manifest) throws(EngineError) in if manifest.isInDoubt { try manifest.roll() } }
  }

  /// Removes files of tables that no state references.
  ///
  /// A file that can't be removed now is an orphan, which the next open removes.
  func removeTables(_ numbers: [FileNumber]) {
    for number in numbers {
      do throws(EngineError) { try environment.fileSystem.remove(path(.table(number))) } catch { continue }
      metrics.events.emit(.tableDeleted(number: number.value))
    }
  }

  /// Returns the tables that no version references after the edit. A table that only moves is not among them.
  private func tablesLeaving(_ edit: VersionEdit, _ state: ManifestState) -> [TableMetadata] {
    let kept = Set(edit.addedTables.map(\.table.number))
    var leaving: [TableMetadata] = []
    for deletion in edit.deletedTables where !kept.contains(deletion.number) {
      if let table = state.table(deletion.number) { leaving.append(table) }
    }
    for id in edit.droppedFamilies {
      state.families[id]?.version.forEachTable { table, _ in leaving.append(table) }
    }
    return leaving
  }

  /// Returns the reader of a table, which its version must keep alive, and opens it if necessary.
  ///
  /// Call it only inside a read epoch, for whose duration the reader is valid.
  @inline(__always)
  func borrowReader(_ table: TableMetadata) throws(EngineError) -> Unmanaged<TableReader> {
    unsafe try table.slot.reader(in: openTables) { () throws(EngineError) in try openTable(table) }
  }

  /// Returns the reader of a table, retained, for use beyond one call.
  func reader(_ table: TableMetadata) throws(EngineError) -> TableReader {
    let mark = epochs.enter()
    defer { epochs.leave(mark) }
    return unsafe try borrowReader(table).takeUnretainedValue()
  }

  @inline(never)
  private func openTable(_ table: TableMetadata) throws(EngineError) -> TableReader {
    try FileReadBan.check()
    // A recently closed table may still have a descriptor.
    epochs.poll()
    let file: any File
    if let kept = table.slot.keptFile { file = kept } else { file = try openFile(of: table) }
    return try TableReader.open(
      file: file, number: table.number, fileSize: table.fileSize, cache: cache, tableID: table.tableID,
      account: budget.account(.openTables))
  }

  /// Frees descriptors if there are none left, so that the next attempt succeeds.
  func makeRoom(after error: EngineError) {
    guard error.code == .tooManyOpenFiles else { return }
    openTables.closeHalf()
    epochs.poll()
  }

  private func openFile(of table: TableMetadata) throws(EngineError) -> any File {
    let path = path(.table(table.number))
    do throws(EngineError) { return try environment.fileSystem.openFile(path, writable: false) } catch {
      makeRoom(after: error)
      guard error.code == .notFound else { throw error }
      throw EngineError(
        .notFound, "the table was removed; if another process has the database open, catch up or open it again",
        cause: error, file: path)
    }
  }

  /// Installs the state that another process made durable.
  func follow(_ state: ManifestState) { manifest.withLock { $0.follow(state) } }

  /// Rolls the MANIFEST if that makes the next open cheaper. It never fails: see `Manifest.rollForClose`.
  func rollForClose() {
    let number = manifest.withLock { $0.rollForClose() ? $0.number : nil }
    if let number { metrics.events.emit(.manifestRolled(number: number.value)) }
  }

  /// Closes the tables and the MANIFEST.
  func close() {
    openTables.closeAll()
    manifest.withLock { $0.close() }
  }
}

internal import Synchronization

/// The durable state of the tree: families, tables, versions. Every change goes through `commit`, which
/// makes the edit durable first and puts the new versions in force second.
///
/// # Concurrency
/// Safe from any thread. `lock` is held while the MANIFEST is written: only background jobs and the
/// rare changes of families wait for it, never a reader or a writer of data.
final class Tree: TableReaders {
  let directory: String
  let environment: EngineEnvironment
  let registry: FamilyRegistry
  let cache: BlockCache
  private let manifest: Mutex<Manifest>
  /// The same object, for its thread-safe counter of file numbers.
  private let numbers: Manifest
  private let obsolete: ObsoleteFiles

  init(
    directory: String, environment: EngineEnvironment, registry: FamilyRegistry, cache: BlockCache,
    manifest: Manifest, obsolete: ObsoleteFiles
  ) {
    self.directory = directory
    self.environment = environment
    self.registry = registry
    self.cache = cache
    self.manifest = Mutex(manifest)
    self.obsolete = obsolete
    numbers = manifest
  }

  func allocateFileNumber() -> FileNumber { numbers.allocateFileNumber() }

  func path(_ name: FileName) -> String { directory + "/" + name.name }

  /// A copy of everything durable.
  var state: ManifestState { manifest.withLock { $0.state } }

  /// Makes an edit durable, then visible to new reads.
  ///
  /// `flushed` says how many of a family's oldest frozen memtables the edit's tables replace.
  ///
  /// A job doesn't keep its family from being dropped meanwhile: what the edit says of tables of dropped
  /// families is left out. Returns those families; the tables that the job wrote for them are its to remove.
  @discardableResult
  func commit(_ edit: VersionEdit, flushed: [FamilyID: Int] = [:]) throws(EngineError) -> Set<FamilyID> {
    let (gone, dropped) = try manifest.withLock {
      (manifest) throws(EngineError) -> ([TableMetadata], Set<FamilyID>) in
      var edit = edit
      let dropped = Set(edit.familiesWithTables).union(flushed.keys).filter { manifest.state.isDropped($0) }
      if !dropped.isEmpty { edit.leaveOutTables(of: dropped) }
      let leaving = tablesLeaving(edit, manifest.state)
      try manifest.append(edit)
      for id in Set(edit.familiesWithTables).union(flushed.keys).subtracting(dropped).sorted() {
        guard let family = registry.find(id) else { continue }
        family.install(manifest.state.families[id]?.version ?? .empty, flushed: flushed[id] ?? 0)
      }
      return (leaving, dropped)
    }
    for table in gone { obsolete.whenGone(table, in: self) }
    return dropped
  }

  /// The tables that no version names after the edit. A table that only moves is not among them.
  private func tablesLeaving(_ edit: VersionEdit, _ state: ManifestState) -> [TableMetadata] {
    let kept = Set(edit.addedTables.map(\.table.number))
    var leaving: [TableMetadata] = []
    for deletion in edit.deletedTables where !kept.contains(deletion.number) {
      let tables = state.families[deletion.family]?.version.tables(level: deletion.level) ?? []
      leaving += tables.filter { $0.number == deletion.number }
    }
    for id in edit.droppedFamilies {
      guard let version = state.families[id]?.version else { continue }
      for level in 0..<Limits.levelCount { leaving += version.tables(level: level) }
    }
    return leaving
  }

  /// The open reader of a table, which must be kept alive by its version. Opened at the first call.
  @inline(__always)
  func reader(_ table: TableMetadata) throws(EngineError) -> Unmanaged<TableReader> {
    unsafe try table.slot.reader { () throws(EngineError) in
      let file = try environment.fileSystem.openFile(path(.table(table.number)), writable: false)
      return try TableReader.open(file: file, number: table.number, fileSize: table.fileSize, cache: cache)
    }
  }

  /// Gives the MANIFEST back.
  func close() { manifest.withLock { $0.close() } }
}

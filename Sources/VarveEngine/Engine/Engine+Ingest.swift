internal import Synchronization

/// Ingestion of complete tables into an empty family.
extension Engine {
  /// Returns a writer of tables for a family. Throws `.familyDropped`, `.readOnly`, and `.invalidArgument` for a
  /// volatile family.
  public func makeTableWriter(for family: ColumnFamily? = nil) throws(EngineError) -> SortedTableWriter {
    try core.requireOpen()
    try core.requireWritable()
    let state = core.state(of: family)
    try core.requireIngestible(state)
    return SortedTableWriter(core, state)
  }

  /// Ingests tables into an empty family, atomically, and returns the sequence of the ingestion. It is durable when the
  /// call returns, and so is every commit before the call.
  ///
  /// Nothing is written to the log and nothing is merged: the tables become the family's last level as they are. Older
  /// snapshots, cursors and transactions see the family as empty. The ingestion conflicts with a `.serializable`
  /// transaction that read anything of the family, and with a `.snapshot` transaction that writes to it.
  ///
  /// A family is empty if no memtable and no table has any entry of it, even a tombstone: it was never written to, or
  /// compactions have removed all of its entries. The tables must be of this family, in any order, and no key may be in
  /// two of them.
  ///
  /// Throws `.invalidArgument` if one of these conditions doesn't hold, `.familyDropped`, and errors that make the
  /// engine refuse commits: then nothing happened, and the tables can be used again. After an error of writing the
  /// MANIFEST the tables can't be used any more. Writers wait for one sync.
  /// Complexity: O(n log n) for n tables. Safe from any thread.
  @discardableResult
  public func ingest(
    _ tables: [SortedTable], into family: ColumnFamily? = nil
  ) throws(EngineError) -> SequenceNumber {
    try core.ingest(tables, into: family)
  }
}

extension EngineCore {
  /// The implementation of `Engine.ingest`.
  fileprivate func ingest(
    _ tables: [SortedTable], into family: ColumnFamily?
  ) throws(EngineError) -> SequenceNumber {
    try requireOpen()
    try requireWritable()
    let state = state(of: family)
    try requireIngestible(state)
    let sorted = tables.sorted { $0.metadata.smallest < $1.metadata.smallest }
    try check(sorted, for: state)
    try background.requireEmpty(state)
    try environment.fileSystem.syncDirectory(path)
    try pipeline.sync(.position(pipeline.log.appendedPosition), for: .program)
    return try background.ingest(sorted, into: state)
  }

  fileprivate func requireIngestible(_ family: FamilyState) throws(EngineError) {
    if family.isDropped { throw CommitPipeline.droppedError(family) }
    guard !family.isVolatile else {
      throw EngineError(
        .invalidArgument, "column family \"\(family.name)\" is volatile: no table of it would be there after an open")
    }
  }

  private func check(_ tables: [SortedTable], for family: FamilyState) throws(EngineError) {
    var last: SortedTable?
    for table in tables {
      guard table.engine === self, table.family === family else {
        throw EngineError(
          .invalidArgument,
          "a table was written for column family \"\(table.family.name)\" of the engine at \(table.engine.path), not for \"\(family.name)\" of this one"
        )
      }
      if let last, last.metadata.largest >= table.metadata.smallest {
        throw EngineError(
          .invalidArgument,
          "two tables overlap: one ends at \(last.metadata.largest.printable), the next begins at \(table.metadata.smallest.printable)"
        )
      }
      last = table
    }
  }

  /// Removes a table that was never ingested.
  func removeUnnamedTable(_ number: FileNumber) {
    // The files of a closed engine belong to the next one, which removes unnamed files.
    if isOpen { tree.removeTables([number]) }
  }
}

extension BackgroundWork {
  /// Throws `.invalidArgument` if a family has any entry.
  fileprivate func requireEmpty(_ family: FamilyState) throws(EngineError) {
    let view = family.retainView()
    let entryCount = view.frozen.reduce(view.memTable.entryCount) { $0 + $1.entryCount }
    guard entryCount == 0, view.version.isEmpty else {
      throw EngineError(
        .invalidArgument,
        "column family \"\(family.name)\" holds \(entryCount) entries in memory and \(view.version.tableCount) tables: only an empty one takes tables"
      )
    }
  }

  /// Marks all of the tables as used, or none if it throws.
  private func take(_ tables: [SortedTable]) throws(EngineError) {
    for (index, table) in tables.enumerated() where !table.take() {
      for taken in tables[..<index] { taken.giveBack() }
      throw EngineError(
        .invalidArgument, "the table of file number \(table.metadata.number) was given to an ingestion before")
    }
  }

  /// Ingests tables, which are sorted and disjoint, under the lead; see `Engine.ingest`.
  fileprivate func ingest(_ tables: [SortedTable], into family: FamilyState) throws(EngineError) -> SequenceNumber {
    try familyChanges.withLock { (_) throws(EngineError) in
      try pipeline.lead { (lead) throws(EngineError) in
        try pipeline.syncLeading(lead)
        try requireSpace()
        return try pipeline.commitSequence(lead) { (sequence) throws(EngineError) in
          // The family is checked only here, because a commit that waited for the lead may have written to it just now.
          if family.isDropped { throw CommitPipeline.droppedError(family) }
          try requireEmpty(family)
          try take(tables)
          var edit = VersionEdit()
          for table in tables { edit.addTable(table.metadata, family: family.id, level: Limits.levelCount - 1) }
          edit.setFlushed(sequence, family: family.id)
          family.beginAt(sequence, lead)
          do throws(EngineError) { try tree.commit(edit) } catch {
            // Whether the tables count after a crash is settled before another commit, which may be for an empty
            // family.
            do throws(EngineError) { try tree.settle() } catch { pipeline.poison(error) }
            throw error
          }
        }
      }
    }
  }
}

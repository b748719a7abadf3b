/// The space that the database takes.
extension Engine {
  /// Returns how much space the database takes, and for what.
  ///
  /// Throws errors of the file system. Safe from any thread. Complexity: reads no table; one query of the file system
  /// for each.
  public func space() throws(EngineError) -> EngineSpace {
    try core.requireOpen()
    return try core.space()
  }
}

extension EngineCore {
  fileprivate func space() throws(EngineError) -> EngineSpace {
    let fileSystem = environment.fileSystem
    var (tables, found, estimated, shared) = (UInt64(0), UInt64(0), UInt64(0), UInt64(0))
    var numbers: Set<FileNumber> = []
    for family in registry.all {
      let version = family.state.retainView().version
      let covered = background.compactions.coveredTables(of: family.id, in: version)
      var (live, garbage) = (UInt64(0), UInt64(0))
      try version.forEachTable { (table, _) throws(EngineError) in
        numbers.insert(table.number)
        tables += table.fileSize
        if covered.contains(table.number) {
          found += table.fileSize
        } else {
          live += table.fileSize
          garbage += table.garbageSize
        }
        let attributes = try fileSystem.attributes(tree.path(.table(table.number)))
        if let count = attributes?.linkCount, count > 1 { shared += table.fileSize }
      }
      // Tombstones may hide the same entries, and what they hid may be gone.
      estimated += min(garbage, live)
    }
    let readers = EngineStatistics.Readers(background)
    let ages = [
      readers.oldestSnapshotAgeNanoseconds, readers.oldestCursorAgeNanoseconds, readers.oldestReadAgeNanoseconds,
    ]
    return EngineSpace(
      tableBytes: tables, garbageFoundBytes: found, garbageEstimatedBytes: estimated,
      keptBytes: options.readOnly ? try otherTableBytes(numbers) : background.obsolete.pinnedBytes,
      oldestReaderNanoseconds: ages.compactMap { $0 }.max(), sharedBytes: shared,
      logBytes: UInt64(pipeline.log.extent.bytes),
      reserveBytes: try fileSystem.attributes(path + "/" + FileName.reserve.name)?.size ?? 0,
      freeBytes: try? fileSystem.freeSpace(path))
  }

  /// Returns the bytes of the files of tables in the directory that are not among `numbers`.
  private func otherTableBytes(_ numbers: Set<FileNumber>) throws(EngineError) -> UInt64 {
    var bytes: UInt64 = 0
    for name in try environment.fileSystem.list(path) {
      guard case .table(let number) = FileName(name), !numbers.contains(number) else { continue }
      bytes += try environment.fileSystem.attributes(path + "/" + name)?.size ?? 0
    }
    return bytes
  }
}

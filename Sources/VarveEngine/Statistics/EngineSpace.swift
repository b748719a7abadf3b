/// The space that a database takes on its disk, by what takes it.
///
/// How much of the tables is garbage can only be known by reading them, so parts are estimates, as their names say.
public struct EngineSpace: Sendable, Hashable {
  /// The bytes of the tables that the current state consists of.
  public let tableBytes: UInt64
  /// Of these, the bytes of tables that lie completely under range deletes. They are dropped unread, unless a snapshot
  /// or a cursor needs them.
  public let garbageFoundBytes: UInt64
  /// Of the other tables, the estimated bytes of deleted entries and of their tombstones: each tombstone is assumed to
  /// hide one entry of the average size of its table.
  public let garbageEstimatedBytes: UInt64
  /// The bytes of tables that were replaced, and that readers keep: snapshots, cursors and lookups.
  ///
  /// In an engine that only reads, the bytes of all files of tables that don't belong to the state that it shows.
  public let keptBytes: UInt64
  /// The age of the oldest reader, or `nil` if there is none. What it needs is kept as long as it lives.
  public let oldestReaderNanoseconds: UInt64?
  /// Of `tableBytes`, the bytes of files that have another name, such as in a checkpoint: deletes don't return their
  /// space as long as the other name exists.
  public let sharedBytes: UInt64
  /// The bytes of the log.
  public let logBytes: UInt64
  /// The bytes of the file `RESERVE`, which is given up when the disk is full.
  public let reserveBytes: UInt64
  /// The bytes that are free on the device, or `nil` if that is not known.
  public let freeBytes: UInt64?

  /// The estimated bytes of tables that are not garbage. Overwritten values count as live until they are merged.
  public var liveBytes: UInt64 { tableBytes - garbageFoundBytes - garbageEstimatedBytes }
}

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
      try version.forEachTable { (table, _) throws(EngineError) in
        numbers.insert(table.number)
        tables += table.fileSize
        if covered.contains(table.number) {
          found += table.fileSize
        } else {
          estimated += min(table.compensatedSize - table.fileSize, table.fileSize)
        }
        let attributes = try fileSystem.attributes(tree.path(.table(table.number)))
        if let count = attributes?.linkCount, count > 1 { shared += table.fileSize }
      }
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

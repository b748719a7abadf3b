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
    var held = HeldSpace(options.readOnly ? nil : background.snapshots)
    var numbers: Set<FileNumber> = []
    for family in registry.all {
      let version = family.state.retainView().version
      let covered = background.compactions.coveredTables(of: family.id, in: version)
      var (rest, garbage) = (UInt64(0), UInt64(0))
      try version.forEachTable { (table, _) throws(EngineError) in
        numbers.insert(table.number)
        tables += table.fileSize
        if covered.contains(table.number) {
          found += table.fileSize
        } else {
          let hidden = held.add(table)
          rest += table.fileSize - hidden.held
          garbage += table.garbageSize + hidden.free
        }
        let attributes = try fileSystem.attributes(tree.path(.table(table.number)))
        if let count = attributes?.linkCount, count > 1 { shared += table.fileSize }
      }
      // Tombstones may hide the same entries, and what they hid may be gone.
      estimated += min(garbage, rest)
    }
    let readers = EngineStatistics.Readers(background)
    let ages = [
      readers.oldestSnapshotAgeNanoseconds, readers.oldestCursorAgeNanoseconds, readers.oldestReadAgeNanoseconds,
    ]
    return EngineSpace(
      tableBytes: tables, garbageFoundBytes: found, garbageEstimatedBytes: estimated,
      heldBytes: held.bytes, holders: held.holders.filter { $0.bytes > 0 },
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

/// The hidden entries of tables, by the readers for which they are kept.
private struct HeldSpace {
  private let knowsReaders: Bool
  /// The readers by state, in ascending order.
  private(set) var holders: [EngineSpace.Holder]
  private(set) var bytes: UInt64 = 0

  /// `snapshots` are all readers, or `nil` if they are not known: then everything is held.
  init(_ snapshots: SnapshotList?) {
    knowsReaders = snapshots != nil
    holders = (snapshots?.ages ?? []).map {
      EngineSpace.Holder(sequence: $0.sequence, ageNanoseconds: $0.nanoseconds, bytes: 0)
    }
  }

  /// Adds the entries of a table, and returns the bytes of its file that are held, and those that are free.
  ///
  /// A group is free once no reader is left below its sequence, so it is held by the newest one.
  mutating func add(_ table: TableMetadata) -> (held: UInt64, free: UInt64) {
    var (held, free) = (UInt64(0), UInt64(0))
    let scale = Double(table.fileSize) / Double(max(table.rawSize, 1))
    for group in table.hidden.groups {
      let size = min(UInt64(Double(group.size) * scale), table.fileSize - held - free)
      let count = holders.prefix { $0.sequence < group.sequence }.count
      if knowsReaders, count == 0 {
        free += size
      } else {
        held += size
        if count > 0 { holders[count - 1].bytes += size }
      }
    }
    bytes += held
    return (held, free)
  }
}

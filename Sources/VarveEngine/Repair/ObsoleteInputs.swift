/// Distinguishes tables that a compaction has replaced from live ones if no MANIFEST states which are which.
///
/// Inputs of a finished compaction stay in the directory until no reader uses them, and a crash may leave them beside
/// the outputs. Both together hold the same rows as the outputs alone, with one exception: the outputs omit tombstones
/// that hid no entry any more. If the input that has the tombstone was removed and the one with the older value was
/// not, a deleted key would reappear.
///
/// # The distinction
/// A sequence is assigned only once, except for zero, which the last level assigns. So an entry with one key and one
/// sequence above zero that is in two tables was copied from the one with the lower number into the other. The
/// compaction that wrote the other table therefore had the first as an input, and of all keys between the first and the
/// last key of the other table it has kept the entries that had to be kept. A table whose every key is within tables
/// that were made from it is therefore not needed, whether the compaction's edit became durable or not.
///
/// A table of which no entry is left in any output, or whose entries got sequence zero there, can't be distinguished
/// from a live one. It is kept, and it is listed as doubtful if it can be an input of a later compaction.
struct ObsoleteInputs {
  private(set) var obsolete: Set<FileNumber> = []
  /// Tables that are kept, although deleted keys in them may reappear.
  private(set) var doubtful: [FileNumber] = []

  /// The maximum number of entries of a table that are searched for in a later one.
  private static let probesMaximum = 4096

  private struct Candidate {
    let reader: DamagedTableReader
    let table: TableMetadata
    let properties: TableProperties
  }

  /// Examines `tables`, which may be of several families. Damaged ones are ignored.
  init(_ tables: [DamagedTableReader], _ fileSystem: any FileSystem) throws(EngineError) {
    var candidates: [Candidate] = []
    for reader in tables where reader.fault == nil {
      guard let table = reader.metadata, let properties = reader.properties else { continue }
      candidates.append(Candidate(reader: reader, table: table, properties: properties))
    }
    candidates.sort { $0.table.number < $1.table.number }
    for (index, candidate) in candidates.enumerated() {
      let later = candidates[(index + 1)...].filter { Self.canBeOutput($0, of: candidate) }
      guard !later.isEmpty else { continue }
      var derived: [TableMetadata] = []
      for other in later where try Self.shareAnEntry(candidate, other, fileSystem) { derived.append(other.table) }
      if !derived.isEmpty, try Self.isCovered(candidate, by: derived, fileSystem) {
        obsolete.insert(candidate.table.number)
      } else if derived.isEmpty == false || later.contains(where: { $0.properties.level >= candidate.properties.level })
      {
        doubtful.append(candidate.table.number)
      }
    }
  }

  private static func canBeOutput(_ later: Candidate, of earlier: Candidate) -> Bool {
    later.reader.owner == earlier.reader.owner && later.properties.origin == TableOrigin.compaction.rawValue
      && later.table.overlaps(earlier.table)
      // A table that is newer than all entries of an output was not an input of it. Sequence zero hides how new the
      // output's entries are.
      && (later.table.smallestSequence == .zero || earlier.table.smallestSequence <= later.table.largestSequence)
  }

  private static func open(_ candidate: Candidate, _ fileSystem: any FileSystem) throws(EngineError) -> TableReader {
    let file = try fileSystem.openFile(candidate.reader.path, writable: false)
    return try TableReader.open(
      file: file, number: candidate.table.number, fileSize: candidate.table.fileSize,
      cache: BlockCache(capacity: 1 << 20), tableID: candidate.table.tableID)
  }

  private static func shareAnEntry(
    _ earlier: Candidate, _ later: Candidate, _ fileSystem: any FileSystem
  ) throws(EngineError) -> Bool {
    let source = try open(earlier, fileSystem).makeIterator(.compaction)
    let target = try open(later, fileSystem).makeIterator(.user)
    try source.seek(InternalKey(later.table.smallest, Trailer(seek: .maximum)))
    var probes = 0
    while source.isValid, probes < probesMaximum, !later.table.endsBefore(source.userKey) {
      try target.seek(InternalKey(source.userKey, source.trailer))
      guard target.isValid else { return false }
      if target.userKey == source.userKey, target.trailer.word == source.trailer.word,
        source.trailer.sequence > .zero
      {
        return true
      }
      try source.next()
      probes += 1
    }
    return false
  }

  private static func isCovered(
    _ candidate: Candidate, by derived: [TableMetadata], _ fileSystem: any FileSystem
  ) throws(EngineError) -> Bool {
    // The outputs do not show which of them received the table's range tombstones.
    guard candidate.table.rangeTombstoneCount == 0 else { return false }
    let iterator = try open(candidate, fileSystem).makeIterator(.compaction)
    try iterator.seekToFirst()
    while iterator.isValid {
      let key = iterator.userKey
      guard derived.contains(where: { $0.covers(key) }) else { return false }
      try iterator.next()
    }
    return true
  }
}

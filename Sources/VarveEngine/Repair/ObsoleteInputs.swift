/// Tells tables that a compaction has replaced from live ones where no MANIFEST says it.
///
/// Inputs of a finished compaction stay in the directory until no one reads them, and a crash may leave them
/// beside the outputs. Both together hold the same rows as the outputs alone, with one exception: the outputs
/// leave out tombstones that hid nothing any more, and if the input that has the tombstone was removed and the
/// one with the older value was not, a deleted key would be reborn.
///
/// # What tells them apart
/// Sequences are given once, but for zero, which the last level gives: an entry with one key and one sequence
/// above zero that is in two tables was copied from the one with the lower number into the other. So that
/// other's compaction had the first as an input, and of all keys between its own first and last it has kept
/// what was to be kept. A table whose every key lies within tables that were made of it is therefore not
/// needed, whether the compaction's edit became durable or not.
///
/// A table of which no entry is left in any output, or whose entries got sequence zero there, can't be distinguished from
/// a live one. It is kept, and where it can be an input of a later compaction, that is said.
struct ObsoleteInputs {
  private(set) var obsolete: Set<FileNumber> = []
  /// Tables that are kept, and whose keys may be reborn.
  private(set) var doubtful: [FileNumber] = []

  /// How many entries of a table are looked for in a later one.
  private static let probesMaximum = 4096

  private struct Candidate {
    let reader: DamagedTableReader
    let table: TableMetadata
    let properties: TableProperties
  }

  /// `tables` may be of several families; damaged ones are left out of account.
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
      // What is newer than all of an output was no input of it; sequence zero hides how new that is.
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
    // Where its range tombstones went can't be seen.
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

/// Entries of memtables in the order of their sequences, to be logged again.
///
/// Only the memtables are a safe source: after a failed sync the system may return bytes of the log that differ from
/// the written ones.
///
/// Belongs to the commit leader; other threads may read the memtables meanwhile.
///
/// # Safety
/// `tables` keeps the bytes of all views alive.
struct LoggedEntries {
  private struct Entry {
    let trailer: Trailer
    let family: FamilyID
    let key: ByteView
    let value: ByteView
  }

  private var tables: [MemTable] = []
  private var entries: [Entry] = []
  private var position = 0

  /// Adds a memtable's entries above `sequence`.
  mutating func add(_ table: MemTable, of family: FamilyID, above sequence: SequenceNumber) {
    guard table.largestSequence > sequence else { return }
    tables.append(table)
    var iterator = table.makeIterator()
    iterator.seekToFirst()
    while iterator.isValid {
      if iterator.trailer.sequence > sequence {
        entries.append(
          Entry(trailer: iterator.trailer, family: family, key: iterator.userKey, value: iterator.value))
      }
      iterator.next()
    }
    table.rangeTombstones.forEachTombstone(above: sequence) { start, end, sequence in
      entries.append(Entry(trailer: Trailer(sequence, .rangeDelete), family: family, key: start, value: end))
    }
  }

  /// Sorts the entries. Call before the first `fill`.
  mutating func sort() { entries.sort { $0.trailer.word < $1.trailer.word } }

  /// Adds the next entries to an empty builder, up to `sizeMaximum` bytes, but at least one.
  ///
  /// Returns false if none are left.
  mutating func fill(_ builder: inout LogEntriesBuilder, sizeMaximum: Int) -> Bool {
    let start = position
    while position < entries.count {
      let entry = entries[position]
      guard let kind = entry.trailer.kind else {
        fatalError("a memtable holds an entry of kind \(entry.trailer.rawKind), which no commit inserts")
      }
      let size = LogEntriesBuilder.sizeMaximum(
        kind, entry.family, keySize: entry.key.count, valueSize: entry.value.count)
      if position > start, builder.payload.count + size > sizeMaximum { break }
      builder.append(entry.trailer.sequence, kind, entry.family, entry.key, entry.value)
      position += 1
    }
    return position > start
  }
}

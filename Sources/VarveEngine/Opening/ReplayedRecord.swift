/// One record of the log while it is replayed: what must happen to all of its entries at once.
///
/// # Range deletes
/// Those of a batch are inserted into each memtable as one edit. Inserted separately, each of many would copy paths.
///
/// # Late entries
/// A record of kind *entries* has a complete memtable of a family. Some of its entries may have been replayed before,
/// and those whose originals were freed were not, although newer ones were: these are *late*. They are inserted at the
/// end of the record, between the memtables of newer and those of older entries (`MemTableManager.insertLate`).
final class ReplayedRecord {
  private let segment: FileNumber
  private var edited: [MemTable] = []
  private var late: [LateEntries] = []

  /// The late entries of one family, ascending, and the memtables that it had when the first of them was found.
  private struct LateEntries {
    let family: FamilyState
    let memTables: [MemTable]
    var entries: [MemTableManager.LateEntry] = []
  }

  init(of segment: FileNumber) { self.segment = segment }

  /// Prepares for a range delete of a family. The first one after the memtable changed starts a new edit.
  func beginEdit(of family: FamilyState, _ lead: borrowing CommitLead) {
    let table = family.active(lead)
    guard !edited.contains(where: { $0 === table }) else { return }
    table.rangeTombstones.beginEdit()
    edited.append(table)
  }

  /// Adds an entry that is not newer than all of its family, unless it was replayed before. Its bytes belong to the
  /// record.
  func addLate(_ entry: MemTableManager.LateEntry, of family: FamilyState, _ lead: borrowing CommitLead) {
    let index: Int
    if let last = late.last, last.family === family {
      index = late.count - 1
    } else if let found = late.firstIndex(where: { $0.family === family }) {
      index = found
    } else {
      // Entries ascend, so no entry that is newer than all of its family comes before a late one.
      late.append(LateEntries(family: family, memTables: family.frozen.map(\.table) + [family.active(lead)]))
      index = late.count - 1
    }
    let sequence = entry.trailer.sequence
    for table in late[index].memTables where table.smallestSequence <= sequence && sequence <= table.largestSequence {
      if table.holds(entry) { return }
    }
    late[index].entries.append(entry)
  }

  /// Inserts the late entries, and ends the edits.
  func end(_ memory: MemTableManager, _ lead: borrowing CommitLead) throws(EngineError) {
    endEdits()
    for late in late where !late.entries.isEmpty {
      try memory.insertLate(late.entries, into: late.family, segment: segment, lead)
    }
    late = []
  }

  /// Ends the edits, also of a record that could not be replayed.
  func endEdits() {
    for table in edited { table.rangeTombstones.endEdit() }
    edited = []
  }
}

extension MemTable {
  fileprivate func holds(_ entry: MemTableManager.LateEntry) -> Bool {
    let sequence = entry.trailer.sequence
    if entry.trailer.rawKind == EntryKind.rangeDelete.rawValue { return rangeTombstones.contains(sequence) }
    return get(entry.key, at: sequence)?.trailer.sequence == sequence
  }
}

/// The families into which entries are replayed, by id: for each entry a load of an array instead of a search.
///
/// Belongs to the thread that replays.
struct ReplayedFamilies {
  /// A family, and the sequence up to which its entries are in tables.
  struct Target {
    let family: FamilyState
    let flushed: SequenceNumber
  }

  private var targets: [Target?] = []
  private static let countMaximum = 1 << 16

  /// Forgets the families, because the MANIFEST's state has changed.
  mutating func removeAll() { targets.removeAll(keepingCapacity: true) }

  /// Returns a family that `find` has returned before, or `nil`.
  func known(_ id: FamilyID) -> Target? {
    let index = Int(id.value)
    return index < targets.count ? targets[index] : nil
  }

  /// Returns a family that is in the state and in the registry, or `nil`.
  mutating func find(_ id: FamilyID, _ state: ManifestState, _ registry: FamilyRegistry) -> Target? {
    let index = Int(id.value)
    guard let durable = state.families[id], let family = registry.find(id) else { return nil }
    let target = Target(family: family, flushed: durable.flushedSequence)
    guard index < Self.countMaximum else { return target }
    while targets.count <= index { targets.append(nil) }
    targets[index] = target
    return target
  }
}

/// One change of the engine's durable state, in any number of families.
///
/// One edit is one record of the MANIFEST and is applied atomically. Within an edit, the order of application is:
/// identity, families created, options changed, tables deleted, tables added, flushed sequences, families dropped, then
/// the numbers and the log.
///
/// A table that moves to another level is deleted and added, with the same metadata, in one edit.
struct VersionEdit: Sendable, Equatable {
  /// The creation of a family.
  struct FamilyCreation: Sendable, Equatable {
    var family: FamilyID
    var name: String
    /// The options in the family's own encoding, stored unchanged.
    var options: [UInt8]
  }

  struct FamilyOptionsChange: Sendable, Equatable {
    var family: FamilyID
    var options: [UInt8]
  }

  struct TableAddition: Sendable, Equatable {
    var family: FamilyID
    var level: Int
    var table: TableMetadata
  }

  struct TableDeletion: Sendable, Equatable {
    var family: FamilyID
    var level: Int
    var number: FileNumber
  }

  /// The sequence number at or below which every entry of the family is in tables, or was never logged.
  struct FlushedSequence: Sendable, Equatable {
    var family: FamilyID
    var sequence: SequenceNumber
  }

  /// Recovery's decision on the end of a log segment: everything after it was cut permanently.
  struct LogCut: Sendable, Equatable {
    var segment: FileNumber
    /// The random id in the segment's header: the cut applies to this life of the file, not to a later one.
    var lifeID: UInt64
    /// The offset of the first byte that does not count.
    var endOffset: UInt64
  }

  // Identity of the database. In a snapshot, and when it changes.
  var databaseID: UInt64?
  /// The id of a copy of a database, which keeps the database id. It distinguishes the copy from the database and
  /// from other copies.
  var incarnation: UInt64?
  var formatVersion: UInt32?
  var requiredFeatures: UInt64?

  // Numbers. Each only increases; a value that is not above the known one changes nothing.
  var nextFileNumber: FileNumber?
  var nextFamilyID: FamilyID?
  var lastSequence: SequenceNumber?

  // Families.
  var createdFamilies: [FamilyCreation] = []
  var changedOptions: [FamilyOptionsChange] = []
  var droppedFamilies: [FamilyID] = []

  // Tables.
  var deletedTables: [TableDeletion] = []
  var addedTables: [TableAddition] = []
  var flushedSequences: [FlushedSequence] = []

  // The log.
  /// The first segment that recovery replays. All earlier ones are free.
  var oldestLog: FileNumber?
  var logCuts: [LogCut] = []
  /// Segments before the oldest. The field is reserved: the engine does not write it, and a reader ignores it after it
  /// has checked that the segments are before the oldest.
  var droppedLogs: [FileNumber] = []
  /// Segments before the oldest. The field is reserved, like `droppedLogs`.
  var pooledLogs: [FileNumber] = []

  init() {}
}

extension VersionEdit {
  mutating func createFamily(_ family: FamilyID, name: String, options: [UInt8] = []) {
    createdFamilies.append(FamilyCreation(family: family, name: name, options: options))
  }

  mutating func addTable(_ table: TableMetadata, family: FamilyID, level: Int) {
    addedTables.append(TableAddition(family: family, level: level, table: table))
  }

  mutating func deleteTable(_ number: FileNumber, family: FamilyID, level: Int) {
    deletedTables.append(TableDeletion(family: family, level: level, number: number))
  }

  mutating func setFlushed(_ sequence: SequenceNumber, family: FamilyID) {
    flushedSequences.append(FlushedSequence(family: family, sequence: sequence))
  }

  /// Removes the changes of these families' tables from the edit.
  mutating func leaveOutTables(of families: Set<FamilyID>) {
    addedTables.removeAll { families.contains($0.family) }
    deletedTables.removeAll { families.contains($0.family) }
    flushedSequences.removeAll { families.contains($0.family) }
  }

  /// Whether the edit changes nothing.
  var isEmpty: Bool { self == VersionEdit() }

  /// The families whose tables the edit changes, ascending.
  var familiesWithTables: [FamilyID] {
    Set(addedTables.map(\.family)).union(deletedTables.map(\.family)).sorted()
  }
}

/// The space that a database takes on its disk, by what takes it.
///
/// How much of the tables is garbage can only be known by reading them, so parts are estimates, as their names say.
public struct EngineSpace: Sendable, Hashable {
  /// The bytes of the tables that the current state consists of.
  public let tableBytes: UInt64
  /// Of these, the bytes of tables that lie completely under range deletes. They are dropped unread, unless a snapshot
  /// or a cursor needs them.
  public let garbageFoundBytes: UInt64
  /// Of the other tables, the estimated bytes of deleted entries and of their tombstones: what the tombstones of each
  /// table hid when it was written, for a sample of them.
  public let garbageEstimatedBytes: UInt64
  /// Of the other tables, the estimated bytes of overwritten and deleted entries that only readers of old states see.
  ///
  /// A flush or compaction counts the entries that it keeps for a snapshot. In an engine that only reads, the readers
  /// of the writing process are not known, so all counted entries are included.
  public let heldBytes: UInt64
  /// The readers for which these entries are kept, the oldest state first. Empty in an engine that only reads.
  public let holders: [Holder]
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

  /// The estimated bytes of tables that are neither garbage nor held. Overwritten values count as live until they are
  /// merged.
  public var liveBytes: UInt64 { tableBytes - garbageFoundBytes - garbageEstimatedBytes - heldBytes }

  /// The readers of one state, and what is kept for them.
  public struct Holder: Sendable, Hashable {
    /// The state that they see.
    public let sequence: SequenceNumber
    /// The age of the oldest of them.
    public let ageNanoseconds: UInt64
    /// The estimated bytes that a compaction can free once these readers and those of older states have ended.
    public internal(set) var bytes: UInt64
  }
}

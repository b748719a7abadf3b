/// Something that the engine did behind its callers' backs, as `EventListener` is told of it.
///
/// Later versions may have more: a `switch` over events needs a `default`. The description is a line for
/// a log. Times are nanoseconds of the engine's clock.
public enum EngineEvent: Sendable {
  /// A flush of frozen memtables begins.
  case flushBegan(Flush)
  /// A flush ended, in `outcome` well or not.
  case flushEnded(Flush, outcome: Outcome)
  /// A compaction begins.
  case compactionBegan(Compaction)
  /// A compaction ended, in `outcome` well or not. One that was given up, because the engine closes or its
  /// family was dropped, ends with `.canceled`.
  case compactionEnded(Compaction, outcome: Outcome)
  /// The file of a table is whole. Whether it comes to count is told by the end of its job.
  case tableCreated(Table)
  /// The file of a table is gone, because nothing names it any more.
  case tableDeleted(number: UInt64)
  /// A segment of the log is ready to be written to; `isReused` says that its file was one before.
  case logSegmentCreated(number: UInt64, bytes: Int, isReused: Bool)
  /// Nothing in a segment of the log is needed any more. Its file is kept to be used again, or removed.
  case logSegmentRecycled(number: UInt64, isKept: Bool)
  /// The MANIFEST was written anew, under this number.
  case manifestRolled(number: UInt64)
  /// Writers begin to wait. With `.writeController`: commits are slowed down from now on.
  case stallBegan(StallCause)
  /// No writer waits any more for this cause. `nanoseconds`: how long the last of them did; with
  /// `.writeController`: since when commits were slowed down.
  case stallEnded(StallCause, nanoseconds: UInt64)
  /// Background work met an error. Unless `refusesWrites`, it is tried again.
  case backgroundError(EngineError, in: Work, refusesWrites: Bool)
  /// Work that met an error before succeeded.
  case recovered(Work)
  /// A family was made.
  case familyCreated(name: String, id: FamilyID)
  /// A family was dropped.
  case familyDropped(name: String, id: FamilyID)
  /// A snapshot or cursor lives longer than the bound: it keeps old versions, a cursor files as well.
  /// Reported again each time its age has doubled.
  case longLived(Reader, sequence: SequenceNumber, ageNanoseconds: UInt64)
  /// So many events were dropped here, because listeners were slower than what they are told of.
  case eventsDropped(count: UInt64)

  /// A flush of one family, or of several that share unlogged batches.
  public struct Flush: Sendable, Hashable {
    /// Counts the jobs of this engine: the same at its begin and its end.
    public let job: UInt64
    /// Names of the families.
    public let families: [String]
    /// How many frozen memtables are written.
    public let memTableCount: Int
    /// Their bytes.
    public let bytesRead: UInt64
  }

  /// A compaction of one family.
  public struct Compaction: Sendable, Hashable {
    /// Counts the jobs of this engine: the same at its begin and its end.
    public let job: UInt64
    /// The name of the family.
    public let family: String
    /// Why: `levelZero`, `intraLevelZero`, `levelSize`, `move`, `tombstones` or `manual`.
    public let reason: String
    /// What is merged.
    public let inputs: [Table]
    /// Where it goes.
    public let outputLevel: Int
    /// Whether the inputs only change their level, and nothing is read or written.
    public let isMove: Bool
    /// Bytes of the inputs.
    public var bytesRead: UInt64 { isMove ? 0 : inputs.reduce(0) { $0 + $1.bytes } }
  }

  /// A table.
  public struct Table: Sendable, Hashable {
    /// The number of its file.
    public let number: UInt64
    /// The level that it is on, or comes to.
    public let level: Int
    /// Bytes of the file.
    public let bytes: UInt64
    /// Its entries, tombstones included.
    public let entryCount: UInt64
  }

  /// What became of a job.
  public struct Outcome: Sendable {
    /// How long it took.
    public let nanoseconds: UInt64
    /// The tables that it made, none where it failed.
    public let outputs: [Table]
    /// Why it failed; nil where it did not.
    public let error: EngineError?
    /// Bytes of the tables that it made.
    public var bytesWritten: UInt64 { outputs.reduce(0) { $0 + $1.bytes } }
  }

  /// Which work met an error.
  public enum Work: String, Sendable, Hashable {
    /// Flushes.
    case flush
    /// Compactions.
    case compaction
    /// Syncs of the log.
    case log
  }

  /// What keeps an old state.
  public enum Reader: String, Sendable, Hashable {
    /// An `EngineSnapshot`.
    case snapshot
    /// An `EngineCursor`.
    case cursor
  }
}

extension EngineEvent: CustomStringConvertible {
  /// One line, without a time.
  public var description: String {
    switch self {
    case .flushBegan(let flush):
      "flush \(flush.job) of \(flush.families) began: \(flush.memTableCount) memtables, \(flush.bytesRead) bytes"
    case .flushEnded(let flush, let outcome): "flush \(flush.job) \(outcome.description)"
    case .compactionBegan(let compaction):
      "compaction \(compaction.job) of \"\(compaction.family)\" (\(compaction.reason)) began: "
        + "\(compaction.inputs.count) tables to level \(compaction.outputLevel), \(compaction.bytesRead) bytes"
    case .compactionEnded(let compaction, let outcome): "compaction \(compaction.job) \(outcome.description)"
    case .tableCreated(let table): "table \(table.number) created: \(table.bytes) bytes, \(table.entryCount) entries"
    case .tableDeleted(let number): "table \(number) deleted"
    case .logSegmentCreated(let number, let bytes, let isReused):
      "log segment \(number) \(isReused ? "reused" : "created"): \(bytes) bytes"
    case .logSegmentRecycled(let number, let isKept): "log segment \(number) \(isKept ? "kept" : "removed")"
    case .manifestRolled(let number): "MANIFEST rolled to \(number)"
    case .stallBegan(let cause): "stall began: \(cause.rawValue)"
    case .stallEnded(let cause, let nanoseconds): "stall ended: \(cause.rawValue), \(nanoseconds) ns"
    case .backgroundError(let error, let work, let refusesWrites):
      "\(work.rawValue) failed\(refusesWrites ? ", and writes are refused" : ""): \(error)"
    case .recovered(let work): "\(work.rawValue) recovered"
    case .familyCreated(let name, let id): "family \"\(name)\" created, id \(id)"
    case .familyDropped(let name, let id): "family \"\(name)\" dropped, id \(id)"
    case .longLived(let reader, let sequence, let age):
      "a \(reader.rawValue) at sequence \(sequence) is \(age / 1_000_000_000) s old"
    case .eventsDropped(let count): "\(count) events dropped"
    }
  }
}

extension EngineEvent.Outcome: CustomStringConvertible {
  /// What became of the job, in words.
  public var description: String {
    if let error { return "failed after \(nanoseconds / 1000) us: \(error)" }
    return "ended after \(nanoseconds / 1000) us: \(outputs.count) tables, \(bytesWritten) bytes"
  }
}

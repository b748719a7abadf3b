/// An event of the engine's background work, for `EventListener`.
///
/// Later versions can add cases: a `switch` over events needs a `default`. The description is one line for a log. Times
/// are nanoseconds of the engine's clock.
public enum EngineEvent: Sendable {
  /// A flush of frozen memtables begins.
  case flushBegan(Flush)
  /// A flush ended; `outcome` has its result.
  case flushEnded(Flush, outcome: Outcome)
  /// A compaction begins.
  case compactionBegan(Compaction)
  /// A compaction ended; `outcome` has its result. A compaction that was canceled, because the engine closes or its
  /// family was dropped, ends with `.canceled`.
  case compactionEnded(Compaction, outcome: Outcome)
  /// The file of a table is complete. The end of its job says whether the table becomes live.
  case tableCreated(Table)
  /// The file of an obsolete table was removed.
  case tableDeleted(number: UInt64)
  /// A log segment is ready to be written to; `isReused` means that its file was a segment before.
  case logSegmentCreated(number: UInt64, bytes: Int, isReused: Bool)
  /// A log segment is no longer needed. Its file is kept for reuse, or removed.
  case logSegmentRecycled(number: UInt64, isKept: Bool)
  /// The engine wrote a new MANIFEST with this number.
  case manifestRolled(number: UInt64)
  /// Writers begin to wait. With `.writeController`, commits are slowed down from now on.
  case stallBegan(StallCause)
  /// No writer waits for this cause any more. `nanoseconds` is the duration of the last wait; with `.writeController`,
  /// the time that commits were slowed down.
  case stallEnded(StallCause, nanoseconds: UInt64)
  /// Background work failed. Unless `refusesWrites`, it is retried.
  case backgroundError(EngineError, in: Work, refusesWrites: Bool)
  /// A compaction found damage in a table. The table stays out of compactions until `Engine.resume()` finds it intact
  /// or `Engine.giveUp(_:)` rewrites it.
  case damageFound(DamagedBlock)
  /// A damaged table was rewritten without its unreadable parts.
  case damageGivenUp(GivenUpDamage)
  /// Work that failed before succeeded.
  case recovered(Work)
  /// The engine accepts other writes than before: because the disk is full, or no longer.
  case writesChanged(AcceptedWrites)
  /// A family was created.
  case familyCreated(name: String, id: FamilyID)
  /// A family was dropped.
  case familyDropped(name: String, id: FamilyID)
  /// A snapshot or cursor lives longer than the bound: it keeps old versions, a cursor files as well.
  /// Reported again each time its age has doubled.
  case longLived(Reader, sequence: SequenceNumber, ageNanoseconds: UInt64)
  /// A lookup has run for more than a second (`get`, `multiGet`, or the body of a `withValue`) and retains memory or
  /// files that the engine has replaced since. `ageNanoseconds` is the minimum time that it has run. Reported again
  /// each time its age has doubled.
  case longRead(ageNanoseconds: UInt64, memTableCount: Int, bytes: Int, fileCount: Int)
  /// This many events were dropped at this point because the listeners were too slow.
  case eventsDropped(count: UInt64)

  /// A flush of one family, or of several that share unlogged batches.
  public struct Flush: Sendable, Hashable {
    /// The number of the job, counted per engine. Its begin and end events have the same number.
    public let job: UInt64
    /// Names of the families.
    public let families: [String]
    /// The number of frozen memtables to be written.
    public let memTableCount: Int
    /// The bytes of the memtables.
    public let bytesRead: UInt64
  }

  /// A compaction of one family.
  public struct Compaction: Sendable, Hashable {
    /// The number of the job, counted per engine. Its begin and end events have the same number.
    public let job: UInt64
    /// The name of the family.
    public let family: String
    /// The reason: `levelZero`, `intraLevelZero`, `levelSize`, `move`, `tombstones`, `released`, `covered`, `manual`,
    /// `damage` or `division`.
    public let reason: String
    /// The input tables.
    public let inputs: [Table]
    /// The output level.
    public let outputLevel: Int
    /// A Boolean value that indicates whether the tables only change their level, without being read or written.
    public let isMove: Bool
    /// Bytes of the inputs.
    public var bytesRead: UInt64 { isMove ? 0 : inputs.reduce(0) { $0 + $1.bytes } }
  }

  /// A table.
  public struct Table: Sendable, Hashable {
    /// The number of its file.
    public let number: UInt64
    /// The level that it is on, or is written to.
    public let level: Int
    /// Bytes of the file.
    public let bytes: UInt64
    /// The number of entries, tombstones included.
    public let entryCount: UInt64
  }

  /// The result of a job.
  public struct Outcome: Sendable {
    /// The duration of the job.
    public let nanoseconds: UInt64
    /// The tables that it wrote; empty if it failed.
    public let outputs: [Table]
    /// The error of a failed job; otherwise nil.
    public let error: EngineError?
    /// Bytes of the tables that it wrote.
    public var bytesWritten: UInt64 { outputs.reduce(0) { $0 + $1.bytes } }
  }

  /// The kind of work that failed.
  public enum Work: String, Sendable, Hashable {
    /// Flushes.
    case flush
    /// Compactions.
    case compaction
    /// Syncs of the log.
    case log
  }

  /// A reader that retains an old state.
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
    case .damageFound(let block): "a compaction met damage: \(block)"
    case .damageGivenUp(let damage): "damage was given up: \(damage)"
    case .recovered(let work): "\(work.rawValue) recovered"
    case .writesChanged(let writes): "writes that are accepted: \(writes.rawValue)"
    case .familyCreated(let name, let id): "family \"\(name)\" created, id \(id)"
    case .familyDropped(let name, let id): "family \"\(name)\" dropped, id \(id)"
    case .longLived(let reader, let sequence, let age):
      "a \(reader.rawValue) at sequence \(sequence) is \(age / 1_000_000_000) s old"
    case .longRead(let age, let memTableCount, let bytes, let fileCount):
      "a lookup has run for \(age / 1_000_000) ms at least and keeps \(memTableCount) memtables, \(bytes) bytes, "
        + "\(fileCount) files"
    case .eventsDropped(let count): "\(count) events dropped"
    }
  }
}

extension EngineEvent.Outcome: CustomStringConvertible {
  /// The result of the job as text.
  public var description: String {
    if let error { return "failed after \(nanoseconds / 1000) us: \(error)" }
    return "ended after \(nanoseconds / 1000) us: \(outputs.count) tables, \(bytesWritten) bytes"
  }
}

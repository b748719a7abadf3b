internal import Synchronization

/// The counters of the background work. They are relaxed, because each is a statistic and orders no other access.
final class EngineCounters: Sendable {
  private let jobs = Atomic<UInt64>(0)
  private let flushes = Atomic<UInt64>(0)
  private let flushRead = Atomic<UInt64>(0)
  private let flushed = Atomic<UInt64>(0)
  private let unlogged = Atomic<UInt64>(0)
  private let moves = Atomic<UInt64>(0)
  /// The work of compactions by output level.
  private let compactions = Mutex(ByLevel<LevelWork>.empty)
  private let failures = Atomic<UInt64>(0)
  private let coveredRuns = Atomic<UInt64>(0)
  private let droppedUnread = Atomic<UInt64>(0)

  /// Allocates a number for a job.
  func beginJob() -> UInt64 { jobs.wrappingAdd(1, ordering: .relaxed).newValue }

  func addFlushed(_ bytes: UInt64) { flushed.wrappingAdd(bytes, ordering: .relaxed) }
  /// Counts a successful flush of memtables with `read` bytes, of which `bytes` were not in the log.
  func addFlush(read: UInt64, unlogged bytes: UInt64) {
    flushes.wrappingAdd(1, ordering: .relaxed)
    flushRead.wrappingAdd(read, ordering: .relaxed)
    unlogged.wrappingAdd(bytes, ordering: .relaxed)
  }
  func addCompaction(into level: Int, read: UInt64, written: UInt64) {
    compactions.withLock { levels in
      levels[level].compactionCount += 1
      levels[level].bytesRead += read
      levels[level].bytesWritten += written
    }
  }
  func addMove() { moves.wrappingAdd(1, ordering: .relaxed) }
  /// Counts a range tombstone that was written over dead keys.
  func addCoveredRun() { coveredRuns.wrappingAdd(1, ordering: .relaxed) }
  /// Counts tables that were dropped without being read.
  func addDroppedUnread(_ count: Int) { droppedUnread.wrappingAdd(UInt64(count), ordering: .relaxed) }
  func addFailure() { failures.wrappingAdd(1, ordering: .relaxed) }

  var flushCount: UInt64 { flushes.load(ordering: .relaxed) }
  var bytesFlushRead: UInt64 { flushRead.load(ordering: .relaxed) }
  var bytesFlushed: UInt64 { flushed.load(ordering: .relaxed) }
  var compactionCount: UInt64 { levelWork.reduce(0) { $0 + $1.compactionCount } }
  var bytesUnlogged: UInt64 { unlogged.load(ordering: .relaxed) }
  var moveCount: UInt64 { moves.load(ordering: .relaxed) }
  /// The work of compactions by output level, from level 0.
  var levelWork: [LevelWork] { compactions.withLock { $0 } }
  var coveredRunCount: UInt64 { coveredRuns.load(ordering: .relaxed) }
  var droppedUnreadCount: UInt64 { droppedUnread.load(ordering: .relaxed) }
  var failureCount: UInt64 { failures.load(ordering: .relaxed) }
}

/// The work of compactions into one level since the engine opened. For flushes, which write to level 0 and occasionally
/// to deeper levels, `EngineStatistics.Work` has the sum.
public struct LevelWork: Sendable, Hashable, NumberedLevel {
  /// The number of the level.
  public internal(set) var level = 0
  /// Successful compactions that wrote tables to the level.
  public internal(set) var compactionCount: UInt64 = 0
  /// Bytes of tables that they read, including those of the level above.
  public internal(set) var bytesRead: UInt64 = 0
  /// Bytes of tables that they wrote.
  public internal(set) var bytesWritten: UInt64 = 0

  init() {}

  private enum CodingKeys: String, CodingKey {
    case level
    case compactionCount = "compactions"
    case bytesRead, bytesWritten
  }
}

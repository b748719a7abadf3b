import ArgumentParser

/// The stores that the harness can measure. `sqlite` and `grdb` are peers of the object floor only, `sqlite` and `postgres` of tasks.
enum EngineKind: String, CaseIterable, Codable, ExpressibleByArgument {
  case varve, rocksdb, leveldb, lmdb, sqlite, grdb, postgres
  /// Varve on a file system that doesn't let it map its log: what the mapping gains.
  case varvePwrite = "varve-pwrite"
}

/// What is matched between the engines. Each adapter says how it spells these, and why it sets more.
struct EngineSettings: Codable {
  enum Compression: String, CaseIterable, Codable, ExpressibleByArgument { case none, lz4, zstd }

  var compression = Compression.lz4
  var memtableBytes = 64 << 20
  var cacheBytes = 512 << 20
  var bloomBits = 10
  var backgroundThreads = 2
  /// 0: the engine's own default.
  var blockBytes = 0
  /// Varve's log; false: by `pwrite` alone.
  var mapsLog = true
  /// False: nothing is compacted in the background, where the engine can do without.
  var compacts = true
  /// False: the database has to be there.
  var createIfMissing = true
  /// Of objects: which indexes they have; nil: none, by the plainest way that an engine has.
  var indexes: BookIndexes?
}

/// Metrics that only the engine itself can report.
struct EngineCounters {
  /// Bytes written to tables by flushes and compactions since open. Not the log, not the MANIFEST.
  var tableBytesWritten: UInt64 = 0
  /// False if the engine doesn't report them: then there is no write amplification.
  var countsTableBytes = true
  /// Bytes of tables by level, from the top.
  var levels: [LevelUsage] = []
}

struct LevelUsage: Codable {
  var level: Int
  var files: Int
  var bytes: UInt64
}

struct EngineFailure: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

/// A store under measurement. Opened once in a child process; its sessions run the operations.
protocol MeasuredEngine: AnyObject, Sendable {
  /// Name and number, and what is known of how it was built.
  static var version: String { get }
  /// Which files of its directory are tables, which are log.
  static func fileUse(_ name: String) -> FileUse

  init(path: String, settings: EngineSettings) throws
  /// Merges everything into its bottom.
  func compact() throws
  /// Returns when no flush or compaction is due, and the nanoseconds at the end that were spent only
  /// to find that out: they are not counted.
  func waitForCompaction() throws -> UInt64
  func counters() -> EngineCounters
  func close() throws
}

enum FileUse { case table, log, other }

/// Reads the first and last byte of what an engine returned.
enum Touch {
  @inline(__always)
  static func bytes(_ base: UnsafeRawPointer, _ count: Int) -> UInt8 {
    guard count > 0 else { return 0 }
    return base.load(as: UInt8.self) ^ base.load(fromByteOffset: count &- 1, as: UInt8.self)
  }
}

import ArgumentParser

/// The stores that the harness can measure.
///
/// `sqlite` and `grdb` are peers of the object database and of tasks only, and `postgres` of tasks only.
enum EngineKind: String, CaseIterable, Codable, ExpressibleByArgument {
  case varve, rocksdb, leveldb, lmdb, sqlite, grdb, postgres
  /// Varve on a file system that does not let it map its log, which shows the gain of the mapping.
  case varvePwrite = "varve-pwrite"
}

/// The settings that are matched between the engines. Each adapter documents how it sets them, and why it sets more.
struct EngineSettings: Codable {
  enum Compression: String, CaseIterable, Codable, ExpressibleByArgument { case none, lz4, zstd }

  var compression = Compression.lz4
  var memtableBytes = 64 << 20
  var cacheBytes = 512 << 20
  var bloomBits = 10
  var backgroundThreads = 2
  /// The size of blocks, or 0 for the engine's own default.
  var blockBytes = 0
  /// Whether Varve maps its log; if false, it writes the log only by `pwrite`.
  var mapsLog = true
  /// Whether compactions run in the background; if false, they don't if the engine can do without them.
  var compacts = true
  /// Whether a missing database is created; if false, it has to exist.
  var createIfMissing = true
  /// The indexes of objects, or `nil` for none and the simplest API of an engine.
  var indexes: BookIndexes?
  /// What keeps the books of the view workloads in order.
  var shelf = ShelfForm.rows
}

/// Metrics that only the engine itself can report.
struct EngineCounters {
  /// Bytes written to tables by flushes and compactions since the open, without the log and the MANIFEST.
  var tableBytesWritten: UInt64 = 0
  /// Whether the engine reports these bytes; if false, there is no write amplification.
  var countsTableBytes = true
  /// The bytes of tables by level, from level 0 on.
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

/// A store under measurement. It is opened once in a child process, and its sessions run the operations.
protocol MeasuredEngine: AnyObject, Sendable {
  /// Name and version, and what is known about the build of the library.
  static var version: String { get }
  /// Returns the use of a file of the engine's directory: table, log or other.
  static func fileUse(_ name: String) -> FileUse

  init(path: String, settings: EngineSettings) throws
  /// Compacts all data into the last level.
  func compact() throws
  /// Waits until no flush or compaction is due.
  ///
  /// Returns the nanoseconds at the end that were spent only to detect that, which are not counted.
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

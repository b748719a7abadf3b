import ArgumentParser

/// The stores that the harness can measure. The last two belong to the object floor.
enum EngineKind: String, CaseIterable, Codable, ExpressibleByArgument {
  case varve, rocksdb, leveldb, lmdb, sqlite, grdb
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
}

/// What an engine says of itself, for figures that the outside can't see.
struct EngineCounters {
  /// Bytes written to tables by flushes and compactions since open. Not the log, not the MANIFEST.
  var tableBytesWritten: UInt64 = 0
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
protocol KeyValueEngine: AnyObject, Sendable {
  associatedtype Session: KeyValueSession

  /// Name and number, and what is known of how it was built.
  static var version: String { get }
  /// Which files of its directory are tables, which are log.
  static func fileUse(_ name: String) -> FileUse

  init(path: String, settings: EngineSettings) throws
  func makeSession() throws -> Session
  /// Merges everything into its bottom.
  func compact() throws
  /// Returns when no flush or compaction is due, and the nanoseconds at the end that were spent only
  /// to find that out: they are not counted.
  func waitForCompaction() throws -> UInt64
  func counters() -> EngineCounters
  func close() throws
}

enum FileUse { case table, log, other }

/// One thread's door to the engine: owns reusable batches, cursors and options, is used by one thread.
///
/// Every read hands over the bytes where they lie: an engine that must copy them does so as its C API
/// does. A session touches the value (`Touch`), so that a mapped page that was only pointed at counts.
protocol KeyValueSession: AnyObject {
  func put(_ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, sync: Bool) throws
  func addToBatch(_ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) throws
  func commitBatch(sync: Bool) throws
  func delete(_ key: UnsafeRawBufferPointer) throws
  /// True when the key is there; its value was touched.
  func get(_ key: UnsafeRawBufferPointer) throws -> Bool

  /// A cursor over all keys at the present state. One a session.
  func openCursor() throws
  func closeCursor()
  func seekToFirst() throws -> Bool
  func seekToLast() throws -> Bool
  func seek(_ key: UnsafeRawBufferPointer) throws -> Bool
  func next() throws -> Bool
  func previous() throws -> Bool
  /// Touches key and value of the cursor's entry; the bytes of both.
  func touchEntry() -> Int
  func cursorIsAt(_ key: UnsafeRawBufferPointer) -> Bool

  /// Holds what is seen now until the session closes.
  func holdSnapshot() throws

  func close()
}

/// Reads the first and last byte of what an engine returned.
enum Touch {
  @inline(__always)
  static func bytes(_ base: UnsafeRawPointer, _ count: Int) -> UInt8 {
    guard count > 0 else { return 0 }
    return base.load(as: UInt8.self) ^ base.load(fromByteOffset: count &- 1, as: UInt8.self)
  }
}

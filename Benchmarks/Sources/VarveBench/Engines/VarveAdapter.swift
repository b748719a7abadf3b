import Foundation
import VarveEngine

/// Varve through its public API.
///
/// Settings: only those matched between all engines. A put is `.process` (it survives the death of the process, as the
/// others' unsynced puts do), a synced one `.power`.
///
/// Memtable and cache are set by size, as for the other engines, without a memory budget. So the cache is as large as
/// theirs, but includes index and filter blocks, which RocksDB and LevelDB hold in addition to their caches; and it
/// does not grow if the memtables leave memory unused.
final class VarveAdapter: KeyValueEngine {
  private let engine: Engine

  static var version: String {
    #if DEBUG
      "Varve, debug build"
    #else
      "Varve"
    #endif
  }

  static func fileUse(_ name: String) -> FileUse {
    if name.hasSuffix(".sst") { return .table }
    return name.hasSuffix(".log") || name.hasSuffix(".pool") ? .log : .other
  }

  init(path: String, settings: EngineSettings) throws {
    engine = try Self.openEngine(path: path, settings: settings)
  }

  static func openEngine(path: String, settings: EngineSettings) throws -> Engine {
    var options = EngineOptions()
    options.raisesDescriptorLimit = true
    options.createIfMissing = settings.createIfMissing
    options.memtableSize = settings.memtableBytes
    options.cacheSize = settings.cacheBytes
    options.bloomBitsPerKey = settings.bloomBits
    options.backgroundThreads = settings.backgroundThreads
    options.compactsInBackground = settings.compacts
    if settings.blockBytes > 0 { options.blockSize = settings.blockBytes }
    switch settings.compression {
    case .none: options.compression = .none
    case .lz4: options.compression = .lz4
    case .zstd: options.compression = .zstd
    }
    var environment = EngineEnvironment.system
    environment.fileSystem = PosixFileSystem(mapsFiles: settings.mapsLog)
    return try Engine.open(at: path, options: options, environment: environment)
  }

  func makeSession() throws -> VarveSession { VarveSession(engine) }
  func compact() throws { try engine.compact() }

  func waitForCompaction() throws -> UInt64 {
    try engine.waitForCompaction()
    return 0
  }

  func counters() -> EngineCounters { Self.counters(engine) }

  static func counters(_ engine: Engine) -> EngineCounters {
    let statistics = engine.statistics
    return EngineCounters(
      tableBytesWritten: statistics.bytesFlushed + statistics.bytesCompactionWritten,
      levels: statistics.levels.enumerated().map { index, level in
        LevelUsage(level: index, files: Int(level.fileCount), bytes: UInt64(level.bytes))
      })
  }

  func close() throws { try engine.close() }
}

final class VarveSession: KeyValueSession {
  private let engine: Engine
  private var batch = WriteBatch()
  /// The memory of this session's cursor, because an optional noncopyable value in a class can be created and mutated,
  /// but not read without a copy.
  private let cursor = UnsafeMutablePointer<EngineCursor>.allocate(capacity: 1)
  private var hasCursor = false
  private var snapshot: EngineSnapshot?
  private var sink: UInt8 = 0

  init(_ engine: Engine) { self.engine = engine }

  func put(_ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, sync: Bool) throws {
    try engine.put(key.bytes, value.bytes, durability: sync ? .power : .process)
  }

  func addToBatch(_ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) throws {
    try batch.put(key.bytes, value.bytes)
  }

  func commitBatch(sync: Bool) throws {
    try engine.write(batch, durability: sync ? .power : .process)
    batch.removeAll()
  }

  func delete(_ key: UnsafeRawBufferPointer) throws { try engine.delete(key.bytes) }

  func get(_ key: UnsafeRawBufferPointer) throws -> Bool {
    let touched = try engine.withValue(forKey: key.bytes) { value in
      value.withUnsafeBytes { bytes in bytes.baseAddress.map { Touch.bytes($0, bytes.count) } ?? 0 }
    }
    guard let touched else { return false }
    sink ^= touched
    return true
  }

  deinit { cursor.deallocate() }

  func openCursor() throws {
    closeCursor()
    cursor.initialize(to: try engine.cursor())
    hasCursor = true
  }

  func closeCursor() {
    if hasCursor { cursor.deinitialize(count: 1) }
    hasCursor = false
  }

  func seekToFirst() throws -> Bool {
    try cursor.pointee.seekToFirst()
    return cursor.pointee.isValid
  }

  func seekToLast() throws -> Bool {
    try cursor.pointee.seekToLast()
    return cursor.pointee.isValid
  }

  func seek(_ key: UnsafeRawBufferPointer) throws -> Bool {
    try cursor.pointee.seek(key.bytes)
    return cursor.pointee.isValid
  }

  func next() throws -> Bool {
    try cursor.pointee.next()
    return cursor.pointee.isValid
  }

  func previous() throws -> Bool {
    try cursor.pointee.previous()
    return cursor.pointee.isValid
  }

  func touchEntry() -> Int {
    var touched: UInt8 = 0
    let keyCount = cursor.pointee.key.withUnsafeBytes { bytes in
      if let base = bytes.baseAddress { touched ^= Touch.bytes(base, bytes.count) }
      return bytes.count
    }
    let valueCount = cursor.pointee.value.withUnsafeBytes { bytes in
      if let base = bytes.baseAddress { touched ^= Touch.bytes(base, bytes.count) }
      return bytes.count
    }
    sink ^= touched
    return keyCount &+ valueCount
  }

  func cursorIsAt(_ key: UnsafeRawBufferPointer) -> Bool {
    cursor.pointee.key.withUnsafeBytes { found in
      guard found.count == key.count, let left = found.baseAddress, let right = key.baseAddress else { return false }
      return memcmp(left, right, found.count) == 0
    }
  }

  func holdSnapshot() throws { snapshot = engine.snapshot() }

  func close() {
    closeCursor()
    snapshot = nil
  }
}

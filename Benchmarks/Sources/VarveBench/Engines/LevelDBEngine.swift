#if LevelDB
  import CLevelDB
  import Foundation

  /// LevelDB through its C API.
  ///
  /// Settings in addition to those matched between all engines:
  /// - Compression is Snappy if LZ4 or Zstd is requested, because LevelDB has no other (the report states it).
  /// - It has one background thread; more cannot be configured.
  /// - All other settings are the library's defaults: files of 2 MiB, blocks of 4 KiB, 1,000 open files (most tables
  ///   are read through `mmap`, which counts as its memory), checksums not verified on read.
  final class LevelDBEngine: KeyValueEngine, @unchecked Sendable {
    // Unchecked: `leveldb_t` may be used from any thread; the other pointers are set once.
    let database: OpaquePointer
    private let options: OpaquePointer
    private let cache: OpaquePointer
    private let filter: OpaquePointer?

    static var version: String {
      let number = "\(leveldb_major_version()).\(leveldb_minor_version())"
      let note = SharedLibrary(loadedAs: "libleveldb").map { ", \($0.note)" } ?? ""
      return "LevelDB \(number)\(note), Snappy"
    }

    static func fileUse(_ name: String) -> FileUse {
      if name.hasSuffix(".ldb") || name.hasSuffix(".sst") { return .table }
      return name.hasSuffix(".log") ? .log : .other
    }

    init(path: String, settings: EngineSettings) throws {
      options = leveldb_options_create()
      cache = leveldb_cache_create_lru(settings.cacheBytes)
      filter = settings.bloomBits > 0 ? leveldb_filterpolicy_create_bloom(Int32(settings.bloomBits)) : nil
      leveldb_options_set_create_if_missing(options, settings.createIfMissing ? 1 : 0)
      leveldb_options_set_write_buffer_size(options, settings.memtableBytes)
      leveldb_options_set_cache(options, cache)
      if let filter { leveldb_options_set_filter_policy(options, filter) }
      if settings.blockBytes > 0 { leveldb_options_set_block_size(options, settings.blockBytes) }
      leveldb_options_set_compression(
        options,
        Int32(settings.compression == .none ? leveldb_no_compression : leveldb_snappy_compression))

      var message: UnsafeMutablePointer<CChar>?
      let opened = leveldb_open(options, path, &message)
      guard let opened else { throw EngineFailure("LevelDB open: \(takeMessage(&message))") }
      database = opened
    }

    func makeSession() throws -> LevelDBSession { LevelDBSession(database) }

    func compact() throws { leveldb_compact_range(database, nil, 0, nil, 0) }

    /// Waits until LevelDB is at rest, since it reports neither that a compaction runs nor that one is due.
    ///
    /// It is at rest when no level is over its target and the process (its background thread; this one sleeps) used no
    /// CPU and wrote no bytes for a quarter of a second, or for two seconds whatever the levels look like.
    func waitForCompaction() throws -> UInt64 {
      var window = QuietWindow()
      while true {
        usleep(5000)
        let quiet = window.observe()
        if quiet >= 2_000_000_000 || (quiet >= 250_000_000 && !isOverTarget) { return quiet }
      }
    }

    /// Whether a level is over its target by LevelDB's own rule: four files in level 0, 10 MiB in level 1, and ten
    /// times more in each level below.
    private var isOverTarget: Bool {
      var target = 10.0 * 1_048_576
      for usage in counters().levels {
        if usage.level == 0 {
          if usage.files >= 4 { return true }
        } else {
          if Double(usage.bytes) >= target && usage.level < 6 { return true }
          target *= 10
        }
      }
      return false
    }

    /// Reads the bytes written from `leveldb.stats`, which rounds each level to a MiB, and the levels from
    /// `leveldb.sstables`, which is exact (` 12:2103421['a' @ 1 : 1 .. 'b' @ 2 : 1]`).
    func counters() -> EngineCounters {
      var counters = EngineCounters()
      for line in property("leveldb.stats").split(separator: "\n") {
        let fields = line.split(separator: " ").compactMap { Double($0) }
        if fields.count == 6 { counters.tableBytesWritten += UInt64(fields[5]) << 20 }
      }
      for line in property("leveldb.sstables").split(separator: "\n") {
        if line.hasPrefix("--- level") {
          counters.levels.append(LevelUsage(level: counters.levels.count, files: 0, bytes: 0))
        } else if let colon = line.firstIndex(of: ":"), !counters.levels.isEmpty {
          let size = line[line.index(after: colon)...].prefix { $0.isNumber }
          counters.levels[counters.levels.count - 1].files += 1
          counters.levels[counters.levels.count - 1].bytes += UInt64(size) ?? 0
        }
      }
      return counters
    }

    private func property(_ name: String) -> String {
      guard let text = leveldb_property_value(database, name) else { return "" }
      defer { leveldb_free(text) }
      return String(cString: text)
    }

    func close() throws {
      leveldb_close(database)
      leveldb_options_destroy(options)
      leveldb_cache_destroy(cache)
      if let filter { leveldb_filterpolicy_destroy(filter) }
    }
  }

  final class LevelDBSession: KeyValueSession {
    private let database: OpaquePointer
    private let plain = leveldb_writeoptions_create()
    private let synced = leveldb_writeoptions_create()
    private let reads = leveldb_readoptions_create()
    private let batch = leveldb_writebatch_create()
    private var cursor: OpaquePointer?
    private var snapshot: OpaquePointer?
    private var message: UnsafeMutablePointer<CChar>?
    private var sink: UInt8 = 0

    init(_ database: OpaquePointer) {
      self.database = database
      leveldb_writeoptions_set_sync(synced, 1)
    }

    func put(_ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, sync: Bool) throws {
      leveldb_put(
        database, sync ? synced : plain, key.characters, key.count, value.characters, value.count, &message)
      if message != nil { throw EngineFailure("LevelDB put: \(takeMessage(&message))") }
    }

    func addToBatch(_ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) throws {
      leveldb_writebatch_put(batch, key.characters, key.count, value.characters, value.count)
    }

    func commitBatch(sync: Bool) throws {
      leveldb_write(database, sync ? synced : plain, batch, &message)
      if message != nil { throw EngineFailure("LevelDB write: \(takeMessage(&message))") }
      leveldb_writebatch_clear(batch)
    }

    func delete(_ key: UnsafeRawBufferPointer) throws {
      leveldb_delete(database, plain, key.characters, key.count, &message)
      if message != nil { throw EngineFailure("LevelDB delete: \(takeMessage(&message))") }
    }

    func get(_ key: UnsafeRawBufferPointer) throws -> Bool {
      // The C API has only a get that copies the value.
      var count = 0
      let value = leveldb_get(database, reads, key.characters, key.count, &count, &message)
      if message != nil { throw EngineFailure("LevelDB get: \(takeMessage(&message))") }
      guard let value else { return false }
      sink ^= Touch.bytes(value, count)
      leveldb_free(value)
      return true
    }

    func holdSnapshot() throws { snapshot = leveldb_create_snapshot(database) }

    func openCursor() throws { cursor = leveldb_create_iterator(database, reads) }

    func closeCursor() {
      if let cursor { leveldb_iter_destroy(cursor) }
      cursor = nil
    }

    func seekToFirst() throws -> Bool {
      leveldb_iter_seek_to_first(cursor)
      return try isValid()
    }

    func seekToLast() throws -> Bool {
      leveldb_iter_seek_to_last(cursor)
      return try isValid()
    }

    func seek(_ key: UnsafeRawBufferPointer) throws -> Bool {
      leveldb_iter_seek(cursor, key.characters, key.count)
      return try isValid()
    }

    func next() throws -> Bool {
      leveldb_iter_next(cursor)
      return try isValid()
    }

    func previous() throws -> Bool {
      leveldb_iter_prev(cursor)
      return try isValid()
    }

    private func isValid() throws -> Bool {
      if leveldb_iter_valid(cursor) != 0 { return true }
      leveldb_iter_get_error(cursor, &message)
      if message != nil { throw EngineFailure("LevelDB cursor: \(takeMessage(&message))") }
      return false
    }

    func touchEntry() -> Int {
      var keyCount = 0
      var valueCount = 0
      if let key = leveldb_iter_key(cursor, &keyCount) { sink ^= Touch.bytes(key, keyCount) }
      if let value = leveldb_iter_value(cursor, &valueCount) { sink ^= Touch.bytes(value, valueCount) }
      return keyCount &+ valueCount
    }

    func cursorIsAt(_ key: UnsafeRawBufferPointer) -> Bool {
      var count = 0
      guard let found = leveldb_iter_key(cursor, &count), let base = key.baseAddress else { return false }
      return count == key.count && memcmp(found, base, count) == 0
    }

    func close() {
      closeCursor()
      if let snapshot { leveldb_release_snapshot(database, snapshot) }
      leveldb_writebatch_destroy(batch)
      leveldb_readoptions_destroy(reads)
      leveldb_writeoptions_destroy(plain)
      leveldb_writeoptions_destroy(synced)
    }
  }
#endif

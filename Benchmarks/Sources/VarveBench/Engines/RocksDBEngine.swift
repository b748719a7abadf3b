#if RocksDB
  import CRocksDB
  import Foundation

  /// RocksDB through its C API.
  ///
  /// Settings in addition to those matched between all engines:
  /// - `increase_parallelism(backgroundThreads)`: the documented way to configure that many background threads; it sets
  ///   `max_background_jobs`, and sizes the flush and the compaction pool.
  /// - All other settings are the library's defaults, which are also db_bench's: leveled compaction, level 1 of 256
  ///   MiB, files of 64 MiB, two write buffers, blocks of 4 KiB, index and filter blocks held outside of the cache for
  ///   as long as the table is open (its fastest setting, and memory that the cache's size doesn't count), checksums
  ///   verified on read, statistics off (they cost a few percent).
  /// - `VARVE_BENCH_ROCKSDB=guide` selects the settings of its tuning guide instead (blocks of 16 KiB, dynamic level
  ///   sizes, index and filters in the cache, a sync every MiB of a table): a little less CPU for fills, a little more
  ///   for random reads. Compare with both.
  final class RocksDBEngine: KeyValueEngine, @unchecked Sendable {
    // Unchecked: `rocksdb_t` may be used from any thread; the other pointers are set once.
    let database: OpaquePointer
    private let options: OpaquePointer
    private let path: String

    static var version: String {
      guard let library = SharedLibrary(loadedAs: "librocksdb") else { return "RocksDB" }
      return "RocksDB \(library.versionInName), \(library.note)\(followsGuide ? ", tuning guide" : "")"
    }

    private static let followsGuide = ProcessInfo.processInfo.environment["VARVE_BENCH_ROCKSDB"] == "guide"

    static func fileUse(_ name: String) -> FileUse {
      if name.hasSuffix(".sst") { return .table }
      return name.hasSuffix(".log") ? .log : .other
    }

    init(path: String, settings: EngineSettings) throws {
      self.path = path
      options = rocksdb_options_create()
      rocksdb_options_set_create_if_missing(options, settings.createIfMissing ? 1 : 0)
      rocksdb_options_increase_parallelism(options, Int32(settings.backgroundThreads))
      rocksdb_options_set_write_buffer_size(options, settings.memtableBytes)
      if !settings.compacts {
        rocksdb_options_set_disable_auto_compactions(options, 1)
        // Otherwise it would stop writers because of the compactions that it may not run.
        rocksdb_options_set_level0_slowdown_writes_trigger(options, 1 << 20)
        rocksdb_options_set_level0_stop_writes_trigger(options, 1 << 20)
      }
      switch settings.compression {
      case .none: rocksdb_options_set_compression(options, Int32(rocksdb_no_compression))
      case .lz4: rocksdb_options_set_compression(options, Int32(rocksdb_lz4_compression))
      case .zstd: rocksdb_options_set_compression(options, Int32(rocksdb_zstd_compression))
      }

      let table = rocksdb_block_based_options_create()
      let cache = rocksdb_cache_create_lru(settings.cacheBytes)
      rocksdb_block_based_options_set_block_cache(table, cache)
      rocksdb_cache_destroy(cache)  // the options hold it now
      if settings.bloomBits > 0 {
        // This is the full-file filter; the block-based one is deprecated. The options own the policy.
        rocksdb_block_based_options_set_filter_policy(
          table, rocksdb_filterpolicy_create_bloom_full(Double(settings.bloomBits)))
      }
      if settings.blockBytes > 0 { rocksdb_block_based_options_set_block_size(table, settings.blockBytes) }
      if Self.followsGuide {
        rocksdb_options_set_level_compaction_dynamic_level_bytes(options, 1)
        rocksdb_options_set_bytes_per_sync(options, 1 << 20)
        if settings.blockBytes == 0 { rocksdb_block_based_options_set_block_size(table, 16 << 10) }
        rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1)
        rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(table, 1)
        rocksdb_block_based_options_set_format_version(table, 5)
      }
      rocksdb_options_set_block_based_table_factory(options, table)
      rocksdb_block_based_options_destroy(table)

      var message: UnsafeMutablePointer<CChar>?
      let opened = rocksdb_open(options, path, &message)
      guard let opened else { throw EngineFailure("RocksDB open: \(takeMessage(&message))") }
      database = opened
    }

    func makeSession() throws -> RocksDBSession { RocksDBSession(database) }

    func compact() throws { rocksdb_compact_range(database, nil, 0, nil, 0) }

    /// Waits by polling, because the C API of 7.8 has no `WaitForCompact`: the properties for due and running work must
    /// be zero three times in a row, since a job that ends may make another due.
    func waitForCompaction() throws -> UInt64 {
      let names = [
        "rocksdb.mem-table-flush-pending", "rocksdb.num-running-flushes", "rocksdb.num-immutable-mem-table",
        "rocksdb.compaction-pending", "rocksdb.num-running-compactions",
      ]
      var quiet = 0
      while quiet < 3 {
        let isBusy = names.contains { name in
          var value: UInt64 = 0
          return rocksdb_property_int(database, name, &value) == 0 && value > 0
        }
        quiet = isBusy ? 0 : quiet + 1
        usleep(1000)
      }
      return 3_000_000
    }

    /// Reads the table bytes from the event lines of the info log, which are exact and cost no time while the row runs.
    func counters() -> EngineCounters {
      var counters = EngineCounters()
      if let log = try? Data(contentsOf: URL(fileURLWithPath: path + "/LOG"), options: .alwaysMapped) {
        counters.tableBytesWritten = Self.tableBytes(inInfoLog: log)
      }
      let files = rocksdb_livefiles(database)
      defer { rocksdb_livefiles_destroy(files) }
      for index in 0..<rocksdb_livefiles_count(files) {
        let level = Int(rocksdb_livefiles_level(files, index))
        while counters.levels.count <= level {
          counters.levels.append(LevelUsage(level: counters.levels.count, files: 0, bytes: 0))
        }
        counters.levels[level].files += 1
        counters.levels[level].bytes += UInt64(rocksdb_livefiles_size(files, index))
      }
      return counters
    }

    private static func tableBytes(inInfoLog log: Data) -> UInt64 {
      let event = Data("\"event\": \"table_file_creation\"".utf8)
      let field = Data("\"file_size\": ".utf8)
      var total: UInt64 = 0
      var position = log.startIndex
      while let found = log.range(of: event, in: position..<log.endIndex) {
        position = found.upperBound
        guard let size = log.range(of: field, in: position..<min(position + 400, log.endIndex)) else { continue }
        var value: UInt64 = 0
        for byte in log[size.upperBound...] {
          guard byte >= 48, byte <= 57 else { break }
          value = value * 10 + UInt64(byte - 48)
        }
        total += value
      }
      return total
    }

    func close() throws {
      rocksdb_close(database)
      rocksdb_options_destroy(options)
    }
  }

  final class RocksDBSession: KeyValueSession {
    private let database: OpaquePointer
    private let plain = rocksdb_writeoptions_create()
    private let synced = rocksdb_writeoptions_create()
    private let reads = rocksdb_readoptions_create()
    private let batch = rocksdb_writebatch_create()
    private var cursor: OpaquePointer?
    private var snapshot: OpaquePointer?
    private var message: UnsafeMutablePointer<CChar>?
    private var sink: UInt8 = 0

    init(_ database: OpaquePointer) {
      self.database = database
      rocksdb_writeoptions_set_sync(synced, 1)
    }

    func put(_ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, sync: Bool) throws {
      rocksdb_put(
        database, sync ? synced : plain, key.characters, key.count, value.characters, value.count, &message)
      if message != nil { throw EngineFailure("RocksDB put: \(takeMessage(&message))") }
    }

    func addToBatch(_ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) throws {
      rocksdb_writebatch_put(batch, key.characters, key.count, value.characters, value.count)
    }

    func commitBatch(sync: Bool) throws {
      rocksdb_write(database, sync ? synced : plain, batch, &message)
      if message != nil { throw EngineFailure("RocksDB write: \(takeMessage(&message))") }
      rocksdb_writebatch_clear(batch)
    }

    func delete(_ key: UnsafeRawBufferPointer) throws {
      rocksdb_delete(database, plain, key.characters, key.count, &message)
      if message != nil { throw EngineFailure("RocksDB delete: \(takeMessage(&message))") }
    }

    func get(_ key: UnsafeRawBufferPointer) throws -> Bool {
      // A pinned get reads the value in the block cache without a copy.
      let slice = rocksdb_get_pinned(database, reads, key.characters, key.count, &message)
      if message != nil { throw EngineFailure("RocksDB get: \(takeMessage(&message))") }
      guard let slice else { return false }
      var count = 0
      if let value = rocksdb_pinnableslice_value(slice, &count) { sink ^= Touch.bytes(value, count) }
      rocksdb_pinnableslice_destroy(slice)
      return true
    }

    func holdSnapshot() throws { snapshot = rocksdb_create_snapshot(database) }

    func openCursor() throws { cursor = rocksdb_create_iterator(database, reads) }

    func closeCursor() {
      if let cursor { rocksdb_iter_destroy(cursor) }
      cursor = nil
    }

    func seekToFirst() throws -> Bool {
      rocksdb_iter_seek_to_first(cursor)
      return try isValid()
    }

    func seekToLast() throws -> Bool {
      rocksdb_iter_seek_to_last(cursor)
      return try isValid()
    }

    func seek(_ key: UnsafeRawBufferPointer) throws -> Bool {
      rocksdb_iter_seek(cursor, key.characters, key.count)
      return try isValid()
    }

    func next() throws -> Bool {
      rocksdb_iter_next(cursor)
      return try isValid()
    }

    func previous() throws -> Bool {
      rocksdb_iter_prev(cursor)
      return try isValid()
    }

    private func isValid() throws -> Bool {
      if rocksdb_iter_valid(cursor) != 0 { return true }
      rocksdb_iter_get_error(cursor, &message)
      if message != nil { throw EngineFailure("RocksDB cursor: \(takeMessage(&message))") }
      return false
    }

    func touchEntry() -> Int {
      var keyCount = 0
      var valueCount = 0
      if let key = rocksdb_iter_key(cursor, &keyCount) { sink ^= Touch.bytes(key, keyCount) }
      if let value = rocksdb_iter_value(cursor, &valueCount) { sink ^= Touch.bytes(value, valueCount) }
      return keyCount &+ valueCount
    }

    func cursorIsAt(_ key: UnsafeRawBufferPointer) -> Bool {
      var count = 0
      guard let found = rocksdb_iter_key(cursor, &count), let base = key.baseAddress else { return false }
      return count == key.count && memcmp(found, base, count) == 0
    }

    func close() {
      closeCursor()
      if let snapshot { rocksdb_release_snapshot(database, snapshot) }
      rocksdb_writebatch_destroy(batch)
      rocksdb_readoptions_destroy(reads)
      rocksdb_writeoptions_destroy(plain)
      rocksdb_writeoptions_destroy(synced)
    }
  }
#endif

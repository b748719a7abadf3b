#if LMDB
  import CLMDB
  import Foundation

  /// LMDB, which is not a log-structured tree: it has no memtable, log, compaction, compression or filter.
  ///
  /// Settings:
  /// - `MDB_NOSYNC`: a commit survives the death of the process, as that of the other engines does without a sync. A
  ///   synced put removes the flag around its commit, so it includes LMDB's own full commit.
  /// - `MDB_NOTLS`, `MDB_NOMEMINIT`: as its documentation advises for this use. `MDB_WRITEMAP` is not set, because it
  ///   would need a preallocated file. The map of 64 GiB takes address space only.
  /// - One put per transaction, unless `--batch-size` is larger.
  /// - Reads keep one read transaction, reset and renewed for each get and cursor, which is LMDB's fast path.
  final class LMDBEngine: KeyValueEngine, @unchecked Sendable {
    // Unchecked: an environment may be used from any thread; both values are set once.
    let environment: OpaquePointer
    let table: MDB_dbi

    static var version: String {
      let note = SharedLibrary(loadedAs: "liblmdb").map { ", \($0.note)" } ?? ""
      return "LMDB \(MDB_VERSION_MAJOR).\(MDB_VERSION_MINOR).\(MDB_VERSION_PATCH)\(note)"
    }

    static func fileUse(_ name: String) -> FileUse { name == "data.mdb" ? .table : .other }

    init(path: String, settings: EngineSettings) throws {
      if settings.createIfMissing {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
      }
      var opened: OpaquePointer?
      try check(mdb_env_create(&opened), "create")
      guard let opened else { throw EngineFailure("LMDB: no environment") }
      environment = opened
      try check(mdb_env_set_mapsize(environment, 64 << 30), "map size")
      let flags = UInt32(MDB_NOSYNC | MDB_NOTLS | MDB_NOMEMINIT)
      try check(mdb_env_open(environment, path, flags, 0o600), "open")
      var transaction: OpaquePointer?
      try check(mdb_txn_begin(environment, nil, 0, &transaction), "begin")
      var handle: MDB_dbi = 0
      try check(mdb_dbi_open(transaction, nil, 0, &handle), "open table")
      try check(mdb_txn_commit(transaction), "commit")
      table = handle
    }

    func makeSession() throws -> LMDBSession { LMDBSession(environment, table) }
    func compact() throws {}
    func waitForCompaction() throws -> UInt64 { 0 }

    /// Counts every byte that the process wrote by system calls, because LMDB writes only pages.
    func counters() -> EngineCounters {
      EngineCounters(tableBytesWritten: ProcessUsage.now().bytesWritten, levels: [])
    }

    func close() throws { mdb_env_close(environment) }
  }

  final class LMDBSession: KeyValueSession {
    private let environment: OpaquePointer
    private let table: MDB_dbi
    private var batch: OpaquePointer?
    private var reader: OpaquePointer?
    private var cursor: OpaquePointer?
    private var entryKey = MDB_val()
    private var entryValue = MDB_val()
    private var sink: UInt8 = 0

    init(_ environment: OpaquePointer, _ table: MDB_dbi) {
      self.environment = environment
      self.table = table
    }

    func put(_ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, sync: Bool) throws {
      try addToBatch(key, value)
      try commitBatch(sync: sync)
    }

    func addToBatch(_ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) throws {
      if batch == nil { try check(mdb_txn_begin(environment, nil, 0, &batch), "begin") }
      var keyValue = key.value
      var valueValue = value.value
      try check(mdb_put(batch, table, &keyValue, &valueValue, 0), "put")
    }

    func commitBatch(sync: Bool) throws {
      guard let transaction = batch else { return }
      batch = nil
      // The writer's lock is held until the commit ends, so no other commit sees the flag.
      if sync { try check(mdb_env_set_flags(environment, UInt32(MDB_NOSYNC), 0), "flags") }
      try check(mdb_txn_commit(transaction), "commit")
      if sync { try check(mdb_env_set_flags(environment, UInt32(MDB_NOSYNC), 1), "flags") }
    }

    func delete(_ key: UnsafeRawBufferPointer) throws {
      if batch == nil { try check(mdb_txn_begin(environment, nil, 0, &batch), "begin") }
      var keyValue = key.value
      let status = mdb_del(batch, table, &keyValue, nil)
      if status != MDB_NOTFOUND { try check(status, "delete") }
      try commitBatch(sync: false)
    }

    private func beginRead() throws {
      if let reader {
        try check(mdb_txn_renew(reader), "renew")
      } else {
        try check(mdb_txn_begin(environment, nil, UInt32(MDB_RDONLY), &reader), "begin")
      }
    }

    func get(_ key: UnsafeRawBufferPointer) throws -> Bool {
      try beginRead()
      defer { mdb_txn_reset(reader) }
      var keyValue = key.value
      var found = MDB_val()
      let status = mdb_get(reader, table, &keyValue, &found)
      if status == MDB_NOTFOUND { return false }
      try check(status, "get")
      if let base = found.mv_data { sink ^= Touch.bytes(base, found.mv_size) }
      return true
    }

    func holdSnapshot() throws {
      throw EngineFailure("LMDB: a thread has one read transaction, which the row's seeks need")
    }

    func openCursor() throws {
      try beginRead()
      if let cursor {
        try check(mdb_cursor_renew(reader, cursor), "renew cursor")
      } else {
        try check(mdb_cursor_open(reader, table, &cursor), "open cursor")
      }
    }

    func closeCursor() { mdb_txn_reset(reader) }

    func seekToFirst() throws -> Bool { try move(MDB_FIRST) }
    func seekToLast() throws -> Bool { try move(MDB_LAST) }
    func next() throws -> Bool { try move(MDB_NEXT) }
    func previous() throws -> Bool { try move(MDB_PREV) }

    func seek(_ key: UnsafeRawBufferPointer) throws -> Bool {
      entryKey = key.value
      return try move(MDB_SET_RANGE)
    }

    @inline(__always)
    private func move(_ operation: MDB_cursor_op) throws -> Bool {
      let status = mdb_cursor_get(cursor, &entryKey, &entryValue, operation)
      if status == 0 { return true }
      if status == MDB_NOTFOUND { return false }
      try check(status, "cursor")
      return false
    }

    func touchEntry() -> Int {
      if let key = entryKey.mv_data { sink ^= Touch.bytes(key, entryKey.mv_size) }
      if let value = entryValue.mv_data { sink ^= Touch.bytes(value, entryValue.mv_size) }
      return entryKey.mv_size &+ entryValue.mv_size
    }

    func cursorIsAt(_ key: UnsafeRawBufferPointer) -> Bool {
      guard let found = entryKey.mv_data, let base = key.baseAddress else { return false }
      return entryKey.mv_size == key.count && memcmp(found, base, key.count) == 0
    }

    func close() {
      if let cursor { mdb_cursor_close(cursor) }
      if let reader { mdb_txn_abort(reader) }
      if let batch { mdb_txn_abort(batch) }
    }
  }

  extension UnsafeRawBufferPointer {
    @inline(__always)
    fileprivate var value: MDB_val {
      MDB_val(mv_size: count, mv_data: UnsafeMutableRawPointer(mutating: baseAddress))
    }
  }

  @inline(__always)
  private func check(_ status: Int32, _ action: String) throws {
    if status != 0 { throw EngineFailure("LMDB \(action): \(String(cString: mdb_strerror(status)))") }
  }
#endif

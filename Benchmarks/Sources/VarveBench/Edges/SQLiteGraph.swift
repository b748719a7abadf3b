#if SQLite
  import CSQLite
  import Foundation

  /// SQLite with cascading foreign keys, through its C API, with the settings of `SQLiteSettings`.
  ///
  /// The rows that belong to a row are found by an index, as SQLite's documentation advises for foreign keys.
  final class SQLiteGraph: GraphEngine, @unchecked Sendable {
    // Unchecked: only the row's single thread uses it.
    private let connection: SQLiteConnection
    private let begin, commit, insertNode, removeNode, addLeaf, dropLeaf: SQLiteStatement

    /// The default of `SQLITE_MAX_TRIGGER_DEPTH`.
    static var depthMaximum: Int { 1_000 }
    static var version: String { SQLiteObjects.version }
    static func fileUse(_ name: String) -> FileUse { SQLiteSettings.fileUse(name) }

    init(path: String, settings: EngineSettings) throws {
      connection = try SQLiteConnection(path: SQLiteSettings.createDirectory(path, settings))
      for pragma in SQLiteSettings.pragmas(settings) { try connection.execute(pragma) }
      try connection.execute(SQLiteSettings.synchronous(false))
      try connection.execute("PRAGMA foreign_keys = ON")
      try connection.execute(
        """
        CREATE TABLE IF NOT EXISTS node (
          id BLOB NOT NULL PRIMARY KEY, parent BLOB REFERENCES node(id) ON DELETE CASCADE,
          second BLOB REFERENCES node(id) ON DELETE CASCADE, title TEXT NOT NULL, summary TEXT NOT NULL,
          year INTEGER NOT NULL, price REAL NOT NULL, updated REAL NOT NULL
        )
        """)
      // Rows without a parent need no entry, and most rows have no second.
      try connection.execute("CREATE INDEX IF NOT EXISTS nodeParent ON node (parent) WHERE parent IS NOT NULL")
      try connection.execute("CREATE INDEX IF NOT EXISTS nodeSecond ON node (second) WHERE second IS NOT NULL")
      if settings.indexes == .two {
        try connection.execute("CREATE INDEX IF NOT EXISTS nodeYear ON node (year)")
        try connection.execute("CREATE INDEX IF NOT EXISTS nodeUpdated ON node (updated)")
      }
      try connection.execute(
        """
        CREATE TABLE IF NOT EXISTS leaf (id BLOB NOT NULL PRIMARY KEY, hub BLOB NOT NULL REFERENCES node(id));
        CREATE INDEX IF NOT EXISTS leafHub ON leaf (hub);
        CREATE TRIGGER IF NOT EXISTS lastLeaf AFTER DELETE ON leaf
        WHEN NOT EXISTS (SELECT 1 FROM leaf WHERE hub = old.hub)
        BEGIN DELETE FROM node WHERE id = old.hub; END
        """)
      begin = try connection.prepare("BEGIN")
      commit = try connection.prepare("COMMIT")
      insertNode = try connection.prepare("INSERT INTO node VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
      removeNode = try connection.prepare("DELETE FROM node WHERE id = ?")
      addLeaf = try connection.prepare("INSERT INTO leaf VALUES (?, ?)")
      dropLeaf = try connection.prepare("DELETE FROM leaf WHERE id = ?")
    }

    func insert(_ count: Int, _ next: () -> GraphNode) throws {
      try begin.run()
      for _ in 0..<count { try insert(next()) }
      try commit.run()
    }

    private func insert(_ node: GraphNode) throws {
      var node = node
      try withUnsafeBytes(of: node.id.uuid) { id in
        try withBytes(node.parent) { parent in
          try withBytes(node.second) { second in
            try node.title.withUTF8 { title in
              try node.summary.withUTF8 { summary in
                insertNode.bind(1, blob: id)
                insertNode.bind(2, blob: parent)
                insertNode.bind(3, blob: second)
                insertNode.bind(4, text: title)
                insertNode.bind(5, text: summary)
                insertNode.bind(6, node.year)
                insertNode.bind(7, node.price)
                insertNode.bind(8, node.updated.timeIntervalSinceReferenceDate)
                try insertNode.run()
              }
            }
          }
        }
      }
    }

    /// Passes the bytes of an id to `body`, or a null pointer, which is bound as NULL, for `nil`.
    private func withBytes(_ id: UUID?, _ body: (UnsafeRawBufferPointer) throws -> Void) throws {
      guard let id else { return try body(UnsafeRawBufferPointer(start: nil, count: 0)) }
      try withUnsafeBytes(of: id.uuid) { try body($0) }
    }

    func remove(_ ids: [UUID]) throws {
      try begin.run()
      for id in ids { try run(removeNode, id) }
      try commit.run()
    }

    private func run(_ statement: SQLiteStatement, _ id: UUID) throws {
      try withUnsafeBytes(of: id.uuid) { id in
        statement.bind(1, blob: id)
        try statement.run()
      }
    }

    func insertLeaves(_ count: Int, _ next: () -> GraphLeaf) throws {
      try begin.run()
      for _ in 0..<count {
        let leaf = next()
        try withUnsafeBytes(of: leaf.id.uuid) { id in
          try withUnsafeBytes(of: leaf.hub.uuid) { hub in
            addLeaf.bind(1, blob: id)
            addLeaf.bind(2, blob: hub)
            try addLeaf.run()
          }
        }
      }
      try commit.run()
    }

    func removeLeaf(_ id: UUID) throws { try run(dropLeaf, id) }

    func countNodes() throws -> Int {
      let statement = try connection.prepare("SELECT count(*) FROM node")
      defer { statement.finalize() }
      return try statement.step() ? statement.integer(0) : 0
    }

    func compact() throws { try connection.execute("VACUUM") }

    /// Runs a checkpoint, which is SQLite's only deferred work.
    func waitForCompaction() throws -> UInt64 {
      try connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
      return 0
    }

    func counters() -> EngineCounters { EngineCounters(countsTableBytes: false) }

    func close() throws {
      for statement in [begin, commit, insertNode, removeNode, addLeaf, dropLeaf] { statement.finalize() }
      try connection.close()
    }
  }
#endif

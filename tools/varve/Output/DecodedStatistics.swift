import VarveEngine

/// The decoded `EngineStatistics.json`, which `stats` prints as a table or passes on as JSON.
struct DecodedStatistics: Codable {
  struct Level: Codable {
    let level: Int
    let files: Int
    let bytes: UInt64
    let entries: UInt64
    let tombstones: UInt64
  }

  struct Family: Codable {
    let name: String
    let id: UInt32
    /// 1 if the family is emptied at each open; otherwise absent.
    let volatile: Int?
    let memTableEntries: Int
    /// The number of range tombstones that cursors have put over runs of dead keys, or `nil` in the metrics of an older
    /// engine.
    let coveredRuns: UInt64?
    /// The number of tables with range tombstones, or `nil` in the metrics of an older engine.
    let rangeTombstoneTables: Int?
    let levels: [Level]
  }

  struct Log: Codable {
    let segments: Int
    let bytes: UInt64
    let bytesAppended: UInt64
    let durableSequence: UInt64
    let visibleSequence: UInt64
  }

  struct LevelWork: Codable {
    let level: Int
    let compactions: UInt64
    let bytesRead: UInt64
    let bytesWritten: UInt64
  }

  struct Work: Codable {
    let flushes: UInt64
    let bytesFlushRead: UInt64
    let bytesFlushed: UInt64
    let compactions: UInt64
    let moves: UInt64
    let bytesCompactionRead: UInt64
    let bytesCompactionWritten: UInt64
    let tablesDroppedUnread: UInt64
    let coveredRuns: UInt64
    let failures: UInt64
    let levels: [LevelWork]
  }

  struct Amplification: Codable {
    let write: Double
    let read: Int
    let space: Double
  }

  struct DamagedBlock: Codable {
    let family: String
    let table: UInt64
    let level: Int
    let file: String
    let offset: UInt64?
    let message: String
  }

  struct Stall: Codable {
    let cause: String
    let count: UInt64
    let nanoseconds: UInt64
  }

  struct Cache: Codable {
    let hits: UInt64
    let misses: UInt64
    let inserted: UInt64
    let insertedBytes: UInt64
    let evicted: UInt64
    let evictedBytes: UInt64
    let refused: UInt64
    let bytes: UInt64
    let capacity: UInt64
  }

  struct Memory: Codable {
    let limit: UInt64
    let used: UInt64
    let memTables: UInt64
    let log: UInt64
    let cache: UInt64
    let openTables: UInt64
    let openTableCount: Int
    let compaction: UInt64
    let other: UInt64
  }

  struct Readers: Codable {
    let snapshots: Int
    let cursors: Int
    let oldestSequence: UInt64?
    let oldestSnapshotAge: UInt64?
    let oldestCursorAge: UInt64?
  }

  struct Latency: Codable {
    let samples: UInt64
    let mean: Double
    let p50: UInt64
    let p90: UInt64
    let p99: UInt64
    let p999: UInt64
    let max: UInt64
  }

  let databaseID: String
  let formatVersion: UInt32
  let readCount: UInt64
  let tableBytes: UInt64
  let eventsDroppedCount: UInt64
  let familyCount: Int
  let levels: [Level]
  let families: [Family]
  let log: Log
  let work: Work
  let amplification: Amplification
  /// The damaged blocks, or `nil` in the metrics of an engine that does not report them.
  let damagedBlocks: [DamagedBlock]?
  let stalls: [Stall]
  let cache: Cache
  let memory: Memory
  let readers: Readers
  let latencies: [String: Latency]

  /// Decodes statistics. Throws if the text was not written by a compatible version of the engine.
  static func decode(_ json: String, path: String) throws -> DecodedStatistics {
    do {
      return try JSONText.decode(DecodedStatistics.self, json.utf8)
    } catch {
      throw ToolError(.cannotOpen, "the statistics are those of another version of the engine: \(error)", file: path)
    }
  }
}

internal import VarveEngine

/// An ingestion that writes tables of the engine.
final class EngineIngestion: StorageIngestion {
  private let engine: Engine
  private let family: ColumnFamily
  private let writer: SortedTableWriter

  init(_ engine: Engine, _ family: ColumnFamily) throws {
    self.engine = engine
    self.family = family
    writer = try mapped { () throws(EngineError) in try engine.makeTableWriter(for: family) }
  }

  @inline(__always)
  func put(_ key: RawSpan, _ value: RawSpan) throws {
    try mapped { () throws(EngineError) in try writer.put(key, value) }
  }

  func finish() throws {
    try mapped { () throws(EngineError) in
      let tables = try writer.finish()
      if !tables.isEmpty { try engine.ingest(tables, into: family) }
    }
  }
}

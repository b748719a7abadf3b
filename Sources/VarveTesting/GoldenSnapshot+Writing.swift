internal import Foundation
public import Varve
internal import VarveEngine

/// Writing a snapshot, which later versions of the program are tested with.
extension GoldenSnapshot {
  /// Writes the snapshot: a new database of the definition with the rows that `fill` writes, closed and compacted.
  ///
  /// ```swift
  /// @Test(.enabled(if: ProcessInfo.processInfo.environment["WRITE_GOLDEN"] != nil))
  /// func `the snapshot of this version is written`() throws {
  ///   try GoldenSnapshot("Golden/2025-05").write(definition: Library.definition) { database in
  ///     try database.fill { Fixture(BookFormat.self, emma) }
  ///   }
  /// }
  /// ```
  ///
  /// Write a snapshot once, by the version that ships, and add the directory to the sources. An existing snapshot is
  /// never overwritten, because it stands for the version that wrote it. A call that throws leaves no incomplete
  /// snapshot.
  ///
  /// Throws `.alreadyExists`, `.storage` if the directory can't be written, the errors of `Database.open`, and errors
  /// that `fill` throws.
  @_disfavoredOverload
  public func write(
    definition: DatabaseDefinition, options: DatabaseOptions = DatabaseOptions(), _ fill: (Database) throws -> Void
  ) throws {
    let draft = try GoldenDraft(of: self, definition, options)
    defer { draft.remove() }
    try fill(draft.database)
    try draft.finish()
  }

  /// Writes the snapshot as the synchronous `write` does, with a closure that awaits.
  public func write(
    definition: DatabaseDefinition, options: DatabaseOptions = DatabaseOptions(),
    _ fill: (Database) async throws -> Void
  ) async throws {
    let draft = try GoldenDraft(of: self, definition, options)
    defer { draft.remove() }
    try await fill(draft.database)
    try draft.finish()
  }
}

/// A snapshot that is being written, in a temporary directory until it is complete.
private struct GoldenDraft {
  let database: Database
  private let engine: Engine
  private let directory: ScratchDirectory
  private let target: URL

  private var source: URL { directory.url.appending(path: "database", directoryHint: .notDirectory) }

  init(of snapshot: GoldenSnapshot, _ definition: DatabaseDefinition, _ options: DatabaseOptions) throws {
    target = URL(fileURLWithPath: snapshot.path, isDirectory: true)
    try Self.requireNothing(at: target)
    directory = try ScratchDirectory(below: snapshot.scratch)
    do {
      let path = directory.url.appending(path: "database", directoryHint: .notDirectory).path
      (engine, database) = try Self.open(path, definition, options)
    } catch {
      directory.remove()
      throw error
    }
  }

  private static func open(
    _ path: String, _ definition: DatabaseDefinition, _ options: DatabaseOptions
  ) throws -> (Engine, Database) {
    var engineOptions = EngineOptions()
    engineOptions.compression = options.compression
    engineOptions.memoryBudget = options.memoryBudget
    let engine = try Self.reporting { () throws(EngineError) in try Engine.open(at: path, options: engineOptions) }
    let backend = try EngineBackend(engine)
    return (engine, try Database.open(backend, path: path, definition: definition, options: options))
  }

  private static func reporting<Result>(_ body: () throws(EngineError) -> Result) throws -> Result {
    do { return try body() } catch { throw DatabaseError(.storage, "the snapshot can't be written", cause: error) }
  }

  private static func requireNothing(at target: URL) throws {
    guard FileManager.default.fileExists(atPath: target.path) else { return }
    throw DatabaseError(
      .alreadyExists, "a golden snapshot is never written again, and something is at \(target.path)")
  }

  /// Compacts and closes the database, and copies it to the snapshot's path.
  func finish() throws {
    try Self.reporting { () throws(EngineError) in try engine.compact() }
    try database.close()
    try Self.requireNothing(at: target)
    do {
      try ScratchDirectory.copy(source, to: target)
    } catch {
      try? FileManager.default.removeItem(at: target)
      throw error
    }
  }

  /// Closes the database if it is still open, and removes the temporary directory.
  func remove() {
    try? database.close()
    directory.remove()
  }
}

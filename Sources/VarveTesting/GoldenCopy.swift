internal import Foundation
internal import Varve

/// A copy of a golden snapshot that has been opened, migrated and checked.
struct GoldenCopy {
  let database: Database
  private let directory: ScratchDirectory

  init(of snapshot: GoldenSnapshot, _ definition: DatabaseDefinition, _ options: DatabaseOptions) throws {
    let source = URL(fileURLWithPath: snapshot.path, isDirectory: true)
    guard ScratchDirectory.isDirectory(source) else {
      throw DatabaseError(.notFound, "no golden snapshot exists at \(snapshot.path); `write` makes one")
    }
    directory = try ScratchDirectory(below: snapshot.scratch)
    do {
      let target = directory.url.appending(path: "database", directoryHint: .notDirectory)
      try ScratchDirectory.copy(source, to: target)
      database = try Self.open(target.path, definition, options)
    } catch {
      directory.remove()
      throw error
    }
  }

  private static func open(
    _ path: String, _ definition: DatabaseDefinition, _ options: DatabaseOptions
  ) throws -> Database {
    var options = options
    options.createsIfMissing = false
    options.isReadOnly = false
    options.follows = false
    options.onCorruption = .fail
    let database = try Database.open(at: path, definition: definition, options: options)
    do {
      try GoldenCheck(database, definition).run()
      return database
    } catch {
      // The first error is the one to report; a second one from closing would hide it.
      try? database.close()
      throw error
    }
  }

  /// Closes the database if it is still open, and removes the copy.
  func remove() {
    try? database.close()
    directory.remove()
  }
}

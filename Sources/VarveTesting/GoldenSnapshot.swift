public import Foundation
public import Varve

/// A database that an earlier version of a program wrote, kept as a directory among the tests' resources.
///
/// Opening it in a test shows that the current version reads the databases that users have.
///
/// ```swift
/// try GoldenSnapshot("Golden/2025-05").open(definition: Library.definition) { database in
///   let emma = try database.read { tx in try Store<BookFormat>(in: database).load(1, in: tx) }
///   #expect(emma?.authors == ["Jane Austen"])
/// }
/// ```
///
/// The directory itself is only read. `write` creates it, once for each version that ships.
///
/// Safe from any thread; a directory may be opened several times at once.
public struct GoldenSnapshot: Sendable {
  /// The directory.
  public let path: String
  /// The directory in which copies of the snapshot are created.
  let scratch: URL

  init(path: String, scratch: URL) {
    self.path = path
    self.scratch = scratch
  }

  /// Creates a reference to the snapshot in a directory that exists, or that `write` is to create.
  public init(at path: String) { self.init(path: path, scratch: FileManager.default.temporaryDirectory) }

  /// Creates a reference to the snapshot in a directory, for example of a bundle.
  ///
  /// Throws `.invalidArgument` for a URL that is not a file URL.
  public init(at url: URL) throws {
    guard url.isFileURL else { throw DatabaseError(.invalidArgument, "\(url.absoluteString) is not a file URL") }
    self.init(at: url.path)
  }

  /// Creates a reference to the snapshot in a directory given relative to the folder of a source file, by default the
  /// file that contains the call.
  ///
  /// The tests of a package find a snapshot among their sources this way.
  public init(_ name: String, beside file: String = #filePath) {
    self.init(at: URL(fileURLWithPath: file).deletingLastPathComponent().appending(path: name).path)
  }

  // MARK: - Opening

  /// Opens a copy of the snapshot with the program's current definition, migrates and checks it, and passes the
  /// database to `body`.
  ///
  /// The database and the copy are removed afterwards.
  ///
  /// 1. The database is opened, and its extensions are built or catch up. The options for damage, for read-only access
  ///    and for creating a database have no effect, because a snapshot exists and is complete.
  /// 2. The indexes of every format are waited for and compared with the rows: the values of each row with the entries,
  ///    and each entry with its row. This finds a computation or a conversion that has changed without a new version.
  /// 3. Every format of the definition is migrated, as `Store.migrate` does, and its indexes are compared again.
  /// 4. Every row of every collection is read with its metadata: as the types that the definition declares for the
  ///    collection, or otherwise as the row itself describes its bytes. Each instance must have the identifier that it
  ///    is found by. No row and no metadata of an older version may be left.
  ///
  /// Throws `.notFound` if no snapshot exists, `.notADatabase` if the directory is empty; the errors of
  /// `Database.open`, for example `.corruption`; the error of the first row that fails, with its collection and key:
  /// `.decodingFailed`, or `.unsupportedVersion` if the program does not know the version that wrote it;
  /// `.definitionDiffers` with the first entry if an index differs from the rows; and errors that `body` throws.
  @_disfavoredOverload
  public func open<Result>(
    definition: DatabaseDefinition, options: DatabaseOptions = DatabaseOptions(),
    _ body: (Database) throws -> Result
  ) throws -> Result {
    let copy = try GoldenCopy(of: self, definition, options)
    defer { copy.remove() }
    let result = try body(copy.database)
    try copy.database.close()
    return result
  }

  /// Opens a copy of the snapshot as the synchronous `open` does, with a closure that awaits.
  ///
  /// The steps before the closure block the task's thread.
  public func open<Result>(
    definition: DatabaseDefinition, options: DatabaseOptions = DatabaseOptions(),
    _ body: (Database) async throws -> Result
  ) async throws -> Result {
    let copy = try GoldenCopy(of: self, definition, options)
    defer { copy.remove() }
    let result = try await body(copy.database)
    try await copy.database.close()
    return result
  }
}

public import Foundation
public import Varve

/// A database that an earlier version of a program wrote, kept as a directory among the tests' resources: it shows that
/// the present version reads what users have.
///
/// ```swift
/// try GoldenSnapshot("Golden/2025-05").open(definition: Library.definition) { database in
///   let emma = try database.read { tx in try Store<BookFormat>(in: database).load(1, in: tx) }
///   #expect(emma?.authors == ["Jane Austen"])
/// }
/// ```
///
/// The directory itself is only read. `write` makes it, once for each version that ships.
///
/// Safe from any thread; a directory may be opened several times at once.
public struct GoldenSnapshot: Sendable {
  /// The directory.
  public let path: String
  /// Where copies of it are made.
  let scratch: URL

  init(path: String, scratch: URL) {
    self.path = path
    self.scratch = scratch
  }

  /// The snapshot in a directory, which is there, or which `write` is to make.
  public init(at path: String) { self.init(path: path, scratch: FileManager.default.temporaryDirectory) }

  /// The snapshot in a directory: of a bundle, say. Throws `.invalidArgument` for a URL that names no file.
  public init(at url: URL) throws {
    guard url.isFileURL else { throw DatabaseError(.invalidArgument, "\(url.absoluteString) is not a file URL") }
    self.init(at: url.path)
  }

  /// The snapshot in a directory by its path from the folder of a source file, by default the one that says this: as the
  /// tests of a package find what lies in their sources.
  public init(_ name: String, beside file: String = #filePath) {
    self.init(at: URL(fileURLWithPath: file).deletingLastPathComponent().appending(path: name).path)
  }

  // MARK: - Opening

  /// Opens a copy of the snapshot by the program's present definition, migrates and checks it, and gives the database to
  /// `body`. Database and copy are removed afterwards.
  ///
  /// 1. The database is opened, its extensions are built or caught up. What the options say of damage, of reading only
  ///    and of making a database has no effect: a snapshot is whole, and there.
  /// 2. The indexes of every format are waited for, and compared with the rows: each row's values with the entries, and each
  ///    entry with its row. A computation or a conversion that has changed without another version is found here.
  /// 3. Every format of the definition is migrated, as `Store.migrate` does, and its indexes are compared again.
  /// 4. Every row of every collection is read, and its metadata: where the definition names the collection as what it
  ///    names, else as what the row itself says of its bytes. Each instance must have the identifier that it is found by.
  ///    No row and no metadata of an older version may be left.
  ///
  /// Throws `.notFound` where there is no snapshot, `.notADatabase` where the directory is empty; the errors
  /// of `Database.open`, for example `.corruption`; the error of the first row that fails, with its collection
  /// and key: `.decodingFailed`, or `.unsupportedVersion` if the program does not know the version that wrote it;
  /// `.definitionDiffers` with the first entry where an index differs from the rows; and what `body` throws.
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

  /// The same with a closure that awaits. What happens before that waits on the task's thread.
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

public import Varve

/// Reads an object database without the types of its objects, for use by tools.
///
/// ```swift
/// let inspector = try DatabaseInspector.open(at: "/tmp/example.varve")
/// for collection in try inspector.collections(fault: { print($0) }) { print(collection.name, collection.rowCount) }
/// try inspector.close()
/// ```
///
/// An inspector opens the database read-only, so it takes no lock and works while another process writes; or it
/// inspects a database that is open. Everything it shows is the state at its creation; `present` creates one of the
/// newest state. It trusts nothing that it reads: a damaged row is reported as an error of that row, and other rows are
/// still shown. Therefore it does not read as a `Database`, whose opening fails on one damaged row of the catalog.
///
/// Safe from any thread.
public final class DatabaseInspector: Sendable {
  private let source: Source
  let snapshot: any StorageSnapshot
  let families: [String: StorageFamily]
  let catalog: StorageFamily
  let coding: InspectedCoding

  /// What is inspected.
  private enum Source: Sendable {
    /// A storage, and its path.
    case storage(any StorageBackend, String)
    case database(Database)
  }

  private init(_ source: Source) throws {
    self.source = source
    let path: String
    let found: [StorageFamily]
    // The families are read after the snapshot, because a follower updates them with it.
    switch source {
    case .storage(let backend, let name):
      path = name
      snapshot = try backend.snapshot()
      found = try backend.families()
    case .database(let database):
      path = database.path
      let held = try HeldReading(database)
      snapshot = held
      found = try held.withStorage { try $0.families() }
    }
    families = Dictionary(uniqueKeysWithValues: found.map { ($0.name, $0) })
    guard let catalog = families["catalog"] else {
      throw DatabaseError(.notADatabase, "\(path) holds no database of objects: family \"catalog\" is missing")
    }
    self.catalog = catalog
    coding = InspectedCoding(SnapshotShapes(snapshot: snapshot, catalog: catalog))
  }

  convenience init(_ backend: any StorageBackend, path: String) throws { try self.init(.storage(backend, path)) }

  /// Inspects a database that is open, in its state after the last acknowledged commit.
  ///
  /// The state is held as by `Database.holdSnapshot`, as long as the inspector is referenced. Once the database is
  /// closed, the inspector throws `.closed`.
  public convenience init(_ database: Database) throws { try self.init(.database(database)) }

  /// Opens a database for inspection. With `follows`, later states can be inspected as well, with `present`.
  ///
  /// Throws `.notFound` if no database exists at the path; `.pathIsFile` or `.notADatabase` if the path has other
  /// content or a database without objects; `.unsupportedVersion` if a newer version wrote it; and `.corruption` or
  /// `.storage` with the underlying error of the engine.
  public static func open(at path: String, follows: Bool = false) throws -> DatabaseInspector {
    var options = DatabaseOptions()
    options.createsIfMissing = false
    options.isReadOnly = !follows
    options.follows = follows
    let backend = try BackendOpening(path: path, options: options).run()
    do {
      let inspector = try DatabaseInspector(backend, path: path)
      try inspector.checkFormat()
      return inspector
    } catch {
      // The first error is the one to report; a second one from closing would hide it.
      try? backend.close()
      throw error
    }
  }

  /// Returns an inspector of the newest state: of a database that is open, after the last acknowledged commit; of one
  /// that was opened with `follows`, after the last commit of the process that writes; and otherwise the same state.
  ///
  /// What this inspector shows does not change. If it follows another process, that process may remove what an old
  /// state needs: its calls then throw `.snapshotTooOld` or `.notFound`, and those of a new inspector don't. Positions
  /// are valid in both. Throws `.closed`, `.storage`.
  public func present() throws -> DatabaseInspector { try DatabaseInspector(source) }

  /// The version of the last commit that the inspector shows.
  public var version: CommitVersion { snapshot.version }

  /// Closes what `open` has opened, for this inspector and those that `present` has returned; a second call does
  /// nothing. Nothing obtained from them may be used afterwards. A database that was open already stays open.
  public func close() throws {
    if case .storage(let backend, _) = source { try backend.close() }
  }

  /// Throws `.unsupportedVersion` if a newer version wrote the catalog.
  ///
  /// A damaged format number is accepted, so that `dumpCatalog` can show it.
  private func checkFormat() throws {
    guard let bytes = try snapshot.value(of: CatalogKey.format, in: catalog),
      let format = BigEndian.number(bytes, as: UInt32.self), format > CatalogKey.currentFormat
    else { return }
    throw DatabaseError(
      .unsupportedVersion,
      "the object database has format \(format), and this version knows \(CatalogKey.currentFormat)")
  }

  // MARK: - Collections

  /// Returns all collections that were ever created, including those without rows, in order of their names.
  ///
  /// The error of each record that can't be read is passed to `fault`. Complexity: O(collections), with a search in the
  /// tables' indexes for each.
  public func collections(fault: (any Error) throws -> Void) throws -> [InspectedCollection] {
    var found: [InspectedCollection] = []
    var cursor = FamilyCursor(
      StorageRange(prefix: CatalogKey.collections), in: catalog, of: snapshot, isReverse: false)
    while let (key, value) = try cursor.next() {
      do {
        found.append(try inspect(try CatalogKey.name(in: key), value))
      } catch {
        try fault(error)
      }
    }
    return found.sorted { $0.name < $1.name }
  }

  /// Returns the collection with a name.
  ///
  /// Throws `.notFound` if it does not exist, and `.corruption` if its record can't be read.
  public func collection(_ name: String) throws -> InspectedCollection {
    guard let value = try snapshot.value(of: CatalogKey.collection(name), in: catalog) else {
      throw DatabaseError(.notFound, "the database has no such collection", collection: name)
    }
    return try inspect(name, value)
  }

  private func inspect(_ name: String, _ value: [UInt8]) throws -> InspectedCollection {
    let record = try CollectionRecord(value, name: name)
    func family(_ part: String) throws -> StorageFamily {
      let family = record.isOwn ? record.familyName(part) : part
      if let found = families[family] { return found }
      throw DatabaseError(.corruption, "its family \(family) is missing", collection: name)
    }
    let objects = try family("objects")
    let metadata = try family("metadata")
    let range = StorageRange(prefix: record.isOwn ? [] : BigEndian.bytes(record.id))
    var count: Int64?
    if let counts = families["counts"] {
      let bytes = try snapshot.value(of: BigEndian.bytes(record.id), in: counts)
      count = bytes == nil ? 0 : bytes.flatMap(StorageBatch.counterNumber)
    }
    guard let count else { throw DatabaseError(.corruption, "its count of rows is damaged", collection: name) }
    return InspectedCollection(
      name: name, record: record, coder: try coder(record.writer), firstCoder: try coder(record.coder),
      objects: objects, metadata: metadata, rowCount: Int(count),
      approximateSize: try size(of: range, in: objects) + size(of: range, in: metadata),
      storage: record.isOwn ? try ownStorage(objects) : .shared)
  }

  /// Returns the storage of a collection with a family of its own, with the compression of the family.
  private func ownStorage(_ family: StorageFamily) throws -> CollectionStorage {
    func read(_ backend: any StorageBackend) throws -> CollectionStorage {
      .own(compression: try (backend as? EngineBackend)?.compression(of: family))
    }
    switch source {
    case .storage(let backend, _): return try read(backend)
    case .database: return try (snapshot as? HeldReading)?.withStorage(read) ?? .own(compression: nil)
    }
  }

  /// Returns the approximate size of a range in bytes, or 0 if the storage can't determine it.
  func size(of range: StorageRange, in family: StorageFamily) throws -> UInt64 {
    switch source {
    case .storage(let backend, _): try backend.approximateSize(of: range, in: family) ?? 0
    case .database:
      try (snapshot as? HeldReading)?.withStorage { try $0.approximateSize(of: range, in: family) ?? 0 } ?? 0
    }
  }

  /// Returns the coder with a number, or `nil` if the number is that of a newer version's coder, or that of a program's
  /// own coder that the catalog does not name.
  func coder(_ number: UInt8) throws -> CoderName? {
    if let kind = CoderKind(number: number) { return CoderName(kind) }
    if number < CoderTable.firstNumber { return nil }
    guard let bytes = try snapshot.value(of: CatalogKey.coder(number), in: catalog) else { return nil }
    guard let name = String(validating: bytes, as: UTF8.self) else {
      throw DatabaseError(.corruption, "the catalog's name of the coder with the number \(number) is not UTF-8")
    }
    return CoderName(name)
  }

  /// Returns the raw value of a version of a collection's format, given its number in rows.
  ///
  /// Returns `nil` for 0, which means that the row has no version.
  func version(_ number: UInt32, of collection: UInt32) throws -> String? {
    if number == 0 { return nil }
    guard let bytes = try snapshot.value(of: CatalogKey.version(collection, number), in: catalog) else {
      throw DatabaseError(.unsupportedVersion, "it has version \(number), which the catalog does not name")
    }
    guard let name = String(validating: bytes, as: UTF8.self) else {
      throw DatabaseError(.corruption, "the catalog's name of version \(number) is not UTF-8")
    }
    return name
  }
}

/// The shapes that the catalog has in a snapshot; shapes can't be added to it.
private final class SnapshotShapes: ShapeRegistry {
  private let snapshot: any StorageSnapshot
  private let catalog: StorageFamily

  init(snapshot: any StorageSnapshot, catalog: StorageFamily) {
    self.snapshot = snapshot
    self.catalog = catalog
  }

  func number(of shape: Shape) throws -> UInt32 {
    throw DatabaseError(.readOnly, "an inspector gives no shape a number")
  }

  func shape(_ number: UInt32) throws -> Shape {
    guard let bytes = try snapshot.value(of: CatalogKey.shape(number), in: catalog) else {
      throw DatabaseError(.corruption, "the catalog has no shape \(number)")
    }
    return try Shape(bytes)
  }
}

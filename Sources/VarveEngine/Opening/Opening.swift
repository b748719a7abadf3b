/// Opens an engine on a directory.
///
/// # Steps
/// 1. The directory is found, or created.
/// 2. The lock is taken: one engine at a time.
/// 3. CURRENT and its MANIFEST are read; if there are none, empty ones are written.
/// 4. Every live table is checked to exist with its size.
/// 5. The log's segments are replayed into memtables, in the order of their chain.
/// 6. Orphans are removed: files with a name that the engine could have assigned and no edit names.
/// 7. The end of the log becomes durable, and a new segment begins.
/// 8. Frozen memtables are flushed in the background, and the engine is ready.
///
/// No table is opened. A crash at any point leaves a directory from which the same steps yield the same content: no
/// file is removed before it is certain that it is not needed.
struct Opening {
  let path: String
  let options: EngineOptions
  private(set) var environment: EngineEnvironment
  /// The sequence from which the database continues its commits, unless its own last one is larger.
  var sequenceBase = SequenceNumber.zero
  /// The directory that was at the path when the files were anchored.
  private(set) var openedDirectory: OpenedDirectory?
  private var fileSystem: any FileSystem { environment.fileSystem }

  init(path: String, options: EngineOptions, environment: EngineEnvironment) {
    self.path = path
    self.options = options
    self.environment = environment
  }

  func run() throws(EngineError) -> Engine {
    try options.validate()
    // The limit is raised before the plan is computed from it.
    if options.raisesDescriptorLimit { DescriptorLimit.raise() }
    try prepareDirectory()
    return try anchored().openDirectory()
  }

  /// Returns a copy that finds all files by the directory's descriptor. The directory must exist.
  func anchored() throws(EngineError) -> Opening {
    var opening = self
    opening.environment.fileSystem = try fileSystem.anchored(at: path)
    opening.openedDirectory = OpenedDirectory(path, fileSystem, anchored: opening.environment.fileSystem)
    return opening
  }

  private func openDirectory() throws(EngineError) -> Engine {
    if options.readOnly { return try openReadOnly().engine }
    // The check runs once before the lock, whose file must not be created if no database may be there, and again under
    // it.
    try checkDatabase()
    let lock = try fileSystem.lock(path + "/" + FileName.lock.name)
    LockNote(.opens).write(to: lock)
    do throws(EngineError) {
      return try open(lock: lock)
    } catch {
      lock.release()
      throw error
    }
  }

  // MARK: - 1. The directory

  func prepareDirectory() throws(EngineError) {
    guard let attributes = try fileSystem.attributes(path) else {
      guard options.createIfMissing, !options.readOnly else {
        let reason = options.readOnly ? "one that is only read or followed isn't made" : "createIfMissing is false"
        throw EngineError(.notFound, "no database exists here, and \(reason)", file: path)
      }
      try fileSystem.createDirectory(path)
      return
    }
    guard attributes.isDirectory else {
      throw EngineError(.notADatabase, "a file exists here; expected a database directory", file: path)
    }
  }

  /// Returns the directory that contains a path.
  static func parent(of path: String) -> String? {
    guard let slash = path.lastIndex(of: "/") else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
  }

  // MARK: - 3. The MANIFEST

  /// Throws if the directory does not match the options. Lists it only if it has no CURRENT, or with `errorIfExists`.
  private func checkDatabase() throws(EngineError) {
    let hasCurrent = try fileSystem.attributes(path + "/" + FileName.current.name) != nil
    if !hasCurrent || options.errorIfExists { _ = try findDatabase() }
  }

  /// Returns the engine's files in the directory, and whether it has a CURRENT. Throws if it does not match the
  /// options.
  func findDatabase() throws(EngineError) -> (files: [FileName], hasCurrent: Bool) {
    let names = try fileSystem.list(path).sorted()
    let files = names.compactMap { FileName($0) }
    let hasCurrent = files.contains(.current)
    if !hasCurrent { try requireEmpty(names) }
    if hasCurrent && options.errorIfExists {
      throw EngineError(.alreadyExists, "a database exists here, and errorIfExists is true", file: path)
    }
    guard hasCurrent || (options.createIfMissing && !options.readOnly) else {
      throw EngineError(.notADatabase, "the directory contains no database: CURRENT is missing", file: path)
    }
    return (files, hasCurrent)
  }

  private func open(lock: any FileLock) throws(EngineError) -> Engine {
    let reserve = try SpaceReserve.find(in: path, environment)
    do throws(EngineError) { return try open(reserve, lock: lock) } catch {
      // Nothing that the attempt left counts: the next one is like an open after a crash.
      guard error.code == .noSpace, reserve.giveUp() else { throw error }
      return try open(reserve, lock: lock)
    }
  }

  private func open(_ reserve: SpaceReserve, lock: any FileLock) throws(EngineError) -> Engine {
    let (files, hasCurrent) = try findDatabase()
    try giveUpIfShort(reserve, files)
    let manifest =
      hasCurrent
      ? try Manifest.recover(directory: path, fileSystem: fileSystem, random: environment.random)
      : try createManifest()
    do throws(EngineError) { try checkTables(manifest.state) } catch {
      manifest.close()
      throw error
    }
    return try assemble(manifest, files: files, lock: lock, reserve)
  }

  /// Gives up the reserve if there is no space for a new MANIFEST and the first segment of the log.
  private func giveUpIfShort(_ reserve: SpaceReserve, _ files: [FileName]) throws(EngineError) {
    var need = UInt64(Limits.logSegmentSizeMinimum) + Self.openingNeed
    for case .manifest(let number) in files {
      need += 2 * (try fileSystem.attributes(path + "/" + FileName.manifest(number).name)?.size ?? 0)
    }
    if reserve.freeSpace < need { reserve.giveUp() }
  }

  /// The space that small files, and the blocks of a directory, may need.
  private static let openingNeed: UInt64 = 64 << 10

  /// Throws if a directory without CURRENT has data: a crash during creation leaves at most a MANIFEST.
  private func requireEmpty(_ names: [String]) throws(EngineError) {
    for name in names {
      switch FileName(name) {
      case .log, .table, .pooledLog:
        throw .corruption(
          "CURRENT is missing, but \(name) exists: the directory is neither empty nor a complete database", file: path)
      case .lock, .current, .currentTemporary, .manifest, .shared, .statistics, .reserve, .inbox: continue
      case nil:
        throw EngineError(
          .notADatabase,
          "the directory contains \(name), which is not part of a database; a new database needs a directory of its own",
          file: path)
      }
    }
  }

  private func createManifest() throws(EngineError) -> Manifest {
    // The parent is synced here, and not where the directory is created, because an earlier open may have died between
    // the two.
    if let parent = Self.parent(of: path) { try fileSystem.syncDirectory(parent) }
    var edit = VersionEdit()
    edit.databaseID = environment.random()
    edit.formatVersion = ManifestState.formatVersion
    edit.requiredFeatures = options.defaultFamilyOptions.flags.requiredFeatures
    edit.createFamily(.default, name: "default", options: options.defaultFamilyOptions.encoded)
    return try Manifest.create(
      directory: path, fileSystem: fileSystem, state: try ManifestState(snapshot: edit), random: environment.random)
  }

  // MARK: - 4. Tables

  private func checkTables(_ state: ManifestState) throws(EngineError) {
    // The families are sorted, so that the same directory yields the same calls.
    for family in state.families.values.sorted(by: { $0.id < $1.id }) {
      try family.version.forEachTable { (table, _) throws(EngineError) in
        let file = path + "/" + FileName.table(table.number).name
        guard let attributes = try fileSystem.attributes(file), !attributes.isDirectory else {
          throw .corruption("a table of column family \"\(family.name)\" is missing", file: file)
        }
        guard attributes.size == table.fileSize else {
          throw .corruption("the table has \(attributes.size) bytes instead of \(table.fileSize)", file: file)
        }
      }
    }
  }
}

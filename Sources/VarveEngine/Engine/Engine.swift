/// A database: a log-structured merge-tree of byte strings in a directory of its own.
///
/// ```swift
/// let engine = try Engine.open(at: "/tmp/example.varve")
/// try engine.put(Array("key".utf8), Array("value".utf8))
/// let value = try engine.get(Array("key".utf8))
/// try engine.close()
/// ```
///
/// Keys and values are byte strings; keys sort as unsigned bytes. Every call is synchronous, and safe
/// from any thread. One engine at a time has a database open for writing.
///
/// The `Durability` of a commit determines which failures it survives; by default the end of the process. No
/// acknowledged commit is lost.
///
/// While an engine is open, its directory may be renamed, and the working directory of the process may change: files
/// are found by a descriptor of the directory. A child that the process makes by `fork` can't use the engine: calls
/// throw `.closed` there. It can open other databases.
///
/// Close the engine when you are done. An engine deallocated without `close` behaves as if the process had ended: no
/// acknowledged commit is lost, and the next open replays the log. After `close`, throwing calls throw `.closed`; an
/// open cursor still iterates over what it retains.
public final class Engine: Sendable {
  let core: EngineCore

  init(_ core: EngineCore) { self.core = core }

  /// The path of the database.
  public var path: String { core.path }

  /// A number that identifies this database among its copies.
  ///
  /// A checkpoint has another one than the database that it was made of. The number is kept when the database is
  /// closed, moved or repaired; files that were copied by other programs have it too.
  public var incarnation: UInt64 { core.tree.incarnation }

  /// The options that the engine was opened with.
  public var options: EngineOptions { core.options }

  /// The family that always exists, named `default`, for programs that need only one.
  public var defaultFamily: ColumnFamily { core.defaultFamily }

  /// The sequence of the last commit that reads see.
  public var visibleSequence: SequenceNumber {
    core.checkOpen()
    return core.pipeline.visible
  }

  // MARK: - Families

  /// All families, in the order of their creation.
  public var families: [ColumnFamily] {
    core.checkOpen()
    return core.registry.all
  }

  /// Returns the family with a name. Throws `.unknownFamily`.
  public func family(named name: String) throws(EngineError) -> ColumnFamily {
    try core.requireOpen()
    guard let family = core.registry.named(name) else {
      throw EngineError(.unknownFamily, "no column family is named \"\(name)\"", file: path)
    }
    return family
  }

  /// Returns the family with a name, and creates it if it does not exist.
  ///
  /// With options, an existing family must have the same merge operator and volatility, which can't be changed; its
  /// other options stay as they are (see `setOptions`). Without options, a family that exists is returned as it is.
  /// Several threads may call this at once for one name.
  ///
  /// Throws `.invalidArgument` if the existing family differs, and like `createFamily`.
  /// Complexity: O(1) if the family exists.
  public func openFamily(
    _ name: String, options familyOptions: FamilyOptions? = nil
  ) throws(EngineError) -> ColumnFamily {
    while true {
      try core.requireOpen()
      if let family = core.registry.named(name) {
        if let familyOptions { try core.state(of: family).requireForm(of: familyOptions) }
        return family
      }
      do throws(EngineError) {
        return try createFamily(name, options: familyOptions ?? FamilyOptions())
      } catch {
        // Another thread has created it.
        guard error.code == .alreadyExists else { throw error }
      }
    }
  }

  /// Creates a family, which is durable before it can be written to.
  ///
  /// Throws `.alreadyExists`, `.invalidArgument` for an empty or too long name, and `.limitExceeded`
  /// above 10,000 families.
  public func createFamily(
    _ name: String, options familyOptions: FamilyOptions = FamilyOptions()
  ) throws(EngineError) -> ColumnFamily {
    try createFamilies([name], options: familyOptions)[0]
  }

  /// Creates several families at once, in the order of their names: all of them, or none if this throws.
  ///
  /// Each call is one durable change, so one call is faster than several. Throws like `createFamily`; `.alreadyExists`
  /// also for a duplicate name.
  /// Complexity: O(n) and one sync.
  public func createFamilies(
    _ names: [String], options familyOptions: FamilyOptions = FamilyOptions()
  ) throws(EngineError) -> [ColumnFamily] {
    try core.requireOpen()
    try core.requireWritable()
    for name in names where name.isEmpty || name.utf8.count > Limits.familyNameSizeMaximum {
      throw EngineError(
        .invalidArgument,
        "a family's name has 1 to \(Limits.familyNameSizeMaximum) bytes; this one has \(name.utf8.count)")
    }
    try core.options.validate(familyOptions)
    return try core.background.createFamilies(names, options: familyOptions)
  }

  /// Changes the options of a family, while it is read and written. Durable when it returns.
  ///
  /// A memtable size applies from the family's next memtable on, a compression from the next table; existing tables
  /// stay as they are until they are compacted. Throws `.invalidArgument` if the merge operator or the volatility
  /// differs, which can't be changed, or a size is out of its range; `.familyDropped`; and errors of the write: the old
  /// options then stay in effect. If the engine can't settle at once that the failed change does not count, and the
  /// process ends before another edit of the MANIFEST is durable, the next open may find the new options. Safe from any
  /// thread.
  /// Complexity: one sync.
  public func setOptions(_ familyOptions: FamilyOptions, of family: ColumnFamily) throws(EngineError) {
    try core.requireOpen()
    try core.requireWritable()
    let state = core.state(of: family)
    try core.options.validateSizes(of: familyOptions)
    try core.background.setOptions(familyOptions, of: state)
  }

  /// Drops a family with all its entries, at once and without reading them.
  ///
  /// Open cursors continue; new reads and writes throw `.familyDropped`. The default family cannot be dropped.
  ///
  /// The files of the family are removed when no cursor and no `ColumnFamily` references it any more, or at the next
  /// open.
  public func dropFamily(_ family: ColumnFamily) throws(EngineError) {
    try core.requireOpen()
    try core.requireWritable()
    _ = core.state(of: family)
    guard family.id != .default else { throw EngineError(.invalidArgument, "the default family can't be dropped") }
    try core.background.dropFamily(family)
  }

  // MARK: - Closing

  /// Closes the engine: waits for the background work, makes all commits durable, and releases the lock.
  ///
  /// Release snapshots and cursors before. A second call has no effect.
  ///
  /// Entries that are not in tables can stay in the log for the next open to replay, if that costs less than writing
  /// tables: at most 128 KiB of log for each family with such entries, and one small segment. Entries that were never
  /// logged are written to tables.
  ///
  /// Throws the first error of these steps, for example `.noSpace` if a flush does not fit; the engine is closed in any
  /// case, and the log has the commits that are not in tables. In a child made by `fork` it throws `.closed` and does
  /// not change anything.
  public func close() throws(EngineError) { try core.close() }
}

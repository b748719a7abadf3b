internal import Varve

/// Rebuilds the entries of an index from the emitted values of the rows, which the program computed when it wrote them.
/// Used by `varve indexes --rebuild`.
///
/// ```swift
/// let result = try IndexRebuild.run("title", of: "books", at: "/tmp/example.varve")
/// print(result.added, result.removed)
/// ```
///
/// Correct entries are left unchanged and only differences are written, in commits of about 1 MiB, each with the counts
/// of a counted index, so a crash leaves the index no worse than before. Extensions are not notified and do not become
/// stale, because rows do not change.
public enum IndexRebuild {
  /// The approximate size of a commit in bytes: large enough to amortize its cost, small enough to need little memory.
  static let batchSizeMaximum = 1 << 20

  /// The result of a rebuild.
  public struct Result: Hashable, Sendable {
    /// The collection.
    public internal(set) var collection: String
    /// The index.
    public internal(set) var index: String
    /// The number of missing entries that were added.
    public internal(set) var added = 0
    /// The number of entries that were removed because no row has emitted them.
    public internal(set) var removed = 0
    /// The number of entries of a direct index whose content differed from their rows.
    public internal(set) var corrected = 0
    /// The number of nonexistent rows with emitted values; their values were removed from all indexes of the
    /// collection.
    public internal(set) var removedRows = 0
    /// The current number of entries of the index.
    public internal(set) var entryCount = 0
  }

  /// Rebuilds an index, identified by its name.
  ///
  /// Without a collection, the name must be that of exactly one index of the database. `progress` receives the number
  /// of rows and entries examined, and the approximate total.
  ///
  /// The database must not be open elsewhere: `.locked`. Throws `.notFound` and `.invalidArgument` if no index or
  /// several have the name; `.notReady` for an index that is stale, is being built or has failed to build, which the
  /// program handles when it opens the database; `.corruption` if rows have no emitted values or damaged ones, which
  /// only the program can compute (`Store.rebuild`), or if a block can't be read (`varve repair` gives it up, after
  /// which the program builds the index); `.storage`. Any of these thrown before the first commit means that nothing
  /// was written.
  ///
  /// Complexity: O(rows + entries), with a read for each emitted value and each entry.
  public static func run(
    _ index: String, of collection: String? = nil, at path: String,
    progress: (_ done: Int, _ total: Int) -> Void = { _, _ in }
  ) throws -> Result {
    var options = DatabaseOptions()
    options.createsIfMissing = false
    // This opens a complete database, which recovers when it is opened. Without a definition it builds no index.
    let database = try Database.open(at: path, options: options)
    let result: Result
    do {
      result = try run(index, of: collection, in: database.core.backend, path, progress)
    } catch {
      try? database.close()
      throw error
    }
    try database.close()
    return result
  }

  /// Rebuilds an index in an open storage. `batchSize` is the approximate number of bytes in one commit.
  static func run(
    _ index: String, of collection: String?, in backend: any StorageBackend, _ path: String,
    batchSize: Int = batchSizeMaximum, _ progress: (_ done: Int, _ total: Int) -> Void
  ) throws -> Result {
    let inspector = try DatabaseInspector(backend, path: path)
    return try withoutActuallyEscaping(progress) { progress in
      var work = try IndexRepair(index, of: collection, inspector, backend, progress)
      work.batchSize = batchSize
      return try work.run()
    }
  }
}

/// The state of a rebuild in progress.
private struct IndexRepair {
  var batchSize = IndexRebuild.batchSizeMaximum
  private let backend: any StorageBackend
  private let inspector: DatabaseInspector
  private let index: InspectedIndex
  /// All indexes of the collection.
  private let indexes: [InspectedIndex]
  private var madeFamily: StorageFamily?
  /// The counts of the counted indexes that are written to, by the number of the index.
  private var counts: [UInt32: RunUpdate] = [:]
  private var batch = StorageBatch()
  private var result: IndexRebuild.Result
  private let progress: (_ done: Int, _ total: Int) -> Void

  init(
    _ name: String, of collection: String?, _ inspector: DatabaseInspector, _ backend: any StorageBackend,
    _ progress: @escaping (_ done: Int, _ total: Int) -> Void
  ) throws {
    self.backend = backend
    self.inspector = inspector
    self.progress = progress
    index = try inspector.index(name, of: collection)
    indexes = try inspector.indexes(of: index.collection) { throw $0 }
    result = IndexRebuild.Result(collection: index.collection, index: index.name)
    try index.requireComplete("and what its rows have emitted is not all there")
  }

  // MARK: - The work

  mutating func run() throws -> IndexRebuild.Result {
    let collection = try inspector.knownCollection(index.collection)
    let total = (collection?.rowCount ?? 0) * 3
    var done = 0
    let progress = progress
    func look() {
      done += 1
      if done % 1_024 == 0 { progress(done, max(done, total)) }
    }
    var comparison = IndexComparison([index], index.emitted, collection, in: inspector.snapshot, didExamine: look)
    try requireEmitted(&comparison)
    try comparison.compareRows(comparesEntries: true) { try repair($0) }
    try comparison.compareEntries(of: index) { try repair($0) }
    try commit()
    try finishCounts()
    result.entryCount = comparison.entryCount + result.added - result.removed
    return result
  }

  /// Throws, before anything is written, if rows have missing or unreadable emitted values.
  private func requireEmitted(_ comparison: inout IndexComparison) throws {
    var count = 0
    var first: RowKey?
    let name = index.collection
    func note(_ row: [UInt8]) {
      count += 1
      if first == nil { first = RowKey(collection: name, bytes: row) }
    }
    try comparison.compareRows(comparesEntries: false) { fault in
      if case .notEmitted(let row) = fault { note(row) }
    }
    var values = index.emitted.map {
      FamilyCursor(StorageRange(), in: $0, of: inspector.snapshot, isReverse: false)
    }
    while let (row, bytes) = try values?.next() {
      if (try? IndexFormat.emitted(bytes)) == nil { note(row) }
    }
    guard count > 0 else { return }
    throw DatabaseError(
      .corruption,
      "\(count) rows have no emitted values that can be read, so index \"\(index.name)\" can't be made without the code of "
        + "the program; the program makes it from the rows by `rebuild`", collection: name, key: first?.text)
  }

  private mutating func repair(_ fault: IndexFault) throws {
    switch fault {
    case .missing(_, let row, let value, let content):
      let entry = IndexFormat.entry(value: value, row: row)
      batch.put(entry, content, in: try entries())
      try count(1, at: entry, of: index)
      result.added += 1
    case .content(_, let row, let value, let content):
      batch.put(IndexFormat.entry(value: value, row: row), content, in: try entries())
      result.corrected += 1
    case .stale(_, let entry, _, _), .unreadableEntry(_, let entry):
      batch.delete(entry, in: try entries())
      try count(-1, at: entry, of: index)
      result.removed += 1
    case .withoutRow(let row, let emitted): try remove(row, emitted)
    // `requireEmitted` has thrown for these faults already.
    case .notEmitted, .unreadableEmitted: break
    }
    if batch.byteCount >= batchSize { try commit() }
  }

  /// Returns the family of the index's entries, which is created if it is missing.
  private mutating func entries() throws -> StorageFamily {
    if let known = index.entries ?? madeFamily { return known }
    let made = try backend.createFamily(index.familyName, options: StorageFamilyOptions())
    madeFamily = made
    return made
  }

  /// Removes a nonexistent row from all indexes of the collection, together with its emitted values.
  private mutating func remove(_ row: [UInt8], _ emitted: [UInt8]) throws {
    for group in try IndexFormat.emitted(emitted) {
      guard let other = indexes.first(where: { $0.number == group.index }), let family = other.entries else { continue }
      for value in group.values {
        let entry = IndexFormat.entry(value: value, row: row)
        if try inspector.snapshot.value(of: entry, in: family) != nil {
          if other.number == index.number { result.removed += 1 }
          try count(-1, at: entry, of: other)
        }
        batch.delete(entry, in: family)
      }
    }
    if let emitted = index.emitted { batch.delete(row, in: emitted) }
    result.removedRows += 1
  }

  // MARK: - Counts

  /// Notes that an entry of an index is added or removed. If the index is counted, its counts are written with the
  /// entries.
  private mutating func count(_ number: Int, at entry: [UInt8], of index: InspectedIndex) throws {
    guard let name = index.runsName else { return }
    var update = try counts.removeValue(forKey: index.number) ?? RunUpdate(index.entries, countsIn: name, backend)
    update.add(number, at: entry)
    counts[index.number] = update
  }

  /// Counts entries again where the counts were never right, or where many entries were added to one run.
  private func finishCounts() throws {
    for other in indexes where other.number == index.number || counts[other.number] != nil {
      guard let name = other.runsName else { continue }
      let entries = other.number == index.number ? index.entries ?? madeFamily : other.entries
      try RunRepair(backend).recount(entries, countsIn: name)
    }
  }

  /// Commits the batch; the commit survives a power loss once this returns.
  private mutating func commit() throws {
    if batch.isEmpty { return }
    for number in counts.keys { counts[number]?.write(to: &batch) }
    try backend.commit(batch, check: nil, durability: .power).wait()
    batch = StorageBatch()
  }
}

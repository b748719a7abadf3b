internal import FutexLocks
internal import Synchronization

/// The catalog of the database: collections, shapes, versions and row ids. It is kept in memory, and changes are
/// written through.
///
/// # Commits of its own
/// A name, a shape or a range of row ids gets its number in a small separate commit, before the commit of the
/// transaction that needs it. Numbers therefore never depend on whether that transaction commits, concurrent writers
/// can't assign one number to two things, and the log contains the number before the first row that uses it. What a
/// rolled-back transaction has requested stays: for example a collection without rows, which is not shown.
///
/// # Concurrency
/// The catalog is safe to use from any thread. The lock is held during these commits, which do not wait for a sync.
package final class Catalog: Sendable {
  struct Families: Sendable {
    let catalog: StorageFamily
    let objects: StorageFamily
    let metadata: StorageFamily
    let counts: StorageFamily
    let feed: StorageFamily

    static let names: Set = ["catalog", "objects", "metadata", "counts", "feed"]
  }

  let backend: any StorageBackend
  let families: Families
  private let defaultCoder: CoderKind
  let state: FutexLock<CatalogState>
  private let currentEdition = CatalogEdition()

  /// A number that changes with each change of a collection in this process's memory. As long as it is the same, a
  /// caller that has looked up a collection need not look it up again.
  var edition: UInt64 { currentEdition.number }

  /// The number of row ids that one commit reserves.
  static let rowIDRange: UInt64 = 1 << 16
  /// The limit of reserved row ids. A catalog that has reserved more is damaged.
  static let rowIDMaximum = UInt64.max - 4 * rowIDRange

  /// Creates an empty catalog. `coder` is the coder of collections without a definition.
  init(
    backend: any StorageBackend, families: Families, definitions: [String: RowDefinition],
    coder: CoderKind = .binary
  ) {
    self.backend = backend
    self.families = families
    defaultCoder = coder
    state = FutexLock(CatalogState(edition: currentEdition, definitions: definitions))
  }

  // MARK: - Opening

  /// Reads the catalog again if another process has added or dropped collections, or added versions of a format, since
  /// it was read. Shapes are read when a row needs one: see `shape(_:)`.
  func refresh(_ snapshot: any StorageSnapshot) throws {
    let (generation, names) = state.withLock { ($0.generation, $0.names(changedAfter: snapshot.version)) }
    if generation < (try number(CatalogKey.generation, snapshot) ?? 0) { return try load(snapshot) }
    for name in names { try lookBack(name, snapshot) }
  }

  /// Corrects the version at which a name passed from one collection to the next, by a snapshot that is older than the
  /// one from which another thread has read the catalog already.
  private func lookBack(_ name: String, _ snapshot: any StorageSnapshot) throws {
    guard let bytes = try snapshot.value(of: CatalogKey.collection(name), in: families.catalog) else { return }
    let record = try CollectionRecord(bytes, name: name)
    state.withLock { $0.notePresent(name, record, at: snapshot.version) }
    let versions = try loadVersions(snapshot)[record.id] ?? [:]
    try state.withLock { state in
      // Later collections have higher numbers.
      guard var former = state.dropped[name], let given = state.collection(name, at: snapshot.version),
        given.record.id < record.id, let location = former.firstIndex(where: { snapshot.version < $0.end })
      else { return }
      let known = former.map(\.info.record.id) + [state.collections[name]?.record.id]
      if !known.contains(record.id) {
        let definition = state.definitions[name]
        let info = try makeInfo(name, record, state.definition(of: name, record), versions, state.coders)
        state.definitions[name] = definition
        let next = former[location...].firstIndex { $0.info.record.id > record.id } ?? former.endIndex
        former.insert(CatalogState.Dropped(info: info, end: former[next - 1].end), at: next)
      }
      for index in former[location...].indices where former[index].info.record.id < record.id {
        former[index].end = snapshot.version
      }
      state.dropped[name] = former
    }
  }

  /// Returns a number that the catalog stores, or `nil` if it has none.
  private func number(_ key: [UInt8], _ snapshot: any StorageSnapshot) throws -> UInt32? {
    try snapshot.value(of: key, in: families.catalog).flatMap { BigEndian.number($0) }
  }

  /// Reads the catalog from a snapshot.
  func load(_ snapshot: any StorageSnapshot) throws {
    try checkFormat(snapshot)
    let versions = try loadVersions(snapshot)
    var records: [String: CollectionRecord] = [:]
    for (suffix, value) in try entries(CatalogKey.collections, snapshot) {
      guard let name = String(validating: suffix, as: UTF8.self) else { throw Self.damaged("a collection's name") }
      records[name] = try CollectionRecord(value, name: name)
    }
    var shapes = ShapeTable(next: try number(CatalogKey.nextShape, snapshot) ?? 1)
    let firstVersion = try number(CatalogKey.nextVersion, snapshot) ?? 1
    for (suffix, value) in try entries(CatalogKey.shapes, snapshot) {
      guard let number = BigEndian.number(suffix, as: UInt32.self), number < .max else {
        throw Self.damaged("a shape's number")
      }
      try shapes.add(value, number)
    }
    let coders = try loadCoders(snapshot)
    let droppedNames = try loadDroppedNames(snapshot)
    let reserved = try snapshot.value(of: CatalogKey.rowIDs, in: families.catalog)
    let names = Dictionary(records.map { ($1.id, $0) }) { first, _ in first }
    guard names.count == records.count else { throw Self.damaged("two collections have the same id") }
    let nextCollection = try number(CatalogKey.nextCollection, snapshot) ?? 1
    let generation = try number(CatalogKey.generation, snapshot) ?? 0
    let rowIDsReserved: UInt64 = reserved.flatMap { BigEndian.number($0) } ?? 1
    // Each of these numbers must have a successor.
    let numbers = [firstVersion, nextCollection, generation] + names.keys + versions.values.flatMap(\.keys)
    guard !numbers.contains(.max), rowIDsReserved < Self.rowIDMaximum else {
      throw Self.damaged("a number is the largest that there can be")
    }
    try state.withLock { state in
      // If two threads read the catalog again, the one with the older snapshot may finish last.
      guard generation >= state.generation else { return }
      state.coders.load(coders.names, next: coders.next)
      try state.coders.add(defaultCoder)
      for definition in state.definitions.values { try state.add(codersOf: definition) }
      // A definition may have been added while the records were read.
      var collections: [String: CollectionInfo] = [:]
      for (name, record) in records {
        let definition = state.definition(of: name, record)
        collections[name] = try makeInfo(name, record, definition, versions[record.id] ?? [:], state.coders)
      }
      // Another process has dropped or renamed these collections.
      let gone = state.collections.filter { name, info in records[name]?.id != info.record.id }
      for info in gone.values { state.end(info, at: snapshot.version) }
      for info in gone.values { if let new = names[info.record.id] { state.begins[new] = snapshot.version } }
      state.collections = collections
      state.names = names
      state.droppedNames = droppedNames
      state.shapes = shapes
      state.firstVersion = firstVersion
      state.rowIDsReserved = rowIDsReserved
      state.nextRowID = max(state.nextRowID, state.rowIDsReserved)
      state.nextCollection = nextCollection
      state.generation = generation
    }
  }

  private func checkFormat(_ snapshot: any StorageSnapshot) throws {
    guard let bytes = try snapshot.value(of: CatalogKey.format, in: families.catalog) else { return }
    guard let format = BigEndian.number(bytes, as: UInt32.self) else { throw Self.damaged("the format") }
    guard format <= CatalogKey.currentFormat else {
      throw DatabaseError(
        .unsupportedVersion,
        "the object database has format \(format), and this version knows \(CatalogKey.currentFormat)")
    }
  }

  private func loadVersions(_ snapshot: any StorageSnapshot) throws -> [UInt32: [UInt32: String]] {
    var versions: [UInt32: [UInt32: String]] = [:]
    for (suffix, value) in try entries(CatalogKey.versions, snapshot) {
      guard let collection = BigEndian.number(suffix, as: UInt32.self),
        let number = BigEndian.number(suffix, at: 4, as: UInt32.self)
      else { throw Self.damaged("a version's number") }
      guard let name = String(validating: value, as: UTF8.self) else { throw Self.damaged("a version's name") }
      versions[collection, default: [:]][number] = name
    }
    return versions
  }

  private func loadCoders(_ snapshot: any StorageSnapshot) throws -> (names: [UInt8: String], next: UInt8) {
    var names: [UInt8: String] = [:]
    for (suffix, value) in try entries(CatalogKey.coders, snapshot) {
      guard suffix.count == 1, suffix[0] >= CoderTable.firstNumber else { throw Self.damaged("a coder's number") }
      guard let name = String(validating: value, as: UTF8.self) else { throw Self.damaged("a coder's name") }
      names[suffix[0]] = name
    }
    let next = try snapshot.value(of: CatalogKey.nextCoder, in: families.catalog)?.first
    return (names, next ?? CoderTable.firstNumber)
  }

  private func loadDroppedNames(_ snapshot: any StorageSnapshot) throws -> [UInt32: String] {
    var names: [UInt32: String] = [:]
    for (suffix, value) in try entries(CatalogKey.dropped, snapshot) {
      guard let id = BigEndian.number(suffix, as: UInt32.self), let name = String(validating: value, as: UTF8.self)
      else { throw Self.damaged("what it says of a collection that was dropped") }
      names[id] = name
    }
    return names
  }

  /// Returns all entries whose keys begin with a tag, with the tag removed from the keys.
  private func entries(
    _ tag: [UInt8], _ snapshot: any StorageSnapshot
  ) throws -> [(suffix: [UInt8], value: [UInt8])] {
    var cursor = FamilyCursor(StorageRange(prefix: tag), in: families.catalog, of: snapshot, isReverse: false)
    var found: [(suffix: [UInt8], value: [UInt8])] = []
    while let (key, value) = try cursor.next() { found.append((Array(key.dropFirst(tag.count)), value)) }
    return found
  }

  private static func damaged(_ what: String) -> DatabaseError {
    DatabaseError(.corruption, "the catalog is damaged: \(what)")
  }

  // MARK: - Collections

  package func collection(_ name: String) -> CollectionInfo? { state.withLock { $0.collections[name] } }

  func collection(_ id: UInt32) -> CollectionInfo? {
    state.withLock { state in state.names[id].flatMap { state.collections[$0] } }
  }

  /// Returns the collection that had a name at a version.
  func collection(_ name: String, at version: CommitVersion) -> CollectionInfo? {
    state.withLock { $0.collection(name, at: version) }
  }

  /// Returns the name that a collection has, or had before it was dropped.
  func name(of id: UInt32) -> String? { state.withLock { $0.names[id] ?? $0.droppedNames[id] } }

  /// The numbers of all collections that were ever dropped.
  var droppedNumbers: Set<UInt32> { state.withLock { Set($0.droppedNames.keys) } }

  /// All collections, in no particular order.
  var collections: [CollectionInfo] { state.withLock { Array($0.collections.values) } }

  /// Returns all collections that existed at a version, in no particular order.
  func collections(at version: CommitVersion) -> [CollectionInfo] {
    state.withLock { state in
      if state.dropped.isEmpty { return Array(state.collections.values) }
      return Set(state.collections.keys).union(state.dropped.keys).compactMap { state.collection($0, at: version) }
    }
  }

  /// Returns the collection with a name. If there is none, it is made by the definition, or with `coder`, `storage` and
  /// the type of its first key. Throws `.definitionDiffers` if the definition differs from what is on disk.
  func collection(
    _ name: String, definition: RowDefinition?, keyType: String, coder: CoderKind,
    storage: CollectionStorage = .shared
  ) throws -> CollectionInfo {
    try state.withLock { state in
      if let found = state.collections[name] { return try define(found, definition, &state) }
      try definition.map { try addCoders(of: $0, &state) }
      if backend.isReadOnly {
        throw DatabaseError(.readOnly, "the collection is not there, and the database is read-only", collection: name)
      }
      // A collection that was dropped is made again as the program has defined it.
      let definition = state.definitions[name] ?? definition
      let number = try number(ofCoder: definition?.coder ?? coder, &state)
      return try make(name, definition, keyType, number, definition?.storage ?? storage, &state)
    }
  }

  /// Returns or makes a collection by the name of a coder, whose type the program need not have, for rows that are
  /// given as bytes.
  package func collection(
    _ name: String, keyType: String, coderName: String, storage: CollectionStorage
  ) throws -> CollectionInfo {
    try state.withLock { state in
      if let found = state.collections[name] { return found }
      return try make(name, nil, keyType, try number(ofCoderNamed: coderName, &state), storage, &state)
    }
  }

  /// Sets the definition of a collection. It never makes a collection: it throws `.snapshotTooOld` if this one was
  /// dropped.
  func define(_ found: CollectionInfo, _ definition: RowDefinition) throws -> CollectionInfo {
    try state.withLock { state in
      guard let known = state.collections[found.name], known.record.id == found.record.id else {
        throw DatabaseError(
          .snapshotTooOld, "the collection was dropped after this snapshot, and this store had not used it before",
          collection: found.name)
      }
      return try define(known, definition, &state)
    }
  }

  /// Adds a definition after the opening of the database. Throws `.alreadyDefined` if the collection has one; if two
  /// are added at the same time, one of the calls throws.
  func define(_ definition: RowDefinition) throws {
    let name = definition.name
    try state.withLock { state in
      try addCoders(of: definition, &state)
      let found = state.collections[name]
      guard found?.definition == nil, state.definitions[name] == nil else {
        throw DatabaseError(.alreadyDefined, "the collection has a definition already", collection: name)
      }
      if let found {
        _ = try define(found, definition, &state)
      } else if backend.isReadOnly {
        // The program that writes the database may still make the collection.
        state.definitions[name] = definition
      } else {
        let number = try number(ofCoder: definition.coder, &state)
        _ = try make(name, definition, definition.keyTypeName, number, definition.storage, &state)
      }
    }
  }

  private func define(
    _ found: CollectionInfo, _ definition: RowDefinition?, _ state: inout CatalogState
  ) throws -> CollectionInfo {
    // A definition that was known when the catalog was read may have versions that the catalog has not numbered, and a
    // coder other than the one that writes.
    guard let given = definition else { return found }
    let isNew = found.definition.map { $0.isProvisional && !given.isProvisional } ?? true
    let definition = isNew ? given : found.definition ?? given
    guard isNew || found.lacksVersions || found.coder != definition.coder else { return found }
    try requireNoFormer(definition.formerKeys, of: found.name, state)
    try addCoders(of: definition, &state)
    try definition.check(found.record, state.coders)
    let record = try record(found, writtenBy: definition.coder, &state)
    let info = try makeInfo(found.name, record, definition, found.versions.names, state.coders)
    let complete = try intern(definition.codec.versions, info, definition, &state)
    state.collections[found.name] = complete
    state.definitions[found.name] = definition
    return complete
  }

  private func make(
    _ name: String, _ definition: RowDefinition?, _ keyType: String, _ coder: UInt8,
    _ storage: CollectionStorage, _ state: inout CatalogState
  ) throws -> CollectionInfo {
    try definition.map { try requireNoFormer($0.formerKeys, of: name, state) }
    let info = try create(name, definition, keyType, coder, storage, &state)
    if let definition { state.definitions[name] = definition }
    state.collections[name] = info
    state.names[info.record.id] = name
    return info
  }

  private func create(
    _ name: String, _ definition: RowDefinition?, _ keyType: String, _ coder: UInt8,
    _ storage: CollectionStorage, _ state: inout CatalogState
  ) throws -> CollectionInfo {
    var isOwn = false
    var compression = StorageFamilyOptions()
    if case .own(let chosen) = storage {
      isOwn = true
      compression.compression = chosen
    }
    let record = CollectionRecord(
      id: state.nextCollection, coder: coder, isOwn: isOwn, keyType: definition?.keyTypeName ?? keyType)
    // The id is used up even if the following calls throw, because the commit may have happened all the same, and no id
    // is given twice.
    state.nextCollection += 1
    if isOwn {
      for part in ["objects", "metadata"] {
        try makeFamily(record.familyName(part), options: compression)
      }
    }
    var batch = StorageBatch()
    batch.put(CatalogKey.collection(name), record.bytes, in: families.catalog)
    batch.put(CatalogKey.nextCollection, BigEndian.bytes(record.id + 1), in: families.catalog)
    noteChange(&batch, &state)
    _ = try backend.commit(batch, check: nil, durability: .process)
    let info = try makeInfo(name, record, definition, [:], state.coders)
    return try definition.map { try intern($0.codec.versions, info, $0, &state) } ?? info
  }

  /// Removes a collection that has no rows left. If its name is used again, that is another collection, with another
  /// number. Must be called with the writer held.
  func drop(_ info: CollectionInfo) throws {
    try state.withLock { state in
      let id = info.record.id
      var batch = StorageBatch()
      batch.delete(CatalogKey.collection(info.name), in: families.catalog)
      batch.put(CatalogKey.dropped(id), Array(info.name.utf8), in: families.catalog)
      batch.deleteRange(StorageRange(prefix: CatalogKey.versions(of: id)), in: families.catalog)
      batch.delete(info.countKey, in: families.counts)
      noteChange(&batch, &state)
      let end = try backend.commit(batch, check: nil, durability: .process).version
      // Another thread may have defined the collection since it was looked up.
      let known = state.collections[info.name] ?? info
      state.end(known, at: end)
      state.droppedNames[id] = info.name
      state.names[id] = nil
      state.collections[info.name] = nil
      // A provisional definition, made by a typed call, described the collection that was dropped.
      if state.definitions[info.name]?.isProvisional == true { state.definitions[info.name] = nil }
    }
  }

  /// Creates a family, unless a crash has left one without a record.
  private func makeFamily(_ name: String, options: StorageFamilyOptions) throws {
    if try backend.families().contains(where: { $0.name == name }) { return }
    _ = try backend.createFamily(name, options: options)
  }

  func makeInfo(
    _ name: String, _ record: CollectionRecord, _ definition: RowDefinition?, _ versions: [UInt32: String],
    _ coders: CoderTable
  ) throws -> CollectionInfo {
    for number in [record.coder, record.writer] { _ = try coders.known(number, name) }
    if let definition { try definition.check(record, coders) }
    var own: [String: StorageFamily] = [:]
    if record.isOwn {
      for family in try backend.families() { own[family.name] = family }
    }
    func family(_ part: String, _ shared: StorageFamily) throws -> StorageFamily {
      guard record.isOwn else { return shared }
      if let family = own[record.familyName(part)] { return family }
      throw DatabaseError(.corruption, "its family \(record.familyName(part)) is missing", collection: name)
    }
    let current = definition?.codec.currentVersion.flatMap { current in versions.first { $0.value == current }?.key }
    return CollectionInfo(
      name: name, record: record, coders: coders, objects: try family("objects", families.objects),
      metadata: try family("metadata", families.metadata), definition: definition,
      versions: VersionNumbers(current: current ?? 0, names: versions))
  }

  /// Returns the number of a version of a collection's format, and assigns one if it has none.
  package func number(ofVersion version: String, in collection: String) throws -> UInt32 {
    try state.withLock { state in
      guard var info = state.collections[collection] else {
        throw DatabaseError(.notFound, "the database has no such collection", collection: collection)
      }
      if !info.versions.names.values.contains(version) {
        info = try intern([version], info, info.definition, &state)
        state.collections[collection] = info
      }
      return info.versions.names.first { $0.value == version }?.key ?? 0
    }
  }

  /// Assigns numbers to the versions of a format that have none.
  func intern(
    _ versions: [String], _ info: CollectionInfo, _ definition: RowDefinition?, _ state: inout CatalogState
  ) throws -> CollectionInfo {
    var names = info.versions.names
    var batch = StorageBatch()
    for version in versions where !names.values.contains(version) {
      let number = max((names.keys.max() ?? 0) + 1, state.firstVersion)
      names[number] = version
      batch.put(CatalogKey.version(info.record.id, number), Array(version.utf8), in: families.catalog)
    }
    if batch.isEmpty { return info }
    if backend.isReadOnly { return info }
    noteChange(&batch, &state)
    _ = try backend.commit(batch, check: nil, durability: .process)
    return try makeInfo(info.name, info.record, definition, names, state.coders)
  }

  /// Notifies the processes that follow this one that the catalog has changed, in the commit of the change.
  func noteChange(_ batch: inout StorageBatch, _ state: inout CatalogState) {
    // The number changes even if the commit throws, because it may have happened all the same.
    state.generation += 1
    batch.put(CatalogKey.generation, BigEndian.bytes(state.generation), in: families.catalog)
  }

  // MARK: - Numbers

  /// Returns a row id that was never given before.
  func nextRowID() throws -> RowID {
    try state.withLock { state in
      if state.nextRowID >= state.rowIDsReserved {
        var batch = StorageBatch()
        let reserved = state.nextRowID + Self.rowIDRange
        batch.put(CatalogKey.rowIDs, BigEndian.bytes(reserved), in: families.catalog)
        _ = try backend.commit(batch, check: nil, durability: .process)
        state.rowIDsReserved = reserved
      }
      defer { state.nextRowID += 1 }
      return RowID(state.nextRowID)
    }
  }
}

extension Catalog: ShapeRegistry {
  /// Returns the number of a shape, and assigns one if it has none.
  package func number(of shape: Shape) throws -> UInt32 {
    try state.withLock { state in
      if let number = state.shapes.number(of: shape) { return number }
      let number = state.shapes.next
      var batch = StorageBatch()
      batch.put(CatalogKey.shape(number), shape.bytes, in: families.catalog)
      _ = try backend.commit(batch, check: nil, durability: .process)
      state.shapes.add(shape, number)
      return number
    }
  }

  /// Returns the shape with a number.
  package func shape(_ number: UInt32) throws -> Shape {
    if let shape = state.withLock({ $0.shapes.shape(number) }) { return shape }
    // Another process may have written the shape since the catalog was read.
    let bytes = try backend.snapshot().value(of: CatalogKey.shape(number), in: families.catalog)
    guard let bytes else { throw DatabaseError(.corruption, "the catalog has no shape \(number)") }
    return try state.withLock { state in
      try state.shapes.add(bytes, number)
      return try Shape(bytes)
    }
  }
}

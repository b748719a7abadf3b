internal import Synchronization

/// What the catalog keeps in memory. A value; the catalog has it under its lock.
struct CatalogState {
  var collections: [String: CollectionInfo] = [:] { didSet { edition.advance() } }
  let edition: CatalogEdition
  var names: [UInt32: String] = [:]
  /// Those that lost their names while this process had them, by a drop or by another name: earlier snapshots still have
  /// their rows by these names.
  var dropped: [String: [Dropped]] = [:] { didSet { edition.advance() } }
  /// Since when names belong to their collections that these had not from the beginning.
  var begins: [String: CommitVersion] = [:] { didSet { edition.advance() } }
  /// The names of all that ever were.
  var droppedNames: [UInt32: String] = [:]
  /// Those of the open, and those that came later.
  var definitions: [String: CollectionDefinition]
  var coders = CoderTable()
  var nextCollection: UInt32 = 1
  /// How often collections, versions or coders were added, dropped or named, by this process or another.
  var generation: UInt32 = 0
  var shapes = ShapeTable()
  /// Of a version that has no number yet: at least this.
  var firstVersion: UInt32 = 1
  var nextRowID: UInt64 = 1
  var rowIDsReserved: UInt64 = 1

  struct Dropped {
    let info: CollectionInfo
    /// The first version that has the name for it.
    var begin = CommitVersion.zero
    /// The first version that has not; later, where another process has dropped it.
    var end: CommitVersion
  }

  init(edition: CatalogEdition, definitions: [String: CollectionDefinition]) {
    self.edition = edition
    self.definitions = definitions
  }

  // MARK: - Names at a version

  func collection(_ name: String, at version: CommitVersion) -> CollectionInfo? {
    if !dropped.isEmpty, let former = dropped[name], let last = former.last, version < last.end {
      guard let found = former.first(where: { version < $0.end }), version >= found.begin else { return nil }
      return found.info
    }
    if !begins.isEmpty, let begin = begins[name], version < begin { return nil }
    return collections[name]
  }

  /// The names of collections that were dropped or given after a version, as far as is known.
  func names(changedAfter version: CommitVersion) -> [String] {
    if dropped.isEmpty, begins.isEmpty { return [] }
    let gone = dropped.compactMap { name, former in former.last.map { version < $0.end } == true ? name : nil }
    return Array(Set(gone + begins.filter { version < $0.value }.keys))
  }

  /// A collection loses its name.
  mutating func end(_ info: CollectionInfo, at version: CommitVersion) {
    let begin = begins.removeValue(forKey: info.name) ?? .zero
    dropped[info.name, default: []].append(Dropped(info: info, begin: begin, end: version))
  }

  /// A version, earlier than that at which the catalog was read, has a collection by a name: so it had lost its former name by
  /// then.
  mutating func notePresent(_ name: String, _ record: CollectionRecord, at version: CommitVersion) {
    if let begin = begins[name], version < begin, collections[name]?.record.id == record.id { begins[name] = version }
    for (other, former) in dropped {
      for (index, entry) in former.enumerated() where entry.info.record.id == record.id {
        if other == name, version < entry.begin { dropped[other]?[index].begin = version }
        if other != name, entry.begin <= version, version < entry.end { dropped[other]?[index].end = version }
      }
    }
  }

  // MARK: - Definitions

  /// What the program says of a collection as it is read from the catalog. Where another process has dropped the one
  /// that it knew, and made another of that name, what was said may not hold for this: then the caller that uses it gets an
  /// error.
  mutating func definition(of name: String, _ record: CollectionRecord) -> CollectionDefinition? {
    guard let definition = definitions[name], let known = collections[name], known.record.id != record.id else {
      return definitions[name]
    }
    if definition.isProvisional { definitions[name] = nil }
    guard !definition.isProvisional else { return nil }
    do { try definition.check(record, coders) } catch { return nil }
    return definition
  }

  /// Notes the coders that a definition names. Throws `.invalidDefinition`.
  mutating func add(codersOf definition: CollectionDefinition) throws {
    try coders.add(definition.coder)
    for coder in definition.formerCoders { try coders.add(coder) }
  }
}

/// Another number after each change of a collection.
final class CatalogEdition: Sendable {
  private let count = Atomic<UInt64>(0)
  var number: UInt64 { count.load(ordering: .acquiring) }
  func advance() { count.add(1, ordering: .releasing) }
}

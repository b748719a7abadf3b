internal import Synchronization

/// The state of the catalog in memory. It is a value that the catalog guards by its lock.
struct CatalogState {
  var collections: [String: CollectionInfo] = [:] { didSet { edition.advance() } }
  let edition: CatalogEdition
  var names: [UInt32: String] = [:]
  /// The collections that have lost a name in this process, by being dropped or renamed. Earlier snapshots still
  /// contain their rows under these names.
  var dropped: [String: [Dropped]] = [:] { didSet { edition.advance() } }
  /// The versions since which names belong to their collections, for collections that did not have their name from the
  /// beginning.
  var begins: [String: CommitVersion] = [:] { didSet { edition.advance() } }
  /// The names of all collections that were dropped.
  var droppedNames: [UInt32: String] = [:]
  /// The definitions that were given at the opening, and those that were added later.
  var definitions: [String: RowDefinition]
  var coders = CoderTable()
  var nextCollection: UInt32 = 1
  /// The number of times that collections, versions or coders were added, dropped or renamed, by this process or
  /// another.
  var generation: UInt32 = 0
  var shapes = ShapeTable()
  /// The lowest number for a version that has no number yet.
  var firstVersion: UInt32 = 1
  var nextRowID: UInt64 = 1
  var rowIDsReserved: UInt64 = 1

  struct Dropped {
    let info: CollectionInfo
    /// The first version at which the collection has the name.
    var begin = CommitVersion.zero
    /// The first version at which the collection no longer has the name, or a later one if another process has dropped
    /// it.
    var end: CommitVersion
  }

  init(edition: CatalogEdition, definitions: [String: RowDefinition]) {
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

  /// Returns the names of collections that were dropped or renamed after a version, as far as is known.
  func names(changedAfter version: CommitVersion) -> [String] {
    if dropped.isEmpty, begins.isEmpty { return [] }
    let gone = dropped.compactMap { name, former in former.last.map { version < $0.end } == true ? name : nil }
    return Array(Set(gone + begins.filter { version < $0.value }.keys))
  }

  /// Removes the name of a collection.
  mutating func end(_ info: CollectionInfo, at version: CommitVersion) {
    let begin = begins.removeValue(forKey: info.name) ?? .zero
    dropped[info.name, default: []].append(Dropped(info: info, begin: begin, end: version))
  }

  /// Notes that a collection had a name at a version earlier than the one at which the catalog was read, so that it had
  /// lost its former name by then.
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

  /// Returns the program's definition for a collection that is read from the catalog. If another process has dropped
  /// the collection that was defined and made another with its name, the definition may not match this one: it is then
  /// left out, and the caller that uses it gets an error.
  mutating func definition(of name: String, _ record: CollectionRecord) -> RowDefinition? {
    guard let definition = definitions[name], let known = collections[name], known.record.id != record.id else {
      return definitions[name]
    }
    if definition.isProvisional { definitions[name] = nil }
    guard !definition.isProvisional else { return nil }
    do { try definition.check(record, coders) } catch { return nil }
    return definition
  }

  /// Adds the coders that a definition names. Throws `.invalidDefinition`.
  mutating func add(codersOf definition: RowDefinition) throws {
    try coders.add(definition.coder)
    for coder in definition.formerCoders { try coders.add(coder) }
  }
}

/// A number that changes with each change of a collection.
final class CatalogEdition: Sendable {
  private let count = Atomic<UInt64>(0)
  var number: UInt64 { count.load(ordering: .acquiring) }
  func advance() { count.add(1, ordering: .releasing) }
}

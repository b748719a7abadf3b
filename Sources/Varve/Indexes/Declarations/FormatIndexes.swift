internal import FutexLocks
internal import Synchronization

/// A checked index of a format. It is a class, because a copy of all its properties would retain many references.
final class NamedIndex<Instance>: Sendable {
  let name: String
  let declaration: IndexDeclaration<Instance>
  /// The text that must be the same for the entries on disk to be usable.
  let definition: String

  let plan: ErasedIndex
  let foldedParts: FoldedParts
  /// The key of the index in the part `collisions`.
  let collisionsKey: [UInt8]

  init(_ name: String, _ declaration: IndexDeclaration<Instance>, definition: String) {
    self.name = name
    self.declaration = declaration
    self.definition = definition
    plan = ErasedIndex(name, declaration)
    foldedParts = FoldedParts(declaration.fields.map(\.path))
    collisionsKey = IndexFormat.collisionsKey(of: name, definition: definition)
  }

  /// The name of the part with the entries of the index.
  var partName: String { IndexFormat.partName(of: name) }
}

extension NamedIndex {
  /// The maximum number of indexes: each has a part, and a few parts are shared by all of them.
  private static var countMaximum: Int { ExtensionTraits.partsMaximum - 4 }

  /// Returns the indexes of a collection in the order of their names. Throws `.invalidDefinition` if two have the same
  /// name or number, or if there are too many.
  static func checked(_ list: [NamedIndex], of owner: String, collection: String) throws -> [NamedIndex] {
    func refused(_ what: String) -> DatabaseError {
      DatabaseError(.invalidDefinition, what, collection: collection)
    }
    let sorted = list.sorted { $0.name < $1.name }
    for (index, next) in zip(sorted, sorted.dropFirst()) where index.name == next.name {
      throw refused("index \"\(index.name)\" of \(owner) has the name of another")
    }
    var numbers: [UInt32: String] = [:]
    for index in sorted {
      if let other = numbers.updateValue(index.name, forKey: index.plan.number) {
        throw refused(
          "indexes \"\(index.name)\" and \"\(other)\" of \(owner) have names with one hash; give one another name")
      }
    }
    guard list.count <= countMaximum else {
      throw refused("\(owner) has \(list.count) indexes; at most \(countMaximum) are possible")
    }
    return sorted
  }
}

/// The indexes of a format, determined once in a process.
final class FormatIndexes<Format: StoreFormat>: Sendable {
  /// The instance of the format whose properties are the indexes.
  let format: Format
  /// The indexes, in the order of their names.
  let list: [NamedIndex<Format.Instance>]
  /// The positions of indexes in `list` by the paths that were used for them. A key path is one object for each
  /// location in the program that contains it.
  private let slots = FutexLock<[ObjectIdentifier: (path: AnyKeyPath, slot: Int)]>([:])
  private static var slotsMaximum: Int { 256 }

  private init(checking format: Format, made count: Int) throws {
    self.format = format
    let found = format.indexes
    guard count <= found.count else {
      throw DatabaseError(
        .invalidDefinition,
        "\(Format.self) makes \(count) indexes, and \(found.count) of them are found: indexes are stored properties of the "
          + "format; where they can't be, or the program is built without reflection metadata, the format implements "
          + "`var indexes: [String: any StoreIndex]`", collection: Format.collection)
    }
    var list: [NamedIndex<Format.Instance>] = []
    for (label, index) in found {
      guard let declaration = index.erased as? IndexDeclaration<Format.Instance> else {
        throw Self.refused(label, "is of instances of another type than \(Format.Instance.self)")
      }
      let name = Name.composed(declaration.name ?? label)
      if name.isEmpty { throw Self.refused(label, "has an empty name") }
      do {
        let text = try declaration.definition(name: name, format: Format.self)
        list.append(NamedIndex(name, declaration, definition: text))
      } catch let error as DatabaseError {
        throw DatabaseError(error.code, error.message, collection: Format.collection)
      }
    }
    self.list = try NamedIndex.checked(list, of: "\(Format.self)", collection: Format.collection)
  }

  private static func refused(_ name: String, _ what: String) -> DatabaseError {
    DatabaseError(.invalidDefinition, "index \"\(name)\" of \(Format.self) \(what)", collection: Format.collection)
  }

  /// Returns the position in the list of the index in a property. Throws `.invalidDefinition` if the format has no such
  /// index.
  func slot<Index: StoreIndex>(of path: KeyPath<Format, Index>) throws -> Int {
    let id = ObjectIdentifier(path)
    if let known = slots.withLock({ $0[id]?.slot }) { return known }
    let slot = try findSlot(of: path)
    // The path is retained, so that no other object can have its address.
    slots.withLock { slots in if slots.count < Self.slotsMaximum { slots[id] = (path, slot) } }
    return slot
  }

  private func findSlot<Index: StoreIndex>(of path: KeyPath<Format, Index>) throws -> Int {
    let identity = format[keyPath: path].declaration.identity
    if let slot = list.firstIndex(where: { $0.declaration.identity === identity }) { return slot }
    throw DatabaseError(
      .invalidDefinition,
      "the path \(path) leads to an index that is made again at each use; indexes are stored properties of \(Format.self)",
      collection: Format.collection)
  }
}

extension FormatIndexes {
  /// Returns the indexes of the format. Throws `.invalidDefinition`.
  static func found() throws -> FormatIndexes {
    let id = ObjectIdentifier(Format.self)
    if let known = FormatIndexCache.known.withLock({ $0[id] }) as? FormatIndexes { return known }
    // The lock is not held, because this runs the program's initializers. If two threads do so, the first result
    // counts.
    let counter = IndexIdentity.Counter()
    let format = IndexIdentity.$counter.withValue(counter) { Format() }
    let made = try FormatIndexes(checking: format, made: counter.value)
    return FormatIndexCache.known.withLock { known in
      if let first = known[id] as? FormatIndexes { return first }
      known[id] = made
      return made
    }
  }
}

private enum FormatIndexCache {
  static let known = FutexLock<[ObjectIdentifier: any AnyObject & Sendable]>([:])
}

/// The indexes of a collection, according to its definition.
protocol CollectionIndexing: Sendable {
  associatedtype Instance: Codable & Sendable
  /// The indexes, in the order of their names.
  var indexes: [NamedIndex<Instance>] { get }
  /// The version of the format on which the values depend, or `nil` if there is none.
  var formatVersion: String? { get }
  /// The versions whose values are the same as those of the current one, as the catalog may have them; "" stands for no
  /// version. It is empty if another version makes the rows be reviewed.
  var survivingVersions: [String] { get }
  var unindexableRows: UnindexableRows { get }
}

extension CollectionIndexing {
  var isEmpty: Bool { indexes.isEmpty }
}

/// The indexes of a format, as a collection's indexing.
struct FormatIndexing<Format: StoreFormat>: CollectionIndexing {
  let indexes: [NamedIndex<Format.Instance>]
  var formatVersion: String? {
    FormatVersions<Format>.isVersioned ? Format.currentVersion.rawValue.description : nil
  }
  var survivingVersions: [String] { Format.indexesSurvive ? FormatVersions<Format>.names + [""] : [] }
  var unindexableRows: UnindexableRows { Format.unindexableRows }

  /// Creates the indexing of a format. Throws `.invalidDefinition`.
  init(_ format: Format.Type) throws { indexes = try FormatIndexes<Format>.found().list }
}

extension StoreIndex {
  fileprivate var erased: any Sendable { declaration }
}

/// Finds the indexes of a format among its stored properties.
enum FormatMirror {
  static func indexes(of format: some StoreFormat) -> [String: any StoreIndex] {
    var found: [String: any StoreIndex] = [:]
    for child in Mirror(reflecting: format).children {
      guard let label = child.label else { continue }
      if let index = child.value as? any StoreIndex {
        found[label] = index
      } else if let wrapper = child.value as? any DirectIndex {
        // The storage of a wrapped property has the name of the property, with an underscore as a prefix.
        found[label.hasPrefix("_") ? String(label.dropFirst()) : label] = wrapper.index
      }
    }
    return found
  }
}

/// A `Direct` with any index.
private protocol DirectIndex {
  var index: any StoreIndex { get }
}

extension Direct: DirectIndex {
  fileprivate var index: any StoreIndex { wrappedValue }
}

internal import FutexLocks

/// The indexes of a format, determined once in a process.
final class DeclaredIndexes<Format: StoreFormat>: Sendable {
  /// The instance of the format whose properties are the indexes.
  let format: Format
  /// The indexes, in the order of their names.
  let list: [CheckedIndex<Format.Instance>]
  /// Whether one of the indexes is counted.
  let hasCounted: Bool
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
    var list: [CheckedIndex<Format.Instance>] = []
    for (label, index) in found {
      guard let declaration = index.erased as? IndexDeclaration<Format.Instance> else {
        throw Self.refused(label, "is of instances of another type than \(Format.Instance.self)")
      }
      let name = Name.composed(declaration.name ?? label)
      if name.isEmpty { throw Self.refused(label, "has an empty name") }
      do {
        let text = try declaration.definition(name: name, format: Format.self)
        list.append(CheckedIndex(name, declaration, definition: text))
      } catch let error as DatabaseError {
        throw DatabaseError(error.code, error.message, collection: Format.collection)
      }
    }
    self.list = try CheckedIndex.checked(list, of: "\(Format.self)", collection: Format.collection)
    hasCounted = self.list.contains(where: \.plan.isCounted)
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

extension DeclaredIndexes {
  /// Returns the indexes of the format. Throws `.invalidDefinition`.
  static func found() throws -> DeclaredIndexes {
    let id = ObjectIdentifier(Format.self)
    if let known = DeclaredIndexCache.known.withLock({ $0[id] }) as? DeclaredIndexes { return known }
    // The lock is not held, because this runs the program's initializers. If two threads do so, the first result
    // counts.
    let counter = IndexIdentity.Counter()
    let format = IndexIdentity.$counter.withValue(counter) { Format() }
    let made = try DeclaredIndexes(checking: format, made: counter.value)
    return DeclaredIndexCache.known.withLock { known in
      if let first = known[id] as? DeclaredIndexes { return first }
      known[id] = made
      return made
    }
  }
}

private enum DeclaredIndexCache {
  static let known = FutexLock<[ObjectIdentifier: any AnyObject & Sendable]>([:])
}

extension StoreIndex {
  fileprivate var erased: any Sendable { declaration }
}

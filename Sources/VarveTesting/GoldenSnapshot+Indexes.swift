public import Varve
internal import VarveInspection

/// What becomes of the indexes of a snapshot.
extension GoldenSnapshot {
  /// The indexes that the snapshot has in another way than a definition, by collection and name. Empty where users of the
  /// version that wrote it wait for no index.
  ///
  /// ```swift
  /// #expect(try GoldenSnapshot("Golden/2025-05").indexChanges(definition: Library.definition).isEmpty)
  /// ```
  ///
  /// The hash of a definition has the names of the fields, so renaming a field, or another type of it, lets the index be built
  /// again: here a test sees that. What the hash can't see, an index of the same definition whose values have changed, is found
  /// by ``open(definition:options:_:)``.
  ///
  /// The directory is only read. Complexity: O(indexes). Throws `.notFound` where the snapshot is missing, what
  /// `DatabaseInspector.open` throws, and what is wrong with the definition.
  public func indexChanges(definition: DatabaseDefinition) throws -> [IndexChange] {
    let inspector = try DatabaseInspector.open(at: path)
    do {
      let changes = try Self.indexChanges(inspector, definition)
      try inspector.close()
      return changes
    } catch {
      // The first error is the one to report; a second one from closing would hide it.
      try? inspector.close()
      throw error
    }
  }

  private static func indexChanges(
    _ inspector: DatabaseInspector, _ definition: DatabaseDefinition
  ) throws -> [IndexChange] {
    var changes: [IndexChange] = []
    for (collection, formerKeys, present) in definition.collectionIndexes {
      var stored: [String: String] = [:]
      for name in [collection] + formerKeys where stored.isEmpty { stored = try inspector.indexDefinitions(of: name) }
      for index in Set(stored.keys).union(present.keys).sorted() where stored[index] != present[index] {
        let kind: IndexChange.Kind =
          stored[index] == nil ? .added : present[index] == nil ? .removed : .redefined
        changes.append(
          IndexChange(
            kind: kind, collection: collection, index: index, stored: stored[index], present: present[index]))
      }
    }
    return changes
  }
}

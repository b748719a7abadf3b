public import Varve
internal import VarveInspection

/// The comparison of a snapshot's indexes with a definition.
extension GoldenSnapshot {
  /// Returns the indexes that differ between the snapshot and a definition, by collection and name.
  ///
  /// The result is empty if users of the version that wrote the snapshot do not have to wait for any index to be built.
  ///
  /// ```swift
  /// #expect(try GoldenSnapshot("Golden/2025-05").indexChanges(definition: Library.definition).isEmpty)
  /// ```
  ///
  /// The hash of a definition contains the names of the fields, so renaming a field or changing its type causes the
  /// index to be built again; this call makes that visible to a test. The hash does not show that the values of an
  /// index with the same definition have changed: ``open(definition:options:_:)`` finds that.
  ///
  /// The directory is only read. Complexity: O(indexes). Throws `.notFound` if the snapshot is missing, the errors of
  /// `DatabaseInspector.open`, and errors in the definition.
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

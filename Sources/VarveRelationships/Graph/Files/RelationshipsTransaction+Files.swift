internal import Varve

/// Releases files that are removed with rows.
extension RelationshipsTransaction {
  /// Keeps a file that was released for removal, because an edge to it was set.
  func takeUp(_ end: [UInt8], _ destination: EdgeEnd) throws {
    guard case .file(let root, let path) = destination else { return }
    try context.shared.locations.check(root, path)
    if try files.get(end) != nil { try files.delete(end) }
  }

  /// Releases a file whose last edge was removed, and stores its identity. If the file does not exist, nothing is
  /// stored.
  func noteRemoval(ofFile end: ArraySlice<UInt8>) throws {
    guard let (root, path) = EdgeFormat.fileLocation(end) else { return }
    switch context.shared.locations.location(root, path) {
    // The identity is not known: the file is kept, and reported when its root exists.
    case .rootMissing, .outsideOfRoot: try files.put(Array(end), [])
    case .at(let whole, _):
      do {
        guard let identity = try SystemFile.identity(whole) else { return }
        try files.put(Array(end), identity.bytes)
      } catch is SystemFile.Failure {
        // The file cannot be examined, on which the change of the row must not depend.
        try files.put(Array(end), [])
      }
    }
    removedFiles += 1
  }

  /// Returns whether an edge of an existing row leads to a file.
  func isInUse(_ end: [UInt8]) throws -> Bool {
    for family in families.both {
      var cursor = try family.to.cursor(StorageRange(prefix: EdgeFormat.prefix(end[...], nil)), keysOnly: true)
      while let (key, _) = try cursor.next() {
        if try exists(EdgeKey(key, bySource: false).second) { return true }
      }
    }
    return false
  }
}

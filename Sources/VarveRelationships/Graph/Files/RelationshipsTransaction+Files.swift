internal import Varve

/// Files that are to go with rows.
extension RelationshipsTransaction {
  /// An edge that leads to a file was set: if the file was to go, it stays.
  func takeUp(_ end: [UInt8], _ destination: EdgeEnd) throws {
    guard case .file(let root, let path) = destination else { return }
    try context.shared.locations.check(root, path)
    if try files.get(end) != nil { try files.delete(end) }
  }

  /// The last edge to a file went: notes which file that is. Where there is none, nothing has to go.
  func noteRemoval(ofFile end: ArraySlice<UInt8>) throws {
    guard let (root, path) = EdgeFormat.fileLocation(end) else { return }
    switch context.shared.locations.location(root, path) {
    // Which file it is can't be known: it stays, and is reported when its root is there.
    case .rootMissing, .outsideOfRoot: try files.put(Array(end), [])
    case .at(let whole, _):
      do {
        guard let identity = try SystemFile.identity(whole) else { return }
        try files.put(Array(end), identity.bytes)
      } catch is SystemFile.Failure {
        // It can't be looked at: what the row is about must not depend on that.
        try files.put(Array(end), [])
      }
    }
    removedFiles += 1
  }

  /// Whether an edge leads to a file, from a row that is there.
  func isInUse(_ end: [UInt8]) throws -> Bool {
    for family in families.both {
      var cursor = try family.to.cursor(StorageRange(prefix: EdgeFormat.prefix(end[...], nil)), keysOnly: true)
      while let (key, _) = try cursor.next() {
        if try isThere(EdgeKey(key, bySource: false).second) { return true }
      }
    }
    return false
  }
}

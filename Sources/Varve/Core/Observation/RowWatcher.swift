/// Who looks at what commits change, to find out which of it concerns an observation.
///
/// It is asked by the task that delivers commits, and never by a thread that commits.
protocol RowWatcher: AnyObject, Sendable {
  /// Whether a commit may concern it, by the names of collections and the keys of rows alone.
  func mayConcern(_ changes: ChangeSet) -> Bool
  /// Whether what a commit that changes no row has written to parts may concern it.
  func mayConcern(_ parts: PartWrites.Noted) -> Bool
  /// The rows that concern it, of one collection.
  func concerned(_ rows: ChangedRows) throws -> [[UInt8]]
}

extension RowWatcher {
  func mayConcern(_ parts: PartWrites.Noted) -> Bool { false }
}

/// The rows of one collection that a commit has changed, as they are now: read once for all who watch.
///
/// Used by one thread.
final class ChangedRows {
  let info: CollectionInfo
  let transaction: ReadTransaction
  /// Without the collection's prefix.
  let keys: [[UInt8]]
  private var stored: [[UInt8]?]?
  /// Of each type an array of optional instances.
  private var instances: [ObjectIdentifier: any Sendable] = [:]

  init(_ info: CollectionInfo, _ keys: [[UInt8]], _ transaction: ReadTransaction) {
    self.info = info
    self.keys = keys
    self.transaction = transaction
  }

  /// The rows; nil where one was removed.
  func rows() throws -> [StoredRow?] {
    let storageKeys = keys.map { info.prefix + $0 }
    let bytes: [[UInt8]?]
    if let stored {
      bytes = stored
    } else {
      bytes = try transaction.snapshot.values(of: storageKeys, in: info.objects)
      stored = bytes
    }
    return try zip(storageKeys, bytes).map { key, bytes in try bytes.map { try transaction.stored(key, $0, info) } }
  }

  /// What `decode` makes of the rows, once for all who ask for the same. Those that can't be decoded are left out.
  func instances<Instance: Sendable>(
    _ id: ObjectIdentifier, _ decode: (StoredRow) throws -> Instance
  ) throws -> [Instance?] {
    if let known = instances[id] as? [Instance?] { return known }
    let made = try rows().map { row in try? row.map(decode) }
    instances[id] = made
    return made
  }
}

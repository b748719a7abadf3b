/// A watcher, which examines the changes of commits and determines which of them concern an observation.
///
/// It is called by the task that delivers commits, and never by a thread that commits.
protocol RowWatcher: AnyObject, Sendable {
  /// Returns whether a commit may concern the observation, according to the names of collections and the keys of rows
  /// alone.
  func mayConcern(_ changes: ChangeSet) -> Bool
  /// Returns whether the writes to parts by a commit that changes no row may concern the observation.
  func mayConcern(_ parts: PartWrites.Noted) -> Bool
  /// Called instead if commits are not known: there were too many, or everything was cleared.
  func didMiss()
  /// Whether every commit wakes the observer, also one of another program that changes no row.
  var isWokenByAll: Bool { get }
  /// Returns the keys of the rows of one collection that concern the observation.
  func concerned(_ rows: ChangedRows) throws -> [[UInt8]]
}

extension RowWatcher {
  func mayConcern(_ parts: PartWrites.Noted) -> Bool { false }
  func didMiss() {}
  var isWokenByAll: Bool { false }
}

/// The current rows of one collection that a commit has changed. They are read once for all watchers.
///
/// It is used by one thread.
final class ChangedRows {
  let info: CollectionInfo
  let transaction: ReadTransaction
  /// The keys of the rows, without the collection's prefix.
  let keys: [[UInt8]]
  private var stored: [[UInt8]?]?
  /// The decoded instances: for each type an array of results.
  private var instances: [ObjectIdentifier: any Sendable] = [:]

  init(_ info: CollectionInfo, _ keys: [[UInt8]], _ transaction: ReadTransaction) {
    self.info = info
    self.keys = keys
    self.transaction = transaction
  }

  /// Returns the rows, with `nil` for each that was removed.
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

  /// Returns the results of `decode` for the rows, which are made once for all callers with the same `id`. The result
  /// for a row that was removed is `nil`, and so is that for one that `decode` leaves out.
  func instances<Instance: Sendable>(
    _ id: ObjectIdentifier, _ decode: (StoredRow) throws -> Instance?
  ) throws -> [Result<Instance?, any Error>] {
    if let known = instances[id] as? [Result<Instance?, any Error>] { return known }
    let made = try rows().map { row in Result { try row.flatMap(decode) } }
    instances[id] = made
    return made
  }
}

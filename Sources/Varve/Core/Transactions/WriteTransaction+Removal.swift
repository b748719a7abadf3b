/// Removing many rows at once.
extension WriteTransaction {
  /// How many rows extensions are told of at once.
  static let removalChunk = 1_000

  /// Removes the rows of a collection whose keys are in a range. Returns how many there were.
  @discardableResult
  public func remove<Key: KeyCodable>(
    in collection: String, _ range: some KeyBounds<Key>
  ) throws -> Int {
    guard let info = try info(collection) else { return 0 }
    let storage = try info.storageRange(range, limit: database.limits.keySize)
    // In chunks, of which none may stay where a later one throws.
    return try savepoint { try remove(storage, info) }
  }

  /// Removes all rows of a collection. Returns how many there were.
  ///
  /// Complexity: O(1), but for what this transaction itself wrote, where no extension hears of the collection; else
  /// O(n).
  @discardableResult
  public func removeAll(in collection: String) throws -> Int {
    guard let info = try info(collection) else { return 0 }
    try requireNoQuestion()
    let count = try count(info)
    // Where nothing is, nothing changes.
    if count == 0 { return 0 }
    if !registered.hearing(collection).isEmpty {
      // A hook may refuse a row when others are gone.
      return try savepoint {
        changes.noteCleared(info)
        return try removeAndTell(info)
      }
    }
    changes.noteCleared(info)
    try clear(info, count)
    return count
  }

  /// Removes all rows of all collections. Returns how many there were.
  @discardableResult
  public func removeAll() throws -> Int {
    try check()
    try requireNoQuestion()
    for registered in registered.ordered {
      let hearing = try open(registered)
      try asking { try hearing.willRemoveAll() }
    }
    // Counted before anything has changed: a count may throw.
    let counted = try infos().map { (info: $0, count: try count($0)) }.filter { $0.count > 0 }
    for (info, count) in counted { try clear(info, count) }
    let sum = counted.reduce(0) { $0 + $1.count }
    if sum > 0 { changes.noteEverythingRemoved(counted.map(\.info)) }
    if !registered.isEmpty { try tell(.removedAll) }
    return sum
  }

  /// Removes the rows of a range one by one, so that they can be counted and told of.
  func remove(_ range: StorageRange, _ info: CollectionInfo) throws -> Int {
    var cursor = cursor(range, in: info.objects, keysOnly: true)
    var sum = 0
    while true {
      let chunk = try Self.nextKeys(&cursor)
      if chunk.isEmpty { return sum }
      sum += try remove(chunk, info)
    }
  }

  /// Removes all rows of a collection chunk by chunk, and tells extensions. What they write into it meanwhile stays.
  private func removeAndTell(_ info: CollectionInfo) throws -> Int {
    var cursor = cursor(info.range, in: info.objects, keysOnly: true)
    var sum = 0
    while true {
      let chunk = try Self.nextKeys(&cursor)
      if chunk.isEmpty { return sum }
      let present = try chunk.compactMap { key in try header(key, info).map { (key, $0) } }
      try willRemove(present, info)
      for (key, header) in present {
        try pending.delete(key, in: info.objects)
        if header.hasMetadata { try pending.delete(key, in: info.metadata) }
        changes.noteCleared(key, info)
      }
      addRows(-present.count, to: info)
      try didRemove(present, info)
      sum += present.count
    }
  }

  private static func nextKeys(_ cursor: inout FamilyCursor) throws -> [[UInt8]] {
    var keys: [[UInt8]] = []
    while keys.count < removalChunk, let key = try cursor.nextKey() { keys.append(key) }
    return keys
  }

  private func clear(_ info: CollectionInfo, _ count: Int) throws {
    try pending.deleteRange(info.range, in: info.objects)
    try pending.deleteRange(info.range, in: info.metadata)
    addRows(-count, to: info)
    // Whoever commits beside this one and has added or removed a row conflicts with it.
    reads?.ranges.append((info.objects, info.range))
  }
}

/// Removing many rows at once.
extension WriteTransaction {
  /// The number of rows of which extensions are notified at once.
  static let removalChunk = 1_000

  /// Removes the rows of a collection whose keys are in a range. Returns their number.
  @discardableResult
  public func remove<Key: KeyCodable>(
    in collection: String, _ range: some KeyBounds<Key>
  ) throws -> Int {
    guard let info = try info(collection) else { return 0 }
    let storage = try info.storageRange(range, limit: database.limits.keySize)
    // The rows are removed in chunks, none of which may stay removed if a later one throws.
    return try savepoint { try remove(storage, info) }
  }

  /// Removes all rows of a collection. Returns their number.
  ///
  /// Complexity: O(1), except for what this transaction itself wrote, if each extension that receives removals of the
  /// collection can handle them as a whole (`ExtensionTransaction.removesAll`); otherwise O(n).
  @discardableResult
  public func removeAll(in collection: String) throws -> Int {
    guard let info = try info(collection) else { return 0 }
    try requireRowsWritable()
    let count = try count(info)
    // If the collection has no rows, nothing changes.
    if count == 0 { return 0 }
    guard let plan = plan(for: .removed, info) else {
      changes.noteCleared(info)
      try clear(info, count)
      return count
    }
    // A hook may refuse a row after others have been removed.
    return try savepoint {
      let answers = try askAll(in: collection, plan.removalListeners)
      changes.noteCleared(info)
      var sum = count
      if answers.oneByOne.isEmpty {
        try clear(info, count)
      } else {
        sum = try removeAndNotify(info, plan.limited(to: answers.oneByOne))
      }
      try notifyAll(in: collection, answers.whole)
      return sum
    }
  }

  /// Removes all rows of all collections. Returns their number.
  @discardableResult
  public func removeAll() throws -> Int {
    try check()
    try requireRowsWritable()
    // The rows are counted before anything has changed, because counting may throw.
    let counted = try infos().map { (info: $0, count: try count($0)) }.filter { $0.count > 0 }
    let sum = counted.reduce(0) { $0 + $1.count }
    if registered.isEmpty {
      for (info, count) in counted { try clear(info, count) }
      if sum > 0 { changes.noteEverythingRemoved(counted.map(\.info)) }
      return sum
    }
    return try savepoint {
      let listeners = registered.ordered.indices.filter {
        registered.ordered[$0].traits.configuration.events.contains(.removals)
      }
      let answers = try askAll(in: nil, listeners)
      if sum > 0 { changes.noteEverythingRemoved(counted.map(\.info)) }
      let planned = counted.map { ($0.info, $0.count, plan(for: $0.info).limited(to: answers.oneByOne)) }
      var sum = 0
      for (info, count, plan) in planned where !plan.events.contains(.removals) {
        try clear(info, count)
        sum += count
      }
      // Rows that hooks write meanwhile stay.
      for (info, _, plan) in planned where plan.events.contains(.removals) { sum += try removeAndNotify(info, plan) }
      try notifyAll(in: nil, answers.whole)
      return sum
    }
  }

  // MARK: - Removing all at once

  private typealias Started = (open: OpenExtension, parts: PartSet)

  /// Asks extensions whether they can handle the removal as a whole. They remove what they keep of the rows, and must
  /// not write rows.
  private func askAll(in collection: String?, _ slots: [Int]) throws -> (whole: [Started], oneByOne: Set<Int>) {
    var whole: [Started] = []
    var oneByOne: Set<Int> = []
    for slot in slots {
      guard let (open, parts) = try openStarted(slot) else { continue }
      // A part that is still to be built may have its old family, which is about to be dropped.
      try open.activate(parts)
      if try banningRows(.removesAll, { try open.listener?.removesAll(in: collection) ?? true }) {
        whole.append((open, parts))
      } else {
        oneByOne.insert(slot)
      }
    }
    return (whole, oneByOne)
  }

  private func notifyAll(in collection: String?, _ whole: [Started]) throws {
    if whole.isEmpty { return }
    if hooks.isRunning {
      for (open, parts) in whole { hooks.events.append(.all(open, parts, collection)) }
      return
    }
    try deliverThenDrain { for (open, parts) in whole { try removedAll(open, parts, collection) } }
  }

  /// Removes the rows of a range one by one, so that they can be counted and received by extensions.
  func remove(_ range: StorageRange, _ info: CollectionInfo) throws -> Int {
    try removeRun(range, info, { plan(for: .removed, info) })
  }

  /// Removes all rows of a collection chunk by chunk, and lets extensions receive each row. What they write to the
  /// collection meanwhile stays.
  private func removeAndNotify(_ info: CollectionInfo, _ plan: HookPlan) throws -> Int {
    try removeRun(info.range, info, { plan }, isCleared: true)
  }

  /// Removes the current rows of a range, chunk by chunk.
  private func removeRun(
    _ range: StorageRange, _ info: CollectionInfo, _ plan: () -> HookPlan?, isCleared: Bool = false
  ) throws -> Int {
    var cursor = cursor(range, in: info.objects, keysOnly: true)
    var sum = 0
    // Whether no other rows lie between those of a chunk, because hooks have written none.
    var isRun = true
    while true {
      let chunk = try Self.nextKeys(&cursor)
      if chunk.isEmpty { return sum }
      let (count, isQuiet) = try removeBatch(chunk, info, plan(), isCleared: isCleared, isRun: isRun)
      sum += count
      isRun = isRun && isQuiet
    }
  }

  private static func nextKeys(_ cursor: inout FamilyCursor) throws -> [[UInt8]] {
    var keys: [[UInt8]] = []
    while keys.count < removalChunk, let key = try cursor.nextKey() { keys.append(key) }
    return keys
  }

  // MARK: - Batches

  /// Removes those of the rows that exist, and returns their number.
  func remove(_ keys: [[UInt8]], _ info: CollectionInfo) throws -> Int {
    try requireRowsWritable()
    let plan = plan(for: .removed, info)
    if keys.count == 1 { return try removeBatch(keys, info, plan).count }
    let different = Self.sorted(keys)
    if plan == nil || different.count <= Self.removalChunk { return try removeBatch(different, info, plan).count }
    // The rows are removed in batches, none of which may stay removed if a later one throws.
    return try savepoint {
      var sum = 0
      for begin in stride(from: 0, to: different.count, by: Self.removalChunk) {
        let end = min(begin + Self.removalChunk, different.count)
        sum += try removeBatch(Array(different[begin..<end]), info, plan).count
      }
      return sum
    }
  }

  /// Returns the keys in ascending order without duplicates, so that adjacent keys share reads and writes of the
  /// storage.
  private static func sorted(_ keys: [[UInt8]]) -> [[UInt8]] {
    var sorted: [[UInt8]] = []
    sorted.reserveCapacity(keys.count)
    for key in keys.sorted(by: ByteOrder.precedes) where sorted.last.map({ ByteOrder.areEqual($0, key) }) != true {
      sorted.append(key)
    }
    return sorted
  }

  /// Removes rows, given in the order of their keys.
  ///
  /// Extensions are asked for all of them, and then receive each; the immediate ones receive them before all others.
  /// With `isCleared` the change set only contains the clearing of the whole collection; with `isRun` the collection
  /// has no other rows between the first and the last. Returns the number of removed rows, and whether hooks changed no
  /// row meanwhile.
  private func removeBatch(
    _ keys: [[UInt8]], _ info: CollectionInfo, _ plan: HookPlan?, isCleared: Bool = false, isRun: Bool = false
  ) throws -> (count: Int, isQuiet: Bool) {
    let nearby = try NearbyRows(keys, info, self)
    var removed: [(key: [UInt8], row: PresentRow)] = []
    removed.reserveCapacity(keys.count)
    for (key, row) in zip(keys, try nearby?.rows ?? present(keys, info)) { if let row { removed.append((key, row)) } }
    if removed.isEmpty { return (0, true) }
    try requireRowsWritable()
    var facts: [ChangeFacts] = []
    if let plan {
      facts.reserveCapacity(removed.count)
      for (index, (key, row)) in removed.enumerated() {
        facts.append(try removalFacts(key, row, info, index, plan, isAlone: removed.count == 1))
      }
      for facts in facts { try ask(facts, plan) }
    }
    if isRun, removed.count >= Self.rangeMinimum {
      try deleteRun(from: removed[0].key, through: removed[removed.count - 1].key, in: info.objects)
      if removed.contains(where: { $0.row.header.hasMetadata }) {
        try deleteRun(from: removed[0].key, through: removed[removed.count - 1].key, in: info.metadata)
      }
    } else {
      try delete(removed, nearby?.runs ?? [], info)
    }
    for (key, row) in removed {
      noteReplaced(row, key, info)
      if isCleared { changes.noteCleared(key, info) } else { changes.note(.removed, key, info) }
    }
    addRows(-removed.count, to: info)
    guard let plan else { return (removed.count, true) }
    let before = changes.changeCount
    for facts in facts { try notifyImmediate(facts, plan) }
    for facts in facts { try notifyLater(facts, plan) }
    return (removed.count, changes.changeCount == before)
  }

  /// Deletes rows, and those of long runs by range deletions. `runs` contains the ends of the runs; if it is empty, the
  /// rows are deleted one by one.
  private func delete(_ removed: [(key: [UInt8], row: PresentRow)], _ runs: [Int], _ info: CollectionInfo) throws {
    var begin = 0
    for end in runs.isEmpty ? [removed.count] : runs {
      defer { begin = end }
      let isRange = !runs.isEmpty && end - begin >= Self.rangeMinimum
      if isRange { try deleteRun(from: removed[begin].key, through: removed[end - 1].key, in: info.objects) }
      for (key, row) in removed[begin..<end] where !isRange || row.header.hasMetadata {
        if !isRange { try pending.delete(key, in: info.objects) }
        if row.header.hasMetadata { try pending.delete(key, in: info.metadata) }
      }
    }
  }

  /// The number of keys from which on one range deletion costs less than a deletion of each key.
  private static let rangeMinimum = 64

  /// Deletes two keys and all keys between them. The range ends before the last key, because a key after it may exceed
  /// the maximum size.
  private func deleteRun(from first: [UInt8], through last: [UInt8], in family: StorageFamily) throws {
    try pending.deleteRange(StorageRange(lower: first, upper: last), in: family)
    try pending.delete(last, in: family)
  }

  private func removalFacts(
    _ key: [UInt8], _ row: PresentRow, _ info: CollectionInfo, _ index: Int, _ plan: HookPlan, isAlone: Bool
  ) throws -> ChangeFacts {
    if isAlone { return try self.facts(.removed, key, info, id: row.header.id, bytes: [], nil, old: row, plan) }
    let facts = ChangeFacts(info)
    let needsMetadata = row.header.hasMetadata && plan.oldEvents.contains(.removals)
    facts.set(
      .removed, key, info, id: row.header.id, number: changes.changeCount &+ UInt64(index), bytes: [], nil, old: row,
      oldMetadata: needsMetadata ? try ownMetadata(key, info) : nil, wasChanged: hasChanged(key, info))
    return facts
  }

  private func clear(_ info: CollectionInfo, _ count: Int) throws {
    try pending.deleteRange(info.range, in: info.objects)
    try pending.deleteRange(info.range, in: info.metadata)
    addRows(-count, to: info)
    // A concurrent transaction that adds or removes a row conflicts with this one.
    reads?.ranges.append((info.objects, info.range))
  }
}

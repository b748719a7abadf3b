import EngineTestSupport
import VarveTestSupport

@testable import Varve

/// Reads of a transaction, compared with the model.
extension ObjectRun {
  typealias Expected = (pool: KeyPool, index: Int, row: ModelRow)

  func read(_ kind: ModelStep, _ tx: ReadTransaction, of state: ModelState? = nil) throws {
    let state = state ?? self.state
    let pool = drawPool()
    let index = random.below(pool.count)
    let row = state[pool.name][index]
    note(kind, "\(pool.name) \(index)")
    switch kind {
    case .contains: try expect(try pool.contains(index, tx), row != nil)
    case .row: try check(try pool.row(index, tx), row)
    case .object: try expect(try pool.object(index, tx), row?.object)
    case .metadata: try expect(try pool.note(index, tx), row?.note)
    case .rowsOfKeys:
      let indexes = (0..<random.below(12)).map { _ in random.below(pool.count) }
      for (found, index) in zip(try pool.rows(indexes, tx), indexes) { try check(found, state[pool.name][index]) }
    case .count:
      try expect(try tx.count(in: pool.name), state[pool.name].count)
      try expect(try tx.count(), state.count)
    case .names:
      try expect(try tx.collections(), state.collections.keys.sorted())
      let descending = random.oneIn(2)
      let places = state[pool.name].keys.sorted()
      try expect(try pool.places(tx, descending: descending), descending ? places.reversed() : places)
    case .holdCursor: if walks.count < 4 { hold(try beginWalk(tx, of: state)) }
    case .moveCursor:
      if walks.isEmpty { hold(try beginWalk(tx, of: state)) }
      try move(&walks[random.below(walks.count)], by: 1 + random.below(20))
    case .walkPrefix:
      try finish(try beginPrefixWalk(tx, of: state))
    case .walkEverything: try finish(try beginWalkOfEverything(tx, of: state))
    case .walkRange: try finish(try beginRangeWalk(tx, of: state))
    default: try finish(try beginCollectionWalk(pool, tx, of: state))
    }
  }

  func check(_ found: Row?, _ expected: ModelRow?) throws {
    guard let found, let expected else {
      if (found == nil) != (expected == nil) { throw ContractBroken("row \(found?.id as Any), not \(expected as Any)") }
      return
    }
    try expect(found.id.number, expected.id, "the id of \(found.key)")
    try expect(found.hasMetadata, expected.note != nil, "whether \(found.key) has metadata")
    try expect(try found.metadata(as: ModelNote.self), expected.note, "the metadata of \(found.key)")
    try expect(try found.object(as: ModelObject.self), expected.object, "the object of \(found.key)")
  }

  // MARK: - Iteration

  private func rows(
    _ pool: KeyPool, _ state: ModelState, descending: Bool, where isMeant: (Int) -> Bool = { _ in true }
  )
    -> [Expected]
  {
    let rows = state[pool.name].filter { isMeant($0.key) }.sorted { $0.key < $1.key }
    return (descending ? rows.reversed() : rows).map { (pool, $0.key, $0.value) }
  }

  func beginWalk(_ tx: ReadTransaction, of state: ModelState) throws -> HeldWalk {
    switch random.below(4) {
    case 0: try beginPrefixWalk(tx, of: state)
    case 1: try beginWalkOfEverything(tx, of: state)
    case 2: try beginRangeWalk(tx, of: state)
    default: try beginCollectionWalk(drawPool(), tx, of: state)
    }
  }

  private func beginCollectionWalk(_ pool: KeyPool, _ tx: ReadTransaction, of state: ModelState) throws -> HeldWalk {
    let descending = random.oneIn(2)
    return HeldWalk(
      cursor: try tx.rows(in: pool.name, descending: descending), rest: rows(pool, state, descending: descending))
  }

  private func beginPrefixWalk(_ tx: ReadTransaction, of state: ModelState) throws -> HeldWalk {
    let pool = pools.strings[random.below(pools.strings.count)]
    let descending = random.oneIn(2)
    let prefix = ["", "a", "a\0", "e", "é", "e\u{301}", "z", "日", "none", "é\0"][random.below(10)]
    return HeldWalk(
      cursor: try pool.rows(prefix: prefix, descending: descending, tx),
      rest: rows(pool, state, descending: descending) { pool.begins($0, with: prefix) })
  }

  private func beginRangeWalk(_ tx: ReadTransaction, of state: ModelState) throws -> HeldWalk {
    let drawn = drawPool()
    let pool = drawn.hasRanges ? drawn : pools.strings[0]
    let descending = random.oneIn(2)
    let range = pool.drawRange(&random)
    guard let cursor = try pool.rows(range, descending: descending, tx) else {
      throw ContractBroken("\(pool.name) has no ranges")
    }
    return HeldWalk(cursor: cursor, rest: rows(pool, state, descending: descending) { range.contains($0) })
  }

  private func beginWalkOfEverything(_ tx: ReadTransaction, of state: ModelState) throws -> HeldWalk {
    let rest = pools.all.sorted { $0.name < $1.name }.flatMap { rows($0, state, descending: false) }
    return HeldWalk(cursor: try tx.rows(), rest: rest)
  }

  /// Advances an open cursor and its expected rest, which must end together.
  func move(_ walk: inout HeldWalk, by count: Int) throws {
    for _ in 0..<count {
      let found = try walk.cursor.next()
      let expected = walk.rest.isEmpty ? nil : walk.rest.removeFirst()
      if let found, let expected {
        try expect(found.key.collection, expected.pool.name, "the collection of a walk")
        try expect(try expected.pool.place(of: found.key), expected.index, "the place of \(found.key)")
      }
      try check(found, expected?.row)
      if expected == nil { return }
    }
  }

  private func hold(_ walk: HeldWalk) {
    walks.append(walk)
    walks[walks.count - 1].depth = depth
  }

  /// Finishes a cursor made inside undone work: it has ended, except for rows that it has in memory.
  func finishUndone(_ walk: HeldWalk) throws {
    do { try finish(walk) } catch let error as DatabaseError where error.code == .cursorEnded {}
  }

  private func finish(_ walk: HeldWalk) throws {
    var walk = walk
    // After the last row there is none, however often it is asked for.
    try move(&walk, by: walk.rest.count + 1)
    try move(&walk, by: 1)
  }

  func drainWalks() throws {
    for walk in walks where random.oneIn(2) { try finish(walk) }
  }

  // MARK: - Everything

  /// Compares everything with the model, through the public API.
  func compare() throws {
    try database.read { tx in try compare(tx) }
  }

  func compare(_ tx: ReadTransaction, of state: ModelState? = nil) throws {
    let state = state ?? self.state
    try expect(try tx.count(), state.count, "the count of all")
    try expect(try tx.collections(), state.collections.keys.sorted(), "the collections")
    for pool in pools.all {
      try expect(try tx.count(in: pool.name), state[pool.name].count, "the count of \(pool.name)")
      let descending = random.oneIn(2)
      let cursor = try tx.rows(in: pool.name, descending: descending)
      try finish(HeldWalk(cursor: cursor, rest: rows(pool, state, descending: descending)))
    }
  }

  // MARK: - The change set

  /// Compares a transaction's change set with the changes that the model recorded.
  func checkChanges(_ tx: WriteTransaction) throws {
    guard let found = try ChangeSet.of(tx) else { return }
    try expect(tx.changes.isEmpty, changes.isEmpty, "whether anything changed")
    try expect(found.isEverythingCleared, changes.isEverythingCleared, "whether all was cleared")
    try expect(found.changedCollections, changes.collections.sorted(), "the changed collections")
    try expect(found.clearedCollections, changes.cleared.sorted(), "the cleared collections")
    for pool in pools.all {
      let rows = changes.rows[pool.name] ?? [:]
      let isCleared = changes.isCleared(pool.name)
      func keys(_ isMeant: (ModelChanges.Row) -> Bool) -> [Int] { rows.filter { isMeant($0.value) }.keys.sorted() }
      func places(_ keys: [RowKey]) throws -> [Int] { try keys.compactMap { try pool.place(of: $0) } }
      let name = pool.name
      try expect(try places(found.insertedKeys(in: name)), keys { $0.isInserted }, "inserted in \(name)")
      try expect(try places(found.removedKeys(in: name)), keys { $0.isRemoved }, "removed in \(name)")
      try expect(try places(found.changedKeys(in: name)), keys { !$0.isRemoved }, "changed in \(name)")
      try expect(found.hasChange(in: name), isCleared || changes.rows[name] != nil, "changes in \(name)")
      try expect(found.isCleared(name), isCleared, "whether \(name) was cleared")
      try expect(
        found.hasObjectChange(in: name), isCleared || rows.values.contains { $0.concernsObject }, "objects in \(name)")
      try expect(
        found.hasMetadataChange(in: name), isCleared || rows.values.contains { $0.concernsMetadata },
        "metadata in \(name)")
      let index = random.below(pool.count)
      let row = rows[index]
      if let said = try pool.hasChange(index, in: found) {
        try expect(said.any, isCleared || row != nil, "\(name) \(index)")
        try expect(said.object, isCleared || row?.concernsObject == true, "the object of \(name) \(index)")
        try expect(said.metadata, isCleared || row?.concernsMetadata == true, "the metadata of \(name) \(index)")
      }
    }
    try expect(found.allKeys.count, changes.rows.values.reduce(0) { $0 + $1.count }, "all keys")
  }
}

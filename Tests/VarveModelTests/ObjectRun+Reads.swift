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
      let locations = state[pool.name].keys.sorted()
      try expect(try pool.locations(tx, descending: descending), descending ? locations.reversed() : locations)
    case .holdCursor: if scans.count < 4 { hold(try beginScan(tx, of: state)) }
    case .moveCursor:
      if scans.isEmpty { hold(try beginScan(tx, of: state)) }
      try move(&scans[random.below(scans.count)], by: 1 + random.below(20))
    case .scanPrefix:
      try finish(try beginPrefixScan(tx, of: state))
    case .scanEverything: try finish(try beginScanOfEverything(tx, of: state))
    case .scanRange: try finish(try beginRangeScan(tx, of: state))
    default: try finish(try beginCollectionScan(pool, tx, of: state))
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

  func beginScan(_ tx: ReadTransaction, of state: ModelState) throws -> HeldScan {
    switch random.below(4) {
    case 0: try beginPrefixScan(tx, of: state)
    case 1: try beginScanOfEverything(tx, of: state)
    case 2: try beginRangeScan(tx, of: state)
    default: try beginCollectionScan(drawPool(), tx, of: state)
    }
  }

  private func beginCollectionScan(_ pool: KeyPool, _ tx: ReadTransaction, of state: ModelState) throws -> HeldScan {
    let descending = random.oneIn(2)
    return HeldScan(
      cursor: try tx.rows(in: pool.name, descending: descending), rest: rows(pool, state, descending: descending))
  }

  private func beginPrefixScan(_ tx: ReadTransaction, of state: ModelState) throws -> HeldScan {
    let pool = pools.strings[random.below(pools.strings.count)]
    let descending = random.oneIn(2)
    let prefix = ["", "a", "a\0", "e", "é", "e\u{301}", "z", "日", "none", "é\0"][random.below(10)]
    return HeldScan(
      cursor: try pool.rows(prefix: prefix, descending: descending, tx),
      rest: rows(pool, state, descending: descending) { pool.begins($0, with: prefix) })
  }

  private func beginRangeScan(_ tx: ReadTransaction, of state: ModelState) throws -> HeldScan {
    let drawn = drawPool()
    let pool = drawn.hasRanges ? drawn : pools.strings[0]
    let descending = random.oneIn(2)
    let range = pool.drawRange(&random)
    guard let cursor = try pool.rows(range, descending: descending, tx) else {
      throw ContractBroken("\(pool.name) has no ranges")
    }
    return HeldScan(cursor: cursor, rest: rows(pool, state, descending: descending) { range.contains($0) })
  }

  private func beginScanOfEverything(_ tx: ReadTransaction, of state: ModelState) throws -> HeldScan {
    let rest = pools.all.sorted { $0.name < $1.name }.flatMap { rows($0, state, descending: false) }
    return HeldScan(cursor: try tx.rows(), rest: rest)
  }

  /// Advances an open cursor and its expected rows, which must end together.
  func move(_ scan: inout HeldScan, by count: Int) throws {
    for _ in 0..<count {
      let found = try scan.cursor.next()
      let expected = scan.rest.isEmpty ? nil : scan.rest.removeFirst()
      if let found, let expected {
        try expect(found.key.collection, expected.pool.name, "the collection of a scan")
        try expect(try expected.pool.location(of: found.key), expected.index, "the location of \(found.key)")
      }
      try check(found, expected?.row)
      if expected == nil { return }
    }
  }

  private func hold(_ scan: HeldScan) {
    scans.append(scan)
    scans[scans.count - 1].depth = depth
  }

  /// Finishes a cursor that was made inside undone work: it has ended, except for rows that it has in memory.
  func finishUndone(_ scan: HeldScan) throws {
    do { try finish(scan) } catch let error as DatabaseError where error.code == .cursorEnded {}
  }

  private func finish(_ scan: HeldScan) throws {
    var scan = scan
    // After the last row, the cursor stays at its end however often it is advanced.
    try move(&scan, by: scan.rest.count + 1)
    try move(&scan, by: 1)
  }

  func drainScans() throws {
    for scan in scans where random.oneIn(2) { try finish(scan) }
  }

  // MARK: - Everything

  /// Compares all content with the model, through the public API.
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
      try finish(HeldScan(cursor: cursor, rest: rows(pool, state, descending: descending)))
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
      func locations(_ keys: [RowKey]) throws -> [Int] { try keys.compactMap { try pool.location(of: $0) } }
      let name = pool.name
      try expect(try locations(found.insertedKeys(in: name)), keys { $0.isInserted }, "inserted in \(name)")
      try expect(try locations(found.removedKeys(in: name)), keys { $0.isRemoved }, "removed in \(name)")
      try expect(try locations(found.changedKeys(in: name)), keys { !$0.isRemoved }, "changed in \(name)")
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

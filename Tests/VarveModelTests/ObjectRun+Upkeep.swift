import EngineTestSupport
import VarveEngine
import VarveTestSupport

@testable import Varve

/// The steps between transactions.
extension ObjectRun {
  // MARK: - Reads that stay open

  func pinSnapshot() throws {
    if pinned.count == 3 {
      let pin = pinned.remove(at: random.below(3))
      pin.scan = nil
      pin.reader.end()
    }
    note(.pinSnapshot)
    pinned.append(Pinned(try PinnedReader(try database), state))
  }

  /// Reads a snapshot that later commits have superseded.
  func readPinned() throws {
    if pinned.isEmpty { try pinSnapshot() }
    let pin = pinned[random.below(pinned.count)]
    note(.readPinned)
    do {
      try pin.reader.run { [self] tx in
        switch random.below(8) {
        case 0: try compare(tx, of: pin.state)
        case 1:
          let code = Contract.code { try database.write { _ in } }
          try expect(code, .writeInsideRead)
        case 2, 3:
          if pin.scan == nil { pin.scan = try beginScan(tx, of: pin.state) }
          if var scan = pin.scan {
            try move(&scan, by: 1 + random.below(30))
            pin.scan = scan
          }
        default:
          // Open cursors belong to writes.
          let kind = ModelStep.inReads(&random)
          try read(kind == .holdCursor || kind == .moveCursor ? .scan : kind, tx, of: pin.state)
        }
      }
    } catch let error as DatabaseError where isFaulty && error.code == .snapshotTooOld {
      faultCount += 1
      endPinned()
    }
  }

  // MARK: - Reads in another process

  /// Compares all rows that a follower sees with the committed ones. Another suite tests faults.
  func follow() throws {
    if isFaulty { return }
    note(.follow)
    let follower = try self.follower ?? openFollower()
    self.follower = follower
    try follower.read { tx in try compare(tx) }
    if random.oneIn(4) { try endFollower() }
  }

  private func openFollower() throws -> Database {
    var options = DatabaseOptions()
    options.follows = true
    return try Database.open(try site.follow(), path: "model", definition: try KeyPools.definition(), options: options)
  }

  // MARK: - Closing, reopening, abandoning

  /// Drops a collection; the next one with its name is another collection. Open reads still see the former one.
  func dropCollection() throws {
    let pool = pools.all[random.below(pools.all.count)]
    note(.dropCollection, pool.name)
    let wasMade = try isMade(pool.name)
    let before = state
    state[pool.name] = [:]
    do {
      let isDropped = try database.dropCollection(pool.name)
      guard isDropped == wasMade, try !isMade(pool.name) else {
        throw ContractBroken("\(pool.name) was \(wasMade ? "" : "not ")there, and \(isDropped ? "" : "not ")dropped")
      }
      if state != before { lastingIDs = ids }
    } catch let error as DatabaseError where isFaulty {
      try settle(error, before: before, after: state)
    }
  }

  func upkeep() throws {
    note(.upkeep)
    if !isFaulty, random.oneIn(4) { return try renameThereAndBack() }
    guard let engine = (backend as? EngineBackend)?.engine else { return }
    switch random.below(3) {
    case 0: try engine.flush()
    case 1: try engine.compact()
    default: try engine.sync()
    }
  }

  /// Renames a collection without a definition, and then renames it back. Open reads see it by its former name all the
  /// time, and extensions that store its name are rebuilt.
  private func renameThereAndBack() throws {
    let pool = pools.all[random.below(pools.all.count)]
    guard !KeyPools.own.contains(pool.name), try isMade(pool.name) else { return }
    try database.renameCollection(pool.name, to: "renamed")
    try database.read { tx in
      let counts = (try tx.count(in: "renamed"), try tx.count(in: pool.name), try tx.count())
      guard counts == (state[pool.name].count, 0, state.count) else {
        throw ContractBroken("\(pool.name) has \(counts) rows by its new name, by the former, and with all others")
      }
      guard try tx.collections().contains(pool.name) == false else {
        throw ContractBroken("\(pool.name) is listed by its former name")
      }
    }
    for pin in pinned where random.oneIn(2) { try pin.reader.run { [self] tx in try compare(tx, of: pin.state) } }
    try database.renameCollection("renamed", to: pool.name)
    if let tally = extensions.tally { try database.waitUntilReady(tally) }
  }

  func reopen() throws {
    note(.reopen)
    if !pinned.isEmpty {
      let code = Contract.code { try database.close() }
      guard code == .writerBusy else { throw ContractBroken("closed while a read runs: \(code as Any)") }
    }
    let closed = try database
    try closeAll()
    let code = Contract.code { try closed.read { _ in } }
    guard code == .closed else { throw ContractBroken("a read of a closed database: \(code as Any)") }
    try open()
  }

  /// Leaves the database in the state after the death of its process, or continues in a copy made while it was open.
  func abandon() throws {
    note(.abandon)
    if random.oneIn(2) {
      let path = site.makePath()
      try database.backup(to: path)
      let copy = try site.checkpoint(at: path)
      let left = try leave()
      try left.close()
      site = copy
    } else {
      let left = try leave()
      try site.abandon()
      if kind == .toy { ids = lastingIDs }
      // A process that really dies has no threads left; here the test has to end them.
      try left.close()
    }
    try open()
    try compare()
  }

  // MARK: - Faults

  /// Handles a write with unknown outcome: after reopening, the database has all of it, or none of it.
  func settle(_ error: DatabaseError, before: ModelState, after: ModelState) throws {
    faultCount += 1
    state = before
    guard error.code == .outcomeUnknown else { return try recover(from: error) }
    unknownOutcomes += 1
    try openAfterFault()
    let found = try content()
    guard found == before || found == after else {
      throw ContractBroken("after \(error) the database has neither what was before nor what is after")
    }
    state = found
  }

  /// Handles an error that a fault may cause: the content must not have changed.
  func recover(from error: DatabaseError) throws {
    faultCount += 1
    let expected: Set<DatabaseError.Code> = [.snapshotTooOld, .outcomeUnknown, .conflict]
    guard expected.contains(error.code) else { throw error }
    scans = []
    if error.code == .outcomeUnknown { try openAfterFault() }
  }

  func openAfterFault() throws {
    do {
      // A commit that cannot be made durable is detected here at the latest, or at the close before.
      if isOpen { try leave().close() } else { ids = lastingIDs }
    } catch let error as DatabaseError where error.code == .outcomeUnknown {
      ids = lastingIDs
    }
    try open()
  }

  /// Returns all rows in the form of the model.
  private func content() throws -> ModelState {
    let faults = (backend as? ToyBackend)?.faults
    (backend as? ToyBackend)?.faults = ToyFaults()
    defer { if let faults { (backend as? ToyBackend)?.faults = faults } }
    return try database.read { tx in
      var content = ModelState()
      for pool in pools.all {
        var cursor = try tx.rows(in: pool.name)
        while let row = try cursor.next() {
          guard let location = try pool.location(of: row.key) else { throw ContractBroken("an unknown key \(row.key)") }
          content[pool.name][location] = ModelRow(
            object: try row.object(), note: try row.metadata(), id: row.id.number)
        }
      }
      return content
    }
  }
}

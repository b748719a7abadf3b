import EngineTestSupport
import Testing
import VarveTestSupport

@testable import Varve

/// A run of the model suite: a database over a storage, its model, and steps drawn from a seed.
final class ObjectRun {
  /// An error that a closure throws in order to be undone.
  struct Stop: Error {}

  /// A cursor that stays open during writes, and the rows that it must return.
  struct HeldScan {
    var cursor: RowCursor
    var rest: [(pool: KeyPool, index: Int, row: ModelRow)]
    /// The depth of the nested writes in which the cursor was made.
    var depth = 0
  }

  /// A read that stays open, and the state that it must see.
  final class Pinned {
    let reader: PinnedReader
    let state: ModelState
    var scan: HeldScan?
    init(_ reader: PinnedReader, _ state: ModelState) {
      self.reader = reader
      self.state = state
    }
  }

  let kind: StorageKind
  let pools: KeyPools
  let isFaulty: Bool
  var random: SeededRandom
  var site: StorageSite
  private var opened: Database?
  private var openedBackend: (any StorageBackend)?
  /// The state that the current transaction sees, or the committed one if there is none.
  var state = ModelState()
  /// The changes of the current transaction.
  var changes = ModelChanges()
  /// The identifiers that were ever assigned, including those of undone transactions.
  var ids: Set<UInt64> = []
  /// The identifiers that were assigned before the last acknowledged commit.
  ///
  /// A restart of the toy storage, which loses commits that no caller waited for, must not forget these.
  var lastingIDs: Set<UInt64> = []
  var scans: [HeldScan] = []
  /// The current depth of nested writes.
  var depth = 0
  var pinned: [Pinned] = []
  /// A reader as in another process, which continues over reopenings of the database.
  var follower: Database?
  var counts = StepCounts<ModelStep>()
  private(set) var trace: [String] = []
  var unknownOutcomes = 0
  var extensions: Extensions
  var faultCount = 0
  private var label = 0
  /// The number of times that the database was opened.
  private var starts = 0

  init(_ kind: StorageKind, seed: UInt64, faults: ToyFaults? = nil) throws {
    self.kind = kind
    isFaulty = faults != nil
    random = SeededRandom(seed: seed)
    pools = KeyPools(seed: seed)
    extensions = Extensions(random: SeededRandom(seed: seed ^ 0x5EED))
    site = try StorageSite(kind)
    if let faults { site.faults = faults }
  }

  var database: Database {
    get throws {
      guard let opened else { throw ContractBroken("the run has no database: call open first") }
      return opened
    }
  }

  var backend: (any StorageBackend)? { openedBackend }
  var isOpen: Bool { opened != nil }

  /// Returns whether a collection was ever created, including by an undone transaction.
  func isMade(_ collection: String) throws -> Bool { try database.core.catalog.collection(collection) != nil }

  func note(_ kind: ModelStep, _ detail: String = "") {
    counts[kind] += 1
    trace.append(detail.isEmpty ? "\(kind)" : "\(kind) \(detail)")
    if trace.count > 64 { trace.removeFirst(32) }
  }

  // MARK: - The run

  func run(stepCount: Int) throws {
    try open()
    while counts.total < stepCount {
      do {
        try step()
      } catch let error as DatabaseError where isFaulty {
        try recover(from: error)
      }
    }
    (backend as? ToyBackend)?.faults = ToyFaults()
    try compare()
    do { try closeAll() } catch let error as DatabaseError where isFaulty && error.code == .outcomeUnknown {
      // A commit that no caller waits for, one of the catalog's, could not be made durable: the next opening still
      // finds everything that was acknowledged.
      faultCount += 1
    }
    try open()
    (backend as? ToyBackend)?.faults = ToyFaults()
    try compare()
    try endFollower()
    try closeAll()
  }

  private func step() throws {
    let kind = ModelStep.around(&random)
    switch kind {
    case .commit, .throwOut, .rollback: try transaction(kind)
    case .pinSnapshot: try pinSnapshot()
    case .readPinned: try readPinned()
    case .concurrent: try writeSideBySide()
    case .dropCollection: try dropCollection()
    case .upkeep: try upkeep()
    case .reopen: try reopen()
    case .follow: try follow()
    default: try abandon()
    }
    if random.oneIn(6) { try compare() }
    try stepExtensions()
  }

  func open() throws {
    let backend = try site.open()
    // Only late tickets and delays are used: this suite does not test the effects of other faults on opening.
    let faults = (backend as? ToyBackend)?.faults
    if let faults, let toy = backend as? ToyBackend {
      toy.faults = ToyFaults()
      toy.faults.lateOneIn = faults.lateOneIn
    }
    openedBackend = backend
    opened = try Database.open(backend, path: "model", definition: try KeyPools.definition(start: starts))
    starts += 1
    if let faults { (backend as? ToyBackend)?.faults = faults }
    try registerExtensions()
  }

  func closeAll() throws {
    endPinned()
    let database = try database
    opened = nil
    openedBackend = nil
    try database.close()
    try database.close()
  }

  /// Returns the database, which the caller closes once the next one is open.
  func leave() throws -> Database {
    endPinned()
    try endFollower()
    let database = try database
    opened = nil
    openedBackend = nil
    return database
  }

  func endPinned() {
    for pin in pinned {
      pin.scan = nil
      pin.reader.end()
    }
    pinned = []
  }

  func endFollower() throws {
    try follower?.close()
    follower = nil
  }

  // MARK: - Transactions

  /// Runs one write transaction, which ends as `ending` specifies.
  func transaction(_ ending: ModelStep) throws {
    note(ending)
    label += 1
    let before = state
    changes = ModelChanges()
    do {
      let isConcurrent = random.oneIn(5)
      let body: (WriteTransaction) throws -> Void = { [self] tx in
        // A concurrent write may be run again, so the model is reset here.
        state = before
        changes = ModelChanges()
        scans = []
        try steps(in: tx, depth: 0)
        try checkChanges(tx)
        if ending == .rollback { try tx.rollBack() }
        if ending == .throwOut { throw Stop() }
        try drainScans()
      }
      if isConcurrent {
        try database.writeConcurrently(label: "\(label)", body)
      } else {
        try database.write(label: "\(label)", durability: random.oneIn(10) ? .power : nil, body)
      }
      if ending == .throwOut { throw ContractBroken("a closure threw, and its write did not") }
      if ending == .rollback { throw ContractBroken("a closure was rolled back, and its write did not throw") }
      if !changes.isEmpty { lastingIDs = ids }
    } catch is Stop {
      state = before
    } catch let error as DatabaseError where error.code == .rolledBack && ending == .rollback {
      state = before
    } catch let error as DatabaseError where isFaulty {
      try settle(error, before: before, after: state)
    }
    try checkEnded()
    scans = []
    changes = ModelChanges()
  }

  /// Makes the steps of a transaction or a savepoint.
  private func steps(in tx: WriteTransaction, depth: Int) throws {
    for _ in 0..<(1 + random.below(depth == 0 ? 14 : 7)) {
      let kind = ModelStep.inWrites(&random)
      switch kind {
      case .nestedKept, .nestedThrown:
        // Nested writes are at most four deep: further ones become reads.
        if depth < 4 { try nest(kind, tx, depth) } else { try read(.contains, tx) }
      case .refusal: try refuse(tx)
      case _ where kind.rawValue >= ModelStep.contains.rawValue: try read(kind, tx)
      default: try write(kind, tx)
      }
    }
    if random.oneIn(10) { try compare(tx) }
    try mayCheckExtensions(tx)
  }

  private func nest(_ kind: ModelStep, _ tx: WriteTransaction, _ depth: Int) throws {
    note(kind, "at depth \(depth)")
    let (savedState, savedChanges) = (state, changes)
    self.depth = depth + 1
    defer { self.depth = depth }
    do {
      let isSavepoint = random.oneIn(3)
      let body: () throws -> Void = { [self] in
        try steps(in: tx, depth: depth + 1)
        if kind == .nestedThrown { throw Stop() }
      }
      if isSavepoint { try tx.savepoint(body) } else { try database.write { _ in try body() } }
      if kind == .nestedThrown { throw ContractBroken("a nested closure threw, and its write did not") }
      for index in scans.indices { scans[index].depth = min(scans[index].depth, depth) }
    } catch is Stop {
      (state, changes) = (savedState, savedChanges)
      for scan in scans where scan.depth > depth { try finishUndone(scan) }
      scans.removeAll { $0.depth > depth }
    }
    if random.oneIn(3) { try compare(tx) }
  }

  /// Checks that a cursor ends with its transaction.
  private func checkEnded() throws {
    guard var scan = scans.first else { return }
    let code = Contract.code { _ = try scan.cursor.next() }
    guard code == .transactionEnded else { throw ContractBroken("a scan after its transaction: \(code as Any)") }
  }
}

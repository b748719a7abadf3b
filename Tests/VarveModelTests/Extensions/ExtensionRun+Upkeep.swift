import EngineTestSupport
import Synchronization
import VarveTestSupport

@testable import Varve

/// Steps for definitions, programs and readers, outside of transactions.
extension ExtensionRun {
  // MARK: - Definitions

  /// Replaces the definition within the transaction.
  func replaceInside(_ tx: WriteTransaction) throws {
    guard registered.contains(.deriving), pendingVersion == nil else { return }
    lastVersion += 1
    note(.replaceInside, lastVersion)
    try tx.replaceDefinition(of: Self.deriving, by: ModelDeriving(version: lastVersion))
    state.version = lastVersion
    (hasReplaced, hasWritten) = (true, true)
    if !keepsUp {
      let code = Contract.code { _ = try tx[Self.dependent] }
      try expect(code, .notReady, "a dependent that must be built again")
    }
  }

  /// Starts to build another definition next to the one in force.
  func replaceBeside() throws {
    guard registered.contains(.deriving) else { return }
    try settle()
    let database = try database
    lastVersion += 1
    note(.replaceBeside, lastVersion)
    database.core.extensions.rowsInTransaction.store(0, ordering: .relaxed)
    defer { database.core.extensions.rowsInTransaction.store(10_000, ordering: .relaxed) }
    let hasRows = committed.rows.contains { $0 != nil }
    try database.write { tx in
      try tx.replaceDefinition(of: Self.deriving, by: ModelDeriving(version: lastVersion))
    }
    if hasRows { pendingVersion = lastVersion } else { committed.version = lastVersion }
    if !hasRows { try database.waitUntilReady(Self.dependent) }
    try noteCommitted()
  }

  /// Waits until the definition being built is in force.
  func settle() throws {
    guard let version = pendingVersion else { return }
    note(.settle, version)
    let database = try database
    try database.waitUntilReady(Self.deriving)
    try database.waitUntilReady(Self.dependent)
    committed.version = version
    pendingVersion = nil
    try noteCommitted()
  }

  func registerAgain() throws {
    try settle()
    try endReaders()
    let database = try database
    note(.registerAgain)
    if registered.contains(.deriving), random.oneIn(2) {
      try expect(try database.unregister("deriving"), ["deriving", "dependent"], "what goes with the derivation")
      lastVersion += 1
      try register(.deriving, version: lastVersion)
    }
    if registered.contains(.mirror), random.oneIn(2) {
      try expect(try database.unregister("mirror"), ["mirror", "tally"], "what goes with the mirror")
      try register(.mirror, version: committed.version)
    }
  }

  /// Restarts the program, which registers only some extensions; later it registers all.
  func leaveOut() throws {
    note(.leaveOut)
    try settle()
    try registerAll()
    try close()
    registered = Registered(rawValue: random.below(7))
    try open()
  }

  /// Registers the extensions left out, which catch up or are rebuilt.
  private func registerAll() throws {
    guard registered != .all else { return }
    try close()
    registered = .all
    try open()
    for key in 0..<ExtensionState.keyCount { committed.derive(key) }
  }

  /// Restarts the program while a definition is being built, and registers one or both.
  private func openAgain() throws {
    guard let version = pendingVersion else { return try open() }
    pendingVersion = nil
    switch random.below(3) {
    case 0: try open()
    case 1: try open(version: version)
    default: try open(version: version, replacing: committed.version)
    }
  }

  func reopen() throws {
    note(.reopen)
    try close()
    try openAgain()
    try registerAll()
    try checkOutside()
  }

  /// Simulates the death of the process, or continues the program with a copy.
  func abandon() throws {
    note(.abandon)
    let left: Database
    if random.oneIn(2) {
      let path = site.makePath()
      try database.backup(to: path)
      let copy = try site.checkpoint(at: path)
      left = try leave()
      try left.close()
      site = copy
    } else {
      left = try leave()
      try site.abandon()
      // A process that really dies has no threads left; here the test has to end them.
      try left.close()
    }
    try openAgain()
    try registerAll()
    try checkOutside()
  }

  // MARK: - Readers

  /// Records the committed state, which followers may see from now on.
  func noteCommitted() throws {
    guard follower != nil else { return }
    let version = try database.core.read { $0.version }
    if history.count > 64 { history.removeFirst(32) }
    history.append((version, committed))
  }

  /// Opens the storage in another program, which follows this one.
  func follow() throws {
    try settle()
    try endReaders()
    note(.follow)
    var options = DatabaseOptions()
    options.follows = true
    let opened = try Database.open(try site.follow(), path: "follower", definition: Self.definition, options: options)
    _ = try opened.core.register(ModelParts(), ModelParts.name, nil)
    if registered.contains(.mirror) {
      _ = try opened.core.register(ModelMirror(version: "1"), "mirror", nil)
      _ = try opened.core.register(ModelTally(takesAllAtOnce: false), "tally", nil)
    }
    follower = opened
    followerRead = .zero
    try noteCommitted()
  }

  /// Checks that the follower sees the last commit or a version after it, completely, and never an earlier one than
  /// before.
  func readFollower() throws {
    guard let follower else { return try follow() }
    note(.readFollower)
    try follower.core.read { tx in
      guard tx.version >= followerRead else { throw ContractBroken("a follower went back to \(tx.version)") }
      followerRead = tx.version
      if let last = history.last?.version, tx.version < last, pendingVersion == nil {
        throw ContractBroken("a follower sees \(tx.version), and not the last commit \(last)")
      }
      guard let seen = history.last(where: { $0.version <= tx.version }) else {
        throw ContractBroken("a follower sees \(tx.version), which is before all of \(history.map(\.version))")
      }
      // The derivation is not registered there, because its definition changes.
      try checkRows(tx, seen.state)
      try checkParts(tx, seen.state, isInside: false)
      if registered.contains(.mirror) { try checkMirror(tx, isInside: false) }
    }
  }

  func pin() throws {
    try settle()
    note(.pin)
    if pins.count == 3 { pins.remove(at: random.below(3)).connection.endLongLivedRead() }
    let connection = try database.connection()
    try connection.beginLongLivedRead()
    pins.append((connection, committed))
  }

  /// Checks that a pinned reader sees the state and the definition of the moment when it was pinned.
  func readPinned() throws {
    guard !pins.isEmpty else { return try pin() }
    note(.readPinned)
    let pin = pins[random.below(pins.count)]
    try pin.connection.read { tx in try check(tx, pin.state, isInside: false, isNewest: false) }
  }

  // MARK: - Checks

  func checkOutside() throws {
    note(.checkOutside)
    try database.core.read { tx in
      guard tx.version >= lastRead else { throw ContractBroken("a reader went back to \(tx.version)") }
      lastRead = tx.version
      try check(tx, committed, isInside: false)
    }
  }

  /// Checks all content that a transaction shows.
  func check(_ tx: ReadTransaction, _ state: ExtensionState, isInside: Bool, isNewest: Bool = true) throws {
    try checkRows(tx, state)
    try checkParts(tx, state, isInside: isInside)
    if registered.contains(.mirror) { try checkMirror(tx, isInside: isInside, isNewest: isNewest) }
    if registered.contains(.deriving) { try checkDerivation(tx, state, isInside: isInside, isNewest: isNewest) }
  }

  private func checkRows(_ tx: ReadTransaction, _ state: ExtensionState) throws {
    for (name, rows) in state.collections {
      var cursor = try tx.rows(in: name)
      var count = 0
      for (key, number) in rows.enumerated() where number != nil {
        count += 1
        let row = try cursor.next()
        guard let row, try row.key.key(as: Int.self) == key, try row.object(as: Int.self) == number else {
          throw ContractBroken("\(name) has \(row?.key as Any) instead of row \(key) with \(number as Any)")
        }
      }
      if let more = try cursor.next() { throw ContractBroken("\(name) has a row \(more.key)") }
      try expect(try tx.count(in: name), count, "the count of \(name)")
    }
  }

  private func checkParts(_ tx: ReadTransaction, _ state: ExtensionState, isInside: Bool) throws {
    for form in ModelParts.Form.allCases {
      if form == .appendOnly, isInside, hasAppended { continue }
      if isInside, form.isIndependent { use.use(form, 0..<ModelParts.keyCount) }
      var cursor = try tx[Self.parts][form].cursor()
      for (key, number) in state[form].enumerated() where number != nil {
        let entry = try cursor.next()
        guard let entry, entry.key == ModelParts.key(key), try Self.number(entry.value, form) == number else {
          throw ContractBroken("\(form) has \(entry as Any) instead of key \(key) with \(number as Any)")
        }
      }
      if let more = try cursor.next() { throw ContractBroken("\(form) has a key \(more.key)") }
    }
  }

  private func checkMirror(_ tx: ReadTransaction, isInside: Bool, isNewest: Bool = true) throws {
    var expected: [UInt64: String] = [:]
    for name in Self.collections {
      var cursor = try tx.rows(in: name)
      var count = 0
      while let row = try cursor.next() {
        expected[row.id.number] = name
        count += 1
      }
      try expect(try tx[Self.tally].count(in: name), count, "the tally of \(name)")
    }
    try expect(try tx[Self.mirror].all(), expected, "the mirror")
    if isInside || !isNewest { return }
    let scratch = try ModelMirror.sum(try tx[Self.mirror].rows)
    try expect(try tx[Self.mirror].context.shared.value, scratch, "the shared state, beside one made from scratch")
  }

  /// Checks that the derivation is of one definition: the one in force, or the one being built.
  private func checkDerivation(
    _ tx: ReadTransaction, _ state: ExtensionState, isInside: Bool, isNewest: Bool
  ) throws {
    var version = state.version
    var cursor = try tx[Self.deriving].seen.cursor()
    var sum: Int64 = 0
    var isFirst = true
    for (key, number) in state.rows.enumerated() {
      guard let number else { continue }
      guard let entry = try cursor.next() else { throw ContractBroken("the derivation has no row \(key)") }
      let found = try ModelDerivingTransaction.number(entry.value)
      if isFirst, isNewest, found.version == pendingVersion { version = found.version }
      isFirst = false
      guard entry.key == ModelParts.key(key), found == (version, number) else {
        throw ContractBroken("the derivation has \(entry.key), \(found), not row \(key), \((version, number))")
      }
      sum += Int64(number)
    }
    if let more = try cursor.next() { throw ContractBroken("the derivation has a row \(more.key)") }
    try expect(try tx[Self.deriving].sums.counter([0]), sum, "the sum of the rows")
    // The dependent is rebuilt after the transaction that replaces its dependency.
    if isInside, hasReplaced, !keepsUp { return }
    do {
      var copies = try tx[Self.dependent].copies.cursor()
      var seen = try tx[Self.deriving].seen.cursor()
      while let entry = try seen.next() {
        let copy = try copies.next()
        try expect(copy?.key, entry.key, "the key of the dependent")
        try expect(copy?.value, entry.value, "what the dependent keeps of \(entry.key)")
      }
      try expect(try copies.next()?.key, nil, "what the dependent has more")
    } catch let error as DatabaseError
      where error.code == .notReady && !keepsUp && (pendingVersion != nil || !isNewest)
    {
      // The other definition is in force, and the dependent is or was being rebuilt: it is gone for readers of
      // earlier snapshots.
    }
  }
}

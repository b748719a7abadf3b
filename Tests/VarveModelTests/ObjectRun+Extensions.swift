import EngineTestSupport
import VarveTestSupport

@testable import Varve

/// Extensions and their model: an immediate one with shared state, and one that depends on it.
///
/// They are registered and unregistered, become stale and change their versions between transactions, and their
/// content follows from the rows, even within transactions.
///
/// Their steps are drawn from a separate generator, so that they change no other step. Runs on a storage that fails
/// have none of them: another suite tests builds on such a storage.
extension ObjectRun {
  /// The steps of extensions, which are counted.
  enum ExtensionStep: String, CaseIterable, Sendable {
    case registerAgain, anotherVersion, leaveStale, checkInside, checkOutside
  }

  struct Extensions {
    var random: SeededRandom
    var version = 1
    /// Whether the next opening registers no extensions, so that the first commit makes them stale.
    var isLeftOut = false
    var mirror: ExtensionHandle<ModelMirror>?
    var tally: ExtensionHandle<ModelTally>?
    var counts: [ExtensionStep: Int] = [:]
  }

  /// Registers the extensions after an opening.
  func registerExtensions() throws {
    if isFaulty { return }
    (extensions.mirror, extensions.tally) = (nil, nil)
    if extensions.isLeftOut {
      extensions.isLeftOut = false
      return
    }
    let database = try database
    let mirror = try database.core.register(ModelMirror(version: "\(extensions.version)"), "mirror", nil)
    let tally = try database.core.register(ModelTally(), "tally", nil)
    try database.waitUntilReady(tally)
    (extensions.mirror, extensions.tally) = (mirror, tally)
  }

  /// Makes a step between two transactions.
  func stepExtensions() throws {
    if isFaulty { return }
    switch extensions.random.below(100) {
    case 0:
      count(.registerAgain)
      if extensions.mirror != nil {
        let gone = try database.unregister("mirror")
        try expect(gone, ["mirror", "tally"], "what goes with the mirror")
      }
      try registerExtensions()
    case 1:
      count(.anotherVersion)
      extensions.version += 1
      if extensions.mirror != nil { _ = try database.unregister("mirror") }
      try registerExtensions()
    case 2:
      count(.leaveStale)
      extensions.isLeftOut = true
    case 3...8:
      guard extensions.mirror != nil else { return }
      count(.checkOutside)
      try database.read { tx in try checkExtensions(tx, isCommitted: true) }
    default: break
    }
  }

  /// Checks the extensions at random, inside a transaction, at any depth.
  func mayCheckExtensions(_ tx: WriteTransaction) throws {
    guard extensions.mirror != nil, extensions.random.oneIn(24) else { return }
    count(.checkInside)
    try checkExtensions(tx, isCommitted: false)
  }

  private func count(_ step: ExtensionStep) { extensions.counts[step, default: 0] += 1 }

  private func checkExtensions(_ tx: ReadTransaction, isCommitted: Bool) throws {
    guard let mirror = extensions.mirror, let tally = extensions.tally else { return }
    var expected: [UInt64: String] = [:]
    for (name, rows) in state.collections { for row in rows.values { expected[row.id] = name } }
    try expect(try tx[mirror].all(), expected, "the mirror")
    for pool in pools.all {
      try expect(try tx[tally].count(in: pool.name), state[pool.name].count, "the tally of \(pool.name)")
    }
    guard isCommitted else { return }
    let scratch = try ModelMirror.sum(try tx[mirror].rows)
    try expect(try tx[mirror].context.shared.value, scratch, "the shared state, beside one made from scratch")
  }
}

internal import Synchronization
public import VarveEngine

/// Checks that background work never changes what a reader can see.
///
/// The content of every family, at the newest sequence and at each snapshot, must be the same before and after a
/// flush, a compaction or a move is installed.
///
/// The content is a hash of all keys and values. It is read before and after a step of the background work
/// (`SteppedExecutor`), while there are no writes. The content at a snapshot must never change, so it is hashed once
/// before a step, and again after each install that is checked; the newest state is hashed before a step only if
/// something was written since the last one. A test for which this is too slow checks one step in `oneIn`, drawn from
/// the seed.
///
///     let watch = ContentWatch(seed: seed, oneIn: 8)
///     let executor = SteppedExecutor(seed: seed, clock: clock, watch: watch)
///     watch.attach(engine)
///
/// # Concurrency
/// Called by the one thread that steps. Reads use the public interface and are always made at a snapshot, so that the
/// engine does not note runs of dead keys that they pass (`deadRunMinimum`). No snapshot or cursor is kept
/// afterwards.
public final class ContentWatch: Sendable {
  private struct State {
    var random: SeededRandom
    var engine: Engine?
    var snapshots: [EngineSnapshot] = []
    var known: [Location: UInt64] = [:]
    var installCount = 0
    var problem: String?
    /// True while a step is checked. A step that runs inside another step counts as part of it.
    var isLooking = false
  }

  /// A family at a sequence number.
  private struct Location: Hashable {
    let family: FamilyID
    let sequence: SequenceNumber
  }

  private let oneIn: Int
  private let state: Mutex<State>

  /// Creates a watch that checks one step in `oneIn`, drawn from `seed`.
  public init(seed: UInt64, oneIn: Int) {
    self.oneIn = oneIn
    state = Mutex(State(random: SeededRandom(seed: seed)))
  }

  /// Sets the engine whose steps are checked from now on.
  public func attach(_ engine: Engine) {
    state.withLock { state in
      state.engine = engine
      state.known = [:]
    }
  }

  /// Releases the engine and the snapshots. Must be called before the engine is closed.
  public func detach() {
    let held = state.withLock { state in
      defer { (state.engine, state.snapshots, state.known) = (nil, [], [:]) }
      return (state.engine, state.snapshots)
    }
    withExtendedLifetime(held) {}
  }

  /// Sets the snapshots whose content is checked in addition to the newest state.
  public func setSnapshots(_ snapshots: [EngineSnapshot]) {
    let old = state.withLock { state in
      defer { state.snapshots = snapshots }
      return state.snapshots
    }
    withExtendedLifetime(old) {}
  }

  /// A description of the first change that was found, or `nil` if there was none.
  public var problem: String? { state.withLock { $0.problem } }

  /// The number of times that the tables of a family changed and its content was compared.
  public var installCount: Int { state.withLock { $0.installCount } }

  /// Runs a job of the background work, and compares the content before and after if this step is chosen.
  func run(_ name: String, _ job: () -> Void) {
    guard let engine = choose(name) else { return job() }
    defer { state.withLock { $0.isLooking = false } }
    let before = engine.statistics.families
    do throws(EngineError) { try learn(engine) } catch {
      // The simulated disk has lost its power. The test itself meets any other error.
      return job()
    }
    job()
    let after = engine.statistics.families
    for family in engine.families {
      let (old, new) = (before.first { $0.id == family.id }, after.first { $0.id == family.id })
      if let old, let new, old != new { compare(engine, family, after: name) }
    }
  }

  /// Returns the engine if this job must be checked, or `nil` if not.
  private func choose(_ name: String) -> Engine? {
    guard name.hasPrefix("compaction") || name == "flush" else { return nil }
    return state.withLock { state in
      guard !state.isLooking, state.problem == nil, state.engine != nil, state.random.oneIn(oneIn) else { return nil }
      state.isLooking = true
      return state.engine
    }
  }

  // MARK: - Content

  /// Returns a snapshot of the newest state and those that were set, one for each sequence.
  private func snapshots(_ engine: Engine) -> [EngineSnapshot] {
    var seen: Set<SequenceNumber> = []
    return ([engine.snapshot()] + state.withLock { $0.snapshots }).filter { seen.insert($0.sequence).inserted }
  }

  /// Hashes the content that is not yet known, and discards the hashes of snapshots that can no longer be read.
  private func learn(_ engine: Engine) throws(EngineError) {
    let known = state.withLock { $0.known }
    var wanted: [Location: UInt64] = [:]
    for snapshot in snapshots(engine) {
      for family in engine.families {
        let location = Location(family: family.id, sequence: snapshot.sequence)
        if let hash = known[location] {
          wanted[location] = hash
        } else {
          wanted[location] = try Self.hash(engine, family, snapshot)
        }
      }
    }
    state.withLock { $0.known = wanted }
  }

  private func compare(_ engine: Engine, _ family: ColumnFamily, after job: String) {
    var problem: String?
    for snapshot in snapshots(engine) {
      let sequence = snapshot.sequence
      guard let before = state.withLock({ $0.known[Location(family: family.id, sequence: sequence)] }) else { continue }
      // A read error is left for the test itself to meet.
      guard let after = try? Self.hash(engine, family, snapshot), after != before else { continue }
      problem = "\(job) changed what family \(family.name) holds at sequence \(sequence)"
    }
    state.withLock { state in
      state.installCount += 1
      state.problem = state.problem ?? problem
    }
  }

  /// Returns a hash of all keys and values of a family at a snapshot.
  private static func hash(
    _ engine: Engine, _ family: ColumnFamily, _ snapshot: EngineSnapshot
  ) throws(EngineError) -> UInt64 {
    var hash = TraceHash()
    var cursor = try engine.cursor(in: family, snapshot: snapshot)
    try cursor.seekToFirst()
    while cursor.isValid {
      cursor.withEntry { key, value in
        unsafe key.withUnsafeBytes { unsafe hash.add($0) }
        unsafe value.withUnsafeBytes { unsafe hash.add($0) }
      }
      try cursor.next()
    }
    return hash.value
  }
}

internal import Synchronization
public import VarveEngine

/// Sees that background work changes nothing that a reader can see: the content of every family, at the newest
/// sequence and at each snapshot, is the same before and after a flush, a compaction or a move is installed.
///
/// Content is keys and values, hashed. It is read around a step of the background (`SteppedExecutor`), while
/// there are no writes. The content of a snapshot must never change, so it is hashed once before, and again
/// after each install that is looked at; the newest is hashed before a step only where something was written
/// since. Where that is too slow one step in so many is looked at, drawn from the seed.
///
///     let watch = ContentWatch(seed: seed, oneIn: 8)
///     let executor = SteppedExecutor(seed: seed, clock: clock, watch: watch)
///     watch.attach(engine)
///
/// # Concurrency
/// Called by the one thread that steps. Reads go through the public interface, all of them at snapshots, so that the
/// engine learns nothing from them (`deadRunMinimum`), and hold nothing afterwards.
public final class ContentWatch: Sendable {
  private struct State {
    var random: SeededRandom
    var engine: Engine?
    var snapshots: [EngineSnapshot] = []
    var known: [Location: UInt64] = [:]
    var installCount = 0
    var problem: String?
    /// A step that a step makes is part of it.
    var isLooking = false
  }

  /// A family at a point in time.
  private struct Location: Hashable {
    let family: FamilyID
    let sequence: SequenceNumber
  }

  private let oneIn: Int
  private let state: Mutex<State>

  /// Looks at one step in `oneIn`.
  public init(seed: UInt64, oneIn: Int) {
    self.oneIn = oneIn
    state = Mutex(State(random: SeededRandom(seed: seed)))
  }

  /// From now on steps are those of this engine.
  public func attach(_ engine: Engine) {
    state.withLock { state in
      state.engine = engine
      state.known = [:]
    }
  }

  /// To be called before the engine is closed.
  public func detach() {
    let held = state.withLock { state in
      defer { (state.engine, state.snapshots, state.known) = (nil, [], [:]) }
      return (state.engine, state.snapshots)
    }
    withExtendedLifetime(held) {}
  }

  /// The snapshots to look through, besides the newest state.
  public func setSnapshots(_ snapshots: [EngineSnapshot]) {
    let old = state.withLock { state in
      defer { state.snapshots = snapshots }
      return state.snapshots
    }
    withExtendedLifetime(old) {}
  }

  /// The first change that was seen; nil: none.
  public var problem: String? { state.withLock { $0.problem } }

  /// How many changes of a family's tables were looked at, before and after.
  public var installCount: Int { state.withLock { $0.installCount } }

  /// Runs a job that background work submitted under a name.
  func run(_ name: String, _ job: () -> Void) {
    guard let engine = choose(name) else { return job() }
    defer { state.withLock { $0.isLooking = false } }
    let before = engine.statistics.families
    do throws(EngineError) { try learn(engine) } catch {
      // A disk without power; what is wrong else the run meets itself.
      return job()
    }
    job()
    let after = engine.statistics.families
    for family in engine.families {
      let (old, new) = (before.first { $0.id == family.id }, after.first { $0.id == family.id })
      if let old, let new, old != new { compare(engine, family, after: name) }
    }
  }

  /// The engine to look at around a job; nil: not this one.
  private func choose(_ name: String) -> Engine? {
    guard name.hasPrefix("compaction") || name == "flush" else { return nil }
    return state.withLock { state in
      guard !state.isLooking, state.problem == nil, state.engine != nil, state.random.oneIn(oneIn) else { return nil }
      state.isLooking = true
      return state.engine
    }
  }

  // MARK: - Content

  /// All snapshots that can be read: the newest, and those of snapshots.
  private func snapshots(_ engine: Engine) -> [EngineSnapshot] {
    var seen: Set<SequenceNumber> = []
    return ([engine.snapshot()] + state.withLock { $0.snapshots }).filter { seen.insert($0.sequence).inserted }
  }

  /// Hashes what isn't known yet, and forgets what can't be read any more.
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
      // Where it can't be read the run meets that itself.
      guard let after = try? Self.hash(engine, family, snapshot), after != before else { continue }
      problem = "\(job) changed what family \(family.name) holds at sequence \(sequence)"
    }
    state.withLock { state in
      state.installCount += 1
      state.problem = state.problem ?? problem
    }
  }

  /// A hash of all keys and values of a family at a point in time.
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

import EngineTestSupport

/// What goes wrong with a `ToyBackend`, drawn from a seed: the same seed and the same calls meet the same faults.
///
/// Every chance is "one in so many", and 0 means never. Nothing goes wrong by default.
public struct ToyFaults: Sendable {
  /// What the chances are drawn from.
  public var seed: UInt64
  /// Commits with a check that come to `.conflict` although nothing was changed.
  public var conflictOneIn = 0
  /// Commits that throw `.outcomeUnknown`; half of them have happened.
  public var unknownOneIn = 0
  /// Commits that are not durable when they are applied, but once a caller waits for them or for a later one.
  public var lateOneIn = 0
  /// Commits that are late and that then can't be made durable: their tickets and all later ones throw
  /// `.outcomeUnknown`, and no commit follows. Half of them are there after a restart.
  public var failingOneIn = 0
  /// Reads through a snapshot older than the last commit that throw `.snapshotTooOld`.
  public var tooOldOneIn = 0
  /// Reads of `withoutWaiting` whose answers were there at once, which the others find out when they have them. Not a
  /// fault. 0: not known, so the test doesn't run them.
  public var atOnceOneIn = 0
  /// How often a call lets other threads go first, at most. Not a fault: a delay, without a clock.
  public var yieldMaximum = 0

  /// No faults.
  public init(seed: UInt64 = 0) { self.seed = seed }

  /// One fault that the next commit that can meet it meets, whatever the chances are.
  public enum OneCommit: Hashable, Sendable {
    /// A commit with a check: `.conflict`.
    case conflict
    /// `.outcomeUnknown`.
    case unknown(isApplied: Bool)
    /// Durable when a caller waits.
    case late
    /// Never acknowledged.
    case failing(isDurable: Bool)
  }
}

/// The chances of a plan, as they are drawn.
struct ToyChances: Sendable {
  var faults: ToyFaults {
    didSet { if faults.seed != oldValue.seed { random = SeededRandom(seed: faults.seed) } }
  }
  var injected: [ToyFaults.OneCommit] = []
  /// How many reads come until one throws.
  var readsUntilTooOld: Int?
  private var random: SeededRandom

  init(_ faults: ToyFaults) {
    self.faults = faults
    random = SeededRandom(seed: faults.seed)
  }

  mutating func meets(_ oneIn: Int) -> Bool { oneIn > 0 && random.oneIn(oneIn) }

  /// Whether a read finds its snapshot too old; `isOld` if there are later commits.
  mutating func drawTooOld(isOld: Bool) -> Bool {
    if let left = readsUntilTooOld {
      readsUntilTooOld = left > 0 ? left - 1 : nil
      return left == 0
    }
    return isOld && meets(faults.tooOldOneIn)
  }

  /// What the next commit meets.
  mutating func drawCommit(isChecked: Bool) -> ToyFaults.OneCommit? {
    if let index = injected.firstIndex(where: { isChecked || $0 != .conflict }) { return injected.remove(at: index) }
    if isChecked, meets(faults.conflictOneIn) { return .conflict }
    if meets(faults.unknownOneIn) { return .unknown(isApplied: random.oneIn(2)) }
    if meets(faults.failingOneIn) { return .failing(isDurable: random.oneIn(2)) }
    return meets(faults.lateOneIn) ? .late : nil
  }

  mutating func drawYields() -> Int { faults.yieldMaximum > 0 ? random.below(faults.yieldMaximum + 1) : 0 }
}

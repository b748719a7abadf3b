import EngineTestSupport

/// The faults of a `ToyBackend`, drawn from a seed: the same seed and the same calls meet the same faults.
///
/// Every chance is "one in so many", and 0 means never. By default there are no faults.
public struct ToyFaults: Sendable {
  /// The seed that the chances are drawn from.
  public var seed: UInt64
  /// The chance that a commit with a check throws `.conflict` although no key was changed.
  public var conflictOneIn = 0
  /// The chance that a commit throws `.outcomeUnknown`; half of these commits are applied.
  public var unknownOneIn = 0
  /// The chance that a commit is not durable when it is applied, but only once a caller waits for it or for a later
  /// one.
  public var lateOneIn = 0
  /// The chance that a commit is late and then cannot be made durable: its ticket and all later ones throw
  /// `.outcomeUnknown`, and no commit follows.
  ///
  /// Half of these commits are there after a restart.
  public var failingOneIn = 0
  /// The chance that a read through a snapshot older than the last commit throws `.snapshotTooOld`.
  public var tooOldOneIn = 0
  /// The chance that the result of a read in `withoutWaiting` was available at once; for the other reads this is
  /// known only after they ran.
  ///
  /// Not a fault. If 0, `withoutWaiting` does not run the read.
  public var atOnceOneIn = 0
  /// The greatest number of times that a call yields to other threads. Not a fault: a delay that does not depend on a
  /// clock.
  public var yieldMaximum = 0

  /// Creates a plan without faults.
  public init(seed: UInt64 = 0) { self.seed = seed }

  /// A fault that is met by the next commit that can meet it, independent of the chances.
  public enum OneCommit: Hashable, Sendable {
    /// A commit with a check throws `.conflict`.
    case conflict
    /// The commit throws `.outcomeUnknown`.
    case unknown(isApplied: Bool)
    /// The commit is durable only once a caller waits.
    case late
    /// The commit is never acknowledged.
    case failing(isDurable: Bool)
  }
}

/// The state from which the chances of a plan are drawn.
struct ToyChances: Sendable {
  var faults: ToyFaults {
    didSet { if faults.seed != oldValue.seed { random = SeededRandom(seed: faults.seed) } }
  }
  var injected: [ToyFaults.OneCommit] = []
  /// The number of reads before the one that throws, or `nil` if none throws.
  var readsUntilTooOld: Int?
  private var random: SeededRandom

  init(_ faults: ToyFaults) {
    self.faults = faults
    random = SeededRandom(seed: faults.seed)
  }

  mutating func meets(_ oneIn: Int) -> Bool { oneIn > 0 && random.oneIn(oneIn) }

  /// Returns whether a read finds its snapshot too old; `isOld` is whether there are later commits.
  mutating func drawTooOld(isOld: Bool) -> Bool {
    if let left = readsUntilTooOld {
      readsUntilTooOld = left > 0 ? left - 1 : nil
      return left == 0
    }
    return isOld && meets(faults.tooOldOneIn)
  }

  /// Returns the fault that the next commit meets, if any.
  mutating func drawCommit(isChecked: Bool) -> ToyFaults.OneCommit? {
    if let index = injected.firstIndex(where: { isChecked || $0 != .conflict }) { return injected.remove(at: index) }
    if isChecked, meets(faults.conflictOneIn) { return .conflict }
    if meets(faults.unknownOneIn) { return .unknown(isApplied: random.oneIn(2)) }
    if meets(faults.failingOneIn) { return .failing(isDurable: random.oneIn(2)) }
    return meets(faults.lateOneIn) ? .late : nil
  }

  mutating func drawYields() -> Int { faults.yieldMaximum > 0 ? random.below(faults.yieldMaximum + 1) : 0 }
}

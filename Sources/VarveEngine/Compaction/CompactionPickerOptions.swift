/// The parameters of the picker. The defaults come from the simulations in `CompactionSimulationTests`, which bound the
/// write amplification of each workload.
struct CompactionPickerOptions: Sendable {
  /// The bytes of a full memtable. A flush makes tables of about half of that size.
  var memtableSize: UInt64 = 64 << 20

  /// The depth of level 0 at which it is compacted into the base level while writes continue. Each table of depth costs
  /// point reads one more filter; each halving doubles how often the base level is rewritten. Measured in the decision
  /// "Level 0 waits".
  var levelZeroDepthTrigger = 10

  /// The maximum factor between the sizes of adjacent levels; a larger factor adds another level instead. Filling and
  /// overwriting 20 (40) million random entries of 116 bytes writes 4.3 (7.7) bytes for each byte flushed at 8, 4.3
  /// (7.4) at 6, and 4.1 (4.8) at 3 (simulated); but the smaller the factor, the more overwritten data waits above the
  /// bottom level.
  var levelMultiplierMaximum = 6.0

  /// The size at which outputs are cut on level 0 and on the base level. Small enough that a merge of one table and the
  /// tables it overlaps takes about a second.
  var targetFileSize: UInt64 = 32 << 20

  /// The maximum size at which outputs are cut on the deepest levels: the size doubles with each level from the base
  /// level on. So a terabyte is about 5,000 tables, and a small database, whose base level is the last, has small ones.
  var targetFileSizeMaximum: UInt64 = 256 << 20

  /// Inputs are expanded only up to this many times the target file size.
  var expansionFactor: UInt64 = 25

  /// A table that overlaps more than this many times the target file size on the next level is not moved unread: it
  /// would make the following merge expensive.
  var grandparentOverlapFactor: UInt64 = 10

  /// The minimum number of tables for an intra-level-0 compaction.
  var intraLevelZeroCountMinimum = 4

  /// The maximum number of sorted runs of level 0 in one compaction, because each has a read buffer. A deeper level 0
  /// is first merged within itself.
  var runCountMaximum = 1_024

  /// The share of a table that must be removable for the table to be rewritten while writes continue: those that follow
  /// will rewrite it anyway.
  var rewriteShare = 0.5

  /// The share of a table that must be removable for the table to be rewritten in a pause of the writes. A tenth means
  /// that an idle family is at most a ninth larger than without what can be removed, and that a freed byte costs at
  /// most nine written ones.
  var idleRewriteShare = 0.1

  /// The bytes that level 0 passes to the base level at once; they determine the size of the tree's first step.
  var levelZeroBatchSize: UInt64 { max(memtableSize / 2, 1) * UInt64(levelZeroDepthTrigger) }

  var expansionSizeMaximum: UInt64 { targetFileSize * expansionFactor }

  /// The size at which outputs are cut on a level.
  func targetFileSize(level: Int, baseLevel: Int) -> UInt64 {
    min(targetFileSize << UInt64(max(level - max(baseLevel, 1), 0)), max(targetFileSizeMaximum, targetFileSize))
  }

  func grandparentOverlapMaximum(_ fileSize: UInt64) -> UInt64 { fileSize * grandparentOverlapFactor }

  /// The options for `Engine.derivedOptions`.
  var derived: [DerivedOption] {
    [
      .init(
        .background, "levelZeroDepthTrigger", levelZeroDepthTrigger, "a constant: level 0 is compacted there"),
      .init(
        .background, "levelZeroBatchSize", levelZeroBatchSize, "half a memtable for each table of that depth"),
      .init(
        .background, "levelMultiplierMaximum", levelMultiplierMaximum,
        "a constant: another level is begun where neighbors would differ by more"),
      .init(
        .background, "runCountMaximum", runCountMaximum,
        "the read buffers of 16 KiB in half of compactionBytes over all threads, at least 24: one merge of level 0 has no more runs"
      ),
      .init(.background, "targetFileSize", targetFileSize, "tableSize"),
      .init(.background, "targetFileSizeMaximum", targetFileSizeMaximum, "tableSizeMaximum"),
      .init(
        .background, "expansionFactor", expansionFactor, "a constant: inputs grow to so many tables at most"),
      .init(
        .background, "grandparentOverlapFactor", grandparentOverlapFactor,
        "a constant: a table above so many below it is not moved unread"),
      .init(
        .background, "intraLevelZeroCountMinimum", intraLevelZeroCountMinimum,
        "a constant: fewer tables of level 0 are not worth a merge among themselves"),
      .init(
        .background, "rewriteShare", rewriteShare,
        "a constant: a table of which so much can be removed is rewritten while writes continue"),
      .init(
        .background, "idleRewriteShare", idleRewriteShare,
        "a constant: a table of which so much can be removed is rewritten in a pause of the writes"),
    ]
  }
}

/// The target size of each level of a family, from the bottom up.
///
/// The bottom level has most of the data. With `b` the bytes that level 0 passes at once and `x = bulk / b`, there are
/// as few levels as keep the factor between neighbors, the root of `x`, at or below the maximum: small trees have only
/// the bottom level, and each level is reached by the same factor. Rewriting costs (levels) * (1 + factor) passes per
/// byte, so equal factors are the cheapest.
///
/// A tree that shrinks keeps its levels until there is one too many for twice the data; and level 0 is never compacted
/// past a level that has tables.
struct LevelTargets: Sendable, Equatable {
  /// The level that level 0 is compacted into.
  let baseLevel: Int
  /// Target bytes by level; 0 for a level that should be empty, `UInt64.max` for the bottom level.
  let sizes: [UInt64]
  /// The factor between adjacent levels.
  let multiplier: Double

  static let bottomLevel = Limits.levelCount - 1

  init(_ version: Version, options: CompactionPickerOptions, shallowestOutputLevel: Int?) {
    let bulk = Double((1..<Limits.levelCount).reduce(0) { $0 + version.size(level: $1) })
    let ratio = max(bulk / Double(options.levelZeroBatchSize), 1)
    let maximum = options.levelMultiplierMaximum
    let occupied = (1..<Limits.levelCount).first { !version.run($0).isEmpty } ?? Self.bottomLevel
    let shallowest = min(occupied, shallowestOutputLevel ?? Self.bottomLevel)
    var stepCount = Self.stepCount(ratio, maximum)
    if Self.bottomLevel - shallowest > stepCount - 1 {
      stepCount = min(Self.stepCount(ratio * 2, maximum), Self.bottomLevel - shallowest + 1)
    }
    let wantedBase = Self.bottomLevel - (stepCount - 1)
    multiplier = Self.root(ratio, stepCount)
    var sizes = [UInt64](repeating: 0, count: Limits.levelCount)
    var size = Double(options.levelZeroBatchSize)
    for level in wantedBase..<Self.bottomLevel {
      size *= multiplier
      sizes[level] = UInt64(size)
    }
    sizes[Self.bottomLevel] = .max
    self.sizes = sizes
    baseLevel = min(wantedBase, shallowest)
  }

  /// The minimum number of steps from level 0's batch to the bottom with a factor of at most `maximum`.
  private static func stepCount(_ ratio: Double, _ maximum: Double) -> Int {
    var count = 1
    var reach = maximum
    while reach < ratio, count < bottomLevel {
      reach *= maximum
      count += 1
    }
    return count
  }

  /// Returns the `degree`-th root of `value`.
  ///
  /// It is found by bisection, so that the result is the same on every platform.
  static func root(_ value: Double, _ degree: Int) -> Double {
    var low = 1.0
    var high = max(value, 1)
    for _ in 0..<60 {
      let middle = (low + high) / 2
      var power = 1.0
      for _ in 0..<degree { power *= middle }
      if power < value { low = middle } else { high = middle }
    }
    return high
  }
}

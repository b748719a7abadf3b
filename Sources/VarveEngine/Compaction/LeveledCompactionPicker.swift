/// Chooses the next compaction: leveled, with level 0 judged by depth.
///
/// The pick is a pure function of the Version, the running compactions and the options. Call it after each install and
/// after each begin, until it returns `nil`: it fills any number of threads, and picks never overlap running
/// compactions.
///
/// # Order of choice
///  1. Tables of level 0 that no older table of it overlaps move down without being read, as deep as no table overlaps
///     them.
///  2. The most urgent of: level 0 into the base level, and each level above its target into the next. A level's
///     urgency is reduced while the next one exceeds its target, too.
///  3. If level 0 is deep and the base level is busy: an intra-level-0 compaction.
///  4. If writes have paused: tables of level 0 whose tombstones free much, into the base level.
///  5. If writes have paused: at least four tables of level 0 of similar size, with each other.
///  6. Tables of level 0 that a damaged one keeps there, with each other.
///  7. Tables that are mostly tombstones, or whose tombstones free much, towards the bottom.
///  8. A table with much that no reader needs any more is rewritten on its level (`pickRewrite`).
///
/// # Damaged tables
/// A table in which a compaction found damage is not an input of any other one. Level 0 is compacted into a level above
/// it, and stays if it overlaps the damaged table. Tables that can't go down (`StuckTables`) count neither for scores
/// nor for debt.
///
/// # Little space
/// Outputs exist beside the inputs for a while. A compaction whose outputs don't fit into `Input.space` is not picked.
/// Its upper tables are divided instead (`dividing`), so that it is made in parts of its key range; or a smaller one is
/// picked: level 0 from the oldest tables up, another table of a level, no neighbors.
///
/// # Level 0 waits
/// While writes continue, level 0 is compacted when it is deep; when they have paused (`isSettling`), from half of the
/// base level's size on; a smaller one is merged into fewer tables of level 0. So a burst is merged once, at its end,
/// and the result is neither slow to read nor large.
///
/// # Level 0 into the base level
/// The deepest interval that can be compacted is the seed: all its tables from the oldest up to the first busy one and,
/// transitively, older tables that overlap those. Then everything of level 0 within the key range of the base tables
/// involved is included for free. As flushes are cut at the base level's bounds (`Version.flushSplitKeys`), level 0
/// consists of columns that are compacted in parallel.
struct LeveledCompactionPicker: Sendable {
  let options: CompactionPickerOptions

  init(options: CompactionPickerOptions = CompactionPickerOptions()) { self.options = options }

  /// The inputs of a pick.
  struct Input: Sendable {
    let family: FamilyID
    let version: Version
    let inProgress: CompactionsInProgress
    /// No reader sees a state older than this. An entry that is hidden at or below it is not needed by any reader.
    let oldestSnapshot: SequenceNumber
    /// A Boolean value that indicates whether writes have paused. If so, tables of level 0 don't wait for similar ones.
    let isSettling: Bool
    /// Tables of the family in which compactions found damage.
    let suspects: [SuspectTable]
    /// The tables that can't go down because of `suspects`.
    let stuck: StuckTables
    /// The bytes that the outputs of a compaction may take. A requested compaction may take more.
    var space: UInt64

    init(
      family: FamilyID, version: Version, inProgress: CompactionsInProgress = CompactionsInProgress(),
      oldestSnapshot: SequenceNumber = .maximum, isSettling: Bool = false, suspects: [SuspectTable] = [],
      space: UInt64 = .max
    ) {
      self.family = family
      self.version = version
      self.inProgress = inProgress
      self.oldestSnapshot = oldestSnapshot
      self.isSettling = isSettling
      self.suspects = suspects
      stuck = StuckTables(version, suspects)
      self.space = space
    }

    /// A Boolean value that indicates whether there may be a compaction whose outputs don't fit.
    var isShortOfSpace: Bool { space < Compaction.spaceNeed(of: version.totalSize) + Compaction.tableNeed(.max) }

    /// Returns a compaction if its outputs fit.
    func fitting(_ compaction: Compaction) -> Compaction? {
      compaction.reason == .manual || compaction.spaceNeed <= space ? compaction : nil
    }

    /// Returns whether a table cannot be an input now, because a compaction has it or because it is damaged.
    func isBusy(_ table: TableMetadata) -> Bool { inProgress.isBusy(table) || isSuspect(table) }

    func isSuspect(_ table: TableMetadata) -> Bool {
      !suspects.isEmpty && suspects.contains { $0.number == table.number }
    }
  }

  func targets(_ input: Input) -> LevelTargets {
    let running = input.inProgress.shallowestOutputLevel(of: input.family)
    let shallowest = [running, Self.levelAbove(input.suspects)].compactMap { $0 }.min()
    return LevelTargets(input.version, options: options, shallowestOutputLevel: shallowest)
  }

  /// Returns the level right above the uppermost suspect, into which tables above it are merged, or `nil` without
  /// suspects.
  static func levelAbove(_ suspects: [SuspectTable]) -> Int? {
    suspects.lazy.map(\.level).filter { $0 > 1 }.min().map { $0 - 1 }
  }

  /// Returns the next compaction, or `nil` if none is due or running compactions block all that are.
  ///
  /// `seeds` is state remembered from earlier picks of the family. It saves work and never changes the pick.
  func pick(_ input: Input, _ seeds: inout LevelSeeds) -> Compaction? {
    guard !input.version.isEmpty else { return nil }
    let targets = targets(input)
    if let move = pickMoveFromLevelZero(input, targets) { return move }
    for score in scores(input, targets) where score.fill >= 1 {
      if score.level == 0 {
        if let compaction = pickBase(input, targets, score: score.urgency) { return compaction }
        if let compaction = pickIntraLevelZero(input, .deep, score: score.urgency) { return compaction }
      } else if let compaction = pickLevel(score.level, input, &seeds, score: score.urgency) {
        return compaction
      }
    }
    if input.isSettling {
      if let compaction = pickLevelZeroTombstones(input, targets) { return compaction }
      if let compaction = pickIntraLevelZero(input, .paused, score: 1) { return compaction }
    }
    if input.stuck.holdsLevelZero, let compaction = pickIntraLevelZero(input, .stuck, score: 1) { return compaction }
    if let compaction = pickTombstones(input, &seeds) { return compaction }
    let rewrite = pickRewrite(input, in: .all, share: rewriteShare(input))
    if case .compaction(let compaction) = rewrite { return compaction }
    return nil
  }

  // MARK: - Scores

  /// The fill of a level, which is compacted from 1 on.
  struct Score: Sendable {
    let level: Int
    let fill: Double
    /// `fill`, reduced while the next level exceeds its target. What tombstones free counts for at most two thirds of
    /// it, so that level 0 does not wait for it.
    let urgency: Double
  }

  /// Returns the scores of the levels, most urgent first. Tables that are being compacted, or can't be, don't count.
  func scores(_ input: Input, _ targets: LevelTargets) -> [Score] {
    var fills = [Double](repeating: 0, count: Limits.levelCount)
    fills[0] = levelZeroFill(input, targets)
    var urgent = fills
    for level in 1..<LevelTargets.bottomLevel {
      let idle = idleSize(level: level, input)
      guard idle > 0 else { continue }
      // A level that should be empty is drained, but no other compaction waits for that.
      fills[level] = targets.sizes[level] == 0 ? 1 : Double(idle) / Double(targets.sizes[level])
      let size = Double(max(input.version.size(level: level), 1))
      urgent[level] = fills[level] * min(3 * size / Double(idle), 1)
    }
    var scores: [Score] = []
    for level in fills.indices {
      let next = level == 0 ? targets.baseLevel : level + 1
      let below = next < Limits.levelCount ? urgent[next] : 0
      scores.append(Score(level: level, fill: fills[level], urgency: urgent[level] / max(below, 1)))
    }
    return scores.sorted { $0.urgency != $1.urgency ? $0.urgency > $1.urgency : $0.level < $1.level }
  }

  /// Returns the size of a level's tables that are in no compaction and that no damaged table keeps there, increased by
  /// what their tombstones free now.
  private func idleSize(level: Int, _ input: Input) -> UInt64 {
    let run = input.version.run(level)
    guard input.suspects.isEmpty else {
      return run.tables.reduce(0) {
        $0 + (input.isBusy($1) || input.stuck.contains($1) ? 0 : $1.compensatedSize(at: input.oldestSnapshot))
      }
    }
    let all = run.compensatedSize(at: input.oldestSnapshot)
    // The tables of a compaction that has just ended may still count as running. The level is checked again at its end.
    return all - min(all, input.inProgress.compensatedSize(of: input.family, level: level))
  }

  /// Returns the fill of level 0. Depth decides; bytes and tables count only if they accumulate side by side.
  private func levelZeroFill(_ input: Input, _ targets: LevelTargets) -> Double {
    let levelZero = input.version.levelZero
    guard !levelZero.isEmpty else { return 0 }
    let depths = levelZero.intervals.depths {
      !input.isBusy(levelZero.tables[$0]) && !input.stuck.contains(levelZero.tables[$0])
    }
    var size: UInt64 = 0
    var count = 0
    for table in levelZero.tables where !input.isBusy(table) && !input.stuck.contains(table) {
      size += table.fileSize
      count += 1
    }
    let depth = Double(depths.max() ?? 0) / Double(options.levelZeroDepthTrigger)
    let bytes = Double(size) / Double(options.levelZeroBatchSize * 2)
    return max(depth, bytes, Double(count) / 256, input.isSettling ? idleFill(size, input, targets) : 0)
  }

  /// Returns the fill of level 0 when writes have paused: it is compacted from half of the base level's size on.
  ///
  /// So an idle tree is at most that much larger than its last levels, and a pause costs at most three written bytes
  /// for each one flushed.
  private func idleFill(_ size: UInt64, _ input: Input, _ targets: LevelTargets) -> Double {
    let base = input.version.size(level: targets.baseLevel)
    return base == 0 ? (size > 0 ? 1 : 0) : Double(size) * 2 / Double(base)
  }

  // MARK: - One level into the next

  /// Picks the table of the level with the least overlap below for its compensated size, and expands it.
  private func pickLevel(_ level: Int, _ input: Input, _ seeds: inout LevelSeeds, score: Double) -> Compaction? {
    let run = input.version.run(level)
    return seeds.first(level: level, of: input.version) { index in
      input.isBusy(run.tables[index]) ? nil : expand(level, index, input, reason: .levelSize, score: score)
    }
  }

  /// Expands a seed by the tables it overlaps on the next level, and by tables of its own level that add no overlap.
  ///
  /// Returns `nil` if one of them is busy, or if there is no space for the outputs. If the seed can be compacted in
  /// parts instead, the result divides it.
  func expand(
    _ level: Int, _ seed: Int, _ input: Input, reason: Compaction.Reason, score: Double
  ) -> Compaction? {
    let run = input.version.run(level)
    let next = input.version.run(level + 1)
    var upper = seed..<(seed + 1)
    guard var range = UserKeyRange(around: run.tables[upper]) else { return nil }
    let lower = next.overlap(range)
    guard !next.tables[lower].contains(where: input.isBusy) else { return nil }
    for table in next.tables[lower] { range.extend(by: table) }
    var size = run.size(of: upper) + next.size(of: lower)
    // The outputs may take more than the inputs.
    let sizeMaximum = min(options.expansionSizeMaximum, input.space - input.space / 8)
    // The range grows to the right, then to the left: a neighbor is included if it overlaps no other table below.
    func canAdd(_ index: Int) -> Bool {
      let table = run.tables[index]
      guard !input.isBusy(table), size + table.fileSize <= sizeMaximum else { return false }
      let overlap = next.overlap(table)
      if overlap.isEmpty { return range.contains(table) }
      return overlap.lowerBound >= lower.lowerBound && overlap.upperBound <= lower.upperBound
    }
    while upper.upperBound < run.count, canAdd(upper.upperBound) {
      size += run.tables[upper.upperBound].fileSize
      upper = upper.lowerBound..<(upper.upperBound + 1)
    }
    while upper.lowerBound > 0, canAdd(upper.lowerBound - 1) {
      size += run.tables[upper.lowerBound - 1].fileSize
      upper = (upper.lowerBound - 1)..<upper.upperBound
    }
    for table in run.tables[upper] { range.extend(by: table) }
    guard !input.inProgress.hasOutputs(of: input.family, level: level + 1, overlapping: range) else { return nil }
    let inputs = [
      Compaction.Input(level: level, tables: run.tables.array(in: upper)),
      Compaction.Input(level: level + 1, tables: next.tables.array(in: lower)),
    ]
    let compaction = finish(inputs, to: level + 1, range, input, reason: reason, score: score)
    return input.fitting(compaction) ?? dividing(compaction, input)
  }

  /// Creates a compaction, and determines whether it is a trivial move.
  func finish(
    _ inputs: [Compaction.Input], to outputLevel: Int, _ range: UserKeyRange, _ input: Input,
    reason: Compaction.Reason, score: Double
  ) -> Compaction {
    let sources = inputs.filter { !$0.tables.isEmpty }
    let targetFileSize = targetFileSize(input, level: outputLevel)
    var isMove = sources.count == 1 && sources[0].level != outputLevel
    if isMove {
      let tables = sources[0].tables
      let grandparentSize =
        outputLevel < LevelTargets.bottomLevel
        ? input.version.overlap(level: outputLevel + 1, range).reduce(0) { $0 + $1.fileSize } : 0
      let isBottommost = ((outputLevel + 1)..<max(Limits.levelCount, outputLevel + 1)).allSatisfy {
        input.version.overlap(level: $0, range).isEmpty
      }
      isMove =
        grandparentSize <= options.grandparentOverlapMaximum(targetFileSize) && Self.areDisjoint(tables)
        && !(isBottommost && tables.contains(where: \.isMostlyTombstones))
        // A table moved as a whole could not go further down as a whole.
        && !input.suspects.contains { suspect in
          suspect.level == outputLevel + 1
            && tables.contains { suspect.range.overlaps($0) && !suspect.range.contains($0) }
        }
    }
    var compaction = Compaction(
      family: input.family, reason: isMove && reason != .manual ? .move : reason, inputs: sources,
      outputLevel: outputLevel, range: range, version: input.version, targetFileSize: targetFileSize,
      isTrivialMove: isMove, score: score)
    compaction.isSettled = sources.allSatisfy { $0.tables.allSatisfy { $0.largestSequence <= input.oldestSnapshot } }
    compaction.damagedBelow = input.suspects.filter { $0.level == outputLevel + 1 }.map(\.range)
    return compaction
  }

  /// The size at which outputs to a level are cut.
  func targetFileSize(_ input: Input, level: Int) -> UInt64 {
    level == 0 ? options.targetFileSize : options.targetFileSize(level: level, baseLevel: targets(input).baseLevel)
  }

  static func areDisjoint(_ tables: [TableMetadata]) -> Bool {
    let sorted = tables.sorted(by: TableMetadata.isSmallerFirst)
    return zip(sorted, sorted.dropFirst()).allSatisfy { $0.endsBefore($1) }
  }
}

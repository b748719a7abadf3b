extension LeveledCompactionPicker {
  // MARK: - Moves

  /// Picks tables of level 0 that are moved together to a deeper level.
  ///
  /// They are in the oldest sublevel, so no older table of level 0 overlaps them, and they overlap no table on the
  /// levels below down to the output level. Because of these moves, ascending loads never merge any tables.
  func pickMoveFromLevelZero(_ input: Input, _ targets: LevelTargets) -> Compaction? {
    let levelZero = input.version.levelZero
    guard let oldest = levelZero.sublevels.first else { return nil }
    var chosen: [TableMetadata] = []
    var outputLevel = 0
    for table in oldest.tables where !input.isBusy(table) && !table.isMostlyTombstones {
      let range = UserKeyRange(table)
      guard let depth = moveDepth(range, input, targets) else { continue }
      if chosen.isEmpty { outputLevel = depth }
      guard depth == outputLevel else { continue }
      // The tables that are moved together form one hull in `CompactionsInProgress`, which no other table may be in.
      var hull = UserKeyRange(around: chosen) ?? range
      hull.extend(by: table)
      guard moveDepth(hull, input, targets) == outputLevel else { break }
      chosen.append(table)
    }
    guard let range = UserKeyRange(around: chosen) else { return nil }
    return Compaction(
      family: input.family, reason: .move, inputs: [Compaction.Input(level: 0, tables: chosen)],
      outputLevel: outputLevel, range: range, version: input.version, targetFileSize: options.targetFileSize,
      isTrivialMove: true)
  }

  /// Returns the deepest level, from the base level on, down to which no table is in `range` or being written to it.
  ///
  /// Returns `nil` if the tables of `range` can't be moved, or if the move would make a later merge too expensive.
  private func moveDepth(_ range: UserKeyRange, _ input: Input, _ targets: LevelTargets) -> Int? {
    var depth = 0
    for level in 1..<Limits.levelCount {
      let run = input.version.run(level)
      let overlap = run.overlap(range)
      guard overlap.isEmpty, !input.inProgress.hasOutputs(of: input.family, level: level, overlapping: range) else {
        // Tables over a damaged one must be cut at its bounds, which a move does not do.
        if run.tables[overlap].contains(where: input.isSuspect) { return nil }
        let target = options.targetFileSize(level: depth, baseLevel: targets.baseLevel)
        let isCheap = run.size(of: overlap) <= options.grandparentOverlapMaximum(target)
        return depth >= targets.baseLevel && isCheap ? depth : nil
      }
      depth = level
    }
    return depth
  }

  // MARK: - Into the base level

  /// Picks a compaction of level 0 into the base level, from the deepest interval that is not blocked.
  func pickBase(_ input: Input, _ targets: LevelTargets, score: Double) -> Compaction? {
    let depths = compactableDepths(input)
    let order = depths.indices.filter { depths[$0] > 0 }
      .sorted { depths[$0] != depths[$1] ? depths[$0] > depths[$1] : $0 < $1 }
    var tried: Set<[Int]> = []
    var deepCount = 0
    for interval in order {
      let isDeep = depths[interval] > options.runCountMaximum
      if isDeep, deepCount == Self.deepTryMaximum { continue }
      // A seed with the same tables as a failed one fails again.
      let seed = stack(interval, input)
      guard tried.insert(seed).inserted else { continue }
      if isDeep {
        deepCount += 1
        switch pickFewerRuns(of: seed.reversed(), input, score: score) {
        case .compaction(let compaction): return compaction
        case .blocked: continue
        case .impossible: break
        }
      }
      if let compaction = pickBase(oldestOf: seed, input, targets, score: score) { return compaction }
    }
    return nil
  }

  /// Picks a compaction of a stack of tables, oldest first, into the base level: of all of them, or, if there is little
  /// space, of as many of the oldest as fit.
  private func pickBase(
    oldestOf stack: [Int], _ input: Input, _ targets: LevelTargets, score: Double
  ) -> Compaction? {
    var count = stack.count
    while count > 0 {
      let seed = Array(stack[..<count])
      if let compaction = pickBase(containing: seed, input, targets, reason: .levelZero, score: score) {
        return compaction
      }
      if !input.isShortOfSpace { return nil }
      count /= 2
    }
    return nil
  }

  /// Adjacent intervals are deep because of the same tables: if one is blocked, the others mostly are.
  private static let deepTryMaximum = 8

  /// Returns, for each interval, the number of tables below the first busy one.
  ///
  /// Complexity: O(n log n), and O(n) for each busy table.
  private func compactableDepths(_ input: Input) -> [Int] {
    let levelZero = input.version.levelZero
    let intervals = levelZero.intervals
    let busy = levelZero.tables.indices.filter { input.isBusy(levelZero.tables[$0]) }
    if busy.isEmpty { return intervals.depths { _ in true } }
    // The tables are newest first, so the last one noted is the oldest.
    var oldestBusy = [Int](repeating: -1, count: intervals.count)
    for index in busy {
      for interval in intervals.ranges[index] { oldestBusy[interval] = index }
    }
    return intervals.depths(below: oldestBusy)
  }

  /// Returns the indices of an interval's tables from the oldest up to the first busy one.
  private func stack(_ interval: Int, _ input: Input) -> [Int] {
    let levelZero = input.version.levelZero
    let ranges = levelZero.intervals.ranges
    var members: [Int] = []
    for index in levelZero.tables.indices.reversed() where ranges[index].contains(interval) {
      if input.isBusy(levelZero.tables[index]) { break }
      members.append(index)
    }
    return members
  }

  /// Returns `seed` and all older tables that overlap a member, or `nil` if one of them is busy.
  private func closure(of seed: [Int], _ input: Input) -> Set<Int>? {
    let levelZero = input.version.levelZero
    let ranges = levelZero.intervals.ranges
    var members = Set(seed)
    // Tables are newest first: one pass from the newest member finds every older table after all tables because of
    // which it is included.
    guard let newest = seed.min() else { return nil }
    for index in newest..<levelZero.tables.count where !members.contains(index) {
      let isDrawnIn = members.contains { $0 < index && ranges[$0].overlaps(ranges[index]) }
      guard isDrawnIn else { continue }
      if input.isBusy(levelZero.tables[index]) { return nil }
      members.insert(index)
    }
    return members
  }

  /// Picks a compaction of the level 0 tables with the indices `seed` into the base level.
  ///
  /// It includes all tables that must accompany them and all that can. Returns `nil` if one of the tables is busy, or
  /// if there is no space for the outputs. If they can be compacted in parts instead, the result divides one of them.
  func pickBase(
    containing seed: [Int], _ input: Input, _ targets: LevelTargets, reason: Compaction.Reason, score: Double = 1
  ) -> Compaction? {
    let levelZero = input.version.levelZero
    let ranges = levelZero.intervals.ranges
    guard let members = closure(of: seed, input) else { return nil }
    if hasTooManyRuns(members, input) {
      switch pickFewerRuns(of: deepestStack(of: members, input), input, score: score) {
      case .compaction(let compaction): return compaction
      case .blocked: return nil
      case .impossible: break
      }
    }
    guard var range = UserKeyRange(around: members.map { levelZero.tables[$0] }) else { return nil }
    let base = input.version.run(targets.baseLevel)
    let overlap = base.overlap(range)
    guard !base.tables[overlap].contains(where: input.isBusy) else { return nil }
    for table in base.tables[overlap] { range.extend(by: table) }
    // Tables within the range overlap no other base table. Oldest first: a table may be included only if all older ones
    // that it overlaps are.
    var all = members
    for index in levelZero.tables.indices.reversed() where !all.contains(index) {
      let table = levelZero.tables[index]
      guard range.contains(table), !input.isBusy(table) else { continue }
      let isFree = (index + 1..<levelZero.tables.count).allSatisfy {
        all.contains($0) || !ranges[$0].overlaps(ranges[index])
      }
      if isFree { all.insert(index) }
    }
    guard !input.inProgress.hasOutputs(of: input.family, level: targets.baseLevel, overlapping: range) else {
      return nil
    }
    func compaction(of members: Set<Int>) -> Compaction {
      let inputs = [
        Compaction.Input(level: 0, tables: members.sorted().map { levelZero.tables[$0] }),
        Compaction.Input(level: targets.baseLevel, tables: base.tables.array(in: overlap)),
      ]
      return finish(inputs, to: targets.baseLevel, range, input, reason: reason, score: score)
    }
    if !hasTooManyRuns(all, input), let all = input.fitting(compaction(of: all)) { return all }
    let necessary = compaction(of: members)
    return input.fitting(necessary) ?? dividing(necessary, input)
  }

  // MARK: - Too many runs for one merge

  /// Returns whether a merge of these tables of level 0 would need more read buffers than it may have.
  private func hasTooManyRuns(_ members: Set<Int>, _ input: Input) -> Bool {
    guard members.count > options.runCountMaximum else { return false }
    let tables = input.version.levelZero.tables
    return LevelZero(members.sorted().map { tables[$0] }).sublevels.count > options.runCountMaximum
  }

  /// Returns whether there are enough buffers to merge these tables within level 0.
  ///
  /// Tables between them in age are included, so there may be up to twice as many as were chosen.
  private func isFewEnough(_ tables: [TableMetadata]) -> Bool {
    tables.count <= 2 * options.runCountMaximum || LevelZero(tables).sublevels.count <= 2 * options.runCountMaximum
  }

  private enum FewerRuns {
    case compaction(Compaction)
    /// A running compaction has one of the tables or writes to their range.
    case blocked
    /// The tables that must be included make too many runs again, so all are merged at once; or their merge needs more
    /// space than there is.
    case impossible
  }

  /// Returns a merge of tables within level 0, or `nil` if there is no space for the outputs.
  private func intraLevelZero(
    _ tables: [TableMetadata], _ range: UserKeyRange, _ input: Input, score: Double
  ) -> Compaction? {
    input.fitting(
      Compaction(
        family: input.family, reason: .intraLevelZero, inputs: [Compaction.Input(level: 0, tables: tables)],
        outputLevel: 0, range: range, version: input.version, targetFileSize: options.targetFileSize, score: score))
  }

  /// Merges as many adjacent tables (in age) of `stack`, newest first, as one merge may have into one run of level 0.
  ///
  /// Chooses those with the fewest bytes, so that an entry is rewritten once for each time that the number of runs
  /// falls by the factor. All of them cover one interval.
  private func pickFewerRuns(of stack: [Int], _ input: Input, score: Double) -> FewerRuns {
    let levelZero = input.version.levelZero
    var count = min(stack.count, options.runCountMaximum)
    while count >= 2 {
      guard let chosen = between(smallest(count, of: stack, levelZero), input) else { return .blocked }
      let tables = chosen.sorted().map { levelZero.tables[$0] }
      if isFewEnough(tables), let range = UserKeyRange(around: tables) {
        guard !input.inProgress.hasOutputs(of: input.family, level: 0, overlapping: range) else { return .blocked }
        if let compaction = intraLevelZero(tables, range, input, score: score) { return .compaction(compaction) }
      }
      count /= 2
    }
    return .impossible
  }

  /// Returns the `count` adjacent tables in `stack` that have the fewest bytes.
  private func smallest(_ count: Int, of stack: [Int], _ levelZero: LevelZero) -> [Int] {
    let sizes = stack.map { levelZero.tables[$0].fileSize }
    var size = sizes.prefix(count).reduce(0, +)
    var best = (first: 0, size: size)
    for first in stride(from: 1, through: stack.count - count, by: 1) {
      size = size - sizes[first - 1] + sizes[first + count - 1]
      if size < best.size { best = (first, size) }
    }
    return Array(stack[best.first..<best.first + count])
  }

  /// Returns those of `members`, newest first, that cover the interval covered by most of them.
  private func deepestStack(of members: Set<Int>, _ input: Input) -> [Int] {
    let intervals = input.version.levelZero.intervals
    let depths = intervals.depths { members.contains($0) }
    guard let deepest = depths.indices.max(by: { depths[$0] < depths[$1] }) else { return [] }
    return members.filter { intervals.ranges[$0].contains(deepest) }.sorted()
  }

  // MARK: - Within level 0

  /// The reason for which tables of level 0 are merged among themselves.
  enum IntraLevelZeroCause: Sendable {
    /// Level 0 is deep, and the base level is busy.
    case deep
    /// A damaged table keeps the tables on level 0.
    case stuck
    /// Writes have paused, and reads until they resume should not search each flushed table separately.
    case paused
  }

  /// Merges the newest idle tables of a deep interval into one, which reduces the depth without using the base level.
  ///
  /// The inputs are contiguous in age among all tables that overlap their range, so that the output is completely newer
  /// or completely older than every table it overlaps.
  func pickIntraLevelZero(_ input: Input, _ cause: IntraLevelZeroCause, score: Double) -> Compaction? {
    let levelZero = input.version.levelZero
    // A merge within level 0 is the only way to reduce the depth of stuck tables. It begins at the depth from which
    // level 0 would otherwise be compacted.
    let countMinimum = cause == .stuck ? options.levelZeroDepthTrigger : options.intraLevelZeroCountMinimum
    var runs: [(interval: Int, members: [Int])] = []
    for interval in 0..<levelZero.intervals.count {
      let members = newestIdle(interval, input, areAlike: cause == .paused)
      guard members.count >= countMinimum else { continue }
      if cause != .stuck || members.contains(where: { input.stuck.contains(levelZero.tables[$0]) }) {
        runs.append((interval, members))
      }
    }
    runs.sort { $0.members.count != $1.members.count ? $0.members.count > $1.members.count : $0.interval < $1.interval }
    // A level 0 that is less deep is left alone: its few tables will soon be compacted into the base level anyway.
    let depthMinimum = cause == .deep ? options.levelZeroDepthTrigger * 2 : 0
    for run in runs.prefix(8) where levelZero.depth >= depthMinimum {
      guard let members = between(run.members, input) else { continue }
      let tables = members.sorted().map { levelZero.tables[$0] }
      guard isFewEnough(tables), let range = UserKeyRange(around: tables),
        !input.inProgress.hasOutputs(of: input.family, level: 0, overlapping: range)
      else { continue }
      if let compaction = intraLevelZero(tables, range, input, score: score) { return compaction }
    }
    return nil
  }

  /// Returns the newest tables of an interval down to the first busy one.
  ///
  /// They have at most a batch of bytes, and are at most as many runs as one merge may have. With `areAlike`, they end
  /// before the first table that is larger than twice all newer ones, so that tables merged in one pause are not
  /// rewritten in each following one.
  private func newestIdle(_ interval: Int, _ input: Input, areAlike: Bool) -> [Int] {
    let levelZero = input.version.levelZero
    let ranges = levelZero.intervals.ranges
    var members: [Int] = []
    var size: UInt64 = 0
    for index in levelZero.tables.indices where ranges[index].contains(interval) {
      let table = levelZero.tables[index]
      if input.isBusy(table) {
        if members.isEmpty { continue }
        break
      }
      if areAlike, !members.isEmpty, table.fileSize / 2 > size { break }
      size += table.fileSize
      if size > options.levelZeroBatchSize * 2 || members.count == options.runCountMaximum { break }
      members.append(index)
    }
    return members
  }

  /// Returns `seed` and every table that overlaps its range and is neither newer nor older than all members.
  ///
  /// Returns `nil` if one of them is busy.
  private func between(_ seed: [Int], _ input: Input) -> Set<Int>? {
    let tables = input.version.levelZero.tables
    var members = Set(seed)
    guard var range = UserKeyRange(around: seed.map { tables[$0] }) else { return nil }
    var smallest = seed.map { tables[$0].smallestSequence }.min() ?? .zero
    var largest = seed.map { tables[$0].largestSequence }.max() ?? .maximum
    var grew = true
    while grew {
      grew = false
      for index in tables.indices where !members.contains(index) {
        let table = tables[index]
        guard range.overlaps(table), table.largestSequence >= smallest, table.smallestSequence <= largest else {
          continue
        }
        if input.isBusy(table) { return nil }
        members.insert(index)
        range.extend(by: table)
        smallest = min(smallest, table.smallestSequence)
        largest = max(largest, table.largestSequence)
        grew = true
      }
    }
    return members
  }
}

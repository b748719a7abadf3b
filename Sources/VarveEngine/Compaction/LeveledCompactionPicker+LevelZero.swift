extension LeveledCompactionPicker {
  // MARK: - Moves

  /// The tables of level 0 that overlap nothing on it and nothing on the levels below down to some
  /// level: moved there together. Ascending loads never merge anything.
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
      // What is moved together is one hull in `CompactionsInProgress`, which nothing else may be in.
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

  /// The deepest level, from the base level on, down to which nothing is or comes into `range`.
  private func moveDepth(_ range: UserKeyRange, _ input: Input, _ targets: LevelTargets) -> Int? {
    var depth = 0
    for level in 1..<Limits.levelCount {
      let run = input.version.run(level)
      let overlap = run.overlap(range)
      guard overlap.isEmpty, !input.inProgress.hasOutputs(of: input.family, level: level, overlapping: range) else {
        // What lies over a damaged table is cut at its bounds, which a move does not do.
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

  /// Level 0 into the base level, from the deepest interval that is not blocked.
  func pickBase(_ input: Input, _ targets: LevelTargets, score: Double) -> Compaction? {
    let depths = compactableDepths(input)
    let order = depths.indices.filter { depths[$0] > 0 }
      .sorted { depths[$0] != depths[$1] ? depths[$0] > depths[$1] : $0 < $1 }
    var tried: Set<[Int]> = []
    for interval in order {
      // A seed that gives the tables of one that failed fails again.
      let seed = stack(interval, input)
      guard tried.insert(seed).inserted else { continue }
      if let compaction = pickBase(containing: seed, input, targets, reason: .levelZero, score: score) {
        return compaction
      }
    }
    return nil
  }

  /// Of each interval, how many tables lie below the first busy one.
  private func compactableDepths(_ input: Input) -> [Int] {
    let levelZero = input.version.levelZero
    let intervals = levelZero.intervals
    var depths = [Int](repeating: 0, count: intervals.count)
    var isBlocked = [Bool](repeating: false, count: intervals.count)
    for index in levelZero.tables.indices.reversed() {
      let isBusy = input.isBusy(levelZero.tables[index])
      for interval in intervals.ranges[index] {
        if isBusy { isBlocked[interval] = true }
        if !isBlocked[interval] { depths[interval] += 1 }
      }
    }
    return depths
  }

  /// The indices of an interval's tables from the oldest up to the first busy one.
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

  /// `seed` and all older tables that overlap a member; nil if one of them is busy.
  private func closure(of seed: [Int], _ input: Input) -> Set<Int>? {
    let levelZero = input.version.levelZero
    let ranges = levelZero.intervals.ranges
    var members = Set(seed)
    // Tables are newest first: one pass from the newest member meets every older table after all
    // tables that can draw it in.
    guard let newest = seed.min() else { return nil }
    for index in newest..<levelZero.tables.count where !members.contains(index) {
      let isDrawnIn = members.contains { $0 < index && ranges[$0].overlaps(ranges[index]) }
      guard isDrawnIn else { continue }
      if input.isBusy(levelZero.tables[index]) { return nil }
      members.insert(index)
    }
    return members
  }

  /// The tables of level 0 with the indices `seed`, all that must and all that can come along, into
  /// the base level; nil if something of that is busy.
  func pickBase(
    containing seed: [Int], _ input: Input, _ targets: LevelTargets, reason: Compaction.Reason, score: Double = 1
  ) -> Compaction? {
    let levelZero = input.version.levelZero
    let ranges = levelZero.intervals.ranges
    guard var members = closure(of: seed, input) else { return nil }
    guard var range = UserKeyRange(around: members.map { levelZero.tables[$0] }) else { return nil }
    let base = input.version.run(targets.baseLevel)
    let overlap = base.overlap(range)
    guard !base.tables[overlap].contains(where: input.isBusy) else { return nil }
    for table in base.tables[overlap] { range.extend(by: table) }
    // What fits into the range overlaps no other base table. Oldest first: a table may come along
    // only if all older ones that it overlaps do.
    for index in levelZero.tables.indices.reversed() where !members.contains(index) {
      let table = levelZero.tables[index]
      guard range.contains(table), !input.isBusy(table) else { continue }
      let isFree = (index + 1..<levelZero.tables.count).allSatisfy {
        members.contains($0) || !ranges[$0].overlaps(ranges[index])
      }
      if isFree { members.insert(index) }
    }
    guard !input.inProgress.hasOutputs(of: input.family, level: targets.baseLevel, overlapping: range) else {
      return nil
    }
    let inputs = [
      Compaction.Input(level: 0, tables: members.sorted().map { levelZero.tables[$0] }),
      Compaction.Input(level: targets.baseLevel, tables: base.tables.array(in: overlap)),
    ]
    return finish(inputs, to: targets.baseLevel, range, input, reason: reason, score: score)
  }

  // MARK: - Within level 0

  /// Why tables of level 0 are merged among themselves.
  enum IntraLevelZeroCause: Sendable {
    /// Level 0 is deep, and the base level is busy.
    case deep
    /// A damaged table keeps them on level 0.
    case stuck
  }

  /// The newest idle tables of a deep interval become one: depth falls without the base level.
  ///
  /// The inputs are a run in age among all tables that overlap their range, so that the output is
  /// wholly newer or wholly older than every table it overlaps.
  func pickIntraLevelZero(_ input: Input, _ cause: IntraLevelZeroCause, score: Double) -> Compaction? {
    let levelZero = input.version.levelZero
    // What is stuck has no other way to become shallow: it is merged as soon as level 0 is otherwise.
    let countMinimum = cause == .deep ? options.intraLevelZeroCountMinimum : options.levelZeroDepthTrigger
    var runs: [(interval: Int, members: [Int])] = []
    for interval in 0..<levelZero.intervals.count {
      let members = newestIdle(interval, input)
      guard members.count >= countMinimum else { continue }
      if cause == .deep || members.contains(where: { input.stuck.contains(levelZero.tables[$0]) }) {
        runs.append((interval, members))
      }
    }
    runs.sort { $0.members.count != $1.members.count ? $0.members.count > $1.members.count : $0.interval < $1.interval }
    // Deep only: a few tables are soon compacted into the base level anyway.
    let depthMinimum = cause == .deep ? options.levelZeroDepthTrigger * 2 : 0
    for run in runs.prefix(8) where levelZero.depth >= depthMinimum {
      guard let members = between(run.members, input) else { continue }
      let tables = members.sorted().map { levelZero.tables[$0] }
      guard let range = UserKeyRange(around: tables),
        !input.inProgress.hasOutputs(of: input.family, level: 0, overlapping: range)
      else { continue }
      return Compaction(
        family: input.family, reason: .intraLevelZero, inputs: [Compaction.Input(level: 0, tables: tables)],
        outputLevel: 0, range: range, version: input.version, targetFileSize: options.targetFileSize, score: score)
    }
    return nil
  }

  /// Of an interval, the newest tables down to the first busy one; no more than a batch of bytes.
  private func newestIdle(_ interval: Int, _ input: Input) -> [Int] {
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
      size += table.fileSize
      if size > options.levelZeroBatchSize * 2 { break }
      members.append(index)
    }
    return members
  }

  /// `seed` and every table that overlaps the range and is neither newer nor older than all members;
  /// nil if one of them is busy.
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

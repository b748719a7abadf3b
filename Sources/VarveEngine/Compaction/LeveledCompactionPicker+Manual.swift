extension LeveledCompactionPicker {
  /// The next step of a manual compaction.
  enum ManualPick: Sendable {
    case compaction(Compaction)
    /// A running compaction is in the way; call again when a compaction has finished.
    case blocked
    /// Everything of the range is on the bottom level.
    case done
  }

  /// Returns the next step of moving a range to the bottom level, which drops every tombstone, and every version of a
  /// key, that no snapshot needs.
  ///
  /// Call it with the current Version, run the result, and call it again until it is `done`.
  ///
  /// First, level 0 is compacted into the base level. Then, part by part in key order, the tables of *all* levels move
  /// to the bottom in one merge each, so that no byte is written once per level. Tables without entries at or below
  /// `newest` were added after the call and are skipped. Damaged tables are skipped too, with all tables that would be
  /// merged with them.
  func pickManual(_ input: Input, range: UserKeyRange, newest: SequenceNumber = .maximum) -> ManualPick {
    let levelZero = input.version.levelZero
    let members = levelZero.tables.indices.filter {
      levelZero.tables[$0].smallestSequence <= newest && range.overlaps(levelZero.tables[$0])
        && !input.stuck.contains(levelZero.tables[$0])
    }
    if !members.isEmpty { return pickManualBase(members, input) }
    for level in 1..<LevelTargets.bottomLevel {
      let run = input.version.run(level)
      let overlap = run.overlap(range)
      let first = overlap.first {
        run.tables[$0].smallestSequence <= newest && !reachesSuspect(level, run.tables[$0], input)
      }
      guard let first else { continue }
      return pickToBottom(level, first, overlap.upperBound, input)
    }
    return pickRewrite(input, in: range, share: 0, newest: newest)
  }

  private func pickManualBase(_ members: [Int], _ input: Input) -> ManualPick {
    let targets = targets(input)
    guard !members.contains(where: { input.isBusy(input.version.levelZero.tables[$0]) }),
      let compaction = pickBase(containing: members, input, targets, reason: .manual)
    else { return .blocked }
    return .compaction(compaction)
  }

  /// Picks a compaction of tables of `level` from `first` on, with all that they overlap further down, to the bottom.
  private func pickToBottom(_ level: Int, _ first: Int, _ end: Int, _ input: Input) -> ManualPick {
    let run = input.version.run(level)
    var best: (inputs: [Compaction.Input], range: UserKeyRange)?
    for upperBound in (first + 1)...max(end, first + 1) {
      let (inputs, range) = column(level, run.tables.array(in: first..<upperBound), input.version)
      let size = inputs.reduce(0) { $0 + $1.tables.reduce(0) { $0 + $1.fileSize } }
      if best != nil, size > min(options.expansionSizeMaximum, input.space) { break }
      if best != nil, inputs.contains(where: { $0.tables.contains(where: input.isSuspect) }) { break }
      best = (inputs, range)
    }
    guard let best, !best.inputs.contains(where: { $0.tables.contains(where: input.isBusy) }) else {
      return .blocked
    }
    for target in (level + 1)...LevelTargets.bottomLevel
    where input.inProgress.hasOutputs(of: input.family, level: target, overlapping: best.range) {
      return .blocked
    }
    return .compaction(
      finish(best.inputs, to: LevelTargets.bottomLevel, best.range, input, reason: .manual, score: 1))
  }

  /// Returns whether a damaged table is among the tables that move to the bottom with a table.
  private func reachesSuspect(_ level: Int, _ table: TableMetadata, _ input: Input) -> Bool {
    if input.suspects.isEmpty { return false }
    return column(level, [table], input.version).0.contains { $0.tables.contains(where: input.isSuspect) }
  }

  /// Returns `tables` and, level by level, the tables that overlap those above.
  private func column(
    _ level: Int, _ tables: [TableMetadata], _ version: Version
  ) -> ([Compaction.Input], UserKeyRange) {
    var inputs = [Compaction.Input(level: level, tables: tables)]
    var range = UserKeyRange(around: tables) ?? .all
    for deeper in (level + 1)..<Limits.levelCount {
      let overlap = version.overlap(level: deeper, range)
      for table in overlap { range.extend(by: table) }
      inputs.append(Compaction.Input(level: deeper, tables: overlap))
    }
    return (inputs, range)
  }
}

extension LeveledCompactionPicker {
  // MARK: - Debt

  /// Returns the bytes that compactions must write until no level exceeds its target. The write controller bounds them.
  ///
  /// The result is an estimate, continuous in the sizes, and zero if no compaction is due.
  ///
  /// Level 0 owes the part deeper than the trigger, times the bytes that the base level rewrites per byte; each level
  /// owes the excess over its target, times its overlap below.
  ///
  /// Data that can't go down because of damaged tables owes nothing.
  func debtBytes(_ version: Version, suspects: [SuspectTable] = []) -> UInt64 {
    let targets = LevelTargets(version, options: options, shallowestOutputLevel: Self.levelAbove(suspects))
    let stuck = StuckTables(version, suspects)
    func movable(_ level: Int) -> Double {
      Double(version.size(level: level) - stuck.size(of: suspects.isEmpty ? [] : version.tables(level: level)))
    }
    let depth = depth(version, stuck)
    let levelZeroSize = movable(0)
    let baseSize = Double(version.size(level: targets.baseLevel))
    var debt = 0.0
    var incoming = 0.0
    if depth > options.levelZeroDepthTrigger, levelZeroSize > 0 {
      incoming = levelZeroSize * Double(depth - options.levelZeroDepthTrigger) / Double(depth)
      debt += incoming * (1 + baseSize / levelZeroSize)
    }
    for level in targets.baseLevel..<LevelTargets.bottomLevel {
      let size = movable(level) + (level == targets.baseLevel ? incoming : 0)
      let excess = max(size - Double(targets.sizes[level]), 0)
      guard excess > 0 else { continue }
      let next = Double(version.size(level: level + 1))
      debt += excess * (1 + min(next / size, targets.multiplier))
    }
    return UInt64(debt)
  }

  /// Returns the largest number of level 0 tables that can move to a deeper level and cover one key.
  func depth(_ version: Version, _ stuck: StuckTables) -> Int {
    if stuck.isEmpty { return version.levelZero.depth }
    return LevelZero(version.levelZero.tables.filter { !stuck.contains($0) }).depth
  }
}

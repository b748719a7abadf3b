/// One unit of work that the picker found: the tables to merge, the output level, and what the job must know.
///
/// A compaction is a value: picking it locks and marks nothing. The caller first registers it with
/// `CompactionsInProgress`, so that the next pick leaves its tables alone.
///
/// # Invariants
/// 1. `inputs` have the newest level first. On every level that is not the first and not above `outputLevel`, they are
///    all tables that overlap the inputs above them.
/// 2. On level 0, each input is accompanied by all older tables that overlap it (if the output level is 0 too: all
///    between the inputs in age).
/// 3. No table on a level between the first input's and `outputLevel` overlaps `range` unless it is an input.
/// 4. `older` are exactly the tables that overlap `range` and may have older entries of its keys.
struct Compaction: Sendable {
  /// The reason for a compaction, as events, statistics and tests report it.
  enum Reason: String, Sendable {
    /// Level 0 is too deep, or too large.
    case levelZero
    /// The base level is busy and level 0 gets deep, so the newest tables of level 0 are merged into one.
    case intraLevelZero
    /// A level is above its target.
    case levelSize
    /// A table moves to a level where nothing overlaps it.
    case move
    /// A table has many tombstones.
    case tombstones
    /// A table has many entries that only released readers needed.
    case released
    /// Tables lie completely under range tombstones, so they are dropped without being read.
    case covered
    /// A caller requested the range.
    case manual
    /// The damaged part of a table was given up, so the table is rewritten without it.
    case damage
    /// There is no space for the compaction of a table with all that it overlaps, so the table is divided on its level.
    case division
  }

  /// The inputs of one level, in the level's order.
  struct Input: Sendable {
    let level: Int
    let tables: [TableMetadata]
  }

  let family: FamilyID
  let reason: Reason
  let inputs: [Input]
  let outputLevel: Int
  /// The range around all inputs. No output exceeds it.
  let range: UserKeyRange
  /// The tables by level (or sublevel), the newest first, that may have older entries of keys in `range`.
  let older: [SortedRun]
  /// The tables below the output level in `range`: outputs are cut at their bounds.
  let grandparents: [TableMetadata]
  let targetFileSize: UInt64
  /// The ranges of damaged tables on the level below the output level: outputs are cut at their bounds.
  var damagedBelow: [UserKeyRange] = []
  /// The keys at which a table is divided, ascending: each is the first key of its part. Empty for other compactions.
  var divisionKeys: [[UInt8]] = []
  /// A Boolean value that indicates whether the inputs may be moved to the output level without being read.
  let isTrivialMove: Bool
  /// A Boolean value that indicates whether every reader sees all entries of the inputs, so that what their tombstones
  /// hide is removed.
  var isSettled = true
  /// The urgency: a level is compacted from 1 on.
  let score: Double

  /// A Boolean value that indicates whether no older entry of any key in `range` exists outside the inputs.
  ///
  /// Then a tombstone that every snapshot sees may be dropped; otherwise `DeeperKeys` decides for single keys.
  var isBottommost: Bool { older.isEmpty }

  var inputSize: UInt64 { inputs.reduce(0) { $0 + $1.tables.reduce(0) { $0 + $1.fileSize } } }

  var inputTables: [TableMetadata] { inputs.flatMap(\.tables) }

  /// The estimated bytes of the outputs: the size of the inputs, less what their tombstones remove.
  private var outputSize: UInt64 {
    let size = inputSize
    let removed = inputs.reduce(0) { $0 + $1.tables.reduce(0) { $0 + removedSize($1) } }
    return size - min(size, removed)
  }

  /// The estimated bytes by which the tables are smaller after the compaction.
  var freedSize: UInt64 { isTrivialMove ? 0 : dropsInputs ? inputSize : inputSize - outputSize }

  /// The estimated bytes that the outputs take while the inputs still exist, or zero if nothing is written.
  var spaceNeed: UInt64 {
    if isTrivialMove || dropsInputs { return 0 }
    return Self.spaceNeed(of: outputSize) + UInt64(divisionKeys.count + 1) * Self.tableNeed(targetFileSize)
  }

  /// Returns the bytes that outputs of an estimated size may take. A sixteenth is added, because the same entries may
  /// compress differently in other tables, and because the size is an estimate.
  static func spaceNeed(of size: UInt64) -> UInt64 { size + size / 16 }

  /// Returns the bytes that a table takes besides its entries: a block of the device.
  static func tableNeed(_ targetFileSize: UInt64) -> UInt64 { min(4 << 10, targetFileSize / 16) }

  /// Returns the estimated bytes of the inputs that the tombstones of one of them remove.
  ///
  /// What a table's tombstones hide is known as a sum over all deeper levels, so it is used only if the inputs have all
  /// of it.
  private func removedSize(_ table: TableMetadata) -> UInt64 {
    if !isSettled { return 0 }
    guard let shadowed = table.shadowedSize else { return table.averageWeight }
    return isBottommost ? shadowed + table.tombstoneSize : min(shadowed, table.averageWeight)
  }

  init(
    family: FamilyID, reason: Reason, inputs: [Input], outputLevel: Int, range: UserKeyRange, version: Version,
    targetFileSize: UInt64, isTrivialMove: Bool = false, score: Double = 1
  ) {
    self.family = family
    self.reason = reason
    self.inputs = inputs.filter { !$0.tables.isEmpty }
    self.outputLevel = outputLevel
    self.range = range
    self.targetFileSize = targetFileSize
    self.isTrivialMove = isTrivialMove
    self.score = score
    older = Self.older(version, range, outputLevel, inputs)
    let grandparentLevel = max(outputLevel + 1, 1)
    grandparents =
      grandparentLevel < Limits.levelCount && outputLevel > 0 ? version.overlap(level: grandparentLevel, range) : []
  }

  private static func older(
    _ version: Version, _ range: UserKeyRange, _ outputLevel: Int, _ inputs: [Input]
  ) -> [SortedRun] {
    var runs: [SortedRun] = []
    if outputLevel == 0, let oldest = inputs.first?.tables.min(by: { $0.smallestSequence < $1.smallestSequence }) {
      // Level 0 below the inputs: disjoint within a sublevel.
      for sublevel in version.levelZero.sublevels.reversed() {
        let tables = sublevel.tables.filter { range.overlaps($0) && $0.isOlder(than: oldest) }
        if !tables.isEmpty { runs.append(SortedRun(tables)) }
      }
    }
    for level in max(outputLevel + 1, 1)..<max(Limits.levelCount, outputLevel + 1) where level < Limits.levelCount {
      let tables = version.overlap(level: level, range)
      if !tables.isEmpty { runs.append(SortedRun(tables)) }
    }
    return runs
  }

  /// Creates a compaction that drops tables without reading them (`CoveredTables`).
  ///
  /// Nothing is written, so the output level is that of the first input. Returns `nil` if there are no inputs.
  init?(dropping inputs: [Input], of family: FamilyID, version: Version) {
    guard let first = inputs.first, let range = UserKeyRange(around: inputs.flatMap(\.tables)) else { return nil }
    self.family = family
    reason = .covered
    self.inputs = inputs
    outputLevel = first.level
    self.range = range
    older = []
    grandparents = []
    targetFileSize = 0
    isTrivialMove = false
    score = .infinity
  }

  /// A Boolean value that indicates whether the inputs are dropped without being read.
  var dropsInputs: Bool { reason == .covered }

  /// Returns the edit that installs the result: it deletes the inputs and adds the outputs.
  func edit(outputs: [TableMetadata]) -> VersionEdit {
    var edit = VersionEdit()
    for input in inputs {
      for table in input.tables { edit.deleteTable(table.number, family: family, level: input.level) }
    }
    for table in outputs { edit.addTable(table, family: family, level: outputLevel) }
    return edit
  }

  /// Returns the edit of a trivial move, which has the inputs as outputs.
  func moveEdit() -> VersionEdit {
    precondition(isTrivialMove, "only a compaction that is a trivial move may be done unread")
    return edit(outputs: inputTables)
  }
}

// MARK: - Subcompactions

extension Compaction {
  /// Returns keys that divide the inputs into at most `count` parts of about equal bytes.
  ///
  /// The keys ascend, and each is the first key of its part. The array is empty if the compaction should not be
  /// divided.
  ///
  /// `samples` are keys within inputs, each with the bytes between it and the table's previous sample: entries of
  /// tables' indexes, if the caller has them in memory. Without samples, cuts are at the bounds of tables.
  ///
  /// No part is smaller than half of `targetFileSize`. A division has its own parts.
  func subcompactionBoundaries(count: Int, samples: [(key: [UInt8], bytes: UInt64)] = []) -> [[UInt8]] {
    if !divisionKeys.isEmpty { return divisionKeys }
    let total = inputSize
    let parts = min(count, Int(clamping: total / max(targetFileSize / 2, 1)))
    guard parts > 1 else { return [] }
    let weights = samples.isEmpty ? tableSamples() : samples.sorted { KeyBytes.compare($0.key, $1.key) < 0 }
    let weight = weights.reduce(0) { $0 + $1.bytes }
    let share = max(weight / UInt64(parts), 1)
    var boundaries: [[UInt8]] = []
    var sum: UInt64 = 0
    var last = range.lower
    for sample in weights {
      sum += sample.bytes
      guard sum >= share * UInt64(boundaries.count + 1), boundaries.count < parts - 1, sum < weight else { continue }
      if KeyBytes.compare(sample.key, last) > 0 {
        boundaries.append(sample.key)
        last = sample.key
      }
    }
    return boundaries
  }

  /// Returns samples for which each table's bytes are distributed evenly over the bounds of tables inside it.
  private func tableSamples() -> [(key: [UInt8], bytes: UInt64)] {
    let tables = inputTables
    let keys = tables.map(\.smallestKey).sorted { KeyBytes.compare($0, $1) < 0 }
    var bytes = [UInt64](repeating: 0, count: keys.count)
    for table in tables {
      let first = Self.firstIndex(in: keys) { KeyBytes.compare(table.smallest, $0) < 0 }
      let end = Self.firstIndex(in: keys) { KeyBytes.compare(table.largest, $0) < 0 }
      // Cuts at keys[first..<end] lie inside; the bytes after the last of them count at the next key.
      let pieces = UInt64(end - first + 1)
      for index in first...end where index < keys.count { bytes[index] += table.fileSize / pieces }
    }
    let placed = bytes.reduce(0, +)
    let later = tables.reduce(0) { $0 + $1.fileSize } - placed
    return zip(keys, bytes).map { (key: $0, bytes: $1) } + [(key: [UInt8](), bytes: later)]
  }

  private static func firstIndex(in keys: [[UInt8]], where isPast: ([UInt8]) -> Bool) -> Int {
    var low = 0
    var high = keys.count
    while low < high {
      let middle = (low + high) / 2
      if isPast(keys[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}

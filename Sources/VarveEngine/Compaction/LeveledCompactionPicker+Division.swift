/// Divides tables for whose compaction there is too little space.
///
/// A compaction has all tables that its inputs overlap on the next level, so a table over the whole key range, such as
/// a flush of scattered deletes, takes the whole level. If the outputs don't fit, the table is first rewritten on its
/// own level, as several tables that end where tables of the next level begin. Each of them is then compacted with its
/// part of that level, and the space that this frees is there for the next one.
///
/// If that is not enough, because not even one table of the next level fits, the table is cut where those tables begin
/// and end. The parts between them overlap only deeper levels, and move on to free space there.
///
/// # A division ends
/// A table is cut only at keys between its first and its last one, at which tables that it overlaps begin or end. So it
/// has at least two parts, and each has fewer such keys inside.
extension LeveledCompactionPicker {
  /// The maximum number of keys at which a table is cut.
  private static let keyMaximum: UInt64 = 256

  /// The number of keys at which a table may be cut: half of the space is left to the entries.
  private func keyMaximum(_ input: Input) -> Int {
    Int(min(Self.keyMaximum, input.space / (2 * Compaction.tableNeed(options.targetFileSize) + 1)))
  }

  /// Returns a division of one of the upper tables of a compaction that does not fit, or `nil` if that would not help.
  func dividing(_ compaction: Compaction, _ input: Input) -> Compaction? {
    guard let upper = compaction.inputs.first, let lower = compaction.inputs.last, upper.level < lower.level else {
      return nil
    }
    let keys = divisionKeys(lower.tables, compaction.spaceNeed, input)
    // The oldest first: those of level 0 are merged in that order.
    for table in upper.tables.reversed() {
      let isInside = { (key: [UInt8]) in key.withByteView { table.smallest < $0 && !table.endsBefore($0) } }
      var inside = keys.filter(isInside)
      if inside.isEmpty, lower.level < LevelTargets.bottomLevel {
        inside = Self.edges(lower.tables).filter(isInside)
      }
      inside.removeLast(max(inside.count - keyMaximum(input), 0))
      let range = UserKeyRange(table)
      guard !inside.isEmpty, !input.inProgress.hasOutputs(of: input.family, level: upper.level, overlapping: range)
      else { continue }
      var division = Compaction(
        family: input.family, reason: .division, inputs: [Compaction.Input(level: upper.level, tables: [table])],
        outputLevel: upper.level, range: range, version: input.version,
        targetFileSize: targetFileSize(input, level: upper.level), score: compaction.score)
      division.divisionKeys = inside
      // What the tombstones hide is not among the inputs.
      division.isSettled = false
      if let fitting = input.fitting(division) { return fitting }
    }
    return nil
  }

  /// Returns the first keys of tables of the lower level at which tables above it are cut, so that the compaction of a
  /// part takes about half of the space. Returns none if not even one part would fit.
  ///
  /// The parts of the lower level begin at multiples of a power of two bytes, so that tables that are divided one after
  /// the other are cut at the same keys.
  private func divisionKeys(_ lower: [TableMetadata], _ need: UInt64, _ input: Input) -> [[UInt8]] {
    let total = lower.reduce(0) { $0 + $1.fileSize }
    let keyMaximum = keyMaximum(input)
    guard lower.count > 1, total > 0, keyMaximum > 0, need > 0 else { return [] }
    // A part of so many bytes needs all of the space.
    let share = Double(total) * Double(input.space) / Double(need)
    guard lower.contains(where: { Double($0.fileSize) <= share }) else { return [] }
    var unit = Self.powerOfTwo(atMost: UInt64(share / 2))
    var keys = Self.firstKeys(lower, inPartsOf: unit)
    while keys.isEmpty, unit > 1 {
      unit /= 2
      keys = Self.firstKeys(lower, inPartsOf: unit)
    }
    while keys.count > keyMaximum {
      unit *= 2
      keys = Self.firstKeys(lower, inPartsOf: unit)
    }
    return keys
  }

  /// Returns the first key of each table before which a multiple of `unit` bytes was passed.
  private static func firstKeys(_ tables: [TableMetadata], inPartsOf unit: UInt64) -> [[UInt8]] {
    var keys: [[UInt8]] = []
    var size: UInt64 = 0
    var part: UInt64 = 0
    for table in tables {
      if size / unit > part { keys.append(table.smallestKey) }
      part = size / unit
      size += table.fileSize
    }
    return keys
  }

  /// Returns the keys at which tables of a level begin or end, where there is room between two of them.
  private static func edges(_ tables: [TableMetadata]) -> [[UInt8]] {
    var keys: [[UInt8]] = []
    for table in tables {
      if let end = keys.last, end == table.smallestKey { keys.removeLast() }
      keys.append(table.smallestKey)
      if table.largestIsExcluded {
        keys.append(table.largestKey)
      } else if table.largest.count < Limits.keySizeMaximum {
        keys.append(table.largestKey + [0])
      }
    }
    return keys
  }

  private static func powerOfTwo(atMost size: UInt64) -> UInt64 { 1 << UInt64(63 - max(size, 1).leadingZeroBitCount) }
}

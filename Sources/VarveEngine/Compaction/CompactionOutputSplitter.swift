/// Decides where a compaction ends one output table and begins the next.
///
/// Outputs of exactly the target size would straddle tables of the level below (grandparents), and each straddled one
/// is merged again later. So a table may end early where a grandparent begins: from half of the target size on, and for
/// each boundary that it has passed, 5 percentage points later, up to 90 %. It ends in any case at the target size, or
/// when it overlaps too many grandparent bytes.
///
/// It also ends at both bounds of a damaged table of the level below, so that only the keys between them can't go down
/// (`StuckTables`).
///
/// Call it at each new user key, in ascending order: entries of one user key stay in one table, so that the tables of a
/// level are disjoint by user key.
struct CompactionOutputSplitter {
  private let grandparents: [TableMetadata]
  private let targetFileSize: UInt64
  private let overlapMaximum: UInt64
  /// The grandparents before this index begin at or before the last key.
  private var index = 0
  private var boundaryCount = 0
  private var overlapSize: UInt64 = 0
  private let cuts: [Cut]
  /// The cuts before this index lie at or before the last key.
  private var cutIndex = 0

  /// A position between two keys: before `key`, or right after it.
  private struct Cut {
    let key: [UInt8]
    let isAfter: Bool

    func isPassed(by userKey: ByteView) -> Bool {
      let order = KeyBytes.compare(userKey, key)
      return isAfter ? order > 0 : order >= 0
    }
  }

  init(_ compaction: Compaction) {
    self.init(
      grandparents: compaction.grandparents, targetFileSize: compaction.targetFileSize,
      damaged: compaction.damagedBelow)
  }

  /// `damaged` are ranges of damaged tables of the level below the output.
  init(grandparents: [TableMetadata], targetFileSize: UInt64, damaged: [UserKeyRange] = []) {
    self.grandparents = grandparents
    let ranges = damaged.sorted { KeyBytes.compare($0.lower, $1.lower) < 0 }
    cuts = ranges.flatMap { range in
      [Cut(key: range.lower, isAfter: false)]
        + (range.upper.map { [Cut(key: $0, isAfter: !range.upperIsExcluded)] } ?? [])
    }
    self.targetFileSize = targetFileSize
    overlapMaximum = targetFileSize * 10
  }

  /// Returns whether the output ends before `userKey`, given the bytes written to it so far.
  ///
  /// After true, the counts restart for the output that begins with `userKey`.
  @inline(__always)
  mutating func shouldSplit(before userKey: ByteView, currentSize: UInt64) -> Bool {
    if cutIndex < cuts.count, crossCut(userKey), currentSize > 0 { return true }
    if index >= grandparents.count || grandparents[index].smallest.compare(userKey) > 0 {
      guard currentSize >= targetFileSize else { return false }
      startOutput()
      return true
    }
    return crossBoundary(userKey, currentSize)
  }

  /// Returns whether a cut lies before the key and not before the key of the previous call.
  @inline(never)
  private mutating func crossCut(_ userKey: ByteView) -> Bool {
    let first = cutIndex
    while cutIndex < cuts.count, cuts[cutIndex].isPassed(by: userKey) { cutIndex += 1 }
    guard cutIndex > first else { return false }
    while index < grandparents.count, grandparents[index].smallest.compare(userKey) <= 0 { index += 1 }
    startOutput()
    return true
  }

  private mutating func startOutput() {
    boundaryCount = 0
    overlapSize = 0
  }

  @inline(never)
  private mutating func crossBoundary(_ userKey: ByteView, _ currentSize: UInt64) -> Bool {
    var passedSize: UInt64 = 0
    while index < grandparents.count, grandparents[index].smallest.compare(userKey) <= 0 {
      passedSize += grandparents[index].fileSize
      index += 1
      boundaryCount += 1
    }
    overlapSize += passedSize
    let share = min(UInt64(50 + 5 * max(boundaryCount - 1, 0)), 90)
    let isFullEnough = currentSize * 100 >= targetFileSize * share
    guard currentSize > 0, isFullEnough || overlapSize > overlapMaximum else { return false }
    startOutput()
    // The output that begins here overlaps the grandparent that begins here.
    overlapSize = passedSize
    return true
  }
}

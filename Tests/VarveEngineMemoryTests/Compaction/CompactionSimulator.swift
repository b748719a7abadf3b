import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// A tree of real keys and simulated bytes: flushes and the compactions that the picker chooses, without files.
///
/// An entry is one word, with key and sequence; each counts as `entrySize` bytes on disk. Time is measured in
/// memtables: while one fills, each compaction thread writes `bytesPerMemtable`. All sizes are a fraction of the real
/// ones, which changes no ratio.
struct CompactionSimulator {
  let picker: LeveledCompactionPicker
  let entrySize: UInt64
  let threadCount: Int
  /// The bytes that one thread writes while a memtable fills, or `nil` if all due work is done at once.
  let bytesPerMemtable: UInt64?
  /// Whether flushes are cut at the base level's bounds.
  var splitsFlushes = true

  private(set) var version = Version.empty
  private(set) var contents: [FileNumber: [UInt64]] = [:]
  private(set) var flushedBytes: UInt64 = 0
  private(set) var compactedBytes: UInt64 = 0
  private(set) var movedBytes: UInt64 = 0
  private(set) var depthMaximum = 0
  private(set) var debtMaximum: UInt64 = 0
  private(set) var compactionCount = 0
  private(set) var parallelMaximum = 0
  private(set) var reasons: Set<Compaction.Reason> = []
  private var nextNumber: UInt64 = 1
  private var running: [(ticket: CompactionsInProgress.Ticket, compaction: Compaction, rest: UInt64)] = []
  private var inProgress = CompactionsInProgress()
  /// The greatest number of runs of level 0 in any compaction.
  private(set) var runCountMaximum = 0
  private var seeds = LevelSeeds()

  init(
    _ options: CompactionPickerOptions, entrySize: UInt64 = 60, threadCount: Int = 2, bytesPerMemtable: UInt64? = nil
  ) {
    picker = LeveledCompactionPicker(options: options)
    self.entrySize = entrySize
    self.threadCount = threadCount
    self.bytesPerMemtable = bytesPerMemtable
  }

  static func entry(_ key: UInt32, _ sequence: UInt32) -> UInt64 { UInt64(key) << 32 | UInt64(~sequence) }
  static func key(_ entry: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: entry >> 32) }
  static func sequence(_ entry: UInt64) -> UInt64 { UInt64(~UInt32(truncatingIfNeeded: entry)) }
  static func keyBytes(_ key: UInt32) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: key >> (24 - 8 * $0)) } }

  // MARK: - Writing

  /// Flushes one memtable, and runs the compactions of the time in which it filled.
  mutating func flush(_ entries: [UInt64]) throws {
    let sorted = Self.newest(entries.sorted())
    let base = picker.targets(.init(family: 0, version: version)).baseLevel
    let keys =
      splitsFlushes
      ? version.flushSplitKeys(baseLevel: base, targetSize: picker.options.targetFileSize) : []
    var builder = VersionBuilder(version)
    var piece: [UInt64] = []
    var next = 0
    func finish(_ simulator: inout CompactionSimulator) throws {
      guard !piece.isEmpty else { return }
      let table = simulator.makeTable(piece)
      simulator.flushedBytes += table.fileSize
      try builder.add(table, level: 0)
      piece = []
    }
    for entry in sorted {
      let bytes = Self.keyBytes(Self.key(entry))
      if next < keys.count, KeyBytes.compare(bytes, keys[next]) >= 0 {
        // A piece smaller than an eighth of a table is not worth a file.
        if UInt64(piece.count) * entrySize >= picker.options.targetFileSize / 8 { try finish(&self) }
        while next < keys.count, KeyBytes.compare(bytes, keys[next]) >= 0 { next += 1 }
      }
      if UInt64(piece.count) * entrySize >= picker.options.targetFileSize { try finish(&self) }
      piece.append(entry)
    }
    try finish(&self)
    version = try builder.build()
    note()
    try work(bytesPerMemtable)
  }

  private var isSettling = false

  private mutating func note() {
    depthMaximum = max(depthMaximum, version.levelZero.depth)
    debtMaximum = max(debtMaximum, picker.debtBytes(version))
  }

  private mutating func makeTable(_ entries: [UInt64]) -> TableMetadata {
    let sequences = entries.map(Self.sequence)
    let number = nextNumber
    nextNumber += 1
    contents[FileNumber(number)] = entries
    return Make.table(
      number, Self.keyBytes(Self.key(entries[0])), Self.keyBytes(Self.key(entries[entries.count - 1])),
      sequences: (sequences.min() ?? 0)...(sequences.max() ?? 0), size: UInt64(entries.count) * entrySize,
      entries: UInt64(entries.count))
  }

  /// Returns the first entry of each key, which is the newest.
  static func newest(_ sorted: [UInt64]) -> [UInt64] {
    var result: [UInt64] = []
    result.reserveCapacity(sorted.count)
    for entry in sorted where result.isEmpty || key(entry) != key(result[result.count - 1]) { result.append(entry) }
    return result
  }

  // MARK: - Compacting

  /// Runs compactions until none is due, as after a pause of writes.
  mutating func settle() throws {
    isSettling = true
    try work(nil)
    isSettling = false
  }

  private mutating func work(_ budget: UInt64?) throws {
    var budgets = [UInt64](repeating: budget ?? .max, count: threadCount)
    try start()
    while let index = running.indices.prefix(threadCount).min(by: { running[$0].rest < running[$1].rest }) {
      let step = min(running[index].rest, budgets.max() ?? 0)
      for other in running.indices.prefix(threadCount) { running[other].rest -= min(step, running[other].rest) }
      for thread in budgets.indices where budgets[thread] != .max { budgets[thread] -= min(step, budgets[thread]) }
      if running[index].rest == 0 {
        let done = running.remove(at: index)
        inProgress.finish(done.ticket)
        try install(done.compaction)
      }
      if budgets.allSatisfy({ $0 == 0 }) { return }
      try start()
    }
  }

  private mutating func start() throws {
    while running.count < threadCount {
      let input = LeveledCompactionPicker.Input(
        family: 0, version: version, inProgress: inProgress, isSettling: isSettling)
      let picked = picker.pick(input, &seeds)
      var none = LevelSeeds()
      let fresh = picker.pick(input, &none)
      try #require(
        picked?.inputTables.map(\.number) == fresh?.inputTables.map(\.number), "what is remembered changes the pick")
      guard let compaction = picked else { return }
      if compaction.isTrivialMove {
        movedBytes += compaction.inputSize
        var builder = VersionBuilder(version)
        try apply(compaction.moveEdit(), &builder)
        continue
      }
      reasons.insert(compaction.reason)
      let upper = compaction.inputs.first { $0.level == 0 }?.tables ?? []
      runCountMaximum = max(runCountMaximum, LevelZero(upper.sorted(by: TableMetadata.isNewerFirst)).sublevels.count)
      running.append((inProgress.begin(compaction), compaction, compaction.inputSize))
      parallelMaximum = max(parallelMaximum, running.count)
    }
  }

  private mutating func apply(_ edit: VersionEdit, _ builder: inout VersionBuilder) throws {
    for deleted in edit.deletedTables { try builder.delete(deleted.number, level: deleted.level) }
    for added in edit.addedTables { try builder.add(added.table, level: added.level) }
    version = try builder.build()
  }

  mutating func install(_ compaction: Compaction) throws {
    var merged: [UInt64] = []
    for table in compaction.inputTables { merged += contents.removeValue(forKey: table.number) ?? [] }
    let entries = Self.newest(merged.sorted())
    var splitter = CompactionOutputSplitter(compaction)
    var outputs: [TableMetadata] = []
    var piece: [UInt64] = []
    for entry in entries {
      let size = UInt64(piece.count) * entrySize
      let splits = Self.keyBytes(Self.key(entry)).withByteView {
        splitter.shouldSplit(before: $0, currentSize: size)
      }
      if splits, !piece.isEmpty {
        outputs.append(makeTable(piece))
        piece = []
      }
      piece.append(entry)
    }
    if !piece.isEmpty { outputs.append(makeTable(piece)) }
    compactedBytes += outputs.reduce(0) { $0 + $1.fileSize }
    compactionCount += 1
    var builder = VersionBuilder(version)
    try apply(compaction.edit(outputs: outputs), &builder)
    note()
  }

  // MARK: - Reading

  /// Returns the sequence of the newest entry of a key, as a read finds it.
  func newestSequence(of key: UInt32) throws -> UInt64? {
    var found: UInt64?
    try Self.keyBytes(key).withByteView { view throws(EngineError) in
      try version.forEachTable(thatMayHold: view) { table throws(EngineError) in
        guard let entries = contents[table.number] else { return true }
        var low = 0
        var high = entries.count
        while low < high {
          let middle = (low + high) / 2
          if Self.key(entries[middle]) < key { low = middle + 1 } else { high = middle }
        }
        guard low < entries.count, Self.key(entries[low]) == key else { return true }
        found = Self.sequence(entries[low])
        return false
      }
    }
    return found
  }

  var report: String {
    let levels = (0..<Limits.levelCount).map { "\($0):\(version.size(level: $0) / 1024)" }.joined(separator: " ")
    let written = Double(flushedBytes + compactedBytes) / Double(max(flushedBytes, 1))
    let passes = Double(Int(written * 100)) / 100
    return
      "passes \(passes) (flushed \(flushedBytes / 1024) KiB, compacted \(compactedBytes / 1024), moved \(movedBytes / 1024)), "
      + "\(compactionCount) compactions, \(parallelMaximum) at once, depth \(depthMaximum), "
      + "debt \(debtMaximum / 1024), tables \(version.tableCount), levels in KiB \(levels)"
  }

  /// The bytes written to tables for each byte flushed.
  var writeAmplification: Double { Double(flushedBytes + compactedBytes) / Double(max(flushedBytes, 1)) }
}

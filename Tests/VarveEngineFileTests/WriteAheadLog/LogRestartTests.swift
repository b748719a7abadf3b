import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of the log alone after a failed sync: at whatever step of the restart the power is lost, recovery finds
/// either the old chain or the new one.
struct LogRestartTests {
  private let first = FileNumber(1)

  /// The batches that were appended before the sync failed, and those that are logged again.
  private struct Plan {
    let synced: Int
    let lost: Int
    let entriesSizeMaximum: Int
  }

  /// Creates a log whose next sync fails.
  private func makeLog(on disk: CrashFileSystem, _ plan: Plan) throws -> LogHarness {
    let log = try LogHarness(on: disk)
    for _ in 0..<plan.synced { try log.append(valueSize: 300) }
    try log.sync()
    for _ in 0..<plan.lost { try log.append(valueSize: 300) }
    disk.failSyncs(ofPathsEndingIn: ".log")
    #expect(throws: EngineError.self) { try log.sync() }
    return log
  }

  /// Continues the log in a new segment. `cuts` stands for the MANIFEST: its content is durable.
  private func restart(
    _ log: LogHarness, _ plan: Plan, cuts: inout [FileNumber: LogRecovery.Cut]
  ) throws {
    var next = plan.synced + 1
    let last = plan.synced + plan.lost
    let restart = try log.writer.beginRestart(
      .beforeOpen,
      last: SequenceNumber(UInt64(last)),
      fill: { builder in
        while next <= last, builder.payload.count < plan.entriesSizeMaximum {
          let value = (0..<300).map { $0 < 8 ? UInt8(truncatingIfNeeded: next >> ($0 * 8)) : UInt8(next & 0xff) }
          [UInt8]("key".utf8).withByteView { key in
            value.withByteView { builder.append(SequenceNumber(UInt64(next)), .put, 0, key, $0) }
          }
          next += 1
        }
        return builder.first != nil
      },
      commitCut: { (cut) throws(EngineError) in
        cuts[cut.number] = LogRecovery.Cut(lifeID: cut.lifeID, end: cut.end)
      })
    log.writer.endRestart(restart, .beforeOpen)
  }

  private func recover(
    _ disk: any FileSystem, _ cuts: [FileNumber: LogRecovery.Cut]
  ) throws -> (sequences: [UInt64], outcome: LogRecovery.Outcome) {
    let numbers = try disk.list(LogHarness.directory).compactMap { name -> FileNumber? in
      if case .log(let number) = FileName(name) { return number }
      return nil
    }
    let recovery = LogRecovery(
      directory: LogHarness.directory, fileSystem: disk, numbers: numbers, oldest: first, cuts: cuts)
    var sequences: [UInt64] = []
    let outcome = try recovery.replay { (record, segment) throws(EngineError) in
      var entries = LogEntryReader(record, file: recovery.path(segment))
      while let (sequence, entry) = try entries.next() {
        guard entry.value.load(0, as: UInt64.self) == sequence.value else { throw .corruption("another entry") }
        sequences.append(sequence.value)
      }
    }
    return (sequences, outcome)
  }

  @Test(arguments: [(5, 3), (5, 90), (60, 120), (0, 40), (5, 600)], [4_000, 1 << 20])
  func `a crash in a restart leaves the old chain or the new one`(counts: (Int, Int), sizeMaximum: Int) throws {
    let plan = Plan(synced: counts.0, lost: counts.1, entriesSizeMaximum: sizeMaximum)
    let last = UInt64(plan.synced + plan.lost)
    let disk = CrashFileSystem(seed: 5)
    let log = try makeLog(on: disk, plan)
    // The crash points; each is recovered with the cuts that the MANIFEST contains at that time.
    let points = Mutex<[CrashPoint]>([])
    disk.observe { _, capture in points.withLock { $0.append(capture()) } }
    var cuts: [FileNumber: LogRecovery.Cut] = [:]
    try restart(log, plan, cuts: &cuts)
    disk.observe(nil)
    let cutOperation = points.withLock { $0.lastIndex { $0.operation?.kind == .syncDirectory } ?? 0 }
    var images = 0
    for (index, point) in points.withLock({ $0 }).enumerated() {
      for policy in CrashPolicy.allCases {
        let image = point.image(seed: UInt64(index), policy: policy)
        // Before the directory was synced, the MANIFEST has no cut; after that, it may or must have one.
        let old = try recover(image, [:]).sequences
        if index <= cutOperation {
          #expect(old == Array(1..<UInt64(old.count + 1)), "operation \(index), \(policy)")
          #expect(old.count >= plan.synced, "operation \(index), \(policy)")
        } else {
          #expect(try recover(image, cuts).sequences == Array(1..<(last + 1)), "operation \(index), \(policy)")
        }
        images += 1
      }
    }
    #expect(images > 20)
    // The log continues, also after a later failure.
    #expect(log.writer.durableSequence.value == last && !log.writer.isBroken)
    for _ in 0..<50 { try log.append(valueSize: 300) }
    try log.sync()
    let found = try recover(disk.crashImage(seed: 1, policy: .loseAllUnsynced), cuts)
    #expect(found.sequences == Array(1..<(last + 51)))
    // Several records were logged again, which take more than a segment.
    if plan.lost == 600 && sizeMaximum == 4_000 { #expect(found.outcome.chain.count > 3) }
  }

  @Test func `no sync is tried on a broken log`() throws {
    let disk = CrashFileSystem(seed: 5)
    let log = try makeLog(on: disk, Plan(synced: 5, lost: 5, entriesSizeMaximum: 1 << 20))
    let count = disk.operationCount
    for _ in 0..<3 { #expect(throws: EngineError.self) { try log.sync() } }
    #expect(disk.operationCount == count)
  }

  @Test func `dead segments that a crash left are not read`() throws {
    let disk = CrashFileSystem(seed: 5)
    let plan = Plan(synced: 60, lost: 120, entriesSizeMaximum: 1 << 20)
    let log = try makeLog(on: disk, plan)
    let before = disk.crashPoint
    var cuts: [FileNumber: LogRecovery.Cut] = [:]
    try restart(log, plan, cuts: &cuts)
    // The dead segments still exist next to the new one, as after a crash before they were removed.
    let image = disk.crashImage(seed: 1, policy: .processKill)
    let old = before.image(seed: 1, policy: .processKill)
    var dead = 0
    for name in try old.list(LogHarness.directory) where name.hasSuffix(".log") {
      let path = LogHarness.directory + "/" + name
      guard try image.attributes(path) == nil else { continue }
      dead += 1
      let source = try old.openFile(path, writable: false)
      let content = try FileContents(reading: source, size: Int(try source.size()))
      let copy = try image.createFile(path)
      try unsafe copy.write(content.view.buffer, at: 0)
    }
    #expect(dead > 1)
    let found = try recover(image, cuts)
    #expect(found.sequences == Array(1..<181))
    #expect(found.outcome.dropped.count >= dead)
  }
}

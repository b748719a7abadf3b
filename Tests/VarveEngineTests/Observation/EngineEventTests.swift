import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of the events that an engine sends to its listeners.
struct EngineEventTests {
  @Test func `each flush and compaction has a begin and an end, with its tables`() throws {
    let observed = try ObservedEngine()
    for round in 0..<4 {
      try observed.put(0..<1_500, round: round)
      try observed.engine.flush()
    }
    try observed.engine.compact()
    try observed.engine.waitForCompaction()
    let work = observed.engine.statistics.work
    let events = try observed.close()

    var open: Set<UInt64> = []
    var (flushed, read, written): (UInt64, UInt64, UInt64) = (0, 0, 0)
    var (flushCount, compactionCount) = (0, 0)
    var created: Set<UInt64> = []
    var deleted: Set<UInt64> = []
    for event in events {
      switch event {
      case .flushBegan(let flush):
        #expect(open.insert(flush.job).inserted)
        #expect(flush.families == ["default"] && flush.memTableCount > 0 && flush.bytesRead > 0)
      case .flushEnded(let flush, let outcome):
        #expect(open.remove(flush.job) != nil)
        #expect(outcome.error == nil && outcome.outputs.allSatisfy { $0.level == 0 && created.contains($0.number) })
        flushed += outcome.bytesWritten
        flushCount += 1
      case .compactionBegan(let compaction):
        #expect(open.insert(compaction.job).inserted)
        #expect(compaction.family == "default" && !compaction.inputs.isEmpty)
        #expect(["levelZero", "intraLevelZero", "levelSize", "move", "manual"].contains(compaction.reason))
      case .compactionEnded(let compaction, let outcome):
        #expect(open.remove(compaction.job) != nil)
        #expect(outcome.error == nil && outcome.outputs.allSatisfy { $0.level == compaction.outputLevel })
        if compaction.isMove {
          #expect(outcome.outputs.map(\.number) == compaction.inputs.map(\.number))
        } else {
          read += compaction.bytesRead
          written += outcome.bytesWritten
          compactionCount += 1
        }
      case .tableCreated(let table): #expect(created.insert(table.number).inserted)
      case .tableDeleted(let number):
        #expect(created.contains(number))
        #expect(deleted.insert(number).inserted)
      default: continue
      }
    }
    #expect(open.isEmpty)
    #expect(flushCount >= 4 && compactionCount >= 1)
    #expect(flushCount == Int(work.flushCount) && compactionCount == Int(work.compactionCount))
    #expect(flushed == work.bytesFlushed)
    #expect(read == work.bytesCompactionRead && written == work.bytesCompactionWritten)
    // One table is left, and the files of all others are deleted.
    #expect(created.subtracting(deleted).count == 1)
  }

  @Test func `segments, families and rolls of the MANIFEST are reported`() throws {
    let observed = try ObservedEngine()
    let family = try observed.engine.createFamily("other")
    try observed.put(0..<20_000, in: family)
    try observed.engine.flush()
    try observed.engine.dropFamily(family)
    func manifest() throws -> [String] { try observed.faults.list("/db").filter { $0.hasPrefix("MANIFEST") } }
    let first = try manifest()
    var count = 1
    while try manifest() == first {
      try observed.engine.dropFamily(observed.engine.createFamily("family \(count)"))
      count += 1
    }
    let events = try observed.close()
    let names = events.map(Self.name)
    #expect(names.first == "logSegmentCreated")
    for name in ["familyCreated", "familyDropped", "logSegmentCreated", "logSegmentRecycled", "manifestRolled"] {
      let isThere = names.contains(name)
      #expect(isThere, "\(name)")
    }
    // If no events were dropped, the listener received every creation.
    let created = names.filter { $0 == "familyCreated" }.count
    #expect(observed.droppedCount > 0 || created == count)
    #expect(events.allSatisfy { !$0.description.isEmpty })
  }

  private static func name(_ event: EngineEvent) -> String {
    switch event {
    case .familyCreated: "familyCreated"
    case .familyDropped: "familyDropped"
    case .logSegmentCreated: "logSegmentCreated"
    case .logSegmentRecycled: "logSegmentRecycled"
    case .manifestRolled: "manifestRolled"
    default: "other"
    }
  }

  @Test func `a flush that fails is reported with its error, and so is its recovery`() throws {
    let observed = try ObservedEngine()
    try observed.put(0..<100)
    observed.faults.inject(Fault([.createFile], pathSuffix: ".sst", count: 1))
    #expect(throws: EngineError.self) { try observed.engine.flush() }
    try observed.engine.flush()
    #expect(observed.engine.statistics.work.failureCount == 1)
    let events = try observed.close()
    let story = events.compactMap { event -> String? in
      switch event {
      case .flushBegan: "began"
      case .flushEnded(_, let outcome): outcome.error == nil ? "ended" : "failed"
      case .backgroundError(let error, .flush, refusesWrites: false): "error \(error.code)"
      case .recovered(.flush): "recovered"
      default: nil
      }
    }
    #expect(story == ["began", "failed", "error inputOutput", "began", "ended", "recovered"])
  }

  @Test func `a sync that fails is reported, and that the log continues`() throws {
    let observed = try ObservedEngine()
    observed.faults.inject(Fault([.sync], pathSuffix: ".log", count: 1))
    #expect(throws: EngineError.self) { try observed.engine.put([1], [1], durability: .power) }
    try observed.engine.put([2], [2], durability: .power)
    let events = try observed.close()
    let story = events.compactMap { event -> String? in
      switch event {
      case .backgroundError(_, .log, let refuses): "error \(refuses)"
      case .recovered(.log): "recovered"
      default: nil
      }
    }
    #expect(story == ["error false", "recovered"])
  }

  @Test func `an engine that refuses writes reports the cause`() throws {
    let observed = try ObservedEngine()
    observed.faults.inject(Fault([.sync], pathSuffix: ".log", count: Fault.always))
    #expect(throws: EngineError.self) { try observed.engine.put([1], [1], durability: .power) }
    observed.faults.clear()
    try? observed.engine.close()
    let events = try observed.close()
    #expect(
      events.contains {
        if case .backgroundError(_, .log, refusesWrites: true) = $0 { return true }
        return false
      })
  }

  @Test func `a listener that is added later receives events from then on, until it is cancelled`() throws {
    let engine = try Engine.open(at: "/db", options: EngineTests.options(), environment: .inMemory())
    _ = try engine.createFamily("before")
    let log = EventLog()
    let subscription = engine.addListener(log)
    let all = EventLog()
    engine.addListener { all.engineDidReport($0) }
    _ = try engine.createFamily("meanwhile")
    // A flush ends after its events were queued: everything that is reported later has been queued by then.
    while log.events.isEmpty { try engine.put([1], [1]) }
    subscription.cancel()
    _ = try engine.createFamily("after")
    try engine.close()
    func created(_ log: EventLog) -> [String] {
      log.events.compactMap { if case .familyCreated(let name, _) = $0 { name } else { nil } }
    }
    #expect(created(log) == ["meanwhile"])
    #expect(created(all) == ["meanwhile", "after"])
  }

  @Test func `a stuck listener does not block writers, and a close delivers the remaining events`() throws {
    let engine = try Engine.open(at: "/db", options: EngineTests.options(), environment: .inMemory())
    let gate = Gate()
    let log = EventLog()
    gate.shut()
    engine.addListener { event in
      gate.pass()
      log.engineDidReport(event)
    }
    for index in 0..<20_000 { try engine.put(ObservedEngine.key(index), [UInt8](repeating: 1, count: 100)) }
    try engine.flush()
    #expect(log.events.isEmpty)
    gate.open()
    try engine.close()
    #expect(log.events.contains { if case .flushEnded = $0 { true } else { false } })
  }

  @Test func `an opening that fails releases its listener`() throws {
    weak var listener: EventLog?
    do {
      let log = EventLog()
      listener = log
      var options = EngineTests.options()
      options.listener = log
      let faults = FaultInjectingFileSystem(MemoryFileSystem())
      var environment = EngineEnvironment.inMemory()
      environment.fileSystem = faults
      faults.inject(Fault([.createFile], pathSuffix: ".log", count: Fault.always))
      #expect(throws: EngineError.self) { try Engine.open(at: "/db", options: options, environment: environment) }
    }
    #expect(listener == nil)
  }
}

import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of syncs that fail, each in turn: of the log, of tables, of the MANIFEST, of CURRENT and of the directory.
///
/// If a sync fails once, the log continues in a new segment, a flush is tried again, and only the caller whose sync
/// it was gets the error. If syncs always fail, the engine refuses writes with the reason, and reads continue; once
/// the device works again, `resume` is sufficient.
struct FailingDeviceTests {
  private static let syncs: Set<Fault.Kind> = [.sync, .syncDirectory]

  @Test(arguments: [true, false])
  func `whichever sync fails once, the engine continues and nothing is lost`(mapsFiles: Bool) throws {
    var tried = 0
    for skip in FaultScript.sample(try FaultScript.callCount(Self.syncs, mapsFiles: mapsFiles, reopens: true)) {
      let script = try FaultScript(CrashFileSystem(seed: 3), mapsFiles: mapsFiles)
      script.fileSystem.inject(Fault(Self.syncs, skip: skip))
      script.run(reopens: true)
      #expect(script.fileSystem.failureCount > 0)
      #expect(script.errors.count <= 1, "sync \(skip): \(script.errors.prefix(3))")
      #expect(try script.mismatches() == [], "sync \(skip)")
      script.errors = []
      try script.engine.resume()
      script.run()
      #expect(script.errors.isEmpty, "sync \(skip), later: \(script.errors.prefix(2))")
      #expect(try script.mismatches() == [], "sync \(skip), later")
      try script.reopen()
      #expect(try script.mismatches() == [], "sync \(skip), after reopening")
      #expect(try script.engine.verify().faults.isEmpty, "sync \(skip)")
      try script.engine.close()
      tried += 1
    }
    print("failing device, once, \(mapsFiles ? "mapped" : "written"): \(tried) syncs")
    #expect(tried > 20)
  }

  @Test(arguments: [true, false])
  func `from whichever sync on the device fails, reads continue, and resume is enough once it works`(
    mapsFiles: Bool
  ) throws {
    var (tried, refused) = (0, 0)
    for skip in FaultScript.sample(try FaultScript.callCount(Self.syncs, mapsFiles: mapsFiles)) {
      let script = try FaultScript(MemoryFileSystem(), mapsFiles: mapsFiles)
      script.fileSystem.inject(Fault(Self.syncs, skip: skip, count: Fault.always))
      script.run()
      tried += 1
      #expect(script.fileSystem.failureCount > 0)
      #expect(try script.mismatches() == [], "sync \(skip), while the device fails")
      if let refusal = script.errors.first(where: { $0.code == .readOnly }) {
        refused += 1
        #expect((refusal.cause as? EngineError)?.code == .inputOutput, "sync \(skip): \(refusal)")
        // The engine does not try a failing device again by itself.
        script.waitForRetries()
        #expect(script.engine.backgroundError != nil, "sync \(skip)")
      }
      #expect(throws: EngineError.self, "sync \(skip): what failed still does") {
        try script.engine.resume()
        try script.engine.flush()
        try script.engine.sync()
      }
      script.fileSystem.clear()
      script.errors = []
      try script.engine.resume()
      #expect(script.engine.backgroundError == nil, "sync \(skip)")
      script.run()
      #expect(script.errors.isEmpty, "sync \(skip), on a device that is well: \(script.errors.prefix(2))")
      #expect(try script.mismatches() == [], "sync \(skip), on a device that is well")
      try script.reopen()
      #expect(try script.mismatches() == [], "sync \(skip), after reopening")
      #expect(try script.engine.verify().faults.isEmpty, "sync \(skip)")
      try script.engine.close()
    }
    print("failing device, for ever, \(mapsFiles ? "mapped" : "written"): \(tried) syncs, \(refused) read-only")
    #expect(tried > 20 && refused > 10)
  }

  @Test func `entries that are logged again after a second failure survive a loss of power`() throws {
    var tried = 0
    for skip in FaultScript.sample(try FaultScript.callCount([.sync], mapsFiles: true, suffix: ".log")) {
      let disk = CrashFileSystem(seed: 3)
      let script = try FaultScript(disk, mapsFiles: true)
      // Only the log's syncs fail, four in sequence, so that restarts fail, too.
      script.fileSystem.inject(Fault([.sync], pathSuffix: ".log", skip: skip, count: 4))
      script.run()
      tried += 1
      #expect(script.fileSystem.failureCount > 0)
      script.fileSystem.clear()
      script.errors = []
      try script.engine.resume()
      script.run()
      #expect(script.errors.isEmpty, "sync \(skip): \(script.errors.prefix(2))")
      try script.engine.sync()
      try script.engine.flush()
      let image = disk.crashImage(seed: 1, policy: .loseAllUnsynced)
      try? script.engine.close()
      let again = try Engine.open(
        at: "/db", options: FaultScript.options, environment: DirectoryImage.environment(image, seed: 7))
      for (name, rows) in script.model.state.families {
        let family = try again.family(named: name)
        for row in rows where try again.get(row.key, in: family) != row.value {
          Issue.record("sync \(skip), family \(name): \(String(decoding: row.key, as: UTF8.self))")
        }
      }
      #expect(try again.verify().faults.isEmpty, "sync \(skip)")
      try again.close()
    }
    #expect(tried > 10)
  }
}

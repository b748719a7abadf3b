import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of a disk that is full from some call on, and later has space again: at every call that allocates.
///
/// Reads continue; a write fails completely with `.noSpace` or succeeds; no acknowledged write is lost; and when
/// there is space, everything continues in the same engine.
struct FullDiskTests {
  /// The calls that need space, including a sync, on which some file systems allocate late.
  private static let allocating: Set<Fault.Kind> = [
    .createFile, .write, .truncate, .createDirectory, .map, .rename, .link, .syncDirectory, .sync,
  ]
  private static let withoutSyncs = allocating.subtracting([.sync, .syncDirectory])

  /// The ways in which work is resumed.
  enum Way: CaseIterable {
    case byTime, byCall, byWriting
  }

  struct Setting: CustomTestStringConvertible {
    var mapsFiles: Bool
    var failsSyncs: Bool
    var way: Way
    var code = EngineError.Code.noSpace
    var testDescription: String {
      "\(mapsFiles ? "mapped" : "written") log, \(failsSyncs ? "syncs too" : "no syncs"), \(way), \(code)"
    }
  }

  private static let settings: [Setting] = [
    Setting(mapsFiles: true, failsSyncs: false, way: .byTime),
    Setting(mapsFiles: false, failsSyncs: false, way: .byWriting),
    Setting(mapsFiles: true, failsSyncs: true, way: .byCall),
    Setting(mapsFiles: false, failsSyncs: true, way: .byTime),
  ]

  @Test(arguments: settings)
  func `wherever space runs out, reads continue, and the process continues its work once there is space`(
    setting: Setting
  ) throws {
    let kinds = setting.failsSyncs ? Self.allocating : Self.withoutSyncs
    try Self.failEach(kinds, setting, isExpected: { $0 == .noSpace || $0 == .outcomeUnknown })
  }

  @Test(arguments: Way.allCases)
  func `without descriptors work stops, and continues when there are some`(way: Way) throws {
    let setting = Setting(mapsFiles: true, failsSyncs: false, way: way, code: .tooManyOpenFiles)
    try Self.failEach([.createFile], setting, isExpected: { $0 == .tooManyOpenFiles })
  }

  /// Runs the script with each of these calls failing in turn, and all after it.
  private static func failEach(
    _ kinds: Set<Fault.Kind>, _ setting: Setting, isExpected: (EngineError.Code) -> Bool
  ) throws {
    var tried = 0
    let reopens = setting.way == .byCall
    let count = try FaultScript.callCount(kinds, mapsFiles: setting.mapsFiles, reopens: reopens)
    for skip in FaultScript.sample(count) {
      let script = try FaultScript(MemoryFileSystem(), mapsFiles: setting.mapsFiles)
      script.fileSystem.inject(
        Fault(kinds, skip: skip, count: Fault.always, code: setting.code, writesHalf: skip % 2 == 0))
      script.run(reopens: reopens)
      #expect(script.fileSystem.failureCount > 0, "call \(skip) of \(count)")
      #expect(try script.mismatches() == [], "call \(skip), while nothing can be written")
      let odd = script.errors.filter { !isExpected($0.code) }
      #expect(odd.isEmpty, "call \(skip): \(odd.prefix(2))")
      try heal(script, setting.way, "call \(skip)")
      try script.reopen()
      #expect(try script.mismatches() == [], "call \(skip), after reopening")
      #expect(try script.engine.verify().faults.isEmpty, "call \(skip)")
      try script.engine.close()
      tried += 1
    }
    print("full disk (\(setting.testDescription)): \(tried) of \(count) calls failed in turn")
    #expect(tried > (kinds.count == 1 ? 5 : 40))
  }

  /// Makes space available, and checks that everything continues in this engine.
  private static func heal(_ script: FaultScript, _ way: Way, _ location: String) throws {
    script.fileSystem.clear()
    script.errors = []
    switch way {
    case .byTime: script.waitForRetries()
    case .byCall: try script.engine.resume()
    case .byWriting: script.clock.advance(200_000_000)
    }
    if way != .byWriting { #expect(script.engine.backgroundError == nil, "\(location): work still stands") }
    script.run()
    #expect(script.errors.isEmpty, "\(location), when there is space again: \(script.errors.prefix(2))")
    try script.engine.flush()
    try script.engine.waitForCompaction()
    #expect(script.engine.backgroundError == nil)
    #expect(try script.mismatches() == [], "\(location), when there is space again")
  }

  @Test func `a database that can't be opened on a full disk opens once there is space`() throws {
    var tried = 0
    for skip in Swift.stride(from: 0, to: 1_000, by: TestScale.value >= 8 ? 1 : 2) {
      let script = try FaultScript(MemoryFileSystem(), mapsFiles: skip % 2 == 0)
      script.run()
      try script.engine.close()
      script.fileSystem.inject(Fault(Self.allocating, skip: skip / 2, count: Fault.always, code: .noSpace))
      var failure: EngineError?
      do throws(EngineError) { try script.openAgain() } catch { failure = error }
      if let failure { #expect(failure.code == .noSpace, "call \(skip): \(failure)") }
      let hasFailed = script.fileSystem.failureCount > 0
      try script.reopen()
      #expect(try script.mismatches() == [], "call \(skip)")
      try script.engine.close()
      if !hasFailed { break }
      tried += 1
    }
    #expect(tried > 10)
  }

  @Test func `the error of a write names the current cause`() throws {
    let script = try FaultScript(MemoryFileSystem(), mapsFiles: true)
    script.fileSystem.inject(Fault([.createFile], pathSuffix: ".sst", count: Fault.always, code: .inputOutput))
    script.run()
    let first = try #require(script.errors.last)
    #expect(first.code == .inputOutput)
    script.fileSystem.clear()
    script.fileSystem.inject(Fault([.createFile], pathSuffix: ".sst", count: Fault.always, code: .noSpace))
    script.clock.advance(150_000_000)
    script.errors = []
    script.run()
    #expect(!script.errors.isEmpty && script.errors.allSatisfy { $0.code == .noSpace }, "\(script.errors.prefix(3))")
    #expect(script.engine.backgroundError?.code == .noSpace)
    #expect(throws: EngineError.self) { try script.engine.resume() }
    script.fileSystem.clear()
    try script.engine.resume()
    #expect(script.engine.backgroundError == nil)
    try script.engine.close()
  }
}

import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of readers between any two of whose calls of the file system the writer continues.
///
/// Each reader is run once for each of its calls, with all of a writer's work before that call, and once with a part of
/// the work before each call from that one on. The state that it then shows equals one prefix of the commits.
struct FollowPositionTests {
  /// The work of a writer, in parts.
  struct Work: Sendable, CustomStringConvertible {
    let description: String
    let parts: [@Sendable (FollowedWriter) throws -> Void]

    init(_ description: String, _ parts: @Sendable (FollowedWriter) throws -> Void...) {
      self.description = description
      self.parts = parts
    }
  }

  static let works: [Work] = [
    Work("append", { try $0.append(isCold: true) }, { try $0.append() }, { try $0.append(isCold: true) }),
    Work("log again, free and reuse", { try $0.cycle() }, { try $0.append(isCold: true) }),
    Work(
      "log again twice", { try $0.cycle() }, { try $0.cycle() }, { try $0.append(isCold: true) }, { try $0.cycle() }),
    Work(
      "a commit that waits for its sync", { try $0.appendPending() }, { try $0.append(isCold: true) },
      { try $0.cycle() }, { try $0.settlePending() }),
    Work("sync", { try $0.append(isCold: true, durability: .power) }, { try $0.cycle() }),
    Work("a failed sync", { try $0.append() }, { try $0.failSync() }, { try $0.cycle() }),
    Work("two failed syncs", { try $0.failSync() }, { try $0.append(isCold: true) }, { try $0.failSync() }),
    Work("flush", { try $0.append(isCold: true) }, { try $0.writer.flush() }, { try $0.append() }),
    Work(
      "compact", { try $0.cycle() }, { try $0.writer.compact() }, { try $0.writer.waitForCompaction() },
      { try $0.append(isCold: true) }),
    Work("roll the MANIFEST", { try $0.cycle() }, { try $0.rollManifest() }, { try $0.append() }, { try $0.cycle() }),
    Work("create families", { try $0.createFamily() }, { try $0.cycle() }, { try $0.createFamily() }),
    Work("drop a family", { try $0.dropFamily() }, { try $0.append() }, { try $0.cycle() }, { try $0.createFamily() }),
    Work("commits that are not logged", { try $0.appendLoose() }, { try $0.append() }, { try $0.writer.flush() }),
    Work("close", { try $0.append(isCold: true) }, { try $0.reopen() }, { try $0.append(isCold: true) }),
    Work("close after a cycle", { try $0.cycle() }, { try $0.reopen() }, { try $0.cycle() }, { try $0.append() }),
    Work("die", { try $0.append(isCold: true) }, { try $0.die() }, { try $0.append(isCold: true) }, { try $0.cycle() }),
    Work("die before a sync", { try $0.appendPending() }, { try $0.append() }, { try $0.die() }, { try $0.append() }),
    Work("die visibly", { try $0.cycle() }, { try $0.append(isCold: true) }, { try $0.dieVisibly() }),
  ]

  /// A way to read.
  enum Reader: CaseIterable {
    /// A follower, or an engine that only reads, is opened.
    case follower, readOnly
    /// A follower that is at the writer's last commit, or far from it, takes a step.
    case step, lateStep
  }

  /// What interrupts a reader: the rest of the work, one part at a time or all at once.
  private final class Interruption: @unchecked Sendable {
    // Sendable: used by the thread of the test alone.
    private let writer: FollowedWriter
    private var rest: [@Sendable (FollowedWriter) throws -> Void]
    var failure: (any Error)?

    init(_ writer: FollowedWriter, _ work: Work) {
      self.writer = writer
      rest = work.parts
    }

    func run(allAtOnce: Bool) {
      do {
        while !rest.isEmpty {
          try rest.removeFirst()(writer)
          if !allAtOnce { return }
        }
      } catch { failure = error }
    }

    var isDone: Bool { rest.isEmpty }

    func interrupt(_ files: FaultInjectingFileSystem, atCall call: Int, allAtOnce: Bool) {
      files.interrupt(afterCalls: call) { [self] in
        run(allAtOnce: allAtOnce)
        if !isDone { interrupt(files, atCall: 0, allAtOnce: false) }
      }
    }
  }

  /// Runs a reader once, and returns the number of its calls, and what is wrong.
  private static func run(
    _ reader: Reader, _ work: Work, atCall call: Int, allAtOnce: Bool, isNotified: Bool
  ) throws -> (calls: Int, faults: [String]) {
    let writer = try FollowedWriter(isNotified: isNotified)
    try writer.createFamily()
    try writer.cycle()
    let files = writer.makeReaderFiles()
    var early: Follower?
    if reader == .step || reader == .lateStep {
      early = try writer.fixture.follow(files)
      try writer.append(isCold: true)
      if reader == .lateStep { for _ in 0..<2 { try writer.cycle() } }
    }
    let before = early?.engine.visibleSequence ?? .zero
    let interruption = Interruption(writer, work)
    let callsBefore = files.callCount
    interruption.interrupt(files, atCall: call, allAtOnce: allAtOnce)
    var faults: [String] = []
    var follower: Follower?
    let engine: Engine
    if reader == .readOnly {
      var options = FollowFixture.options
      options.readOnly = true
      engine = try Engine.open(
        at: writer.path, options: options,
        environment: FollowFixture.environment(files, SteppedExecutor(seed: 9), seed: 9))
    } else {
      let opened = try early ?? writer.fixture.follow(files)
      if early != nil { try opened.catchUp() }
      follower = opened
      engine = opened.engine
    }
    let calls = files.callCount - callsBefore
    if let failure = interruption.failure { faults.append("the writer threw \(failure)") }
    if engine.visibleSequence < before { faults.append("the state went back") }
    if let fault = try writer.fault(engine) { faults.append(fault) }
    interruption.run(allAtOnce: true)
    try writer.settlePending()
    if let follower {
      try follower.catchUp()
      if let fault = try writer.fault(engine) { faults.append("after the next step, \(fault)") }
      if engine.visibleSequence < writer.history.lastSequence {
        faults.append("the next step ended at \(engine.visibleSequence) of \(writer.history.lastSequence)")
      }
      try follower.close()
    } else {
      try engine.close()
    }
    return (calls, faults)
  }

  @Test(arguments: works) func `a reader shows one prefix of the commits wherever the writer continues`(
    work: Work
  ) throws {
    var runCount = 0
    for isNotified in [true, false] {
      for reader in Reader.allCases {
        for allAtOnce in [true, false] {
          var calls = 1
          var call = 0
          while call < calls {
            let run = try Self.run(reader, work, atCall: call, allAtOnce: allAtOnce, isNotified: isNotified)
            let location = "\(reader) at call \(call), all at once: \(allAtOnce), notified: \(isNotified)"
            try #require(run.faults.isEmpty, "\(location): \(run.faults)")
            calls = run.calls
            call += 1
            runCount += 1
          }
          #expect(calls > 3)
        }
      }
    }
    print("\(work): \(runCount) runs")
  }
}

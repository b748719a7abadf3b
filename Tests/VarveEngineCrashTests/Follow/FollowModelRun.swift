import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// A run of the model of readers: random work of one writer after another, and of several readers, whose states are
/// compared with the commits.
///
/// The writer's background jobs are stepped in an order drawn from the seed. A reader's call of the file system may be
/// interrupted by further work of the writer.
final class FollowModelRun: @unchecked Sendable {
  // Sendable: used by the thread of the test alone.
  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  /// An engine that only reads, and is advanced if it belongs to a follower.
  private struct Reader {
    let engine: Engine
    let follower: Follower?
    let files: FaultInjectingFileSystem
    var state: FollowHistory.State
    var sequence: SequenceNumber
  }

  private struct Held {
    let snapshot: EngineSnapshot
    let reader: Engine
    let state: FollowHistory.State
  }

  enum Operation: String, CaseIterable {
    case write, work, look, interruptedLook, openFollower, openReader, closeReader, flush, compact, createFamily
    case dropFamily, failSync, pending, settle, roll, loose, checkpoint, hold, reopen, die, dieVisibly, dieInCall
    case promote

    var weight: Int {
      switch self {
      case .write: 500
      case .work: 160
      case .look: 130
      case .interruptedLook: 40
      case .hold: 30
      case .openFollower, .openReader, .closeReader, .loose, .pending: 12
      case .settle, .flush, .createFamily, .dropFamily: 10
      case .compact, .checkpoint, .failSync, .roll: 4
      case .reopen, .die, .dieVisibly, .dieInCall, .promote: 2
      }
    }
  }

  let seed: UInt64
  private var random: SeededRandom
  private let writer: FollowedWriter
  private var readers: [Reader] = []
  private var held: [Held] = []
  private var isInterrupting = false
  private(set) var counts: [Operation: Int] = [:]
  /// Steps of readers that kept the earlier state because the writer was too fast for them.
  private(set) var busyCount = 0
  /// Bytes that all writers logged again.
  private(set) var bytesLoggedAgain: UInt64 = 0
  private var trace: [Operation] = []

  static let totalWeight = Operation.allCases.reduce(0) { $0 + $1.weight }

  init(seed: UInt64, isNotified: Bool, on base: any FileSystem = MemoryFileSystem(), at path: String = "/db") throws {
    self.seed = seed
    random = SeededRandom(seed: seed)
    writer = try FollowedWriter(
      seed: seed, isNotified: isNotified, mapsFiles: isNotified || seed.isMultiple(of: 2), on: base, at: path)
    writer.logBytes = [128 << 10, 192 << 10, 512 << 10][random.below(3)]
    try writer.createAppendedFamily()
  }

  /// Runs the steps, and compares every reader with the last commit at the end.
  func run(stepCount: Int) throws {
    var index = 0
    do {
      while index < stepCount {
        try step()
        index += 1
      }
      try end()
    } catch {
      throw Failure(
        description: "seed \(seed), step \(index): \(error); the last operations: \(trace.suffix(12).map(\.rawValue))")
    }
  }

  private func draw() -> Operation {
    var position = random.below(Self.totalWeight)
    for operation in Operation.allCases {
      if position < operation.weight { return operation }
      position -= operation.weight
    }
    return .write
  }

  private func step() throws {
    let operation = draw()
    trace.append(operation)
    if trace.count > 1_000 { trace.removeFirst(900) }
    counts[operation, default: 0] += 1
    try perform(operation)
    if random.oneIn(64) { forget() }
  }

  private func perform(_ operation: Operation) throws {
    switch operation {
    case .write: for _ in 0..<1 + random.below(12) { try writer.appendRandom(&random) }
    case .work: for _ in 0..<random.below(20) { writer.fixture.executor.step() }
    case .look: try look(isInterrupted: false)
    case .interruptedLook: try look(isInterrupted: true)
    case .openFollower: try openReader(follows: true)
    case .openReader: try openReader(follows: false)
    case .closeReader: try closeReader()
    case .flush: try writer.writer.flush()
    case .compact: try writer.writer.compact()
    case .createFamily: if writer.writer.families.count < 12 { try writer.createFamily() }
    case .dropFamily: try writer.dropFamily()
    case .failSync: try writer.failSync()
    case .pending: try writer.appendPending()
    case .settle: try writer.settlePending()
    case .roll: try writer.rollManifest()
    case .loose: for _ in 0..<1 + random.below(4) { try writer.appendLoose() }
    case .checkpoint: try checkCheckpoint()
    case .hold: try hold()
    case .reopen: try replaceWriter { try $0.reopen() }
    case .die: try replaceWriter { try $0.die() }
    case .dieVisibly:
      try replaceWriter { writer in
        try writer.dieVisibly()
        for index in readers.indices { try advance(index) }
        try writer.open()
      }
    case .dieInCall: try replaceWriter { try dieInCall($0) }
    case .promote:
      // The process that follows closes its follower, and opens the database itself after the writer's end.
      if let index = readers.indices.first(where: { readers[$0].follower != nil && !isHeld($0) }), !isInterrupting {
        try advance(index)
        try replaceWriter { writer in
          writer.kill()
          try remove(index)
          try writer.open()
        }
      }
    }
  }

  // MARK: - Writers

  /// Runs `body`, which ends the writer and opens another one, and checks that nothing that was logged is lost.
  private func replaceWriter(_ body: (FollowedWriter) throws -> Void) throws {
    bytesLoggedAgain += writer.writer.core.pipeline.bytesLoggedAgain
    try body(writer)
    if let fault = try writer.fault(writer.writer) { throw Failure(description: "new writer \(fault)") }
    let sequence = writer.writer.visibleSequence
    guard sequence >= writer.history.lastSequence else {
      throw Failure(description: "a new writer began at \(sequence) of \(writer.history.lastSequence)")
    }
  }

  /// Lets every call of the writer fail from some later one on, works until one does, and opens another writer.
  private func dieInCall(_ writer: FollowedWriter) throws {
    writer.faults.inject(Fault(skip: random.below(40), count: Fault.always))
    for _ in 0..<200 {
      do {
        try writer.appendRandom(&random)
        if random.oneIn(4) { writer.fixture.executor.step() }
        if random.oneIn(40) { try writer.writer.flush() }
      } catch { break }
    }
    try writer.die()
  }

  private func checkCheckpoint() throws {
    writer.checkpointCount += 1
    let path = writer.path + "-copy-\(writer.checkpointCount)"
    let sequence = try writer.writer.checkpoint(to: path).sequence
    var options = FollowFixture.options
    options.createIfMissing = false
    let copy = try Engine.open(
      at: path, options: options,
      environment: FollowFixture.environment(writer.base, SteppedExecutor(seed: seed), seed: seed))
    let fault = writer.history.fault(
      in: try FollowedWriter.content(copy, copy.snapshot()), writer.history.state(at: sequence))
    try copy.close()
    try Engine.destroy(at: path, environment: FollowFixture.environment(writer.base, SteppedExecutor(seed: 1), seed: 1))
    if let fault { throw Failure(description: "checkpoint at \(sequence): \(fault)") }
  }

  // MARK: - Readers

  private func openReader(follows: Bool) throws {
    guard readers.count < 5, !isInterrupting else { return }
    let files = writer.makeReaderFiles()
    if random.oneIn(3) { interrupt(files) }
    defer { files.interruptNever() }
    do {
      let environment = FollowFixture.environment(files, SteppedExecutor(seed: 9), seed: 9)
      var options = FollowFixture.options
      options.readOnly = true
      let follower = follows ? try Engine.follow(at: writer.path, options: options, environment: environment) : nil
      let engine =
        try follower?.engine ?? Engine.open(at: writer.path, options: options, environment: environment)
      readers.append(
        Reader(
          engine: engine, follower: follower, files: files, state: writer.history.state(at: engine.visibleSequence),
          sequence: engine.visibleSequence))
      try check(readers.count - 1)
    } catch let error as EngineError where error.code == .busy { busyCount += 1 }
  }

  /// Lets the writer work before some of the next calls of a reader.
  private func interrupt(_ files: FaultInjectingFileSystem) {
    files.interrupt(afterCalls: random.below(30)) { [self] in
      isInterrupting = true
      defer { isInterrupting = false }
      do {
        for _ in 0..<1 + random.below(6) {
          let operation = [
            Operation.write, .write, .work, .work, .flush, .failSync, .pending, .settle, .roll, .die, .reopen, .compact,
            .createFamily, .dropFamily, .loose,
          ][random.below(15)]
          trace.append(operation)
          try perform(operation)
        }
      } catch { interruptionError = error }
      if random.oneIn(2) { interrupt(files) }
    }
  }

  private var interruptionError: (any Error)?

  private func look(isInterrupted: Bool) throws {
    guard !readers.isEmpty, !isInterrupting else { return }
    let index = random.below(readers.count)
    if isInterrupted { interrupt(readers[index].files) }
    try advance(index)
    readers[index].files.interruptNever()
  }

  /// Advances a reader if it follows, and checks its state.
  private func advance(_ index: Int) throws {
    do throws(EngineError) { try readers[index].follower?.catchUp() } catch {
      guard error.code == .busy else { throw error }
      busyCount += 1
    }
    try check(index)
  }

  private func check(_ index: Int) throws {
    if let interruptionError { throw interruptionError }
    let reader = readers[index]
    let snapshot = reader.engine.snapshot()
    guard snapshot.sequence >= reader.sequence else {
      throw Failure(description: "reader \(index) went back from \(reader.sequence) to \(snapshot.sequence)")
    }
    readers[index].sequence = snapshot.sequence
    readers[index].state = writer.history.state(at: snapshot.sequence, from: reader.state)
    let content = try FollowedWriter.content(reader.engine, snapshot)
    if let fault = writer.history.fault(in: content, readers[index].state) {
      throw Failure(description: "reader \(index) at \(snapshot.sequence): \(fault)")
    }
  }

  private func isHeld(_ index: Int) -> Bool { held.contains { $0.reader === readers[index].engine } }

  /// Keeps a snapshot of a reader, or checks those that are kept.
  private func hold() throws {
    guard !readers.isEmpty else { return }
    if held.count < 4 {
      let reader = readers[random.below(readers.count)]
      let snapshot = reader.engine.snapshot()
      let state = writer.history.state(at: snapshot.sequence, from: reader.state)
      return held.append(Held(snapshot: snapshot, reader: reader.engine, state: state))
    }
    for held in held {
      let content = try FollowedWriter.content(held.reader, held.snapshot)
      if let fault = writer.history.fault(in: content, held.state, isKept: true) {
        throw Failure(description: "snapshot at \(held.snapshot.sequence): \(fault)")
      }
    }
    held = []
  }

  private func closeReader() throws {
    guard readers.count > 1 else { return }
    let index = random.below(readers.count)
    if !isHeld(index) { try remove(index) }
  }

  private func remove(_ index: Int) throws {
    let reader = readers.remove(at: index)
    if let follower = reader.follower { try follower.close() } else { try reader.engine.close() }
  }

  /// Forgets the commits that every reader has passed.
  private func forget() {
    writer.history.forget(before: readers.map(\.sequence).min() ?? writer.history.lastSequence)
  }

  private func end() throws {
    try writer.settlePending()
    for index in readers.indices {
      try advance(index)
      guard readers[index].follower != nil, readers[index].sequence < writer.history.lastSequence else { continue }
      throw Failure(description: "reader \(index) ends at \(readers[index].sequence) of \(writer.history.lastSequence)")
    }
    held = []
    while !readers.isEmpty { try remove(readers.count - 1) }
    bytesLoggedAgain += writer.writer.core.pipeline.bytesLoggedAgain
    let faults = try writer.writer.verify().faults
    guard faults.isEmpty else { throw Failure(description: "verify: \(faults)") }
    try writer.writer.close()
  }
}

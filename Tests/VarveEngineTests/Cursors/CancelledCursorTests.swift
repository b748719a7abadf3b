import EngineTestSupport
import Testing

@testable import VarveEngine

/// Tests of long work of the engine that ends when the task that does it is cancelled.
struct CancelledCursorTests {
  private static func key(_ number: Int) -> [UInt8] { Array("key \(1_000_000 + number)".utf8) }

  /// An engine with 1,000 deleted keys between two live ones; with `ranges`, each is deleted by a range of its own.
  private static func filled(ranges: Bool) throws -> Engine {
    let engine = try Engine.open(at: "/cancelled", environment: .inMemory())
    for number in 0..<1_002 { try engine.put(key(number), [1]) }
    for number in 1..<1_001 {
      if ranges {
        try engine.deleteRange(from: key(number), to: key(number + 1))
      } else {
        try engine.delete(key(number))
      }
    }
    return engine
  }

  /// Runs `body` in a task that is cancelled.
  private static func cancelled(_ body: @escaping @Sendable () throws -> Void) async throws {
    try await Task {
      unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
      try body()
    }.value
  }

  /// Passes the deleted keys, in one direction.
  private static func pass(_ engine: Engine, isForward: Bool) throws {
    var cursor = try engine.cursor(
      bounds: isForward ? CursorBounds(lower: key(1), upper: nil) : CursorBounds(lower: nil, upper: key(1_001)))
    if isForward { try cursor.seekToFirst() } else { try cursor.seekToLast() }
    #expect(cursor.keyBytes == key(isForward ? 1_001 : 0))
  }

  @Test(arguments: [false, true], [false, true])
  func `a cursor of a cancelled task ends among deleted keys, if the caller wants that`(
    ranges: Bool, isForward: Bool
  ) async throws {
    let engine = try Self.filled(ranges: ranges)
    // This is first: once a reader has passed the keys, others skip them.
    let error = await #expect(throws: EngineError.self) {
      try await Self.cancelled { try Engine.endingIfCancelled { try Self.pass(engine, isForward: isForward) } }
    }
    #expect(error?.code == .canceled)
    try Engine.endingIfCancelled { try Self.pass(engine, isForward: isForward) }
    try engine.close()
  }

  @Test(arguments: [false, true], [false, true])
  func `the cancellation of its task does not end a read that a write or a build makes`(
    ranges: Bool, isForward: Bool
  ) async throws {
    let engine = try Self.filled(ranges: ranges)
    try await Self.cancelled { try Self.pass(engine, isForward: isForward) }
    try engine.close()
  }

  @Test func `a checkpoint of a cancelled task ends while it copies, and leaves nothing`() async throws {
    let directory = try TemporaryDirectory()
    let engine = try Self.filled(ranges: false)
    try engine.flush()
    let error = await #expect(throws: EngineError.self) {
      try await Self.cancelled {
        try Engine.endingIfCancelled {
          _ = try engine.checkpoint(to: directory.path + "/copy", on: PosixFileSystem())
        }
      }
    }
    #expect(error?.code == .canceled)
    #expect(try PosixFileSystem().list(directory.path).isEmpty)
    try engine.checkpoint(to: directory.path + "/copy", on: PosixFileSystem())
    try engine.close()
  }

  @Test func `a sync of tasks waits for no other call of tasks`() async throws {
    let directory = try TemporaryDirectory()
    let engine = try Engine.open(at: directory.path + "/db")
    let gate = Gate()
    gate.shut()
    let calls = (0..<Limits.callThreadCountMaximum).map { _ in
      Task { try await engine.async.perform { _ in gate.pass() } }
    }
    await gate.waitUntilHeld(Limits.callThreadCountMaximum)
    let ticket = try engine.submit(Self.batch(), durability: .power)
    try await ticket.wait()
    gate.open()
    for call in calls { try await call.value }
    try engine.close()
  }

  private static func batch() throws -> WriteBatch {
    var batch = WriteBatch()
    try batch.put([1], [2])
    return batch
  }
}

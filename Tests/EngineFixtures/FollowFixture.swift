import EngineTestSupport
import Synchronization
import Testing

@testable import VarveEngine

/// A writer whose background work is stepped, and its followers, in one process.
struct FollowFixture {
  let path: String
  let fileSystem: any FileSystem
  let executor: SteppedExecutor
  let writer: Engine

  /// Opens the writer. Its memtables and segments are small, so that both are reused soon.
  init(_ fileSystem: any FileSystem = MemoryFileSystem(), at path: String = "/db", seed: UInt64 = 1) throws {
    self.path = path
    self.fileSystem = fileSystem
    executor = SteppedExecutor(seed: seed)
    writer = try Engine.open(
      at: path, options: Self.options, environment: Self.environment(fileSystem, executor, seed: seed))
  }

  static var options: EngineOptions {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.cacheSize = 1 << 20
    options.logSegmentSize = 64 << 10
    return options
  }

  static func environment(
    _ fileSystem: any FileSystem, _ executor: SteppedExecutor, seed: UInt64
  ) -> EngineEnvironment {
    let random = Mutex(SeededRandom(seed: seed))
    return EngineEnvironment(
      fileSystem: fileSystem, clock: executor.clock, random: { random.withLock { $0.next() } },
      makeExecutor: { _ in executor })
  }

  /// Opens a follower on `fileSystem`, by default that of the writer.
  func follow(
    _ fileSystem: (any FileSystem)? = nil, _ change: (inout EngineOptions) -> Void = { _ in }
  ) throws -> Follower {
    var options = Self.options
    change(&options)
    return try Engine.follow(
      at: path, options: options,
      environment: Self.environment(fileSystem ?? self.fileSystem, SteppedExecutor(seed: 9), seed: 9))
  }

  /// Returns all rows of all families.
  static func content(_ engine: Engine, _ snapshot: EngineSnapshot? = nil) throws -> [String: [[UInt8]: [UInt8]]] {
    var result: [String: [[UInt8]: [UInt8]]] = [:]
    for family in engine.families {
      var rows: [[UInt8]: [UInt8]] = [:]
      var cursor = try engine.cursor(in: family, snapshot: snapshot)
      try cursor.seekToFirst()
      while cursor.isValid {
        rows[cursor.keyBytes] = cursor.valueBytes
        try cursor.next()
      }
      result[family.name] = rows
    }
    return result
  }

  /// Catches the follower up, and returns whether its content is that of the writer.
  func isSame(_ follower: Follower) throws -> Bool {
    let seen = try follower.catchUp()
    return try seen == writer.visibleSequence && Self.content(follower.engine) == Self.content(writer)
  }

  /// Writes enough entries for several memtables and segments.
  func fill(_ round: Int, in family: ColumnFamily? = nil) throws {
    for index in 0..<300 {
      let value = [UInt8](repeating: UInt8(truncatingIfNeeded: round &+ index), count: 700)
      try writer.put(Array("key\(1_000 + index)".utf8), value, in: family)
    }
  }

  static func code(_ body: () throws -> Void) -> EngineError.Code? {
    do {
      try body()
      return nil
    } catch { return (error as? EngineError)?.code }
  }
}

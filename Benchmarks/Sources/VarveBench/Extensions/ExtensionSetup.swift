import Foundation
import Varve

/// What is around the measured part: a fresh database, a process at rest, memory, and that the result is right.
extension ExtensionRun {
  /// Runs `body` with a new database, which is gone afterwards. Books are defined, as for the rows of objects.
  func withDatabase<Result>(
    _ given: DatabaseDefinition? = nil, _ body: (Database) throws -> Result
  ) throws -> Result {
    let definition = try given ?? Self.definition
    guard let directory else {
      let database = try Database.inMemory(definition: definition)
      defer { try? database.close() }
      return try body(database)
    }
    try? FileManager.default.removeItem(atPath: directory)
    let database = try Database.open(at: directory, definition: definition)
    defer {
      try? database.close()
      try? FileManager.default.removeItem(atPath: directory)
    }
    return try body(database)
  }

  /// The same database after a close and an open; one in memory as it is.
  func reopened(_ database: Database) throws -> Database {
    guard let directory else { return database }
    try database.close()
    return try Database.open(at: directory, definition: Self.definition)
  }

  private static var definition: DatabaseDefinition {
    get throws {
      let definition = DatabaseDefinition {
        CollectionDefinition(Book.collection, Book.self, key: UUID.self)
      }
      return definition
    }
  }

  /// Waits until flushes and compactions have ended, so that they are not in what follows; at most 20 seconds.
  func rest() {
    let deadline = Clock.now() + 20_000_000_000
    var window = QuietWindow()
    repeat { usleep(20_000) } while window.observe() < 300_000_000 && Clock.now() < deadline
  }

  /// The CPU time of this thread in `body`, and what it adds to the resident memory of the process at its peak.
  func withPeak(_ body: () throws -> Void) rethrows -> (time: UInt64, growth: Int) {
    Self.trim()
    PeakMemory.reset()
    let before = PeakMemory.current()
    let begin = ThreadClock.now()
    try body()
    return (ThreadClock.now() - begin, max(0, Int(PeakMemory.read()) - before))
  }

  func require(_ found: Int, _ expected: Int) throws {
    if found != expected { throw EngineFailure("\(found) entries, not \(expected)") }
  }

  /// Returns free memory to the system, where the C library can: else `body` would first use what earlier rows have
  /// left to the allocator, and the growth of resident memory would not show it.
  static func trim() {
    typealias Trim = @convention(c) (Int) -> Int32
    guard let symbol = dlsym(dlopen(nil, RTLD_NOW), "malloc_trim") else { return }
    _ = unsafeBitCast(symbol, to: Trim.self)(0)
  }
}

/// Random entries of 20 + 40 bytes and ranges of their keys: the same for the same seed.
struct EntrySource {
  struct Entry {
    let key: [UInt8]
    let value: [UInt8]
  }

  private let values: ValueSource
  private let seed: UInt64

  init(seed: UInt64) {
    values = ValueSource(valueSize: 40, compressionRatio: 0.5, seed: seed)
    self.seed = seed
  }

  func random(_ stream: String) -> SplitMix64 { SplitMix64(seed: seed, stream: stream, thread: 0) }

  func entries(_ count: Int, _ random: inout SplitMix64) -> [Entry] {
    (0..<count).map { _ in Entry(key: Self.key(random.next()), value: Array(values.next())) }
  }

  /// Ranges at random keys, of which each has `span` of all 2⁶⁴ numbers.
  func ranges(_ count: Int, _ span: UInt64, _ random: inout SplitMix64) -> [StorageRange] {
    (0..<count).map { _ in
      let lower = random.next(below: .max - span)
      return StorageRange(lower: Self.key(lower), upper: Self.key(lower + span))
    }
  }

  /// The number in order, and twelve bytes that all keys have.
  private static func key(_ number: UInt64) -> [UInt8] {
    var key = [UInt8](repeating: 0x2E, count: 20)
    withUnsafeBytes(of: number.bigEndian) { bytes in
      for (index, byte) in bytes.enumerated() { key[index] = byte }
    }
    return key
  }
}

extension SplitMix64: RandomNumberGenerator {}

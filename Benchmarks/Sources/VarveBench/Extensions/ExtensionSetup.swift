import Foundation
import Varve

/// The setup of a measurement: a new database, a process at rest, the measurement of memory, and checks of results.
extension ExtensionRun {
  /// Runs `body` with a new database, which is removed afterwards. Books are defined as for the object workloads.
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

  /// Closes and reopens a database. Returns a database in memory unchanged.
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

  /// Waits at most 20 seconds until flushes and compactions have ended, so that they don't affect the measurement.
  func rest() {
    let deadline = Clock.now() + 20_000_000_000
    var window = QuietWindow()
    repeat { usleep(20_000) } while window.observe() < 300_000_000 && Clock.now() < deadline
  }

  /// Returns the CPU time of this thread in `body`, and the maximum growth of the process's resident memory.
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

  /// Returns free memory to the system if the C library can. Otherwise `body` would first use memory that earlier rows
  /// have left in the allocator, which the growth of resident memory would not show.
  static func trim() {
    typealias Trim = @convention(c) (Int) -> Int32
    guard let symbol = dlsym(dlopen(nil, RTLD_NOW), "malloc_trim") else { return }
    _ = unsafeBitCast(symbol, to: Trim.self)(0)
  }
}

/// Generates random entries of 20 + 40 bytes and ranges of their keys, the same ones for the same seed.
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

  /// Returns ranges at random keys, each of which spans `span` of all 2⁶⁴ numbers.
  func ranges(_ count: Int, _ span: UInt64, _ random: inout SplitMix64) -> [StorageRange] {
    (0..<count).map { _ in
      let lower = random.next(below: .max - span)
      return StorageRange(lower: Self.key(lower), upper: Self.key(lower + span))
    }
  }

  /// Returns a key that sorts by its number, followed by twelve bytes that all keys share.
  private static func key(_ number: UInt64) -> [UInt8] {
    var key = [UInt8](repeating: 0x2E, count: 20)
    withUnsafeBytes(of: number.bigEndian) { bytes in
      for (index, byte) in bytes.enumerated() { key[index] = byte }
    }
    return key
  }
}

extension SplitMix64: RandomNumberGenerator {}

import Foundation
import Varve

/// Measures the rows of `varve-bench extensions`, each on a fresh database with default options.
struct ExtensionRun {
  let num: Int
  /// The directory of the database, or `nil` for a database in memory.
  let directory: String?
  let books: BookSource
  private let entries: EntrySource

  private static let batch = 1_000
  /// The numbers of nested writes that throw and of ranges that are deleted in one transaction, so they don't grow with
  /// `num`.
  private static let throwCount = 100_000
  private static let rangeCount = 16_000

  init(num: Int, seed: UInt64, directory: String?) {
    self.num = num
    self.directory = directory
    books = BookSource(compressionRatio: 0.5, seed: seed)
    entries = EntrySource(seed: seed)
  }

  func measure(_ row: ExtensionCase) throws -> ExtensionMeasurement {
    if let measured = try measureIndexes(row) { return measured }
    return try withDatabase { database in
      switch row {
      case .insert: return try perRow(insert(database))
      case .listener1: return try listeners(1, database)
      case .listener2: return try listeners(2, database)
      case .listener5: return try listeners(5, database)
      case .foreign50:
        for number in 0..<50 {
          try database.register(Listener(scope: .only(["other-\(number)"])), as: "listener\(number)")
        }
        return try perRow(insert(database))
      case .nested: return try perRow(insert(database, Self.writeNested))
      case .partput: return try puts(database)
      case .logput: return try puts(database, .appendOnly)
      case .partfirst: return try looks(database)
      case .index2: return try indexes(database)
      case .touchless: return try updates(database)
      case .view: return try view(database, batch: Self.batch)
      case .view10000: return try view(database, batch: 10_000)
      case .one: return try perRow(insert(database, Self.writeEach))
      case .one4: return try four(database)
      case .aside: return try asides(database)
      case .build: return try build(database)
      case .ingest: return try ingest(database)
      case .throwing: return try throwing(database)
      case .remove: return try removal(database)
      case .ranges: return try ranges(database, looks: false)
      case .rangeslook: return try ranges(database, looks: true)
      default: preconditionFailure("\(row) has formats of its own")
      }
    }
  }

  // MARK: - Rows of inserts

  /// Inserts all books, and returns the CPU time of the writes in nanoseconds, without the creation of the books.
  @discardableResult
  private func insert(
    _ database: Database, count: Int? = nil, batch: Int = batch, isAgain: Bool = false,
    _ write: (Database, [Book]) throws -> Void = writeTogether
  ) throws -> UInt64 {
    let count = count ?? num
    var sum: UInt64 = 0
    for start in stride(from: 0, to: count, by: batch) {
      var made = (start..<min(start + batch, count)).map { books.book(UInt64($0)) }
      if isAgain { for index in made.indices { made[index].isRead.toggle() } }
      let begin = ThreadClock.now()
      try write(database, made)
      sum += ThreadClock.now() - begin
    }
    guard try database.read({ try $0.count(in: Book.collection) }) == count else {
      throw EngineFailure("the rows that were inserted are not there")
    }
    return sum
  }

  private static func writeTogether(_ database: Database, _ books: [Book]) throws {
    try database.write { tx in for book in books { try tx.set(book, key: book.id, in: Book.collection) } }
  }

  private static func writeEach(_ database: Database, _ books: [Book]) throws {
    for book in books { try database.write { tx in try tx.set(book, key: book.id, in: Book.collection) } }
  }

  private static func writeNested(_ database: Database, _ books: [Book]) throws {
    try database.write { _ in
      for book in books { try database.write { tx in try tx.set(book, key: book.id, in: Book.collection) } }
    }
  }

  func perRow(_ nanoseconds: UInt64) -> ExtensionMeasurement {
    ExtensionMeasurement(time: Double(nanoseconds) / Double(num) / 1e3)
  }

  private func listeners(_ count: Int, _ database: Database) throws -> ExtensionMeasurement {
    for number in 0..<count { try database.register(Listener(), as: "listener\(number)") }
    return try perRow(insert(database))
  }

  private func indexes(_ database: Database) throws -> ExtensionMeasurement {
    let handle = try database.register(Indexes(), as: "indexes")
    try database.waitUntilReady(handle)
    let time = try insert(database)
    try require(try database.read { try $0[handle].count() }, 3 * num)
    return perRow(time)
  }

  /// Measures updates that change no field of an index: old and new values are compared, and no part is written.
  private func updates(_ database: Database) throws -> ExtensionMeasurement {
    let handle = try database.register(Indexes(followsOldRows: true), as: "indexes")
    try database.waitUntilReady(handle)
    try insert(database)
    let time = try insert(database, isAgain: true)
    try require(try database.read { try $0[handle].count() }, 3 * num)
    return perRow(time)
  }

  private func view(_ database: Database, batch: Int) throws -> ExtensionMeasurement {
    let handle = try database.register(Neighbours(), as: "view")
    try database.waitUntilReady(handle)
    let time = try insert(database, batch: batch)
    try require(try database.read { try $0[handle].count() }, num)
    return perRow(time)
  }

  private func four(_ database: Database) throws -> ExtensionMeasurement {
    let handle = try database.register(FourParts(), as: "four")
    try database.waitUntilReady(handle)
    let time = try insert(database, Self.writeEach)
    try require(try database.read { try $0[handle].count() }, 4 * num)
    return perRow(time)
  }

  // MARK: - Rows of parts

  /// Measures the puts alone, without the commit.
  private func puts(
    _ database: Database, _ form: PartDefinition.Form = .values
  ) throws -> ExtensionMeasurement {
    let handle = try database.register(OnePart(form: form), as: "part")
    try database.waitUntilReady(handle)
    let time = try fill(database, handle, num, batch: Self.batch)
    try require(try database.read { try $0[handle].count() }, num)
    return perRow(time)
  }

  /// Puts random entries, and returns the CPU time of the puts in nanoseconds.
  @discardableResult
  private func fill(
    _ database: Database, _ handle: ExtensionHandle<OnePart>, _ count: Int, batch: Int
  ) throws -> UInt64 {
    var random = entries.random("fill")
    var sum: UInt64 = 0
    for start in stride(from: 0, to: count, by: batch) {
      let made = entries.entries(min(batch, count - start), &random)
      try database.write { tx in sum += try put(made, try tx[handle]) }
    }
    return sum
  }

  private func put(_ made: [EntrySource.Entry], _ part: OnePartTransaction) throws -> UInt64 {
    let begin = ThreadClock.now()
    for entry in made { try part.put(entry.key, entry.value) }
    return ThreadClock.now() - begin
  }

  /// Measures searches in a transaction with pending entries over committed ones, which are in tables whose blocks are
  /// in the cache.
  private func looks(_ filled: Database) throws -> ExtensionMeasurement {
    let committed = min(num * 5, 1_000_000)
    let count = min(num, 100_000)
    var handle = try filled.register(OnePart(), as: "part")
    try fill(filled, handle, committed, batch: 10_000)
    // A close flushes, because committed entries would otherwise be in the memtable. A database in memory leaves them
    // there.
    let database = try reopened(filled)
    defer { try? database.close() }
    if database !== filled {
      handle = try database.register(OnePart(), as: "part")
      try database.waitUntilReady(handle)
    }
    rest()
    // Each range has about four committed entries.
    let span = UInt64.max / UInt64(committed) * 4
    // Other ranges are searched first, which load the blocks into the cache.
    var random = entries.random("warm")
    try database.read { tx in _ = try look(count, span, &random, try tx[handle]) }
    random = entries.random("look")
    let pending = entries.entries(16_000, &random)
    var time: UInt64 = 0
    try database.write { tx in
      let part = try tx[handle]
      for entry in pending { try part.put(entry.key, entry.value) }
      time = try look(count, span, &random, part)
    }
    return ExtensionMeasurement(time: Double(time) / Double(count) / 1e3)
  }

  private func look(
    _ count: Int, _ span: UInt64, _ random: inout SplitMix64, _ part: OnePartTransaction
  ) throws -> UInt64 {
    var sum: UInt64 = 0
    var found = 0
    for start in stride(from: 0, to: count, by: Self.batch) {
      let ranges = entries.ranges(min(Self.batch, count - start), span, &random)
      let begin = ThreadClock.now()
      for range in ranges where try part.hasEntry(in: range) { found += 1 }
      sum += ThreadClock.now() - begin
    }
    guard found > count / 2 else { throw EngineFailure("only \(found) ranges of \(count) had an entry") }
    return sum
  }

  /// Measures deletes of ranges within one savepoint, which together cover about half of the part, including the
  /// commit.
  private func ranges(_ database: Database, looks: Bool) throws -> ExtensionMeasurement {
    let handle = try database.register(OnePart(), as: "part")
    try database.waitUntilReady(handle)
    try fill(database, handle, num, batch: 10_000)
    var random = entries.random("ranges")
    let span = UInt64.max / UInt64(Self.rangeCount * 2)
    let deleted = entries.ranges(Self.rangeCount, span, &random)
    let looked = entries.ranges(looks ? Self.rangeCount : 0, span, &random)
    rest()
    var found = 0
    let (time, growth) = try withPeak {
      try database.write { _ in
        try database.write { tx in
          let part = try tx[handle]
          for (index, range) in deleted.enumerated() {
            try part.deleteRange(range)
            if looks, try part.hasEntry(in: looked[index]) { found += 1 }
          }
        }
      }
    }
    guard found > 0 || !looks else { throw EngineFailure("no range had an entry") }
    return ExtensionMeasurement(time: Double(time) / 1e6, growth: growth)
  }

  // MARK: - Rows of whole operations

  /// Measures the build of one index over one and a half times as many rows, as CPU time of the process with all its
  /// threads.
  private func build(_ database: Database) throws -> ExtensionMeasurement {
    let count = max(num * 3 / 2, 1)
    try insert(database, count: count)
    rest()
    let before = ProcessUsage.now().cpuNanoseconds
    let handle = try database.register(Indexes(count: 1), as: "index")
    try database.waitUntilReady(handle)
    let time = ProcessUsage.now().cpuNanoseconds - before
    try require(try database.read { try $0[handle].count() }, 2 * count)
    return ExtensionMeasurement(time: Double(time) / Double(count) / 1e3)
  }

  /// Measures the build of the same index by tables, over three times as many rows and at least 50,000, as CPU time of
  /// the process.
  ///
  /// The note has the time of the thread of the build, which uses the writer only for its commits.
  private func ingest(_ database: Database) throws -> ExtensionMeasurement {
    // An index of fewer rows would be built by puts.
    let count = max(num * 3, 50_000)
    try insert(database, count: count)
    rest()
    let thread = OtherThreadClock()
    let before = ProcessUsage.now().cpuNanoseconds
    let handle = try database.register(Indexes(count: 1, catchesUp: true), as: "index") { _ in thread.note() }
    try database.waitUntilReady(handle)
    let time = ProcessUsage.now().cpuNanoseconds - before
    let own = Double(thread.now()) / Double(count) / 1e3
    try require(try database.read { try $0[handle].count() }, 2 * count)
    return ExtensionMeasurement(
      time: Double(time) / Double(count) / 1e3, note: String(format: "of it %.2f µs by the thread of the build", own))
  }

  /// Measures nested writes that set a row and throw, between two that don't. Neither rows nor memory of them may
  /// remain.
  private func throwing(_ database: Database) throws -> ExtensionMeasurement {
    struct Undone: Error {}
    func set(_ number: UInt64, _ tx: WriteTransaction) throws {
      let book = books.book(number)
      try tx.set(book, key: book.id, in: Book.collection)
    }
    let book = books.book(1)
    var time: UInt64 = 0
    var growth = 0
    try database.write { _ in
      try database.write { tx in try set(0, tx) }
      let before = PeakMemory.current()
      let begin = ThreadClock.now()
      for _ in 0..<Self.throwCount {
        do {
          try database.write { tx in
            try tx.set(book, key: book.id, in: Book.collection)
            throw Undone()
          }
        } catch is Undone {}
      }
      time = ThreadClock.now() - begin
      growth = PeakMemory.current() - before
      try database.write { tx in try set(2, tx) }
    }
    try require(try database.read { try $0.count(in: Book.collection) }, 2)
    return ExtensionMeasurement(time: Double(time) / Double(Self.throwCount) / 1e3, growth: growth)
  }

  /// Measures the removal of all rows in one transaction, in another random order than that of their inserts.
  private func removal(_ database: Database) throws -> ExtensionMeasurement {
    let handle = try database.register(Indexes(followsOldRows: true), as: "indexes")
    try database.waitUntilReady(handle)
    try insert(database)
    var random = entries.random("removal")
    let keys = (0..<UInt64(num)).map { books.id($0) }.shuffled(using: &random)
    rest()
    let (time, growth) = try withPeak {
      try database.write { tx in _ = try tx.remove(keys: keys, in: Book.collection) }
    }
    try require(try database.read { try $0[handle].count() + (try $0.count(in: Book.collection)) }, 0)
    return ExtensionMeasurement(time: Double(time) / Double(num) / 1e3, growth: growth)
  }
}

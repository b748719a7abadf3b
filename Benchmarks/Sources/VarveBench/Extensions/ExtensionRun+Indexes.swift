import Dispatch
import Foundation
import Synchronization
import Varve

/// Formats of books with no index, two, and five.
struct BooksPlain: StoreFormat {
  typealias Instance = Book
  static let collection = Book.collection
}

struct BooksTwo: StoreFormat {
  typealias Instance = Book
  static let collection = Book.collection
  let year = Index(\.year)
  let updated = Index(\.updated)
}

struct BooksFive: StoreFormat {
  typealias Instance = Book
  static let collection = Book.collection
  let year = Index(\.year)
  let updated = Index(\.updated)
  let title = Index(\.title)
  let author = Index(\.author, \.year)
  let price = Index(\.price)
}

/// Filters look at instances.
struct BooksDecoded: StoreFormat {
  typealias Instance = Book
  static let collection = Book.collection
  static let readsStoredFields = false
}

/// A unique index, and one with the rows.
struct BooksUnique: StoreFormat {
  typealias Instance = Book
  static let collection = Book.collection
  // Titles are cut of one text, and some are the same.
  let number = OneToOneIndex(\.id)
  @Direct var direct = OneToOneIndex(\.id, name: "direct")
  let updated = Index(\.updated)
  @Direct var rows = Index(\.updated, name: "rows")
}

extension ExtensionRun {
  /// The rows of typed stores; nil: it is another.
  func measureIndexes(_ row: ExtensionCase) throws -> ExtensionMeasurement? {
    switch row {
    case .typed0: try persist(BooksPlain.self)
    case .typed2: try persist(BooksTwo.self)
    case .typed5: try persist(BooksFive.self)
    case .typedone2: try persist(BooksTwo.self, batch: 1)
    case .lookup, .lookupdirect: try look(row)
    case .indexkeys, .indexrows, .fetch1000, .fetch1000direct, .indexcount: try iterate(row)
    case .indexbuild: try buildIndexes()
    case .filterstored: try filter(BooksPlain.self)
    case .filterdecoded: try filter(BooksDecoded.self)
    case .observers: try observe()
    default: nil
    }
  }

  private func persist<Format: StoreFormat>(
    _ format: Format.Type, batch: Int = 1_000
  ) throws -> ExtensionMeasurement where Format.Instance == Book {
    try withDatabase(DatabaseDefinition { format }) { database in
      perRow(try fill(Store<Format>(in: database), batch: batch))
    }
  }

  private func fill<Format: StoreFormat>(
    _ store: Store<Format>, batch: Int = 1_000
  ) throws -> UInt64 where Format.Instance == Book {
    var sum: UInt64 = 0
    for start in stride(from: 0, to: num, by: 1_000) {
      let made = (start..<min(start + 1_000, num)).map { books.book(UInt64($0)) }
      let begin = ThreadClock.now()
      if batch == 1 {
        for book in made { try store.database.write { tx in _ = try store.persist(book, in: tx) } }
      } else {
        try store.database.write { tx in for book in made { try store.persist(book, in: tx) } }
      }
      sum += ThreadClock.now() - begin
    }
    return sum
  }

  /// Each a read of its own.
  private func look(_ row: ExtensionCase) throws -> ExtensionMeasurement {
    try withDatabase(DatabaseDefinition { BooksUnique.self }) { database in
      let store = Store<BooksUnique>(in: database)
      _ = try fill(store)
      rest()
      let numbers = (0..<num).map { books.id(UInt64($0 &* 7_919 % num)) }
      var found = 0
      let begin = ThreadClock.now()
      for number in numbers {
        let book = try database.read { tx in
          row == .lookup
            ? try store.load(number, from: \.number, in: tx) : try store.load(number, from: \.direct, in: tx)
        }
        found += book == nil ? 0 : 1
      }
      let time = ThreadClock.now() - begin
      guard found == num else { throw EngineFailure("\(found) of \(num) books were found") }
      return perRow(time)
    }
  }

  /// One book in 130, found by a scan whose condition is asked of each row; per book.
  private func filter<Format: StoreFormat>(
    _ format: Format.Type
  ) throws -> ExtensionMeasurement where Format.Instance == Book {
    try withDatabase(DatabaseDefinition { format }) { database in
      let store = Store<Format>(in: database)
      _ = try fill(store)
      rest()
      let query = store.query.filter { $0.year == 1_950 && $0.price > 10 }.scan()
      let begin = ThreadClock.now()
      let count = try database.read { tx in try query.count(in: tx) }
      let time = ThreadClock.now() - begin
      return ExtensionMeasurement(time: Double(time) / Double(num) / 1e3, note: "\(count) rows fulfil it")
    }
  }

  /// A commit of one book, which none of 1,000 observed queries concerns: the committing thread. The note has the time until
  /// one more observer has it.
  private func observe() throws -> ExtensionMeasurement {
    try withDatabase(DatabaseDefinition { BooksTwo.self }) { database in
      let store = Store<BooksTwo>(in: database)
      _ = try fill(store)
      let done = DispatchSemaphore(value: 0)
      let delays = Mutex<[Double]>([])
      let commits = 200
      let begun = Mutex<UInt64>(0)
      let task = Task {
        var others: [QueryObservation<BooksTwo>.Iterator] = []
        for number in 0..<1_000 {
          var iterator = store.query.filter { $0.year == 3_000 + number }.changes().makeAsyncIterator()
          _ = try await iterator.next()
          others.append(iterator)
        }
        var mine = store.query.filter { $0.year == 2_999 }.changes().makeAsyncIterator()
        _ = try await mine.next()
        for _ in 0..<commits {
          done.signal()
          _ = try await mine.next()
          let now = Clock.now()
          delays.withLock { $0.append(Double(now - begun.withLock { $0 }) / 1e3) }
        }
        done.signal()
        withExtendedLifetime(others) {}
      }
      var time: UInt64 = 0
      for number in 0..<commits {
        done.wait()
        var book = books.book(UInt64(num + number))
        book.year = 2_999
        let begin = ThreadClock.now()
        begun.withLock { $0 = Clock.now() }
        try database.write { tx in _ = try store.persist(book, in: tx) }
        time += ThreadClock.now() - begin
      }
      done.wait()
      task.cancel()
      let sorted = delays.withLock { $0.sorted() }
      return ExtensionMeasurement(
        time: Double(time) / Double(commits) / 1e3,
        note: String(
          format: "%.0f µs until the observer concerned has it, the longest %.0f", sorted[commits / 2],
          sorted[commits - 1]))
    }
  }

  private func iterate(_ row: ExtensionCase) throws -> ExtensionMeasurement {
    try withDatabase(DatabaseDefinition { BooksUnique.self }) { database in
      let store = Store<BooksUnique>(in: database)
      _ = try fill(store)
      rest()
      var count = 0
      let begin = ThreadClock.now()
      switch row {
      case .indexrows:
        try database.read { tx in try store.load(..., from: \.updated, in: tx).forEachCounting(&count) }
      case .indexcount, .indexkeys:
        count = try database.read { tx in try store.count(..., from: \.updated, in: tx) }
      default:
        for number in 0..<(num / 1_000) {
          let after = Date(timeIntervalSinceReferenceDate: 8e8 * Double(number) / Double(num / 1_000) * 0.9)
          try database.read { tx in
            if row == .fetch1000 {
              try store.load(after..., from: \.updated, limit: 1_000, in: tx).forEachCounting(&count)
            } else {
              try store.load(after..., from: \.rows, limit: 1_000, in: tx).forEachCounting(&count)
            }
          }
        }
      }
      let time = ThreadClock.now() - begin
      return ExtensionMeasurement(time: Double(time) / Double(count) / 1e3, note: "\(count) rows")
    }
  }

  private func buildIndexes() throws -> ExtensionMeasurement {
    guard directory != nil else { return ExtensionMeasurement(time: 0, note: "not in memory") }
    return try withDatabase(DatabaseDefinition { BooksPlain.self }) { database in
      _ = try fill(Store<BooksPlain>(in: database))
      rest()
      try database.close()
      let before = ProcessUsage.now().cpuNanoseconds
      let clock = ContinuousClock()
      let begin = clock.now
      let again = try Database.open(at: directory ?? "", definition: DatabaseDefinition { BooksTwo.self })
      let store = Store<BooksTwo>(in: again)
      try Self.warm(store)
      let elapsed = (clock.now - begin) / .microseconds(1)
      let time = ProcessUsage.now().cpuNanoseconds - before
      let count = try again.read { tx in try store.count(..., from: \.updated, in: tx) }
      try again.close()
      guard count == num else { throw EngineFailure("\(count) of \(num) books are in the index") }
      return ExtensionMeasurement(
        time: elapsed / Double(num), note: String(format: "%.2f µs of CPU", Double(time) / Double(num) / 1e3))
    }
  }

  private static func warm<Format: StoreFormat>(_ store: Store<Format>) throws { try store.warm() }
}

extension StoreCursor<Book> {
  fileprivate consuming func forEachCounting(_ count: inout Int) throws {
    var cursor = self
    while let book = try cursor.next() { count += book.touched == 0 ? 0 : 1 }
  }
}

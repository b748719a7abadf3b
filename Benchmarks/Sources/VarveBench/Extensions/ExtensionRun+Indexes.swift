import Dispatch
import Foundation
import Synchronization
import Varve

/// The formats of books with no index, two indexes, and five indexes.
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

/// A format whose filters are evaluated on instances.
struct BooksDecoded: StoreFormat {
  typealias Instance = Book
  static let collection = Book.collection
  static let readsStoredFields = false
}

/// A format with a unique index, an ordered index, and direct indexes, which contain the rows.
struct BooksUnique: StoreFormat {
  typealias Instance = Book
  static let collection = Book.collection
  // Titles are slices of one text, so some of them are equal.
  let number = OneToOneIndex(\.id)
  @Direct var direct = OneToOneIndex(\.id, name: "direct")
  let updated = Index(\.updated)
  @Direct var rows = Index(\.updated, name: "rows")
}

extension ExtensionRun {
  /// Measures a row of typed stores, or returns `nil` for another row.
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
    case .untouchedqueries, .untouchedreads: try commitBesideObservers(row)
    case .observedall: try changeWhatIsObserved()
    case .update2: try updateAll()
    case .remove2: try removeAll()
    case .moved: try moveRows()
    case .cancelled: try cancelReads()
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

  func fill<Format: StoreFormat>(
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

  /// Measures lookups, each in its own read transaction.
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
            ? try store.load(.value(number), from: \.number, in: tx)
            : try store.load(.value(number), from: \.direct, in: tx)
        }
        found += book == nil ? 0 : 1
      }
      let time = ThreadClock.now() - begin
      guard found == num else { throw EngineFailure("\(found) of \(num) books were found") }
      return perRow(time)
    }
  }

  /// Measures a scan whose condition is evaluated for each row and finds one book in 130. The time is per book.
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

  private func iterate(_ row: ExtensionCase) throws -> ExtensionMeasurement {
    try withDatabase(DatabaseDefinition { BooksUnique.self }) { database in
      let store = Store<BooksUnique>(in: database)
      _ = try fill(store)
      rest()
      var count = 0
      let begin = ThreadClock.now()
      switch row {
      case .indexrows:
        try database.read { tx in try store.load(.all, from: \.updated, in: tx).forEachCounting(&count) }
      case .indexcount, .indexkeys:
        count = try database.read { tx in try store.count(.all, from: \.updated, in: tx) }
      default:
        for number in 0..<(num / 1_000) {
          let after = Date(timeIntervalSinceReferenceDate: 8e8 * Double(number) / Double(num / 1_000) * 0.9)
          try database.read { tx in
            if row == .fetch1000 {
              try store.load(.range(after...), from: \.updated, limit: 1_000, in: tx).forEachCounting(&count)
            } else {
              try store.load(.range(after...), from: \.rows, limit: 1_000, in: tx).forEachCounting(&count)
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
      let count = try again.read { tx in try store.count(.all, from: \.updated, in: tx) }
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

import Foundation
import Varve

/// A note of a program that stored its records with GRDB.
struct Note: Codable, Hashable, Identifiable, Sendable {
  struct Location: Codable, Hashable, Sendable {
    var latitude: Double
    var name: String?
  }

  var id: UUID
  var title: String
  var isPinned: Bool
  var createdAt: Date
  var rating: Double?
  var tags: [String]
  var location: Location?
  var picture: Data?
  var readCount: Int
}

struct NoteFormat: StoreFormat {
  typealias Instance = Note
  static let collection = "notes"
  let byTitle = Index(\.title)
}

/// A book of a program that stored its objects with Core Data.
struct Book: Codable, Hashable, Identifiable, Sendable {
  var id: Int
  var title: String?
  var firstName: String?
  var isRead: Bool
  var added: Date?
  var identifier: UUID
  var price: Decimal?
}

struct BookFormat: StoreFormat {
  typealias Instance = Book
  static let collection = "books"
  let byTitle = Index(\.title)
}

/// The objects that the files contain.
enum Samples {
  static let count = 2_500

  static func note(_ number: Int) -> Note {
    Note(
      id: uuid(number), title: "note \(number) é", isPinned: number % 2 == 0,
      createdAt: Date(timeIntervalSince1970: Double(1_700_000_000 + number * 1_000) + 0.125),
      rating: number % 3 == 0 ? nil : Double(number) / 4, tags: number % 5 == 0 ? [] : ["a", "t\(number)"],
      location: number % 4 == 0 ? nil : Note.Location(latitude: Double(number), name: number % 8 == 1 ? nil : "here"),
      picture: number % 7 == 0 ? nil : Data([UInt8(number % 256), 0, 255]), readCount: number - 5)
  }

  static func book(_ number: Int) -> Book {
    Book(
      id: number, title: number % 3 == 0 ? nil : "book \(number)", firstName: number % 2 == 0 ? "Emma" : nil,
      isRead: number % 4 == 0,
      added: number % 5 == 0 ? nil : Date(timeIntervalSinceReferenceDate: Double(number) * 0.5),
      identifier: uuid(number), price: number % 6 == 0 ? nil : Decimal(number))
  }

  static func uuid(_ number: Int) -> UUID {
    UUID(uuid: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, UInt8(number / 256), UInt8(number % 256)))
  }
}

enum ImportChecks {
  static func run(_ path: String) throws {
    let definition = DatabaseDefinition {
      NoteFormat.self
      BookFormat.self
    }
    var options = DatabaseOptions()
    options.createsIfMissing = false
    let database = try Database.open(at: path, definition: definition, options: options)
    let notes = Store<NoteFormat>(in: database)
    let books = Store<BookFormat>(in: database)
    try notes.warm()
    try books.warm()
    try database.read { tx in
      guard try notes.count(in: tx) == Samples.count, try books.count(in: tx) == Samples.count else {
        throw TargetError("\(try notes.count(in: tx)) notes and \(try books.count(in: tx)) books, not \(Samples.count)")
      }
      for number in 0..<Samples.count {
        let (note, book) = (Samples.note(number), Samples.book(number))
        try require(try notes.load(note.id, in: tx), note)
        try require(try books.load(book.id, in: tx), book)
      }
      guard let first = try notes.query.filter({ $0.title == "note 7 é" }).first(in: tx) else {
        throw TargetError("an index finds no note that was imported")
      }
      try require(first, Samples.note(7))
    }
    // An imported row can be changed and deleted like any other.
    try database.write { tx in
      try notes.modify(Samples.uuid(7), in: tx) { $0.title = "changed" }
      try books.delete(7, in: tx)
    }
    try database.close()
    print("\(Samples.count) notes and \(Samples.count) books are right")
  }

  private static func require<Object: Equatable>(_ found: Object?, _ expected: Object) throws {
    guard found == expected else {
      throw TargetError("found \(found.map { "\($0)" } ?? "nothing"), expected \(expected)")
    }
  }
}

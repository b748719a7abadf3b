import Foundation

/// The second type of the coder benchmarks besides books: a value with nested values, lists, a dictionary, optionals
/// and an enum.
struct Order: Codable, Equatable, Sendable {
  struct Address: Codable, Equatable, Sendable {
    var street: String
    var city: String
    var country: String
  }

  struct Customer: Codable, Equatable, Sendable {
    var id: UUID
    var name: String
    var email: String?
    var address: Address
  }

  struct Line: Codable, Equatable, Sendable {
    var article: Int
    var title: String
    var count: Int
    var price: Double
    var discount: Double?
  }

  enum State: String, Codable, Sendable { case open, paid, sent }

  var number: Int
  var created: Date
  var state: State
  var customer: Customer
  /// The six lines of the order.
  var lines: [Line]
  var labels: [String]
  var notes: [String: String]

  /// Creates the order with a number, with the texts of books.
  init(_ number: UInt64, _ books: BookSource) {
    let book = books.book(number)
    self.number = 100_000 + Int(truncatingIfNeeded: number)
    created = book.updated
    state = book.isRead ? .sent : .open
    customer = Customer(
      id: book.id, name: book.author, email: book.isRead ? "\(book.year)@example.org" : nil,
      address: Address(street: book.title, city: book.author, country: "SE"))
    lines = (0..<6).map { index in
      let article = books.book(number &* 6 &+ UInt64(index))
      return Line(
        article: article.year, title: article.title, count: index + 1, price: article.price,
        discount: article.isRead ? 0.25 : nil)
    }
    labels = ["gift", "express"]
    notes = ["packing": book.author, "bell": "ring twice"]
  }
}

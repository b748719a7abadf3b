import Testing

/// Checks how the compiler treats conditions: right ones compile quickly, and wrong ones give one error.
struct QueryCodeTests {
  private static let types = """
    import Foundation
    import Varve

    struct Volume: Codable, Identifiable, Sendable {
      struct Home: Codable, Hashable, Sendable { var city: String }
      enum Shelf: String, Codable, Sendable, KeyCodable { case fiction, science }
      var id: UUID
      var title: String
      var nick: String?
      var year: Int
      var age: Int?
      var small: UInt8
      var weight: Double
      var share: Float?
      var isRead: Bool
      var isSold: Bool?
      var added: Date
      var sold: Date?
      var price: Decimal
      var length: Duration
      var link: URL?
      var data: Data
      var shelf: Shelf
      var other: Shelf?
      var tags: [String]
      var codes: Set<Int>?
      var home: Home?
    }
    struct VolumeFormat: StoreFormat {
      static let collection = "volumes"
      typealias Instance = Volume
    }
    """

  /// Returns the compiler's messages for the body of a function that has a `query`, a `date` and an `id`.
  private static func failures(_ body: String, isTimed: Bool = true) throws -> String {
    let text = types + "\nfunc use(_ query: StoreQuery<VolumeFormat>, _ date: Date, _ id: UUID) {\n" + body + "\n}"
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
    let timed = ["-Xfrontend", "-warn-long-expression-type-checking=300", "-warnings-as-errors"]
    return try ExampleCompiler(flags: isTimed ? timed : []).failures([
      SwiftExample(path: "Query.swift", line: 1, lines: lines)
    ])
  }

  @Test func `every kind of field with each of its operators is type-checked in less than 300 milliseconds`() throws {
    let failures = try Self.failures(
      #"""
      _ = query.filter { $0.title == "a" && $0.title != "b" && $0.title < "c" && $0.title >= "d" && $0.title.hasPrefix("e") }
      _ = query.filter { $0.title.isIn("a"..<"b") && $0.title.isIn(["a", "b"]) && $0.title.contains("x") }
      _ = query.filter { $0.nick == nil && $0.nick != "b" && $0.nick < "c" && $0.nick.hasPrefix("e") && $0.nick.isIn("a"..."b") }
      _ = query.filter { $0.year == 1 && $0.year != 2 && $0.year < 3 && $0.year <= 4 && $0.year > 5 && $0.year >= 6 }
      _ = query.filter { $0.year.isIn(1..<9) || $0.year.isIn(1...9) || $0.year.isIn([1, 2, 3]) }
      _ = query.filter { $0.age == 1 && $0.age != nil && $0.age < 3 && $0.age <= 4 && $0.age.isIn(1..<9) }
      _ = query.filter { $0.small == 1 && $0.small > 3 && $0.small.isIn(1...9) }
      _ = query.filter { $0.weight == 1 && $0.weight > 3.5 && $0.weight.isIn(1...9.5) && $0.share < 3 && $0.share == nil }
      _ = query.filter { $0.isRead.isTrue && $0.isSold == true }
      _ = query.filter { $0.isRead }
      _ = query.filter { !$0.isRead.isTrue || $0.isRead == false }
      _ = query.filter { $0.added < date && $0.added.isIn(date...date) && $0.sold >= date && $0.sold != nil }
      _ = query.filter { $0.id == id && $0.price <= 3 && $0.price.isIn(1..<2) && $0.length > .seconds(3) && $0.link == nil }
      _ = query.filter { $0.shelf == .fiction && $0.shelf.isIn([.fiction, .science]) && $0.other == .science && $0.other != nil }
      _ = query.filter { $0.tags.contains("a") && $0.codes.contains(3) && $0.home.city == "b" && $0.home.city.hasPrefix("c") }
      _ = query.filter { $0.title.folded.hasPrefix("a") && $0.nick.folded == "b" }
      _ = query.sorted(by: \.year, descending: true).sorted(by: \.age).sorted { $0.home.city }.limit(3)
      """#)
    #expect(failures.isEmpty, "\(failures)")
  }

  @Test func `a condition of twelve terms with optionals, strings and ranges is type-checked in that time, too`() throws
  {
    let failures = try Self.failures(
      """
      let year = 1990
      _ = query.filter {
        $0.title.hasPrefix("The") && ($0.year >= year || $0.year == 1984) && !$0.title.isIn(["a", "b"]) && $0.tags.contains("x")
          && $0.nick == "Bob" && $0.home.city != "Rome" && $0.year.isIn(1900..<2000) && $0.age > 3 && $0.age.isIn(3...4)
          && ($0.nick.hasPrefix("a") || $0.codes.contains(7)) && $0.title.contains("xyz") && $0.isRead.isTrue
      }
      """)
    #expect(failures.isEmpty, "\(failures)")
  }

  @Test(arguments: [
    #"$0.year == "1990""#, "$0.title < 3", #"$0.age.isIn(["a"])"#, "$0.tags.contains(3)", "$0.nothing == 3",
    "$0.isRead < true", #"$0.year.hasPrefix("1")"#, #"$0.tags.hasPrefix("a")"#,
  ])
  func `a type error in a condition gives exactly one error of the compiler`(condition: String) throws {
    let failures = try Self.failures("_ = query.filter { \(condition) }", isTimed: false)
    let errors = failures.split(separator: "\n").filter { $0.contains(".swift:") && $0.contains(": error: ") }
    #expect(errors.count == 1, "\(failures)")
    #expect(!failures.contains("reasonable time"))
  }
}

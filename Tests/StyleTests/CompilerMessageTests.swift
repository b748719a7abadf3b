import Foundation
import Testing

/// Holds the guide *Errors of the compiler* to the compiler: what its tables show as wrong gives the message beside it,
/// and what they show as right compiles.
struct CompilerMessageTests {
  /// A row of a table: wrong code, its message, and right code.
  private struct Line {
    let number: Int
    let wrong: String
    let message: String
    let right: String
  }

  private static let types = """
    import Foundation
    import Varve

    struct Author: Codable, Hashable, Sendable { var name: String }
    enum Kind: String, Codable, Sendable { case novel, poem }
    enum Shelf: String, Codable, Sendable, KeyCodable { case low, high }
    struct Book: Codable, Identifiable, Sendable {
      var id: Int
      var title: String
      var nick: String?
      var year: Int
      var age: Int?
      var isRead: Bool
      var isSold: Bool?
      var tags: [String]
      var years: [Int]
      var author: Author?
      var kind: Kind
      var kinds: [Kind]
      var shelf: Shelf
      var hasOwnNick: Bool { title == nick }
      var isOld: Bool { year < age ?? 0 }
    }

    """

  /// Returns the rows of the table below a heading of the guide.
  private static func table(_ heading: String) throws -> [Line] {
    let guide = try #require(Repository.file("Sources/Varve/Varve.docc/Guides/ErrorsOfTheCompiler.md"))
    let start = try #require(guide.lines.firstIndex { $0 == "## " + heading })
    let end = guide.lines[(start + 1)...].firstIndex { $0.hasPrefix("## ") } ?? guide.lines.count
    return (start..<end).compactMap { index in
      let cells = guide.lines[index].components(separatedBy: " | ")
      guard guide.lines[index].hasPrefix("| `"), cells.count == 3 else { return nil }
      func code(_ cell: String) -> String { cell.trimmingCharacters(in: CharacterSet(charactersIn: " |`")) }
      return Line(number: index + 1, wrong: code(cells[0]), message: cells[1], right: code(cells[2]))
    }
  }

  /// Compiles a table, in the form in which its code is used, and compares the messages.
  private static func check(_ heading: String, _ form: (String, Int) -> String) throws {
    let lines = try table(heading)
    #expect(lines.count > 0, "the table is missing")
    func failures(_ code: (Line) -> String) throws -> [Substring] {
      let text = types + lines.map { form(code($0), $0.number) }.joined(separator: "\n")
      let program = SwiftExample(
        path: "Guide.swift", line: 1, lines: text.split(separator: "\n", omittingEmptySubsequences: false))
      return try ExampleCompiler().failures([program]).split(separator: "\n").filter {
        $0.hasPrefix("Guide.swift:") && $0.contains(": error: ")
      }
    }
    let right = try failures(\.right)
    #expect(right.isEmpty, "\(right)")
    let wrong = try failures(\.wrong)
    let first = types.split(separator: "\n", omittingEmptySubsequences: false).count
    for (index, line) in lines.enumerated() {
      let messages = wrong.filter { $0.hasPrefix("Guide.swift:\(first + index):") }
      #expect(messages.contains { $0.contains(line.message) }, "\(line.wrong) gives \(messages)")
      #expect(
        messages.count <= 2 && !messages.contains { $0.contains("bug report") }, "\(line.wrong) gives \(messages)")
    }
  }

  @Test func `the conditions of the guide give their messages`() throws {
    try Self.check("Conditions") { code, number in "let condition\(number) = Condition<Book> { \(code) }" }
  }

  @Test func `the indexes of the guide give their messages`() throws {
    try Self.check("Indexes") { code, number in
      "struct Format\(number): StoreFormat { typealias Instance = Book; static let collection = \"b\"; let one = \(code) }"
    }
  }

  @Test func `the formats of the guide give their messages`() throws {
    try Self.check("Formats") { code, number in
      "enum Scope\(number) { \(code); struct F: StoreFormat { typealias Instance = Plain; static let collection = \"b\" } }"
    }
  }

  @Test func `what the guide shows as working as it is written compiles`() throws {
    let text =
      Self.types
        + """
        func use() {
          _ = [
            Condition<Book> { $0.isRead && $0.year < 1900 }, Condition<Book> { !$0.isRead },
            Condition<Book> { 1900 < $0.year }, Condition<Book> { (1900..<2000).contains($0.year) },
            Condition<Book> { ["Emma", "Persuasion"].contains($0.title) }, Condition<Book> { $0.title.hasSuffix("a") },
          ]
        }
        """
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
    let failures = try ExampleCompiler().failures([SwiftExample(path: "Guide.swift", line: 1, lines: lines)])
    #expect(failures.isEmpty, "\(failures)")
  }
}

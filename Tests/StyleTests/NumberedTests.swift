import Foundation
import Testing

/// Checks that each item of the lists in `Development/Lists` has a test, and that a test names only such items.
///
/// An item is a line such as `- **crash d**: …` with a code, which consists of a kind and a number or letter. The name
/// of a test of the item begins with the code: `crash d: …`, `layout 3 and 8: …`, or `transition 11, 13 and 15: …`. The
/// name of a test of an example in a guide begins with the name of the guide and a number.
struct NumberedTests {
  @Test func `every item of a list has a test, and no other list has its code`() {
    let codes = Repository.articles.flatMap(Self.codes)
    #expect(codes.count > 20)
    #expect(codes.count == Set(codes).count, "\(codes.filter { code in codes.count { $0 == code } > 1 })")
    let missing = Set(codes).subtracting(Self.tests.flatMap(Self.names).flatMap { Self.reference($0)?.codes ?? [] })
    #expect(missing.isEmpty, "\(missing.sorted())")
  }

  @Test func `every code at the beginning of a test's name is an item of a list, or an example of a guide`() {
    let codes = Set(Repository.articles.flatMap(Self.codes))
    let articles = Set(
      Repository.articles.map { (($0.path as NSString).lastPathComponent as NSString).deletingPathExtension })
    let unknown = Self.tests.flatMap(Self.names).filter { name in
      guard let reference = Self.reference(name) else { return false }
      return !articles.contains(reference.kind) && !codes.isSuperset(of: reference.codes + reference.ends)
    }
    #expect(unknown.isEmpty, "\(unknown)")
  }

  @Test func `codes are read from the items of lists and the names of tests`() {
    let list = "# A\n\n- **crash d'**: A sentence.\n- **no code** is here\n- **layout 3**: A sentence.\n"
    #expect(Self.codes(SourceFile(path: "Development/Lists/A.md", text: list)) == ["crash d'", "layout 3"])
    #expect(Self.codes(SourceFile(path: "Guides/A.md", text: list)).isEmpty)
    let tests = "// func a: not a test\n  @Test func `layout 3: a sentence`() { print(\"crash a: none\") }\n"
    #expect(Self.names(SourceFile(path: "Tests/A.swift", text: tests)) == ["layout 3: a sentence"])
    #expect(Self.reference("crash d': a sentence")?.codes == ["crash d'"])
    #expect(Self.reference("layout 4 and 6: a sentence")?.codes == ["layout 4", "layout 6"])
    #expect(Self.reference("layout 1, 3 and 15: a sentence")?.codes == ["layout 1", "layout 3", "layout 15"])
    // A test of a range may leave some of its items out.
    let range = Self.reference("crash a to l: a sentence")
    #expect(range?.codes == [] && range?.ends == ["crash a", "crash l"])
    for name in ["REC 96: a sentence", "R11: a sentence", "1.2, R7: a sentence", "D18a: a sentence"] {
      #expect(Self.reference(name) != nil, "\(name)")
    }
    for name in [
      "a sentence", "crash of a process: no code", "quarter-hours are points in time: 92", "layout: no number",
    ] {
      #expect(Self.reference(name) == nil, "\(name)")
    }
  }

  // MARK: - Reading codes

  private static let tests = Repository.files(in: ["Tests", "Fuzz/Tests"], ["swift"]).filter {
    !$0.path.hasPrefix("Tests/StyleTests/")
  }

  /// Returns the codes of the items of a list.
  private static func codes(_ article: SourceFile) -> [String] {
    guard article.path.contains("Development/Lists/") else { return [] }
    return article.lines.compactMap { $0.prefixMatch(of: #/- \*\*(.+?)\*\*: /#).map { String($0.1) } }
  }

  /// Returns the names of tests that are sentences.
  private static func names(_ file: SourceFile) -> [String] {
    file.lines.compactMap { $0.firstMatch(of: #/(?:func|^ +) `(.+?)`\(/#).map { String($0.1) } }
  }

  /// Returns the kind of the code that a name begins with, the codes that it refers to, and those at the ends of a
  /// range.
  private static func reference(_ name: String) -> (kind: String, codes: [String], ends: [String])? {
    guard let colon = name.firstRange(of: ": ") else { return nil }
    var items = name[..<colon.lowerBound].split(separator: #/, | and | to /#)
    let first = items.first?.split(separator: " ") ?? []
    guard let item = first.last, first.count <= 2 else { return nil }
    items[0] = item
    guard items.allSatisfy({ $0.wholeMatch(of: #/[A-Z]* ?[0-9][0-9.]*[a-z]?|[a-z]'?/#) != nil }) else { return nil }
    let kind = first.count == 2 ? String(first[0]) : ""
    let codes = items.map { "\(kind) \($0)" }
    return name[..<colon.lowerBound].contains(" to ") ? (kind, [], codes) : (kind, codes, [])
  }
}

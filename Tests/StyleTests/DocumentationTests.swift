import Foundation
import Testing

/// Checks that articles are linked, and that their examples compile.
struct DocumentationTests {
  /// The landing page of each catalog, which is named like its module.
  private static let landings = [
    "VarveEngine.md", "Varve.md", "VarveRelationships.md", "VarveTasks.md", "VarveViews.md",
  ]

  @Test func `every article is linked from a Topics list`() {
    let articles = Repository.articles
    #expect(articles.count > 3, "the catalog was not found at \(Repository.root)")
    let violations = Self.unlinked(articles)
    #expect(violations.isEmpty, "\(violations.report)")
  }

  @Test func `every link to an article has its article`() {
    let violations = Self.dangling(Repository.articles)
    #expect(violations.isEmpty, "\(violations.report)")
  }

  @Test func `every source file that an article names is there, with the function that it names`() {
    #expect(Self.namedFiles(Repository.articles).count > 20)
    let violations = Self.missingFiles(
      Repository.articles,
      Repository.engineFiles + Repository.objectFiles + Repository.relationshipFiles + Repository.taskFiles
        + Repository.viewFiles)
    #expect(violations.isEmpty, "\(violations.report)")
  }

  @Test func `the README has at most 200 lines`() throws {
    let readme = try #require(Repository.file("README.md"))
    #expect(readme.lines.count <= 201)
  }

  @Test func `every Swift block of the README and the articles compiles`() throws {
    let files = [Repository.file("README.md")].compactMap { $0 } + Repository.articles
    let blocks = files.flatMap(SwiftExample.blocks)
    #expect(!blocks.isEmpty)
    let failures = try ExampleCompiler().failures(blocks)
    #expect(failures.isEmpty, "\(failures)")
  }

  @Test func `the table of errors has every code of the object layer, and no other`() throws {
    let source = try #require(Repository.file("Sources/Varve/DatabaseError.swift"))
    let article = try #require(Repository.file("Sources/Varve/Varve.docc/Guides/Errors.md"))
    let cases = source.lines.filter { $0.hasPrefix("      case ") }
    let codes = Set(
      cases.flatMap { $0.dropFirst(11).split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) } })
    let rows = article.lines.filter { $0.hasPrefix("| `.") }.compactMap { $0.split(separator: "|").first }
    let listed = rows.flatMap {
      $0.split(separator: ",").map { $0.trimmingCharacters(in: CharacterSet(charactersIn: " `.")) }
    }
    #expect(codes.count > 20)
    #expect(Set(listed) == codes)
    #expect(listed.count == codes.count)
  }

  @Test func `an article that nothing links is found`() {
    let articles = [
      SourceFile(path: "C/" + Self.landings[0], text: "# A\n\n<doc:Lost>\n\n## Topics\n\n- <doc:Found>\n"),
      SourceFile(path: "C/Found.md", text: "# Found\n"), SourceFile(path: "C/D/Lost.md", text: "# Lost\n"),
    ]
    #expect(Self.unlinked(articles).map(\.path) == ["C/D/Lost.md"])
    #expect(Self.dangling(articles).isEmpty)
  }

  @Test func `a link to an article that is not there is found`() {
    let article = SourceFile(path: "C/A.md", text: "# A\n\nSee <doc:Nowhere>.\n")
    #expect(Self.dangling([article]).map(\.line) == [3])
  }

  @Test func `a source file or a function that is not there is found`() {
    let text =
      "# A\n\nput  Engine/Engine+Write.swift `commit`\nget  Engine/Gone.swift\nsync Engine/Engine+Write.swift `gone`\n"
    let sources = [SourceFile(path: "Sources/VarveEngine/Engine/Engine+Write.swift", text: "func commit() {}\n")]
    let article = SourceFile(path: "C/A.md", text: text)
    #expect(Self.missingFiles([article], sources).map(\.line) == [4, 5])
  }

  @Test func `an example that does not compile is found`() throws {
    let text = "# A\n\n```swift\nimport VarveEngine\nlet engine: Engine = 1\n```\n\n```\nnot Swift\n```\n"
    let blocks = SwiftExample.blocks(SourceFile(path: "Bad.md", text: text))
    #expect(blocks.count == 1)
    let failures = try ExampleCompiler().failures(blocks)
    #expect(failures.contains("Bad.md:5"), "\(failures)")
  }

  // MARK: - The rules

  private static func unlinked(_ articles: [SourceFile]) -> [Violation] {
    let linked = Set(articles.flatMap { links($0, topicsOnly: true) }.map(\.name))
    let rest = articles.filter { article in !landings.contains { article.path.hasSuffix("/" + $0) } }
    return rest.filter { !linked.contains(name($0)) }
      .map { Violation(path: $0.path, line: 1, message: "no Topics list links this article") }
  }

  private static func dangling(_ articles: [SourceFile]) -> [Violation] {
    let names = Set(articles.map(name))
    return articles.flatMap { article in
      links(article, topicsOnly: false).filter { !names.contains($0.name) }.map {
        Violation(path: article.path, line: $0.line, message: "there is no article \($0.name)")
      }
    }
  }

  private struct NamedFile {
    let article: SourceFile
    let line: Int
    let path: String
    let name: String?
  }

  /// Returns the references to `Folder/File.swift` in articles, each with the name in backquotes that may follow it.
  private static func namedFiles(_ articles: [SourceFile]) -> [NamedFile] {
    let pattern = /(?<path>[A-Z][A-Za-z]+(?:\/[A-Za-z]+)*\/[A-Za-z+]+\.swift)(?:`?,? `(?<name>[a-z][A-Za-z]*)`)?/
    return articles.flatMap { article in
      article.lines.enumerated().flatMap { index, line in
        line.matches(of: pattern).map { match in
          NamedFile(article: article, line: index + 1, path: String(match.path), name: match.name.map { String($0) })
        }
      }
    }
  }

  private static func missingFiles(_ articles: [SourceFile], _ sources: [SourceFile]) -> [Violation] {
    namedFiles(articles).compactMap { named in
      let found = sources.filter { $0.path == named.path || $0.path.hasSuffix("/" + named.path) }
      let isThere = found.contains { source in named.name.map { source.text.contains("func \($0)") } ?? true }
      guard !isThere else { return nil }
      let name = named.name.map { " with a function \($0)" } ?? ""
      return Violation(path: named.article.path, line: named.line, message: "there is no \(named.path)\(name)")
    }
  }

  private static func name(_ article: SourceFile) -> String {
    ((article.path as NSString).lastPathComponent as NSString).deletingPathExtension
  }

  /// Returns the `<doc:Name>` links of an article: those in a list below `## Topics`, or all.
  private static func links(_ article: SourceFile, topicsOnly: Bool) -> [(name: String, line: Int)] {
    var isTopics = false
    var links: [(name: String, line: Int)] = []
    for (index, line) in article.lines.enumerated() {
      if line.hasPrefix("## ") { isTopics = line.hasPrefix("## Topics") }
      guard !topicsOnly || (isTopics && line.hasPrefix("- ")) else { continue }
      for piece in line.components(separatedBy: "<doc:").dropFirst() {
        guard let end = piece.firstIndex(of: ">") else { continue }
        links.append((String(piece[..<end]), index + 1))
      }
    }
    return links
  }
}

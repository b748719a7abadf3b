import Foundation
import Testing

/// Checks that each seeded bug applies to the tree and names the suites that find it, and that those suites are
/// declared: `Tests/SeededBugs/run` builds the modules that declare them.
struct SeededBugTests {
  private static let patches = Repository.files(in: ["Tests/SeededBugs"], ["patch"])

  /// Returns the suite names in a filter: its words, split in the same way as by the script.
  private static func words(_ filter: Substring) -> [Substring] {
    filter.split { !($0.isASCII && $0.isLetter) }.filter { $0.count >= 3 }
  }

  /// Returns the suite that a line declares, if it is one that the script's search finds.
  private static func suite(_ line: Substring) -> Substring? {
    guard !line.hasPrefix(" ") else { return nil }
    var words = line.split(separator: " ")[...]
    if words.first?.hasPrefix("@Suite") == true {
      guard let end = words.firstIndex(where: { ["struct", "class", "enum", "actor", "final"].contains($0) }) else {
        return nil
      }
      words = words[end...]
    }
    while let first = words.first, ["final", "public"].contains(first) { words = words.dropFirst() }
    guard words.count >= 2, ["struct", "class", "enum", "actor"].contains(words[words.startIndex]) else { return nil }
    return words[words.startIndex + 1].prefix { $0.isLetter || $0.isNumber }
  }

  /// Returns whether a patch applies to the tree, which is not changed.
  private static func applies(_ path: String) throws -> Bool {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["git", "apply", "--check", path]
    process.currentDirectoryURL = URL(fileURLWithPath: Repository.root)
    process.standardError = FileHandle.nullDevice
    try process.run()
    process.waitUntilExit()
    return process.terminationStatus == 0
  }

  private static func violations(_ patches: [SourceFile], _ suites: Set<Substring>) -> [Violation] {
    patches.flatMap { patch -> [Violation] in
      var found: [Violation] = []
      let head = patch.lines.prefix(2)
      if head.last?.hasPrefix("# bug: ") != true {
        found.append(Violation(path: patch.path, line: 2, message: "expected \"# bug:\" and a sentence"))
      }
      guard let filter = head.first, filter.hasPrefix("# test: ") else {
        return found + [Violation(path: patch.path, line: 1, message: "expected \"# test:\" and a filter")]
      }
      if !words(filter.dropFirst(8)).contains(where: suites.contains) {
        found.append(Violation(path: patch.path, line: 1, message: "no suite is called as in \(filter.dropFirst(8))"))
      }
      return found
    }
  }

  @Test func `a seeded bug names suites that are there`() throws {
    let suites = Set(
      Repository.files(in: ["Tests"], ["swift"]).flatMap { file in
        file.lines.compactMap { Self.suite($0) }
      })
    #expect(!Self.patches.isEmpty && suites.count > 100)
    let violations = Self.violations(Self.patches, suites)
    #expect(violations.isEmpty, "\(violations.report)")
  }

  @Test func `a seeded bug without a suite or a sentence is found`() {
    let lines = [
      "@Suite(.timeLimit(.minutes(2))) struct OneTests {", "final class TwoTests {", "  struct ThreeTests {",
    ]
    let suites = Set(lines.compactMap { Self.suite($0[...]) })
    #expect(suites == ["OneTests", "TwoTests"])
    func count(_ text: String) -> Int {
      Self.violations([SourceFile(path: "1.patch", text: text)], suites).count
    }
    #expect(count("# test: \\.OneTests/|OtherTests\n# bug: It is wrong.\n") == 0)
    #expect(count("# test: One(Thread)?Tests\n# bug: It is wrong.\n") == 1)
    #expect(count("# test: TwoTests\n") == 1)
    #expect(count("# bug: It is wrong.\n") == 2)
  }

  @Test func `a seeded bug applies to the tree`() throws {
    let unfit = try Self.patches.map(\.path).filter { try !Self.applies($0) }
    #expect(unfit.isEmpty, "these patches do not apply: \(unfit.joined(separator: ", "))")
  }

  @Test func `a seeded bug that does not apply is found`() throws {
    let patch = FileManager.default.temporaryDirectory.appending(path: "varve-\(UUID().uuidString).patch")
    defer { try? FileManager.default.removeItem(at: patch) }
    let lines = try #require(Repository.file("Package.swift")?.lines)
    func applies(replacing line: Substring) throws -> Bool {
      let text = "--- a/Package.swift\n+++ b/Package.swift\n@@ -1,2 +1,2 @@\n-\(line)\n+// A bug.\n \(lines[1])\n"
      try Data(text.utf8).write(to: patch)
      return try Self.applies(patch.path)
    }
    #expect(try applies(replacing: lines[0]))
    #expect(try !applies(replacing: "// No line of the file."))
  }

  @Test func `the seeded bugs stay few`() {
    #expect(
      Self.patches.count <= 200,
      "keep one bug for each invariant that no named test pins, and none for a single case: see Testing.md")
  }
}

import Testing

/// Checks that each seeded bug names the suites that find it, and that those suites are declared:
/// `Tests/SeededBugs/run` builds the modules that declare them.
struct SeededBugTests {
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
    let patches = Repository.files(in: ["Tests/SeededBugs"], ["patch"])
    #expect(patches.count > 100 && suites.count > 100)
    let violations = Self.violations(patches, suites)
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
}

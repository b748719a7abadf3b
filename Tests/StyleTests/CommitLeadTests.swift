import Testing

/// Checks which files may create a `CommitLead`, which proves that its holder leads the commit queue.
///
/// Only the queue creates one, and the substitute for code that runs without a queue may be named only there.
struct CommitLeadTests {
  /// A name, and the files and folders of the engine in which it may be used.
  private struct Rule {
    let name: Substring
    /// Whether only calls count: the name, followed by a parenthesis.
    let isCall: Bool
    let locations: [String]
  }

  private static let declaration = "WriteAheadLog/CommitLead.swift"
  private static let queue = "Commit/CommitQueue.swift"

  private static let rules = [
    Rule(name: "CommitLead", isCall: true, locations: [declaration]),
    Rule(name: "LeadWord", isCall: false, locations: [declaration, queue]),
    Rule(name: "handedOver", isCall: false, locations: [declaration, queue]),
    Rule(name: "beforeOpen", isCall: false, locations: [declaration, "Opening/", "Follow/"]),
  ]

  @Test func `the commit queue alone makes a lead, and only openings and followers do without one`() {
    let files = Repository.engineFiles
    #expect(files.contains { $0.path.hasSuffix(Self.declaration) } && files.contains { $0.path.hasSuffix(Self.queue) })
    let violations = files.flatMap(Self.violations)
    #expect(violations.isEmpty, "\(violations.report)")
  }

  @Test func `a lead that is made elsewhere is found`() {
    let text = """
      // CommitLead() and .beforeOpen of a comment
      func freeze(_ lead: borrowing CommitLead) {}
      freeze(.beforeOpen)
      freeze(CommitLead())
      let word = LeadWord()
      freeze(word.handedOver())
      """
    #expect(Self.violations(Self.file("Background/FlushJob.swift", text)).map(\.line) == [3, 4, 5, 6])
    #expect(Self.violations(Self.file("Opening/Opening.swift", text)).map(\.line) == [4, 5, 6])
    #expect(Self.violations(Self.file(Self.queue, text)).map(\.line) == [3, 4])
    #expect(Self.violations(Self.file(Self.declaration, text)).isEmpty)
  }

  // MARK: - The rule

  private static func file(_ path: String, _ text: String) -> SourceFile {
    SourceFile(path: "Sources/VarveEngine/" + path, text: text)
  }

  private static func violations(_ file: SourceFile) -> [Violation] {
    let path = file.path.dropFirst("Sources/VarveEngine/".count)
    let lines = SwiftCode.stripped(file.text).split(separator: "\n", omittingEmptySubsequences: false)
    return lines.enumerated().flatMap { index, line in
      rules.compactMap { rule in
        guard !rule.locations.contains(where: { path.hasPrefix($0) }), names(rule, String(line)) else { return nil }
        let message = "\(rule.name) stands outside of \(rule.locations.joined(separator: ", "))"
        return Violation(path: file.path, line: index + 1, message: message)
      }
    }
  }

  private static func names(_ rule: Rule, _ line: String) -> Bool {
    guard SwiftCode.words(line).contains(where: { $0.text == rule.name }) else { return false }
    return !rule.isCall || line.contains(rule.name + "(") || line.contains(rule.name + ".init")
  }
}

import Testing

/// Checks the lengths of files and functions: one idea for each file, and functions that fit a screen.
struct FileShapeTests {
  private static let fileLinesMaximum = 600
  private static let functionLinesMaximum = 70
  private static let columnsMaximum = 120

  @Test func `no Swift file is longer than 600 lines`() {
    let violations = Repository.swiftFiles.flatMap(Self.longFile)
    #expect(violations.isEmpty, "\(violations.report)")
  }

  @Test func `no function is longer than 70 lines`() {
    let files = Repository.swiftFiles
    #expect(files.count > 20, "the work tree was not found at \(Repository.root)")
    let violations = files.flatMap(Self.longFunctions)
    #expect(violations.isEmpty, "\(violations.report)")
  }

  @Test func `no comment has more than 120 columns`() {
    let violations = Repository.swiftFiles.flatMap(Self.longComments)
    #expect(violations.isEmpty, "\(violations.report)")
  }

  @Test func `a comment of 121 columns is found, and a row of a table may be longer`() {
    let words = String(repeating: "x", count: 116)
    func count(_ line: String) -> Int { Self.longComments(SourceFile(path: "A.swift", text: line)).count }
    #expect(count("/// " + words) == 0)
    #expect(count("/// " + words + "x") == 1)
    #expect(count("  // " + words) == 1)
    #expect(count("/// | " + words) == 0)
    #expect(count("let text = \"" + words + "\"") == 0)
  }

  @Test func `a file of 601 lines is found`() {
    let text = String(repeating: "let x = 1\n", count: 600)
    #expect(Self.longFile(SourceFile(path: "A.swift", text: text)).isEmpty)
    #expect(Self.longFile(SourceFile(path: "A.swift", text: text + "let y = 1\n")).count == 1)
  }

  @Test func `a function of 71 lines is found, whatever its signature looks like`() {
    let body = String(repeating: "    work()\n", count: 67)
    func text(_ extra: String) -> String {
      "struct A {\n  func f(\n    _ x: Int\n  ) throws(E) -> Int {\n" + body.dropFirst(11) + extra + "  }\n}\n"
    }
    #expect(Self.longFunctions(SourceFile(path: "A.swift", text: text(""))).isEmpty)
    let long = Self.longFunctions(SourceFile(path: "A.swift", text: text("    work()\n")))
    #expect(long.map(\.line) == [2])
  }

  @Test func `a requirement of a protocol does not count as a function without an end`() {
    let text = "protocol P {\n  func f()\n  func g() -> Int\n}\n" + String(repeating: "let x = 1\n", count: 100)
    #expect(Self.longFunctions(SourceFile(path: "A.swift", text: text)).isEmpty)
  }

  /// Returns the comments that are too long. The formatter does not see them, and it checks all other lines.
  private static func longComments(_ file: SourceFile) -> [Violation] {
    file.lines.enumerated().compactMap { number, line in
      let text = line.drop { $0 == " " }
      guard line.count > columnsMaximum, text.hasPrefix("//"), !text.hasPrefix("/// |") else { return nil }
      return Violation(path: file.path, line: number + 1, message: "a comment of \(line.count) columns; at most 120")
    }
  }

  private static func longFile(_ file: SourceFile) -> [Violation] {
    let count = file.text.hasSuffix("\n") ? file.lines.count - 1 : file.lines.count
    guard count > fileLinesMaximum else { return [] }
    return [Violation(path: file.path, line: count, message: "\(count) lines; a file has one idea, and at most 600")]
  }

  /// Returns the functions that are too long.
  ///
  /// A function begins at a line with its keyword and ends at the next brace in the same column, which the formatter
  /// guarantees.
  private static func longFunctions(_ file: SourceFile) -> [Violation] {
    let lines = SwiftCode.stripped(file.text).split(separator: "\n", omittingEmptySubsequences: false)
    var violations: [Violation] = []
    for (start, line) in lines.enumerated() where beginsFunction(line) {
      guard let opening = bodyStart(lines, from: start) else { continue }
      let indentation = line.prefix { $0 == " " }
      let end = lines[(opening + 1)...].firstIndex { $0.hasPrefix(indentation + "}") }
      guard let end, end - start + 1 > functionLinesMaximum else { continue }
      let message = "a function of \(end - start + 1) lines; at most 70"
      violations.append(Violation(path: file.path, line: start + 1, message: message))
    }
    return violations
  }

  private static func beginsFunction(_ line: Substring) -> Bool {
    let words = line.split(separator: " ")
    return words.contains { $0 == "func" || $0 == "deinit" || $0.hasPrefix("init(") || $0.hasPrefix("init<") }
  }

  /// Returns the line that opens the body, or `nil` if there is none, or if it is closed on the same line.
  private static func bodyStart(_ lines: [Substring], from start: Int) -> Int? {
    var parentheses = 0
    for index in start..<lines.count {
      let line = lines[index]
      for character in line {
        if character == "(" { parentheses += 1 }
        if character == ")" { parentheses -= 1 }
      }
      guard parentheses == 0 else { continue }
      if line.last(where: { $0 != " " }) == "{" { return index }
      let next = index + 1 < lines.count ? lines[index + 1].drop { $0 == " " } : ""
      guard ["->", "throws", "where", "{", "async"].contains(where: { next.hasPrefix($0) }) else { return nil }
    }
    return nil
  }
}

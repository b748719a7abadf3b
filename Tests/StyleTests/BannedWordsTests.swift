import Testing

/// Checks that no file contains a banned word. Each word comes with its replacement.
///
/// The words are put together from pieces here, so that this file does not break its own rules.
struct BannedWordsTests {
  private struct Ban {
    let word: String
    let remedy: String
    /// Whether the word is banned only in code, and not in comments, literals and documents.
    let isCode: Bool
    /// The folder whose files the ban applies to.
    let folder: String

    init(_ word: String, _ remedy: String, isCode: Bool = false, in folder: String = "") {
      self.word = word
      self.remedy = remedy
      self.isCode = isCode
      self.folder = folder
    }
  }

  private static let bans = [
    Ban("TO" + "DO", "finish it, or file an issue"),
    Ban("FIX" + "ME", "finish it, or file an issue"),
    Ban("XX" + "X", "finish it, or file an issue"),
    Ban("fatal" + "Error()", "say what is wrong and what to do", isCode: true),
    Ban("try" + "!", "throw, or handle the error", isCode: true),
    Ban("as" + "!", "use as? and say what to do otherwise", isCode: true),
    Ban("Mutex<" + "(@", "keep the function in a structure: see Callback", isCode: true),
    Ban("sl" + "eep(", "wait for an event; a test has no wall clock", isCode: true, in: "Tests/"),
    Ban("time" + "Limit(", "a slow machine exceeds it, and CI ends a run that hangs", isCode: true, in: "Tests/"),
    Ban("/wo" + "rk/", "name no path of a machine"),
    Ban("/ro" + "ot/", "name no path of a machine"),
    Ban("/ho" + "me/", "name no path of a machine"),
    Ban("debian" + ".org", "name no host of a package registry"),
    Ban("ubuntu" + ".com", "name no host of a package registry"),
    Ban("py" + "pi.org", "name no host of a package registry"),
    Ban("python" + "hosted.org", "name no host of a package registry"),
    Ban("npm" + "js.", "name no host of a package registry"),
    Ban("crates" + ".io", "name no host of a package registry"),
    Ban("proxy.go" + "lang.org", "name no host of a package registry"),
    Ban("ruby" + "gems.org", "name no host of a package registry"),
  ]

  @Test func `no banned word is anywhere`() {
    let files = Repository.textFiles
    #expect(files.count > 20, "the work tree was not found at \(Repository.root)")
    let violations = files.flatMap(Self.bannedWords)
    #expect(violations.isEmpty, "\(violations.report)")
  }

  @Test(arguments: bans.indices)
  func `each banned word is found where it is banned`(index: Int) {
    let ban = Self.bans[index]
    let file = SourceFile(path: "Tests/A.swift", text: "let a = 1\nlet b = a; \(ban.word) x\n")
    #expect(Self.bannedWords(file).map(\.line) == [2], "\(ban.word)")
  }

  @Test func `a word that is banned from code may be in a comment or a literal`() {
    let text = "// \("try" + "!") and \("fatal" + "Error()")\nlet a = \"\("as" + "!")\"\n"
    #expect(Self.bannedWords(SourceFile(path: "Tests/A.swift", text: text)).isEmpty)
  }

  @Test func `a banned word inside of a longer word is not reported`() {
    let file = SourceFile(path: "Sources/A.swift", text: "let hasX = canvas != nil; \("a" + "XX" + "Xb")()\n")
    #expect(Self.bannedWords(file).isEmpty)
  }

  private static func bannedWords(_ file: SourceFile) -> [Violation] {
    let isSwift = file.path.hasSuffix(".swift")
    let code = isSwift ? Array(SwiftCode.stripped(file.text).utf8) : nil
    let text = Array(file.text.utf8)
    return bans.flatMap { ban -> [Violation] in
      guard file.path.hasPrefix(ban.folder), let text = ban.isCode ? code : text else { return [] }
      return lines(text, having: Array(ban.word.utf8)).map { line in
        Violation(path: file.path, line: line, message: "\"\(ban.word)\": \(ban.remedy)")
      }
    }
  }

  /// Returns the lines that have the word by itself: no letter precedes or follows a letter at its edge.
  ///
  /// It compares bytes, because a search of characters through the whole repository takes half a minute.
  private static func lines(_ text: [UInt8], having word: [UInt8]) -> [Int] {
    var lines: [Int] = []
    var line = 1
    for index in text.indices {
      if text[index] == 0x0a { line += 1 }
      guard text[index] == word[0], text[index...].starts(with: word) else { continue }
      let end = index + word.count
      let joins =
        (index > 0 && isLetter(text[index - 1]) && isLetter(word[0]))
        || (end < text.count && isLetter(text[end]) && isLetter(word[word.count - 1]))
      if !joins, lines.last != line { lines.append(line) }
    }
    return lines
  }

  /// Whether a byte is a letter, or a part of a character outside of ASCII.
  private static func isLetter(_ byte: UInt8) -> Bool {
    byte >= 0x80 || (0x61...0x7a).contains(byte | 0x20)
  }
}

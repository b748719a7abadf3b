import Foundation
import Testing

/// Checks that no file contains a word of a dialect that readers from other projects would have to translate.
struct PlainWordsTests {
  /// One or more words in sequence, and their replacement.
  private struct Phrase {
    let words: [String]
    /// Words after the phrase that make it plain English, as in "is no longer".
    let followers: Set<String>
    /// Words before the phrase that make it plain English, as in "there is no".
    let predecessors: Set<String>
    let remedy: String

    init(_ text: String, _ remedy: String, before followers: Set<String> = [], after predecessors: Set<String> = []) {
      words = text.split(separator: " ").map(String.init)
      self.followers = followers
      self.predecessors = predecessors
      self.remedy = remedy
    }

    var text: String { words.joined(separator: " ") }
  }

  private static let phrases = [
    Phrase("anew", "again"),
    Phrase("are no", "are not", before: ["longer", "more", "further"], after: ["there"]),
    Phrase("are to be", "must be, or will be"),
    Phrase("as ever", "as before, or leave it out"),
    Phrase("begins beside", "begins while ... runs"),
    Phrase("behind", "after, past, or beyond"),
    Phrase("beside a transaction", "concurrently with a transaction"),
    Phrase("beside a writer", "concurrently with a writer"),
    Phrase("beside other work", "while other programs run"),
    Phrase("beside the transaction", "concurrently with the transaction"),
    Phrase("beside the writer", "without the writer, or concurrently with it"),
    Phrase("beside this transaction", "concurrently with this transaction"),
    Phrase("beside writers", "while others write"),
    Phrase("door", "API, or entry point"),
    Phrase("figures", "metrics, or results"),
    Phrase("go on", "continue"),
    Phrase("goes on", "continues"),
    Phrase("hears of", "is notified of, or receives"),
    Phrase("hold back", "defer"),
    Phrase("holds back", "defers"),
    Phrase("instant", "snapshot, or moment"),
    Phrase("is no", "is not a", before: ["longer", "more", "one"], after: ["there", "answer"]),
    Phrase("is to be", "must be, or will be"),
    Phrase("nobody", "no one, or no caller"),
    Phrase("promise", "durable mark, or guarantee"),
    Phrase("run beside", "run while, or run during"),
    Phrase("runs beside", "runs while, or runs during"),
    Phrase("somebody", "another thread, or a caller"),
    Phrase("stretch", "range"),
    Phrase("tell", "notify"),
    Phrase("told", "notified"),
    Phrase("walk", "iterate, or scan"),
    Phrase("whoever", "the caller that"),
  ]

  // MARK: - Finding them

  private struct Finding: Equatable, CustomStringConvertible {
    let line: Int
    let phrase: String
    let remedy: String

    var description: String { "line \(line): \"\(phrase)\"; write: \(remedy)" }
  }

  /// Returns the runs of letters with their lines. `Instant` is skipped: it is a type of the standard library, and
  /// begins with a capital letter.
  private static func words(_ text: String) -> [(word: String, line: Int)] {
    var line = 1
    return text.split(separator: "\n", omittingEmptySubsequences: false).flatMap { content in
      defer { line += 1 }
      return content.split { !$0.isLetter }.filter { $0 != "Instant" }.map { ($0.lowercased(), line) }
    }
  }

  private static func findings(_ text: String) -> [Finding] {
    let words = words(text)
    var findings: [Finding] = []
    for index in words.indices {
      for phrase in phrases where phrase.words[0] == words[index].word {
        let end = index + phrase.words.count
        guard end <= words.count, zip(words[index..<end], phrase.words).allSatisfy({ $0.word == $1 }),
          index == 0 || !phrase.predecessors.contains(words[index - 1].word),
          end == words.count || !phrase.followers.contains(words[end].word)
        else { continue }
        findings.append(Finding(line: words[index].line, phrase: phrase.text, remedy: phrase.remedy))
      }
    }
    return findings
  }

  private static var files: [SourceFile] {
    Repository.files(in: ["Sources", "Tests", "tools", "Benchmarks/Sources", "Fuzz/Sources"], ["swift", "md"])
      .filter { !$0.path.hasPrefix("Tests/StyleTests/") } + [Repository.file("README.md")].compactMap { $0 }
  }

  @Test func `no file has a word of the dialect`() {
    let files = Self.files
    #expect(files.count > 1_000, "the work tree was not found at \(Repository.root)")
    for file in files {
      let findings = Self.findings(file.text)
      #expect(findings.isEmpty, "\(file.path): \(findings.map(\.description).joined(separator: "; "))")
    }
  }

  // MARK: - The rule itself

  @Test func `words and phrases are found over the ends of lines, and not inside of others`() {
    let text = """
      /// Nobody goes
      /// on here; it is no error, and is no longer one. retold, Told
      func read(told: ContinuousClock.Instant): there is no instant
      """
    #expect(
      Self.findings(text).map { "\($0.line) \($0.phrase)" }
        == ["1 nobody", "1 goes on", "2 is no", "2 told", "3 told", "3 instant"])
  }
}

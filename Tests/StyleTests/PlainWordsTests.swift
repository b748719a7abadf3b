import Foundation
import Testing

/// Words of a dialect that readers from other projects have to translate. How often each of them stands in a folder
/// may fall and never rises: `PlainWords.txt` has the counts that are allowed.
///
/// After a cleaning, `VARVE_WRITE_LEDGER=1 swift test --filter PlainWordsTests` writes the lower counts down.
struct PlainWordsTests {
  /// A word, or several in a row, and what to write instead.
  private struct Phrase {
    let words: [String]
    /// What may come next without the phrase being meant: "is no longer" is plain English.
    let exceptions: Set<String>
    let remedy: String

    init(_ text: String, _ remedy: String, unless exceptions: Set<String> = []) {
      words = text.split(separator: " ").map(String.init)
      self.exceptions = exceptions
      self.remedy = remedy
    }

    var text: String { words.joined(separator: " ") }
  }

  private static let phrases = [
    Phrase("anew", "again"),
    Phrase("as ever", "as before, or leave it out"),
    Phrase("behind", "after, past, or beyond"),
    Phrase("door", "API, or entry point"),
    Phrase("figures", "metrics, or results"),
    Phrase("goes on", "continues"),
    Phrase("hears of", "is notified of, or receives"),
    Phrase("hold back", "defer"),
    Phrase("holds back", "defers"),
    Phrase("instant", "snapshot, or moment"),
    Phrase("is no", "is not a", unless: ["longer", "more", "one"]),
    Phrase("nobody", "no one, or no caller"),
    Phrase("place", "position, offset, or index"),
    Phrase("promise", "durable mark, or guarantee"),
    Phrase("somebody", "another thread, or a caller"),
    Phrase("stretch", "range"),
    Phrase("tell", "notify"),
    Phrase("told", "notified"),
    Phrase("walk", "iterate, or scan"),
    Phrase("whoever", "the caller that"),
  ]

  private static let ledgerPath = "Tests/StyleTests/PlainWords.txt"

  // MARK: - Counting

  /// The folder that a file counts for: `Sources/VarveEngine/Commit`, `tools/varve`, `.` for the root.
  private static func folder(_ path: String) -> String {
    let parts = path.split(separator: "/").dropLast()
    return parts.isEmpty ? "." : parts.prefix(parts.first == "Sources" ? 3 : 2).joined(separator: "/")
  }

  /// Runs of letters, in small ones.
  private static func words(_ text: String) -> [Substring] {
    text.lowercased().split { !$0.isLetter }
  }

  private static func count(_ phrase: Phrase, in words: [Substring]) -> Int {
    words.indices.count { index in
      let end = index + phrase.words.count
      guard end <= words.count, zip(words[index..<end], phrase.words).allSatisfy({ $0 == $1 }) else { return false }
      // "There is no record" is plain English.
      if phrase.text == "is no", index > 0, words[index - 1] == "there" { return false }
      return end == words.count || !phrase.exceptions.contains(String(words[end]))
    }
  }

  /// By `folder: phrase`. Only what is there.
  private static func counts(_ files: [SourceFile]) -> [String: Int] {
    var counts: [String: Int] = [:]
    for file in files {
      let words = words(file.text)
      for phrase in phrases {
        let count = count(phrase, in: words)
        if count > 0 { counts["\(folder(file.path)): \(phrase.text)", default: 0] += count }
      }
    }
    return counts
  }

  private static var files: [SourceFile] {
    Repository.files(in: ["Sources", "tools"], ["swift", "md"]) + [Repository.file("README.md")].compactMap { $0 }
  }

  // MARK: - The ledger

  private static func read(_ ledger: String) -> [String: Int] {
    var counts: [String: Int] = [:]
    for line in ledger.split(separator: "\n") where !line.hasPrefix("#") {
      guard let space = line.firstIndex(of: " "), let count = Int(line[..<space]) else { continue }
      counts[String(line[line.index(after: space)...])] = count
    }
    return counts
  }

  private static func excess(_ counts: [String: Int], over allowed: [String: Int]) -> [String] {
    counts.filter { $0.value > allowed[$0.key, default: 0] }.sorted { $0.key < $1.key }.map { key, count in
      let remedy = phrases.first { key.hasSuffix(": " + $0.text) }?.remedy ?? ""
      return "\(key): \(count) times, and \(allowed[key, default: 0]) are allowed. Write: \(remedy)"
    }
  }

  @Test func `no folder has more of the words than before`() throws {
    let files = Self.files
    #expect(files.count > 20, "the work tree was not found at \(Repository.root)")
    let counts = Self.counts(files)
    let allowed = Self.read(try #require(Repository.file(Self.ledgerPath)).text)
    if ProcessInfo.processInfo.environment["VARVE_WRITE_LEDGER"] != nil {
      // The first ledger has everything; a later one is never above the one before.
      let lower = allowed.isEmpty ? counts : counts.filter { allowed[$0.key] != nil }
      try Self.write(lower.merging(allowed) { Swift.min($0, $1) }.filter { counts[$0.key] != nil })
      return
    }
    let excess = Self.excess(counts, over: allowed)
    #expect(excess.isEmpty, "\(excess.joined(separator: "\n"))")
  }

  private static func write(_ counts: [String: Int]) throws {
    let head = """
      # How often a word stands in a folder at most. Counts fall and never rise. PlainWordsTests writes this file:
      # VARVE_WRITE_LEDGER=1 swift test --filter PlainWordsTests

      """
    let lines = counts.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)\n" }
    try Data((head + lines.joined()).utf8).write(to: URL(fileURLWithPath: Repository.root + "/" + ledgerPath))
  }

  // MARK: - The rule itself

  @Test func `words and phrases are counted by folder, over the ends of lines, and not inside of others`() {
    let text = """
      /// Nobody goes
      /// on here; it is no error, and is no longer one. retold, Told
      func read(told: Int)
      """
    let counts = Self.counts([SourceFile(path: "Sources/VarveEngine/Commit/Inner/A.swift", text: text)])
    let folder = "Sources/VarveEngine/Commit: "
    #expect(counts == [folder + "nobody": 1, folder + "goes on": 1, folder + "is no": 1, folder + "told": 2])
  }

  @Test func `one more than the ledger allows is found, and fewer are not`() {
    let allowed = Self.read("# head\n2 Sources/Varve/Rows: told\n")
    #expect(allowed == ["Sources/Varve/Rows: told": 2])
    #expect(Self.excess(["Sources/Varve/Rows: told": 2], over: allowed).isEmpty)
    #expect(Self.excess(["Sources/Varve/Rows: told": 1], over: allowed).isEmpty)
    #expect(Self.excess(["Sources/Varve/Rows: told": 3], over: allowed).count == 1)
    #expect(Self.excess(["Sources/Varve/Keys: told": 1], over: allowed).count == 1)
  }
}

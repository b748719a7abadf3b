import Foundation
import Testing

/// Checks that the subject of each commit begins with the folder that it changes: "Folder: what changes for whom".
///
/// The rule applies to the commits after the one that added this file, except for merges. A work tree without a
/// repository has no commits to check.
struct CommitSubjectTests {
  /// What a subject begins with if it is about no folder, or about many of them.
  private static let words: Set<Substring> = ["CI", "Documents", "Package", "README"]

  @Test func `the subject of each commit begins with a folder`() throws {
    // The work tree may be an export inside of another repository.
    guard FileManager.default.fileExists(atPath: Repository.root + "/.git") else { return }
    let path = "Tests/StyleTests/CommitSubjectTests.swift"
    guard let first = try Self.git("log", "--diff-filter=A", "--format=%H", "--", path).last else { return }
    let subjects = try Self.git("log", "--no-merges", "--format=%s", "\(first)..HEAD")
    let folders = try ["HEAD", "HEAD:Sources"].flatMap { try Self.git("ls-tree", "-d", "--name-only", $0) }
    let wrong = Self.wrong(subjects, Set(folders))
    #expect(wrong.isEmpty, "expected \"Folder: what changes for whom\":\n\(wrong.joined(separator: "\n"))")
  }

  @Test func `a subject without a folder is found`() {
    let right: [Substring] = ["Tests: suites wait", "Tests/StyleTests: a rule", "README: results", "CI: a: b"]
    let wrong: [Substring] = ["Figures of starts", "Decision: a floor", "Tests:", "Tests: ", "Tests:a", "Tests a: b"]
    #expect(Self.wrong(right + wrong, ["Tests"]) == wrong)
  }

  // MARK: - The rule

  private static func wrong(_ subjects: [Substring], _ folders: Set<Substring>) -> [Substring] {
    subjects.filter { subject in
      guard let end = subject.firstRange(of: ": "), end.upperBound < subject.endIndex else { return true }
      return !folders.union(words).contains(subject[..<end.lowerBound].prefix { $0 != "/" })
    }
  }

  /// Returns the lines that git prints, or none if it fails or is not installed.
  private static func git(_ arguments: String...) throws -> [Substring] {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["git", "-C", Repository.root] + arguments
    let output = Pipe()
    process.standardOutput = output
    process.standardError = FileHandle.nullDevice
    try process.run()
    let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    return process.terminationStatus == 0 ? text.split(separator: "\n") : []
  }
}

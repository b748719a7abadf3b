import Foundation
import Testing

/// Checks that each item of six numbered lists has a test: two of defects and recommendations that were collected from
/// other systems, and four of the specification of the task scheduler.
///
/// A test has the number in its name: `D7: …`, `1.1, REC 89: …`, `11, 13 and 15 …` for transitions of a task,
/// `crash d: …`, `fault 6: …` and `layout 4: …`. The exceptions are listed here with their reasons.
struct NumberedTests {
  private static let tests = Repository.files(
    in: ["VarveTests", "VarveCoderTests", "VarveThreadTests", "VarveDamageTests", "VarveModelTests"].map {
      "Tests/\($0)"
    }, ["swift"])
  private static let taskTests = Repository.files(in: ["Tests/VarveTasksTests"], ["swift"])

  /// Returns the numbers that the names of tests begin with.
  private static func numbers(_ files: [SourceFile]) -> Set<String> {
    var numbers: Set<String> = []
    for name in files.flatMap(names) {
      guard let colon = name.firstRange(of: ": ") else { continue }
      for number in name[..<colon.lowerBound].split(separator: ",") {
        numbers.insert(number.trimmingCharacters(in: .whitespaces))
      }
    }
    return numbers
  }

  /// Returns the names of tests that are sentences.
  private static func names(_ file: SourceFile) -> [Substring] {
    file.lines.compactMap { line in
      line.firstRange(of: "func `").map { line[$0.upperBound...].prefix { $0 != "`" } }
    }
  }

  /// Returns the items of a list that tests name: `2 and 5 a task …` without a kind, and `crash d: …` with the kind
  /// `crash`.
  private static func items(_ files: [SourceFile], kind: String? = nil) -> Set<String> {
    var items: Set<String> = []
    for name in files.flatMap(names) {
      guard let kind else {
        items.formUnion(list(name) { $0.allSatisfy(\.isNumber) })
        continue
      }
      guard name.hasPrefix(kind + " "), let colon = name.firstRange(of: ": ") else { continue }
      items.formUnion(list(name[..<colon.lowerBound].dropFirst(kind.count + 1)) { _ in true })
    }
    return items
  }

  /// Returns the items that a text begins with: `4`, `4 and 6`, or `11, 13 and 15`. A range such as `5 to 23` names
  /// none of its items, because a test of a range may leave some out.
  private static func list(_ text: Substring, _ isItem: (Substring) -> Bool) -> Set<String> {
    var items: Set<String> = []
    var words = text.split(separator: " ")[...]
    while let word = words.popFirst() {
      let item = word.hasSuffix(",") ? word.dropLast() : word
      guard isItem(item) else { break }
      items.insert(String(item))
      if word.hasSuffix(",") { continue }
      if words.first == "to" { return [] }
      guard words.popFirst() == "and" else { break }
    }
    return items
  }

  @Test func `every defect of stores has a test with its number`() {
    // Tests elsewhere have numbers of another list, of transactions and extensions, that begin with the same letter.
    let tests = Repository.files(in: ["Tests/VarveTests/Stores", "Tests/VarveTests/Indexes"], ["swift"])
    let missing = Set((1...17).map { "D\($0)" }).subtracting(Self.numbers(tests))
    #expect(missing.isEmpty, "\(missing.sorted())")
  }

  @Test func `every recommendation on rows, transactions and extensions has a test with its number`() {
    // Recommendations 91 to 94 are about secondary indexes.
    let recommendations = (Array(85...90) + Array(95...100)).map { "REC \($0)" }
    let sections = ["1.1", "1.2", "2.1", "2.2", "2.3", "2.4", "2.5"]
    let missing = Set(recommendations + sections).subtracting(Self.numbers(Self.tests))
    #expect(missing.isEmpty, "\(missing.sorted())")
  }

  @Test func `every transition of a task has a test with its number`() {
    let missing = Set((1...26).map { "\($0)" }).subtracting(Self.items(Self.taskTests))
    #expect(missing.isEmpty, "\(missing.sorted())")
  }

  @Test func `every crash point of a task has a test with its letter`() {
    let letters = ["a", "b", "c", "d", "d'", "e", "f", "g", "h", "i", "j", "k", "l"]
    let missing = Set(letters).subtracting(Self.items(Self.taskTests, kind: "crash"))
    #expect(missing.isEmpty, "\(missing.sorted())")
  }

  @Test func `every fault of YapTaskQueue has a test with its number`() {
    let tests = Repository.files(in: ["Tests/VarveTaskQueueTests"], ["swift"])
    let missing = Set((1...9).map { "\($0)" }).subtracting(Self.items(tests, kind: "fault"))
    #expect(missing.isEmpty, "\(missing.sorted())")
  }

  @Test func `every recommendation for storing tasks has a test with its number`() {
    // Those about tombstones are tested where the engine implements them.
    let engineTests = Repository.files(in: ["Tests/VarveEngineTests", "Tests/VarveEngineMemoryTests"], ["swift"])
    let missing = Set((1...14).map { "\($0)" }).subtracting(Self.items(Self.taskTests + engineTests, kind: "layout"))
    #expect(missing.isEmpty, "\(missing.sorted())")
  }

  @Test func `numbers are read from the names of tests alone`() {
    let text = """
      // D1: not a test
      @Test func `1.1, REC 89: two numbers`() {}
      func `D7: one`(location: Location) { print("D8: none") }
      func `a sentence without`() {}
      """
    let found = Self.numbers([SourceFile(path: "Tests/A.swift", text: text)])
    #expect(found == ["1.1", "REC 89", "D7"])
  }

  @Test func `items of a list are read from the names of tests that begin with them, and ranges name no item`() {
    let text = """
      // 1 is not a test
      @Test func `2 a transition`() { print("crash a: not a test") }
      @Test func `4 and 6 two transitions, and not 7`() {}
      func `11, 13 and 15 three transitions`(transition: Transition) throws
      func `16 to 23 a range`() {}
      func `a sentence without`() {}
      func `crash d': a letter`() {}
      func `crash e and f: two letters`() {}
      func `crash g to i: a range`() {}
      func `crash of a process: no letter`() {}
      func `layout 3 and 8: two numbers`() {}
      func `layout: no number`() {}
      func `fault 9: a number`() {}
      """
    let file = SourceFile(path: "Tests/A.swift", text: text)
    #expect(Self.items([file]) == ["2", "4", "6", "11", "13", "15"])
    #expect(Self.items([file], kind: "crash").isDisjoint(with: ["a", "g", "h", "i", "d"]))
    #expect(Self.items([file], kind: "crash").isSuperset(of: ["d'", "e", "f"]))
    #expect(Self.items([file], kind: "layout") == ["3", "8"])
    #expect(Self.items([file], kind: "fault") == ["9"])
  }
}
